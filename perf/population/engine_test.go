package population_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/perf"
	"github.com/basaltmq/basaltmq/perf/population"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The real broker holds what it was given, and lets go of it.
func TestPopulationOfTheRealBroker(t *testing.T) {
	t.Parallel()
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), DurabilityOS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, line := range []string{
		"connection-count -n 20,100 -c 3 --consumers 2",
		"queue-count -n 20,100", "queue-count -n 20,100 -m 5 -p", "queue-count -n 20,100 --transient",
	} {
		t.Run(line, func(t *testing.T) {
			arguments := append(strings.Fields(line), "--uri", fmt.Sprintf("amqp://%s", e.Addr()), "-q", "-j", "--settle", "0")
			var stdout, stderr bytes.Buffer
			if code := perf.Main(t.Context(), arguments, strings.NewReader(""), &stdout, &stderr); code != 0 {
				t.Fatalf("exit status %d: %s", code, stderr.String())
			}
			var result population.Result
			if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if len(result.Rows) != 2 || result.Rows[1].Count != 100 || result.RemovedPerSecond <= 0 {
				t.Errorf("%s", stdout.String())
			}
		})
	}
}
