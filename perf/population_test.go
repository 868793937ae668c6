package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/population"
)

// populationRun runs a count scenario with JSON output and returns the result.
func populationRun(t *testing.T, wantCode int, uri, name string, arguments ...string) (population.Result, string) {
	t.Helper()
	all := append([]string{name, "--uri", uri, "-q", "-j", "--settle", "0"}, arguments...)
	code, stdout, stderr := runMain(t.Context(), all...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
	}
	var result population.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return result, stderr
}

func checkRows(t *testing.T, result population.Result, counts ...int) {
	t.Helper()
	if len(result.Rows) != len(counts) {
		t.Fatalf("%d rows, want %d", len(result.Rows), len(counts))
	}
	for i, row := range result.Rows {
		if row.Count != counts[i] || row.PerSecond <= 0 || row.ClientCPU <= 0 {
			t.Errorf("%+v, want %d", row, counts[i])
		}
	}
}

func TestConnectionCount(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	result, _ := populationRun(t, exitOK, uri, "connection-count", "-n", "7,40", "-c", "2", "--consumers", "3", "-x", "5", "--broker-pid", selfPID())
	checkRows(t, result, 7, 40)
	if result.Rows[0].BytesEach == nil || result.Rows[0].BytesEachMore != nil || result.Rows[1].BytesEachMore == nil || result.After == nil {
		t.Errorf("%+v", result)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	// Beside the 40 there are two control connections, each with a channel.
	for method, want := range map[string]int{"connection.open": 42, "channel.open": 82, "basic.consume": 240, "connection.close": 42, "queue.delete": 1} {
		if broker.calls[method] != want {
			t.Errorf("the broker got %d %s, want %d", broker.calls[method], method, want)
		}
	}
}

func TestConnectionCountWithoutChannels(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	result, _ := populationRun(t, exitOK, uri, "connection-count", "-n", "20", "-c", "0")
	checkRows(t, result, 20)
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if opened := broker.calls["channel.open"]; opened != 1 { // for control
		t.Errorf("%d channels were opened", opened)
	}
}

// A broker that holds many connections by dropping some does not get a figure.
func TestConnectionCountNoticesLostOnes(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.dropAt = 21 })
	_, stderr := populationRun(t, exitFailure, uri, "connection-count", "-n", "20", "-x", "1")
	if !strings.Contains(stderr, "the broker closed 1 of the connections") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestQueueCount(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"empty": nil, "transient": {"--transient", "--queue-args", `{"x-max-length": 5}`}, "with messages": {"-m", "3", "-p", "-s", "100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, nil)
			result, _ := populationRun(t, exitOK, uri, "queue-count", append([]string{"-n", "30,700"}, arguments...)...)
			checkRows(t, result, 30, 700)
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if declared := broker.calls["queue.declare"]; declared != 1400 || len(broker.queues) != 0 { // once passively
				t.Errorf("%d declarations, %d queues left", declared, len(broker.queues))
			}
			if want := map[string]int{"with messages": 2100}[name]; broker.published != want {
				t.Errorf("%d messages published, want %d", broker.published, want)
			}
		})
	}
}

func TestQueueCountConfirmedSingly(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, func(b *fakeBroker) { b.confirmSingly = true })
	populationRun(t, exitOK, uri, "queue-count", "-n", "300", "-m", "7", "--keep")
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if broker.published != 2100 || len(broker.queues) != 300 {
		t.Errorf("%d messages in %d queues", broker.published, len(broker.queues))
	}
}

func TestQueueCountFails(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, func(b *fakeBroker) { b.doubleEvery = 10 })
	_, stderr := populationRun(t, exitFailure, uri, "queue-count", "-n", "100", "-m", "1")
	if !strings.Contains(stderr, "10 of 100 queues do not hold the 1 messages") {
		t.Errorf("stderr %q", stderr)
	}
	broker.mu.Lock()
	if len(broker.queues) != 0 {
		t.Errorf("%d queues left", len(broker.queues))
	}
	broker.mu.Unlock()
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.confirmSingly, b.nackEvery = true, 5 })
	code, stdout, stderr := runMain(t.Context(), "queue-count", "--uri", uri, "-q", "--settle", "0", "-n", "10", "-m", "1")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "refused a message") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestPopulationInterrupted(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]string{"connection-count": "connection.open", "queue-count": "queue.declare"} {
		ctx, cancel := context.WithCancel(t.Context())
		uri, broker := startFakeBroker(t, func(b *fakeBroker) {
			b.atCall = func(called string, count int) {
				if called == method && count == 60 {
					cancel()
				}
			}
		})
		code, stdout, stderr := runMain(ctx, name, "--uri", uri, "-q", "-j", "--settle", "0", "-n", "10,900")
		var result population.Result
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
			t.Fatalf("%s: exit status %d, %v, stderr %q", name, code, err, stderr)
		}
		if !result.Interrupted || len(result.Rows) != 1 || result.RemovedPerSecond <= 0 {
			t.Errorf("%s: %+v", name, result)
		}
		broker.mu.Lock()
		if opened, closed := broker.calls["connection.open"], broker.calls["connection.close"]; opened != closed || len(broker.queues) != 0 {
			t.Errorf("%s: %d connections were opened, %d closed; %d queues left", name, opened, closed, len(broker.queues))
		}
		broker.mu.Unlock()
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestPopulationJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "queue-count", "--uri", uri, "-q", "--settle", "0", "-n", "10,20", "--json", file,
		"--broker-pid", selfPID(), "--data-dir", t.TempDir())
	if code != exitOK || !strings.Contains(stdout, "bytes each") || !strings.Contains(stdout, "on disk") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "unit", "before.memory.vm_rss", "rows.1.count", "rows.1.seconds", "rows.1.per_s",
		"rows.1.broker_cpu_ns_each", "rows.1.client_cpu_ns_each", "rows.1.client_is_bottleneck", "rows.1.broker.memory.vm_rss",
		"rows.1.broker.disk.allocated_bytes", "rows.1.vm_rss_bytes_each", "rows.1.vm_rss_bytes_each_more", "removed_per_s",
		"after.memory.vm_rss", "options.counts", "options.messages", "options.settle_ns", "environment.kernel", "versions.broker_product")
	if strings.Contains(string(raw), "guest:guest") || strings.Contains(string(raw), "Password") {
		t.Error("the result contains the password")
	}
}
