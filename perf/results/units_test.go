package results

import "testing"

func TestHumanFigures(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := HumanCount(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for n, want := range map[uint64]string{5: "5 B", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		if got := HumanBytes(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
