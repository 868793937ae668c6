package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
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
		{name: "channels of one queue", arguments: []string{"-w", "1x3x70,70x3"}, channels: []int{70, 70}, most: 3},
		{name: "fewer channels than connections", arguments: []string{"-w", "1x5x2", "-x", "7", "--loops", "3"}, channels: []int{2}, most: 5},
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

// Channel i publishes to queue i % queues, and channels are spread over the
// connections.
func TestConfirmSpreadsChannelsOverQueues(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, func(b *fakeBroker) { b.forget = true })
	result, _ := confirmRun(t, exitOK, uri, "-w", " 4x5x10", "-x", "3", "-u", "q")
	if row := result.Rows[0]; row.Queues != 4 || row.Channels != 10 || row.Connections != 3 || row.TotalWindow != 50 {
		t.Errorf("%+v", row)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	// A run that was too short is made again: by other channels, as many.
	runs := len(broker.sources["q-4"]) / 2
	for queue, want := range map[string]int{"q-1": 3, "q-2": 3, "q-3": 2, "q-4": 2} {
		if got := len(broker.sources[queue]); runs == 0 || got != runs*want {
			t.Errorf("queue %s: %d channels in %d runs, want %d in each", queue, got, runs, want)
		}
	}
	if len(broker.sources) != 4 {
		t.Errorf("%d queues got messages", len(broker.sources))
	}
}

func TestParseCombination(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text        string
		connections int
		want        confirmCombination
	}{
		{"1x100", 1, confirmCombination{queues: 1, window: 100, channels: 1}},
		{"1kx10", 1, confirmCombination{queues: 1000, window: 10, channels: 1000}},
		{"2x5", 7, confirmCombination{queues: 2, window: 5, channels: 7}},
		{" 1x10x1k ", 1, confirmCombination{queues: 1, window: 10, channels: 1000}},
		{"10x5x10", 1, confirmCombination{queues: 10, window: 5, channels: 10}},
		{"10x5x15", 4, confirmCombination{queues: 10, window: 5, channels: 15}},
		{"1x400x1", 4, confirmCombination{queues: 1, window: 400, channels: 1}}, // as named, not one per connection
	} {
		if got, err := parseCombination(test.text, test.connections); err != nil || got != test.want {
			t.Errorf("%q, %d connections: %+v, %v; want %+v", test.text, test.connections, got, err, test.want)
		}
	}
}

func TestConfirmComparesWithOneQueue(t *testing.T) {
	t.Parallel()
	row := func(queues, window, channels, connections int, rate float64) *confirmRow {
		return &confirmRow{
			Queues: queues, Window: window, Channels: channels, Connections: connections, TotalWindow: window * channels,
			ConfirmedPerSecond: rate, Latency: &results.Latency{},
		}
	}
	result := confirmResult{Options: &confirmOptions{}}
	result.Rows = []*confirmRow{
		row(1, 100, 1, 1, 900), row(1, 10, 10, 1, 500), row(10, 10, 10, 1, 400), row(1, 10, 10, 1, 300), row(1, 100, 1, 1, 1100),
		row(10, 5, 10, 1, 1),  // no counterpart
		row(10, 10, 10, 2, 1), // of its connections there is none
		row(10, 5, 20, 1, 300), row(1, 5, 20, 1, 600),
	}
	result.finish(context.Background(), nil)
	for i, want := range [][2]string{{"-", "-"}, {"-", "-"}, {"0.40", "1.00"}, {"-", "-"}, {"-", "-"}, {"-", "-"}, {"0.00", "-"}, {"0.30", "0.50"}, {"-", "-"}} {
		r := result.Rows[i]
		if got := [2]string{fractionText(r.OfOneQueue), fractionText(r.OfOneQueueSameChannels)}; got != want {
			t.Errorf("row %d: %v, want %v", i, got, want)
		}
	}
	var text bytes.Buffer
	result.writeText(&text)
	for _, want := range []string{
		"queues window channels ", "of 1 queue  of 1 queue, same channels\n",
		"    10     10       10          400 ", "  -                    -        0.40                       1.00\n", "  -           -                          -\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for _, line := range lines[2:] {
		if len(line) != len(lines[1]) {
			t.Errorf("not aligned with its title: %q", line)
		}
	}
}

// The scenario's own list holds each reference for its many queues.
func TestConfirmDefaultComparesBothWays(t *testing.T) {
	t.Parallel()
	result := confirmResult{Options: &confirmOptions{}}
	for text := range strings.SplitSeq(confirmDefault, ",") {
		c, err := parseCombination(text, 1)
		if err != nil {
			t.Fatal(err)
		}
		result.Rows = append(result.Rows, &confirmRow{
			Queues: c.queues, Window: c.window, Channels: c.channels, Connections: 1, TotalWindow: c.totalWindow(), ConfirmedPerSecond: 1,
		})
	}
	result.finish(context.Background(), nil)
	many := 0
	for _, row := range result.Rows {
		if row.Queues > 1 {
			many++
			if row.OfOneQueue == nil || row.OfOneQueueSameChannels == nil {
				t.Errorf("%+v is compared only one way", row)
			}
		}
	}
	if many != 2 {
		t.Errorf("%d rows of many queues", many)
	}
}

func TestConfirmFails(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.confirmSingly, b.nackEvery = true, 10 })
	if _, stderr := confirmRun(t, exitFailure, uri, "-w", "1x20"); !strings.Contains(stderr, "1 queues, window 20: the broker refused") {
		t.Errorf("stderr %q", stderr)
	}
	if _, stderr := confirmRun(t, exitFailure, uri, "-w", "1x20x2"); !strings.Contains(stderr, "1 queues, window 20, 2 channels: the broker refused") {
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
	for _, combination := range []string{"201x1", "1x1x201"} {
		code, _, stderr = runMain(t.Context(), "confirm", "--uri", uri, "-w", combination)
		if code != exitUsage || !strings.Contains(stderr, "give more connections with -x") {
			t.Errorf("%s: exit status %d, stderr %q", combination, code, stderr)
		}
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
		code, stdout, stderr = runMain(t.Context(), "confirm", "--uri", uri, "-q", "-w", "1x10,1x2x5,5x2", "-z", seconds, "--warmup", "0", "--raw-time", "0.01",
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
	wantKeys(t, raw, "scenario", "rows.1.queues", "rows.1.window", "rows.1.total_window", "rows.1.channels", "rows.1.connections", "rows.0.confirmed_per_s", "rows.0.latency.p50_us",
		"rows.0.latency.p99_9_us", "rows.0.broker_cpu_ns_per_message", "rows.0.rss.last.vm_rss", "rows.0.client_cpu_ns_per_message",
		"rows.0.broker_writes.bytes_per_payload_byte", "rows.0.broker_writes.bytes_per_record_byte",
		"rows.0.raw_append.before.syncs_per_s", "rows.0.raw_append.after.write_sync_p50_us", "rows.0.raw_append.rate_ratio",
		"rows.0.raw_overwrite.latency_ratio", "rows.2.of_one_queue", "rows.2.of_one_queue_same_channels", "options.size", "versions.broker_product",
		"environment.kernel", "environment.filesystem", "environment.mount_options", "environment.io_backend",
		"environment.durability", "environment.commit")
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files were left in the data directory", len(left))
	}
	if strings.Contains(string(raw), dir) {
		t.Error("the result names a directory of this machine")
	}
}
