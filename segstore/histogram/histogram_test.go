package histogram

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBounds: each value is in the bucket whose bounds enclose it, and buckets are
// narrow.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		i := index(v)
		if i == Buckets-1 {
			if v < Bound(Buckets-2) {
				t.Fatalf("%d is in the last bucket", v)
			}
			return
		}
		low := uint64(0)
		if i > 0 {
			low = Bound(i - 1)
		}
		if v < low || v >= Bound(i) {
			t.Fatalf("%d is in bucket %d, [%d, %d)", v, i, low, Bound(i))
		}
		if width := Bound(i) - low; v >= subs && float64(width) > float64(v)/subs {
			t.Fatalf("bucket %d of %d is %d wide", i, v, width)
		}
	})
}

func TestHistogram_AgainstList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts [2]Histogram
		list := rapid.SliceOf(rapid.Uint64Range(0, 1<<40)).Draw(t, "values")
		sum := uint64(0)
		for i, v := range list {
			parts[i%2].Observe(v)
			sum += v
		}
		var s Snapshot
		s.Merge(&parts[0])
		s.Merge(&parts[1])
		if s.Count() != uint64(len(list)) || s.Sum != sum {
			t.Fatalf("count %d, sum %d of %v", s.Count(), s.Sum, list)
		}
		exponent := rapid.IntRange(0, 30).Draw(t, "exponent")
		below := uint64(0)
		for _, v := range list {
			if v < 1<<exponent {
				below++
			}
		}
		if got := s.Below(exponent); got != below {
			t.Fatalf("%d below 2^%d, want %d of %v", got, exponent, below, list)
		}
	})
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var h Histogram
	var s Snapshot
	if s.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for i := range 1000 {
		h.ObserveTime(time.Duration(i) * time.Millisecond)
	}
	h.ObserveTime(-time.Second) // clocks are not trusted
	s.Merge(&h)
	for _, part := range []float64{0.01, 0.5, 0.99, 1} {
		want := part * 1e6
		if got := float64(s.Quantile(part)); math.Abs(got-want) > want/3 {
			t.Errorf("quantile %v is %v, want about %v", part, got, want)
		}
	}
	if want := uint64(999 * 1000 / 2 * time.Millisecond); s.Sum != want {
		t.Errorf("sum %d, want %d", s.Sum, want)
	}
}

func BenchmarkObserveTime(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.ObserveTime(time.Duration(i))
	}
	if h.sum.Load() == 0 && b.N > 1 {
		b.Fatal("nothing was counted")
	}
}
