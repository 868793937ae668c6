package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// latencyRun runs the scenario with JSON output and returns the result.
func latencyRun(t *testing.T, wantCode int, uri string, arguments ...string) (latencyResult, string) {
	t.Helper()
	all := append([]string{"latency", "--uri", uri, "-q", "-j", "--warmup", "0"}, arguments...)
	code, stdout, stderr := runMain(t.Context(), all...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
	}
	var result latencyResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return result, stderr
}

// Every message of the schedule is sent, arrives and is measured.
func TestLatencyRates(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"plain": nil, "several": {"-x", "3", "-y", "2", "-s", "100"}, "acks": {"-a", "1", "-P", "10"}, "confirms": {"-c", "50", "-p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, nil)
			result, _ := latencyRun(t, exitOK, uri, append([]string{"-r", "3k,9k", "-z", "0.1", "--series"}, arguments...)...)
			if len(result.Rows) != 2 {
				t.Fatalf("%d rows", len(result.Rows))
			}
			for i, want := range []int64{300, 900} {
				row := result.Rows[i]
				if row.Published != uint64(want) || row.Missing != 0 || row.Latency.Samples != want || row.SendDelay.Samples != want {
					t.Errorf("%+v, %d latencies, %d delays; want %d", row, row.Latency.Samples, row.SendDelay.Samples, want)
				}
				if last := row.Series[len(row.Series)-1]; last.Percentile != 100 || last.Count != want || last.Value < row.Latency.P9999 {
					t.Errorf("the series ends with %+v", last)
				}
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if len(broker.queues) != 0 {
				t.Errorf("%d queues were left", len(broker.queues))
			}
		})
	}
}

// A broker that stands still for a while is charged for every message that was
// due meanwhile, not only for the one that it was just taking.
func TestLatencyChargesForStalls(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.stallAt, b.stallFor = 100, 400*time.Millisecond })
	result, _ := latencyRun(t, exitOK, uri, "-r", "1k", "-z", "0.6")
	// 200 of the 600 messages were due in the first half of the stall, so they
	// waited for at least the other half.
	if l := result.Rows[0].Latency; l.Samples != 600 || l.P75 < 200e3 || l.Max < 390e3 {
		t.Errorf("%+v", l)
	}
}

func TestLatencyNoticesLostMessages(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.loseEvery = 10 })
	result, stderr := latencyRun(t, exitFailure, uri, "-r", "2k", "-z", "0.1")
	if !strings.Contains(stderr, "2000/s: 20 of 200 messages did not arrive") || result.Rows[0].GivenUp {
		t.Errorf("stderr %q", stderr)
	}
}

func TestLatencyInterrupted(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	broker.wait.Go(func() {
		broker.waitFor(func() bool { return broker.published >= 200 })
		cancel()
	})
	code, stdout, stderr := runMain(ctx, "latency", "--uri", uri, "-q", "-r", "1k,2k", "-z", "1000")
	if code != exitOK || !strings.Contains(stdout, "Interrupted") || !strings.Contains(stdout, "1,000 ") || strings.Contains(stdout, "2,000 ") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if len(broker.queues) != 0 {
		t.Errorf("%d queues were left", len(broker.queues))
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestLatencyJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "latency", "--uri", uri, "-q", "-r", "2k", "-z", "0.1", "--warmup", "0.1", "--series", "--json", file, "--broker-pid", selfPID())
	if code != exitOK || !strings.Contains(stdout, "p99.99") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "rows.0.rate", "rows.0.seconds", "rows.0.published_per_s", "rows.0.consumed_per_s", "rows.0.published_total",
		"rows.0.missing", "rows.0.kept_up", "rows.0.latency.p50_us", "rows.0.latency.p99_99_us", "rows.0.latency.max_us", "rows.0.send_delay.p99_us",
		"rows.0.series.0.percentile", "rows.0.broker_cpu_ns_per_message", "rows.0.rss.max.vm_hwm", "rows.0.client_cpu_ns_per_message",
		"rows.0.client_loops_busy.0", "rows.0.client_is_bottleneck", "options.rates", "versions.broker_product", "environment.kernel")
}

// The relay is measured on the same schedule, without the broker.
func TestLatencyOfTheRelay(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	var relay *results.Latency
	longEnough(func(seconds string) bool {
		result, _ := latencyRun(t, exitOK, uri, "-r", "2k", "-z", "0.2", "-x", "2", "-c", "1000", "--calibrate", seconds)
		relay = result.Rows[0].Relay
		return relay != nil && relay.Samples > 0
	})
	if relay == nil || relay.Samples == 0 || relay.Stale != 0 || relay.P50 <= 0 {
		t.Errorf("%+v", relay)
	}
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "latency", "--uri", uri, "-q", "-r", "2k", "-z", "0.1", "--calibrate", "0.1", "--json", file)
	if code != exitOK || !strings.Contains(stdout, "bare relay") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "rows.0.relay.p50_us", "rows.0.relay.p99_9_us", "options.calibrate_ns")
}
