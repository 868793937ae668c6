package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// confirmRun runs the scenario with JSON output and returns the result.
func confirmRun(t *testing.T, wantCode int, uri string, arguments ...string) (result confirmResult, stderr string) {
	t.Helper()
	longEnough(func(seconds string) bool {
		all := append([]string{"confirm", "--uri", uri, "-q", "-j", "-z", seconds, "--warmup", "0.01", "--raw-time", "0.01"}, arguments...)
		var code int
		var stdout string
		code, stdout, stderr = runMain(t.Context(), all...)
		if wantCode == exitOK && strings.Contains(stderr, "confirmed nothing") && seconds != "25.6" {
			return false
		}
		if code != wantCode {
			t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
		}
		result = confirmResult{}
		if err := json.Unmarshal([]byte(stdout), &result); err != nil {
			t.Fatalf("%v in %q", err, stdout)
		}
		return wantCode != exitOK || !slices.ContainsFunc(result.Rows, func(row *confirmRow) bool { return row.Latency.Samples == 0 })
	})
	return result, stderr
}

func TestConfirmCombinations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		arguments []string
		adjust    func(*fakeBroker)
		channels  []int // of each row
		most      int   // unconfirmed on a channel
	}{
		{name: "windows", arguments: []string{"-w", "1x1,1x100"}, channels: []int{1, 1}, most: 100},
		{name: "channels on one connection", arguments: []string{"-w", "70x3,1x210"}, channels: []int{70, 1}, most: 210},
		{name: "spread over connections", arguments: []string{"-w", "10x5", "-x", "3"}, channels: []int{10}, most: 5},
		{name: "more connections than queues", arguments: []string{"-w", "2x5", "-x", "7", "--loops", "2"}, channels: []int{7}, most: 5},
		{name: "singly, backwards", arguments: []string{"-w", "5x20"}, channels: []int{5}, most: 20,
			adjust: func(b *fakeBroker) { b.confirmSingly = true }},
		{name: "empty bodies", arguments: []string{"-w", "1x9", "-s", "0"}, channels: []int{1}, most: 9},
		{name: "large bodies", arguments: []string{"-w", "2x2", "-s", "300k"}, channels: []int{2}, most: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, func(b *fakeBroker) {
				b.forget = true
				if test.adjust != nil {
					test.adjust(b)
				}
			})
			result, _ := confirmRun(t, exitOK, uri, test.arguments...)
			if len(result.Rows) != len(test.channels) {
				t.Fatalf("%d rows, want %d", len(result.Rows), len(test.channels))
			}
			for i, row := range result.Rows {
				if row.Channels != test.channels[i] || row.TotalWindow != row.Channels*row.Window || row.ConfirmedPerSecond <= 0 {
					t.Errorf("%+v", row)
				}
				if row.Latency.Samples == 0 || row.Latency.Stale != 0 {
					t.Errorf("latency %+v", row.Latency)
				}
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if broker.unacked > test.most {
				t.Errorf("%d unconfirmed on a channel, window %d", broker.unacked, test.most)
			}
			if len(broker.queues) != 0 {
				t.Errorf("%d queues were left behind", len(broker.queues))
			}
		})
	}
}

func TestConfirmComparesWithOneQueue(t *testing.T) {
	t.Parallel()
	result := confirmResult{Options: &confirmOptions{}}
	result.Rows = []*confirmRow{
		{Queues: 1, TotalWindow: 100, ConfirmedPerSecond: 900},
		{Queues: 10, TotalWindow: 100, ConfirmedPerSecond: 800},
		{Queues: 1, TotalWindow: 100, ConfirmedPerSecond: 1100},
		{Queues: 10, TotalWindow: 50, ConfirmedPerSecond: 1},
	}
	result.finish(context.Background(), nil)
	if got := result.Rows[1].OfOneQueue; got == nil || *got != 0.8 {
		t.Errorf("%v, want 0.8", got)
	}
	if result.Rows[0].OfOneQueue != nil || result.Rows[3].OfOneQueue != nil {
		t.Error("a row without its counterpart was compared")
	}
}

func TestConfirmFails(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.confirmSingly, b.nackEvery = true, 10 })
	if _, stderr := confirmRun(t, exitFailure, uri, "-w", "1x20"); !strings.Contains(stderr, "1 queues, window 20: the broker refused") {
		t.Errorf("stderr %q", stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.holdConfirms = true })
	if _, stderr := confirmRun(t, exitFailure, uri, "-w", "1x20"); !strings.Contains(stderr, "confirmed nothing") {
		t.Errorf("stderr %q", stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.closeAfter = 1 })
	code, stdout, stderr := runMain(t.Context(), "confirm", "--uri", uri, "-q", "-w", "1x20")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "1 queues, window 20: the broker closed the connection: 404") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	uri, _ = startFakeBroker(t, nil)
	code, _, stderr = runMain(t.Context(), "confirm", "--uri", uri, "-w", "201x1")
	if code != exitUsage || !strings.Contains(stderr, "give more connections with -x") {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}

func TestConfirmInterrupted(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	broker.wait.Go(func() {
		broker.waitFor(func() bool { return broker.published >= 500 })
		cancel()
	})
	code, stdout, stderr := runMain(ctx, "confirm", "--uri", uri, "-q", "-j", "-z", "1000", "-w", "1x10,1x20")
	var result confirmResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
		t.Fatalf("exit status %d, %v, stderr %q", code, err, stderr)
	}
	if !result.Interrupted || len(result.Rows) != 1 {
		t.Errorf("interrupted %v, %d rows", result.Interrupted, len(result.Rows))
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestConfirmJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "result.json")
	var code int
	var stdout, stderr string
	longEnough(func(seconds string) bool {
		code, stdout, stderr = runMain(t.Context(), "confirm", "--uri", uri, "-q", "-w", "1x10,5x2", "-z", seconds, "--warmup", "0", "--raw-time", "0.01",
			"--json", file, "--broker-pid", selfPID(), "--data-dir", dir, "--io-backend", "posix", "--durability-level", "fsync", "--commit", "abc")
		return !strings.Contains(stderr, "confirmed nothing")
	})
	if code != exitOK || !strings.Contains(stdout, "of raw append") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "rows.1.queues", "rows.1.window", "rows.1.total_window", "rows.0.confirmed_per_s", "rows.0.latency.p50_us",
		"rows.0.latency.p99_9_us", "rows.0.broker_cpu_ns_per_message", "rows.0.rss.last.vm_rss", "rows.0.client_cpu_ns_per_message",
		"rows.0.broker_writes.bytes_per_payload_byte", "rows.0.broker_writes.bytes_per_record_byte",
		"rows.0.raw_append.before.syncs_per_s", "rows.0.raw_append.after.write_sync_p50_us", "rows.0.raw_append.rate_ratio",
		"rows.0.raw_overwrite.latency_ratio", "rows.1.of_one_queue", "options.size", "versions.broker_product",
		"environment.kernel", "environment.filesystem", "environment.mount_options", "environment.io_backend",
		"environment.durability", "environment.commit")
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files were left in the data directory", len(left))
	}
	if strings.Contains(string(raw), dir) {
		t.Error("the result names a directory of this machine")
	}
}
