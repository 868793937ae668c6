package perf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/perf"
)

// The real broker delivers all of a schedule, and every queue its copy.
func TestLatencyAndFanoutOfTheRealBroker(t *testing.T) {
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
		"latency -r 2k,20k -z 0.2 --warmup 0 -x 2 -y 2 -a 10", "latency -r 5k -z 0.2 --warmup 0 -c 100 -p", "fanout -k 2,5 -z 2 --warmup 0.1",
	} {
		t.Run(line, func(t *testing.T) {
			arguments := append(strings.Fields(line), "--uri", fmt.Sprintf("amqp://%s", e.Addr()), "-q", "-j")
			var stdout, stderr bytes.Buffer
			if code := perf.Main(t.Context(), arguments, strings.NewReader(""), &stdout, &stderr); code != 0 {
				t.Fatalf("exit status %d: %s", code, stderr.String())
			}
			var result struct {
				Rows []struct {
					Rate      uint64  `json:"rate"`
					Published uint64  `json:"published_total"`
					Delivered float64 `json:"delivered_per_s"`
					Latency   struct {
						Samples uint64 `json:"samples"`
					} `json:"latency"`
				} `json:"rows"`
			}
			if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if len(result.Rows) == 0 {
				t.Fatal("no rows")
			}
			for _, row := range result.Rows {
				if row.Rate > 0 && (row.Published != row.Rate/5 || row.Latency.Samples != row.Published) || row.Rate == 0 && row.Delivered <= 0 {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}
