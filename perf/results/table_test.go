package results

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func testEnvironment() Environment {
	return Environment{
		CPU: CPU{Model: "Example CPU", Cores: 2}, Kernel: "Linux 6.1", Filesystem: "xfs", Mount: "rw,noatime",
		IOBackend: "sockets: epoll, files: uring", Durability: "fsync", Commit: "0123456789ab",
		GoVersion: "go1.26", GOARCH: "arm64", Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
	}
}

func testThroughput(consumed float64) *Throughput {
	cpu := 100.0
	return &Throughput{
		Scenario: "throughput", ConsumedPerSecond: consumed, PublishedPerSecond: consumed + 1, BrokerCPU: &cpu,
		RSS: &RSS{Max: Memory{RSS: 20 << 20}}, Relay: &RelayFraction{Before: 100, After: 200, Fraction: 0.25},
		Options:  &ThroughputLoad{Publishers: 1, Consumers: 2, Size: 1024, AckEvery: 100},
		Versions: Versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testConfirm(rate float64) *Confirm {
	raw := &RawComparison{Before: RawDisk{SyncsPerSecond: 1000}, After: RawDisk{SyncsPerSecond: 2000}, RateRatio: 0.875, LatencyRatio: 1.25}
	half, double := 0.5, 2.0
	return &Confirm{
		Scenario: "confirm", Options: &ConfirmLoad{Size: 16, Connections: 1},
		Rows: []*ConfirmRow{
			{Queues: 1, Window: 10000, Channels: 1, ConfirmedPerSecond: rate, Latency: &Latency{P50: 1234}, RawAppend: raw},
			{Queues: 1, Window: 100, Channels: 100, ConfirmedPerSecond: rate / 4, Latency: &Latency{P50: 3456}},
			{Queues: 100, Window: 100, Channels: 100, ConfirmedPerSecond: rate / 2, Latency: &Latency{P50: 2345}, OfOneQueue: &half, OfOneQueueSameChannels: &double},
		},
		Versions: Versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testBacklog() *Backlog {
	return &Backlog{
		Scenario: "backlog", Options: &BacklogLoad{Messages: 5000000, Size: 16},
		Fill: &BacklogPhase{PerSecond: 4000000}, Filled: &BrokerLook{Memory: &Memory{RSS: 9 << 20, HWM: 11 << 20}, Disk: &DiskUsage{Allocated: 90 << 20}},
		Drain: &BacklogPhase{PerSecond: 3000000}, Drained: &BrokerLook{},
		Versions: Versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, Environment: testEnvironment(),
	}
}

func testCalibrate() *Calibrate {
	return &Calibrate{
		Scenario: "calibrate", Options: &CalibrateLoad{}, MessagesPerSecond: 20000000, BytesPerSecond: 1.46e9,
		Disk: []RawDisk{{Mode: RawAppend, RecordsPerBatch: 100, SyncsPerSecond: 1500}}, Environment: testEnvironment(),
	}
}

func testOpen(ms float64) any {
	return map[string]any{
		"scenario": "open", "starts": []OpenStart{
			{Case: "backlog", Stop: "clean", Queues: 1, Messages: 20_000_000, Milliseconds: ms},
			{Case: "queues", Stop: "kill", Cold: true, Queues: 10_000, Messages: 50_000, Milliseconds: 10 * ms},
		},
		"versions": Versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}, "environment": testEnvironment(),
	}
}

// writeResults puts results into a directory, by file name.
func writeResults(t testing.TB, results map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, result := range results {
		if err := WriteFile(filepath.Join(dir, name), result); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// render is what the tables of a directory look like.
func render(directory string) (string, error) {
	recorded, err := Read(directory)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	RenderTables(&out, recorded)
	return out.String(), nil
}

func TestTable(t *testing.T) {
	t.Parallel()
	const release = "2026-05-01-0123456789ab-"
	peer := testThroughput(41000)
	peer.Versions = Versions{BrokerProduct: "OtherMQ", BrokerVersion: "4"}
	old := testThroughput(7)
	old.Environment.Time = old.Environment.Time.AddDate(0, -1, 0)
	paced := testThroughput(99)
	paced.Options.PublishRate = 99
	dir := writeResults(t, map[string]any{
		release + "a-yardsticks.json": testCalibrate(), release + "end-to-end-run1.json": testThroughput(1000000),
		release + "end-to-end-run2.json": testThroughput(3000000), release + "end-to-end-run3.json": testThroughput(2000000),
		release + "paced.json":        paced,
		release + "confirm-run1.json": testConfirm(100000), release + "confirm-run2.json": testConfirm(300000),
		release + "open-run1.json": testOpen(20), release + "open-run2.json": testOpen(40), release + "open-run3.json": testOpen(30),
		release + "backlog.json": testBacklog(), release + "peer.json": peer, "2026-04-01-feedbeef-old.json": old,
	})
	text, err := render(dir)
	if err != nil {
		t.Fatal(err)
	}
	position := -1
	for _, want := range []string{
		"## 2026-05-01-0123456789ab\n", "| broker | BasaltMQ 1 |", "| CPU | Example CPU, 2 hardware threads |", "| kernel | Linux 6.1, arm64 |",
		"| filesystem | xfs (rw,noatime) |", "| I/O backend | sockets: epoll, files: uring |", "| durability of confirms | fsync |",
		"| commit | 0123456789ab |", "### Throughput and latency",
		"| end-to-end | 1,024 B, 1 publisher, 2 consumers, acks of 100 | 2,000,000 | 2,000,001 | 0.25 | 150 | 100 | 20.0 MiB | 3 | 100 % |",
		"| paced | 1,024 B, 1 publisher, 2 consumers, acks of 100, 99/s per publisher, open loop | 99 | 100 |  | 150 |",
		"### Confirms: confirm", "| queues | window | channels | confirmed/s |", "| of one queue | of one queue, same channels |",
		"| 1 | 10,000 | 1 | 200,000 | 1234 | 0 | 0 | 0.88 | (1.25) | 1,500 |  |  | 2 | 100 % |",
		"| 1 | 100 | 100 | 50,000 | 3456 | 0 | 0 |  |  |  |  |  | 2 | 100 % |",
		"| 100 | 100 | 100 | 100,000 | 2345 | 0 | 0 |  |  |  | 0.50 | 2.00 | 2 | 100 % |",
		"### Backlog", "| backlog | 5,000,000 of 16 B | 4,000,000 | 9.0 MiB | 11.0 MiB | 90.0 MiB | 3,000,000 | 1 |  |",
		"### Opening a data directory", "| 1 | 20,000,000 | clean | warm | 30 | 3 |", "| 10,000 | 50,000 | kill | cold | 300 | 3 |",
		"### Yardsticks", "| a-yardsticks | 20,000,000 | 1.46 | 1 |  |", "| append | 100 | 1,500 |",
		"## 2026-05-01-0123456789ab\n", "| broker | OtherMQ 4 |", "| peer |", "## 2026-04-01-feedbeef\n", "| old |",
	} {
		next := strings.Index(text[position+1:], want)
		if next < 0 {
			t.Fatalf("%q is missing behind position %d of:\n%s", want, position, text)
		}
		position += 1 + next
	}
}

func TestTableOfNothing(t *testing.T) {
	t.Parallel()
	if text, err := render(t.TempDir()); err != nil || !strings.Contains(text, "Nothing has been recorded yet") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := render("/nonexistent"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v", err)
	}
}

// What must not be published is refused, with the name of the file.
func TestTableRefuses(t *testing.T) {
	t.Parallel()
	interrupted, failed, unverified := testConfirm(1), testThroughput(1), testThroughput(1)
	interrupted.Interrupted, failed.Error, unverified.VerifyFailures = true, "the broker went away", 1
	nacked, missing, incomplete, bare := testConfirm(1), testBacklog(), testBacklog(), testCalibrate()
	nacked.Rows[0].NackedTotal, missing.Missing, incomplete.Drain, bare.Environment = 1, 1, nil, Environment{}
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
		"the result has no starts":                       map[string]any{"scenario": "open", "environment": testEnvironment()},
		"a start has no time, or found nothing":          map[string]any{"scenario": "open", "environment": testEnvironment(), "starts": []OpenStart{{Queues: 1}}},
		`scenario "weather" has no table`:                map[string]any{"scenario": "weather"},
		"not a result: json":                             "text",
		"not a result of the scenario throughput: json:": map[string]any{"scenario": "throughput", "seconds": "many"},
	} {
		dir := writeResults(t, map[string]any{"some-result.json": result})
		_, err := render(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "some-result.json: ") {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// Results come from files that anyone may have edited.
func FuzzTable(f *testing.F) {
	results := map[string]any{"t": testThroughput(1), "c": testConfirm(1), "b": testBacklog(), "y": testCalibrate(), "o": testOpen(1)}
	for scenario, result := range testRows(1) {
		results[scenario] = result
	}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		raw, err := json.Marshal(results[name])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if result, err := Parse("x-run1.json", raw); err == nil {
			var out bytes.Buffer
			RenderTables(&out, []*Recorded{result, result})
		}
	})
}
