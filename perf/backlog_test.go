package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// backlogRun runs the scenario with JSON output and returns the result.
func backlogRun(t *testing.T, wantCode int, uri string, arguments ...string) (backlogResult, string) {
	t.Helper()
	all := append([]string{"backlog", "--uri", uri, "-q", "-j", "--settle", "0", "--stall", "3"}, arguments...)
	code, stdout, stderr := runMain(t.Context(), all...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
	}
	var result backlogResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return result, stderr
}

func TestBacklogFillsAndDrains(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"plain":      nil,
		"smallest":   {"-s", "8"},
		"persistent": {"-p", "-s", "1KiB"},
		"acks":       {"-a", "100", "-P", "1000"},
		"publishers": {"-x", "7", "--loops", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, nil)
			result, _ := backlogRun(t, exitOK, uri, append([]string{"-C", "2000", "--stall", "60"}, arguments...)...)
			if result.Fill.Messages != 2000 || result.Drain.Messages != 2000 || result.Fill.PerSecond <= 0 || result.Drain.PerSecond <= 0 {
				t.Errorf("%+v, %+v", result.Fill, result.Drain)
			}
			if result.Missing+result.Surplus+result.Damaged+result.OutOfOrder != 0 {
				t.Errorf("%+v", result)
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if broker.published != 2000 || len(broker.queues) != 0 {
				t.Errorf("the broker got %d messages; %d queues left", broker.published, len(broker.queues))
			}
		})
	}
}

// Whatever is wrong with a message, the run must end with status 1 and say so.
func TestBacklogNotices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		adjust func(*fakeBroker)
		check  func(backlogResult) uint64
		want   uint64
		text   string
	}{
		{"missing", func(b *fakeBroker) { b.loseEvery = 10 }, func(r backlogResult) uint64 { return r.Missing }, 100, "of 1000 messages: 100 missing"},
		{"out of order", func(b *fakeBroker) { b.swapOrder = true }, func(r backlogResult) uint64 { return r.OutOfOrder }, 500, "500 out of order"},
		{"damaged", func(b *fakeBroker) { b.corruptEvery = 10 }, func(r backlogResult) uint64 { return r.Damaged }, 100, "100 damaged"},
		{"too many", func(b *fakeBroker) { b.doubleEvery = 10 }, func(r backlogResult) uint64 { return min(r.Surplus, 1) }, 1, "too many"}, // those that come after it has had enough are not counted
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			uri, _ := startFakeBroker(t, test.adjust)
			result, stderr := backlogRun(t, exitFailure, uri, "-C", "1000", "-s", "50")
			if got := test.check(result); got != test.want || !strings.Contains(stderr, test.text) {
				t.Errorf("%d, stderr %q; want %d and %q", got, stderr, test.want, test.text)
			}
		})
	}
}

func TestBacklogStalls(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.forget = true })
	_, stderr := backlogRun(t, exitFailure, uri, "-C", "1000")
	if !strings.Contains(stderr, "of 1000 messages published the broker counts only 0") {
		t.Errorf("stderr %q", stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.closeAfter = 100 })
	if _, stderr = backlogRun(t, exitFailure, uri, "-C", "1M"); !strings.Contains(stderr, "404") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestBacklogWantsAnEmptyQueue(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	throughput(t, exitOK, uri, "-C", "100", "-y0", "-u", "perf-backlog")
	code, _, stderr := runMain(t.Context(), "backlog", "--uri", uri, "-q", "-C", "10")
	if code != exitUsage || !strings.Contains(stderr, `"perf-backlog" holds 100 messages already`) {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
	backlogRun(t, exitOK, uri, "-C", "10", "--purge", "--stall", "60")
}

func TestBacklogInterrupted(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	broker.wait.Go(func() {
		broker.waitFor(func() bool { return broker.published >= 500 })
		cancel()
	})
	code, stdout, stderr := runMain(ctx, "backlog", "--uri", uri, "-q", "-j", "-C", "1G")
	var result backlogResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
		t.Fatalf("exit status %d, %v, stderr %q", code, err, stderr)
	}
	if !result.Interrupted || result.Fill == nil || result.Drain != nil {
		t.Errorf("%+v", result)
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestBacklogJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "segment"), make([]byte, 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "backlog", "--uri", uri, "-q", "-C", "1000", "--settle", "0",
		"--json", file, "--broker-pid", selfPID(), "--data-dir", dir)
	if code != exitOK || !strings.Contains(stdout, "0 missing") || !strings.Contains(stdout, "on disk") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "before.memory.vm_rss", "fill.messages_per_s", "fill.seconds", "fill.broker_cpu_ns_per_message",
		"fill.rss.max.vm_hwm", "fill.vm_rss_samples.0", "fill.broker_writes.bytes_per_payload_byte", "filled.memory.vm_hwm",
		"filled.disk.allocated_bytes", "filled.disk.apparent_bytes", "drain.messages_per_s", "drained.memory.vm_rss",
		"missing", "out_of_order", "damaged", "surplus", "options.messages", "versions.tool", "environment.kernel")
}

func selfPID() string { return strconv.Itoa(os.Getpid()) }
