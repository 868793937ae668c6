package process

import (
	"os"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

func TestParseStatCPU(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stat string
		want       time.Duration
		fails      bool
	}{
		{"plain", "7 (basaltmq) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1000", 3 * time.Second, false},
		{"spaces and parentheses in the name", "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 1 2 0 0 20 0", 30 * time.Millisecond, false},
		{"cut short", "7 (basaltmq) S 1 7 7", 0, true},
		{"not a number", "7 (basaltmq) S 1 7 7 0 -1 4194304 100 0 0 0 x 50 0 0 20 0 9", 0, true},
		{"empty", "", 0, true},
	}
	for _, test := range tests {
		got, err := parseStatCPU([]byte(test.stat))
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}

func TestParseStatusMemory(t *testing.T) {
	t.Parallel()
	got := parseStatusMemory([]byte("Name:\tx\nVmHWM:\t   200 kB\nVmRSS:\t   100 kB\nRssAnon:\t    60 kB\nRssFile:\t    40 kB\nThreads:\t3\n"))
	want := results.Memory{RSS: 100 << 10, HWM: 200 << 10, Anon: 60 << 10, File: 40 << 10}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBusiest(t *testing.T) {
	t.Parallel()
	before := map[int]ThreadLoad{1: {Run: time.Second}, 2: {}}
	after := map[int]ThreadLoad{1: {Run: time.Second + 100*time.Millisecond}, 2: {Run: 300 * time.Millisecond, Wait: 200 * time.Millisecond}}
	if got := busiest(before, after, time.Second); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
}

func TestParseWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Writes{
		"rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n": {Dirtied: 4096, Called: 2},
		"wchar: 7\nwrite_bytes: 0\n": {Called: 7},
	} {
		if got, ok := parseWritten([]byte(text)); got != want || !ok {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "cancelled_write_bytes: 5\n", "wchar: 1\nwrite_bytes: many\n", "wchar: 1\n"} {
		if got, ok := parseWritten([]byte(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestOwnProcessIsReadable(t *testing.T) {
	t.Parallel()
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	memory, err := Memory(os.Getpid())
	if err != nil || memory.RSS == 0 || memory.HWM < memory.RSS {
		t.Errorf("%+v, %v", memory, err)
	}
}
