package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/churn"
	"github.com/basaltmq/basaltmq/perf/results"
)

// churnRun runs a churn scenario with JSON output and returns the result.
func churnRun(t *testing.T, wantCode int, uri, name string, arguments ...string) (churn.Result, string) {
	t.Helper()
	all := append([]string{name, "--uri", uri, "-q", "-j"}, arguments...)
	code, stdout, stderr := runMain(t.Context(), all...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
	}
	var result churn.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return result, stderr
}

// Every scenario does exactly what it was told to, and nothing stays behind.
func TestChurnCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		arguments []string
		rows      int
		calls     map[string]int // that the broker got in all rows
	}{
		{"bind-churn", nil, 4, map[string]int{"queue.bind": 2000, "queue.unbind": 0}},
		{"bind-churn", []string{"--unbind", "-x", "3"}, 4, map[string]int{"queue.bind": 2000, "queue.unbind": 2000}},
		{"bind-churn", []string{"--kinds", "durable"}, 2, map[string]int{"queue.bind": 1000}},
		{"queue-churn", []string{"-x", "3", "--loops", "2"}, 4, map[string]int{"queue.declare": 2000, "queue.delete": 2000}},
		{"connection-churn", nil, 2, map[string]int{"connection.start-ok": 1004, "connection.close": 1004}}, // and two for control in each row
		{"channel-churn", []string{"-x", "2"}, 2, map[string]int{"channel.close": 1000}},
		{"consumer-churn", nil, 2, map[string]int{"basic.consume": 1000, "basic.cancel": 1000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, nil)
			result, _ := churnRun(t, exitOK, uri, test.name, append([]string{"-C", "500", "-w", "1,7"}, test.arguments...)...)
			if len(result.Rows) != test.rows || result.Scenario != test.name {
				t.Fatalf("%d rows of %s, want %d", len(result.Rows), result.Scenario, test.rows)
			}
			for _, row := range result.Rows {
				if row.Operations != 500 || row.PerSecond <= 0 || row.Latency.Samples != 500 || row.ClientCPU <= 0 {
					t.Errorf("%+v, latency %+v", row, row.Latency)
				}
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			for method, want := range test.calls {
				if broker.calls[method] != want {
					t.Errorf("the broker got %d %s, want %d", broker.calls[method], method, want)
				}
			}
			for name := range broker.queues {
				if !strings.HasPrefix(name, "amq.gen-") { // exclusive
					t.Errorf("queue %q was left behind", name)
				}
			}
		})
	}
}

func TestChurnByTime(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	for _, name := range []string{"bind-churn", "queue-churn", "connection-churn", "channel-churn", "consumer-churn"} {
		var result churn.Result
		empty := func(row *results.ChurnRow) bool { return row.Operations == 0 || row.Latency.Samples == 0 }
		longEnough(func(seconds string) bool {
			result, _ = churnRun(t, exitOK, uri, name, "-z", seconds, "--warmup", "0.02", "-w", "10")
			return !slices.ContainsFunc(result.Rows, empty)
		})
		for _, row := range result.Rows {
			if empty(row) {
				t.Errorf("%s: %+v", name, row)
			}
		}
	}
}

func TestChurnInterrupted(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]string{
		"bind-churn": "queue.bind", "queue-churn": "queue.declare", "connection-churn": "connection.open",
		"channel-churn": "channel.open", "consumer-churn": "basic.consume",
	} {
		for _, window := range []string{"1", "20"} {
			uri, broker := startFakeBroker(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			broker.wait.Go(func() {
				broker.waitFor(func() bool { return broker.calls[method] >= 50 })
				cancel()
			})
			code, stdout, stderr := runMain(ctx, name, "--uri", uri, "-q", "-j", "-z", "0", "-w", window+",30")
			var result churn.Result
			if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
				t.Fatalf("%s: exit status %d, %v, stderr %q", name, code, err, stderr)
			}
			if !result.Interrupted || len(result.Rows) != 1 || !result.Rows[0].Interrupted || result.Rows[0].Operations == 0 {
				t.Errorf("%s: interrupted %v, %d rows", name, result.Interrupted, len(result.Rows))
			}
			broker.mu.Lock()
			for queue := range broker.queues {
				if !strings.HasPrefix(queue, "amq.gen-") {
					t.Errorf("%s, window %s: queue %q was left behind", name, window, queue)
				}
			}
			if opened, closed := broker.calls["connection.open"], broker.calls["connection.close"]; opened != closed {
				t.Errorf("%s, window %s: %d connections were opened, %d closed", name, window, opened, closed)
			}
			broker.mu.Unlock()
		}
	}
}

func TestChurnFails(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.refuseBind = true })
	if _, stderr := churnRun(t, exitFailure, uri, "bind-churn"); !strings.Contains(stderr, "transient, window 1: the broker closed the channel: 404 NOT_FOUND") {
		t.Errorf("stderr %q", stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.refuseLogin = true })
	code, stdout, stderr := runMain(t.Context(), "connection-churn", "--uri", uri, "-q")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "403 ACCESS_REFUSED") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	uri, _ = startFakeBroker(t, nil)
	code, _, stderr = runMain(t.Context(), "channel-churn", "--uri", uri, "-q", "-w", "200")
	if code != exitUsage || !strings.Contains(stderr, "--windows is at most 199") {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestChurnJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "bind-churn", "--uri", uri, "-q", "-C", "100", "--json", file, "--broker-pid", selfPID())
	if code != exitOK || !strings.Contains(stdout, "durable") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "unit", "rows.3.kind", "rows.3.window", "rows.3.connections", "rows.3.operations", "rows.3.operations_per_s",
		"rows.3.seconds", "rows.3.latency.p50_us", "rows.3.latency.p99_9_us", "rows.3.broker_cpu_ns_per_operation", "rows.3.broker_cpu_cores",
		"rows.3.broker_busiest_thread", "rows.3.broker_written_bytes_per_operation", "rows.3.rss.last.vm_rss",
		"rows.3.client_cpu_ns_per_operation", "rows.3.client_loops_busy.0", "rows.3.client_is_bottleneck",
		"options.windows", "options.kinds", "options.exchange", "versions.broker_product", "environment.kernel")
	if strings.Contains(string(raw), "guest:guest") || strings.Contains(string(raw), "Password") {
		t.Error("the result contains the password")
	}
}

func TestChurnProgressLine(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	code, _, stderr := runMain(t.Context(), "queue-churn", "--uri", uri, "-z", "2.1", "--warmup", "0", "-w", "1", "--kinds", "durable", "--broker-pid", selfPID())
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{"durable, window 1:", "queues created and deleted/s", "latency p50", "broker", "CPU"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
}
