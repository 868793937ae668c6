package churn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/perf"
	"github.com/basaltmq/basaltmq/perf/churn"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startBroker runs the real broker in this process.
func startBroker(t *testing.T) (uri string) {
	t.Helper()
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), DurabilityOS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("amqp://guest:guest@%s/", e.Addr())
}

// With the real broker replies have its own order and timing.
func TestChurnOfTheRealBroker(t *testing.T) {
	t.Parallel()
	uri := startBroker(t)
	for name, rows := range map[string]int{
		"bind-churn": 4, "bind-churn --unbind": 4, "queue-churn": 4, "connection-churn": 2, "channel-churn": 2, "consumer-churn": 2,
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append(strings.Fields(name), "--uri", uri, "-q", "-j", "-C", "300", "-w", "1,50")
			if !strings.HasPrefix(name, "connection") {
				arguments = append(arguments, "-x", "2")
			}
			var stdout, stderr bytes.Buffer
			if code := perf.Main(t.Context(), arguments, strings.NewReader(""), &stdout, &stderr); code != 0 {
				t.Fatalf("exit status %d: %s", code, stderr.String())
			}
			var result churn.Result
			if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if len(result.Rows) != rows || result.Versions.BrokerProduct != "BasaltMQ" {
				t.Fatalf("%d rows of %s", len(result.Rows), result.Versions.BrokerProduct)
			}
			for _, row := range result.Rows {
				if row.Operations != 300 || row.Latency.Samples != 300 {
					t.Errorf("%+v, %d latencies", row, row.Latency.Samples)
				}
			}
		})
	}
	for _, queue := range []string{"perf-bind-durable-0", "perf-bind-transient-1", "perf-queue-durable-0-0", "perf-queue-durable-1-95"} {
		address, err := session.ParseURI(uri)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(queue), Passive: true}, &amqp.QueueDeclareOk{})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("queue %s is still there: %v", queue, err)
		}
	}
}
