package perf

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func testEnvironment() environment {
	return environment{
		CPU: cpuFigures{Model: "Example CPU", Cores: 2}, Kernel: "Linux 6.1", Filesystem: "xfs", Mount: "rw,noatime",
		IOBackend: "sockets: epoll, files: uring", Durability: "fsync", Commit: "0123456789ab",
		GoVersion: "go1.26", GOARCH: "arm64", Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
	}
}

func testThroughput(consumed float64) *throughputResult {
	cpu := 100.0
	return &throughputResult{
		Scenario: "throughput", ConsumedPerSecond: consumed, PublishedPerSecond: consumed + 1, BrokerCPU: &cpu,
		RSS: &rssFigures{Max: memoryFigures{RSS: 20 << 20}}, Relay: &relayFraction{Before: 100, After: 200, Fraction: 0.25},
		Options:  &throughputOptions{Publishers: 1, Consumers: 2, Size: 1024, AckEvery: 100},
		Versions: versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testConfirm(rate float64) *confirmResult {
	raw := &rawComparison{Before: rawFigures{SyncsPerSecond: 1000}, After: rawFigures{SyncsPerSecond: 2000}, RateRatio: 0.875, LatencyRatio: 1.25}
	return &confirmResult{
		Scenario: "confirm", Options: &confirmOptions{Size: 16, Connections: 1},
		Rows: []*confirmRow{
			{Queues: 1, Window: 10000, ConfirmedPerSecond: rate, Latency: &latencyFigures{P50: 1234}, RawAppend: raw},
			{Queues: 100, Window: 100, ConfirmedPerSecond: rate / 2, Latency: &latencyFigures{P50: 2345}},
		},
		Versions: versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testBacklog() *backlogResult {
	return &backlogResult{
		Scenario: "backlog", Options: &backlogOptions{Messages: 5000000, Size: 16},
		Fill: &backlogPhase{PerSecond: 4000000}, Filled: &brokerLook{Memory: &memoryFigures{RSS: 9 << 20, HWM: 11 << 20}, Disk: &diskUsage{Allocated: 90 << 20}},
		Drain: &backlogPhase{PerSecond: 3000000}, Drained: &brokerLook{},
		Versions: versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testCalibrate() *calibrateResult {
	return &calibrateResult{
		Scenario: "calibrate", Options: &calibrateOptions{}, MessagesPerSecond: 20000000, BytesPerSecond: 1.46e9,
		Disk: []rawFigures{{Mode: rawAppend, RecordsPerBatch: 100, SyncsPerSecond: 1500}}, Environment: testEnvironment(),
	}
}

// writeResults puts results into a directory, by file name.
func writeResults(t testing.TB, results map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, result := range results {
		if err := writeJSONFile(filepath.Join(dir, name), result); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTable(t *testing.T) {
	t.Parallel()
	const release = "2026-05-01-0123456789ab-"
	peer := testThroughput(41000)
	peer.Versions = versions{BrokerProduct: "OtherMQ", BrokerVersion: "4"}
	old := testThroughput(7)
	old.Environment.Time = old.Environment.Time.AddDate(0, -1, 0)
	paced := testThroughput(99)
	paced.Options.PublishRate = 99
	dir := writeResults(t, map[string]any{
		release + "a-yardsticks.json": testCalibrate(), release + "end-to-end-run1.json": testThroughput(1000000),
		release + "end-to-end-run2.json": testThroughput(3000000), release + "end-to-end-run3.json": testThroughput(2000000),
		release + "paced.json":        paced,
		release + "confirm-run1.json": testConfirm(100000), release + "confirm-run2.json": testConfirm(300000),
		release + "backlog.json": testBacklog(), release + "peer.json": peer, "2026-04-01-feedbeef-old.json": old,
	})
	code, stdout, stderr := runMain(t.Context(), "table", dir)
	if code != exitOK || stdout != "" {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(filepath.Join(dir, tableFile))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	position := -1
	for _, want := range []string{
		"## 2026-05-01-0123456789ab\n", "| broker | BasaltMQ 1 |", "| CPU | Example CPU, 2 hardware threads |", "| kernel | Linux 6.1, arm64 |",
		"| filesystem | xfs (rw,noatime) |", "| I/O backend | sockets: epoll, files: uring |", "| durability of confirms | fsync |",
		"| commit | 0123456789ab |", "### Throughput and latency",
		"| end-to-end | 1,024 B, 1 publisher, 2 consumers, acks of 100 | 2,000,000 | 2,000,001 | 0.25 | 150 | 100 | 20.0 MiB | 3 | 100 % |",
		"| paced | 1,024 B, 1 publisher, 2 consumers, acks of 100, 99/s per publisher, open loop | 99 | 100 |  | 150 |",
		"### Confirms: confirm", "| 1 | 10,000 | 200,000 | 1234 | 0 | 0 | 0.88 | (1.25) | 1,500 | 2 | 100 % |",
		"| 100 | 100 | 100,000 | 2345 | 0 | 0 |  |  |  | 2 | 100 % |",
		"### Backlog", "| backlog | 5,000,000 of 16 B | 4,000,000 | 9.0 MiB | 11.0 MiB | 90.0 MiB | 3,000,000 | 1 |  |",
		"### Yardsticks", "| a-yardsticks | 20,000,000 | 1.46 | 1 |  |", "| append | 100 | 1,500 |",
		"## 2026-05-01-0123456789ab\n", "| broker | OtherMQ 4 |", "| peer |", "## 2026-04-01-feedbeef\n", "| old |",
	} {
		next := strings.Index(text[position+1:], want)
		if next < 0 {
			t.Fatalf("%q is missing behind position %d of:\n%s", want, position, text)
		}
		position += 1 + next
	}
	if code, _, stderr := runMain(t.Context(), "table", dir, "--check"); code != exitOK {
		t.Errorf("--check of what was just written: %s", stderr)
	}
	if err := os.WriteFile(filepath.Join(dir, tableFile), []byte("better figures"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runMain(t.Context(), "table", "--check", dir); code != exitFailure || !strings.Contains(stderr, "not up to date") {
		t.Errorf("--check of an edited file: exit status %d, %s", code, stderr)
	}
	if code, stdout, _ := runMain(t.Context(), "table", dir, "--stdout"); code != exitOK || stdout != text {
		t.Error("--stdout prints something else")
	}
}

func TestTableOfNothing(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runMain(t.Context(), "table", "--stdout", t.TempDir())
	if code != exitOK || !strings.Contains(stdout, "Nothing has been recorded yet") {
		t.Errorf("exit status %d, stdout %q", code, stdout)
	}
	if code, _, stderr := runMain(t.Context(), "table", "/nonexistent"); code != exitFailure || !strings.Contains(stderr, "not a directory") {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}

// What must not be published is refused, with the name of the file.
func TestTableRefuses(t *testing.T) {
	t.Parallel()
	interrupted, failed, unverified := testConfirm(1), testThroughput(1), testThroughput(1)
	interrupted.Interrupted, failed.Error, unverified.VerifyFailures = true, "the broker went away", 1
	nacked, missing, incomplete, bare := testConfirm(1), testBacklog(), testBacklog(), testCalibrate()
	nacked.Rows[0].NackedTotal, missing.Missing, incomplete.Drain, bare.Environment = 1, 1, nil, environment{}
	timeless := testThroughput(1)
	timeless.Environment.Time = time.Time{}
	noOptions := testThroughput(1)
	noOptions.Options = nil
	for want, result := range map[string]any{
		"without its environment is not shown":           bare,
		"kernel, cores, go_version and time are needed":  timeless,
		"the run was interrupted":                        interrupted,
		"the run ended with: the broker went away":       failed,
		"its verification failed":                        unverified,
		"the broker refused 1 messages":                  nacked,
		"of 5000000 messages: 1 missing":                 missing,
		"the result is not complete":                     incomplete,
		"does not say its options":                       noOptions,
		`scenario "weather" has no table`:                map[string]any{"scenario": "weather"},
		"not a result: json":                             "text",
		"not a result of the scenario throughput: json:": map[string]any{"scenario": "throughput", "seconds": "many"},
	} {
		dir := writeResults(t, map[string]any{"some-result.json": result})
		code, stdout, stderr := runMain(t.Context(), "table", dir)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "some-result.json: ") {
			t.Errorf("exit status %d, stderr %q; want %q", code, stderr, want)
		}
	}
}

func TestMedianAndSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		median float64
		spread string
	}{
		{[]float64{5}, 5, ""},
		{[]float64{9, 1}, 5, "160 %"},
		{[]float64{3, 1, 2}, 2, "100 %"},
		{[]float64{4, 1, 3, 2}, 2.5, "120 %"},
		{[]float64{0, 0}, 0, "0 %"},
	} {
		if got := median(slices.Clone(test.values)); got != test.median {
			t.Errorf("median of %v: %v", test.values, got)
		}
		if got := spread(test.values); got != test.spread {
			t.Errorf("spread of %v: %q", test.values, got)
		}
	}
}

// Results come from files that anyone may have edited.
func FuzzTable(f *testing.F) {
	results := map[string]any{"t": testThroughput(1), "c": testConfirm(1), "b": testBacklog(), "y": testCalibrate()}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		raw, err := json.Marshal(results[name])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if result, err := parseResult("x-run1.json", raw); err == nil {
			var out bytes.Buffer
			renderTables(&out, []*recordedResult{result, result})
		}
	})
}
