package cli

import (
	"testing"
	"time"
)

func TestParseQuantity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"0": 0, "16": 16, "1k": 1000, "1K": 1000, "1kB": 1000, "1KiB": 1024, "64 KiB": 65536, "1.5M": 1500000, "2Mi": 2 << 20, "1g": 1e9, "1GiB": 1 << 30, "7b": 7,
	} {
		if got, err := ParseQuantity(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "1x", "1.2.3", "1e3x", "99999999999G", "nan", "0x10"} {
		if got, err := ParseQuantity(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "10": 10 * time.Second, "1.5": 1500 * time.Millisecond, "10s": 10 * time.Second, "500ms": 500 * time.Millisecond, "2m": 2 * time.Minute,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "x", "1parsec", "NaN", "1e300"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}
