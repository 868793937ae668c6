package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/process"
	"pgregory.net/rapid"
)

// wantKeys checks that a JSON document has a value at each path; numbers are
// positions in arrays.
func wantKeys(t *testing.T, raw []byte, paths ...string) {
	t.Helper()
	var document any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		value := document
		for key := range strings.SplitSeq(path, ".") {
			switch container := value.(type) {
			case map[string]any:
				value = container[key]
			case []any:
				if index, err := strconv.Atoi(key); err == nil && index < len(container) {
					value = container[index]
				} else {
					value = nil
				}
			default:
				value = nil
			}
		}
		if value == nil {
			t.Errorf("%s is missing", path)
		}
	}
}

func TestRawDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, err := openRawDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{rawAppend, rawOverwrite} {
		for _, records := range []int{1, 1000} {
			figures, err := disk.measure(t.Context(), mode, records, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if figures.Syncs < 1 || figures.BatchBytes != rawHeaderBytes+records*rawRecordBytes || figures.RecordsPerSecond <= 0 ||
				figures.P50 <= 0 || figures.P99 < figures.P50 {
				t.Errorf("%s, %d records: %+v", mode, records, figures)
			}
		}
	}
	// Whatever happens, one batch is written: there is no figure without one.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if figures, err := disk.measure(ended, rawAppend, 10, time.Hour); err != nil || figures.Syncs != 1 {
		t.Errorf("cancelled: %+v, %v", figures, err)
	}
	if info, err := disk.appended.Stat(); err != nil || info.Size() != int64(rawBatchBytes(10)) {
		t.Errorf("the growing file has %d bytes, %v", info.Size(), err)
	}
	disk.close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files left", len(left))
	}
	if _, err := openRawDisk(dir + "/none"); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("no directory: %v", err)
	}
}

func TestCalibrateMeasuresTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := runMain(t.Context(), "calibrate", "-z", "0.05", "--disk-time", "0.01", "-j", "--data-dir", dir)
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	wantKeys(t, []byte(stdout), "relay_messages_per_s", "memory_copy_bytes_per_s", "disk.0.syncs_per_s", "disk.7.records_per_s",
		"disk.7.write_sync_p99_us", "environment.mount_options")
	var result calibrateResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range result.Disk {
		got = append(got, fmt.Sprintf("%s %d", f.Mode, f.RecordsPerBatch))
	}
	want := "append 1,overwrite 1,append 100,overwrite 100,append 1000,overwrite 1000,append 10000,overwrite 10000"
	if strings.Join(got, ",") != want {
		t.Errorf("measured %v", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files left", len(left))
	}
}

func TestThroughputAgainstRelay(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	var result throughputResult
	bad := func() bool {
		f := result.Relay
		return f == nil || f.Before <= 0 || f.After <= 0 || f.Fraction <= 0
	}
	longEnough(func(seconds string) bool {
		result, _ = throughput(t, exitOK, uri, "-C", "1000", "--calibrate", seconds)
		return !bad()
	})
	if bad() {
		t.Errorf("%+v", result.Relay)
	}
}

func TestWriteCosts(t *testing.T) {
	t.Parallel()
	begin := snapshot{usage: process.Usage{BrokerWritten: process.Writes{Dirtied: 1000, Called: 100}, WrittenKnown: true}}
	end := snapshot{usage: process.Usage{BrokerWritten: process.Writes{Dirtied: 4600, Called: 1900}, WrittenKnown: true}}
	if got := newWriteCosts(begin, end, 100, 16); got == nil || got.Bytes != 3600 || got.PerPayload != 2.25 || got.PerRecord != 2 || got.Called != 1800 || got.CalledPerRecord != 1 {
		t.Errorf("%+v", got)
	}
	if got := newWriteCosts(begin, end, 100, 0); got == nil || got.PerPayload != 0 || got.PerRecord != 18 {
		t.Errorf("empty bodies: %+v", got)
	}
	if newWriteCosts(begin, end, 0, 16) != nil || newWriteCosts(snapshot{}, end, 1, 16) != nil {
		t.Error("costs out of nothing")
	}
	for size, want := range map[uint64]uint64{0: 2, 16: 18, 127: 129, 128: 131, 1 << 14: 1<<14 + 4} {
		if got := recordBytes(size); got != want {
			t.Errorf("a record of %d bytes takes %d, want %d", size, got, want)
		}
	}
}

// Samples stay evenly spaced from the first one, however many there are.
func TestRSSSeries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 2000).Draw(t, "count")
		var series rssSeries
		for i := range count {
			series.add(uint64(i))
		}
		if len(series.values) > samplesMax || len(series.values) != (count+series.every-1)/series.every {
			t.Fatalf("%d samples of %d, every %d", len(series.values), count, series.every)
		}
		for i, value := range series.values {
			if value != uint64(i*series.every) {
				t.Fatalf("sample %d is %d, every %d", i, value, series.every)
			}
		}
	})
}
