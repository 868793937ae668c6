// Package histogram counts values in fixed log-linear buckets: four to each power
// of two, so that a value is known to an eighth. A Histogram is a plain array of
// atomics: recording costs two additions and no memory, any goroutine may read.
// Who records often from several threads gives each its own, and merges them for
// the reader (Snapshot.Merge).
//
// Invariants:
//
//  1. Bounds never change: histograms can be merged and subtracted.
//  2. The sum of a snapshot may be ahead of its counts by what is being recorded.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	subBits = 2 // four buckets to an octave
	subs    = 1 << subBits
	octaves = 36
	// Buckets is their number; the last one takes everything from Bound(Buckets-2)
	// on. With microseconds that is above 38 hours.
	Buckets = subs*octaves + 1
)

// Histogram counts values. The zero value is ready.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Uint64
}

// index is the bucket of a value.
func index(v uint64) int {
	if v < subs {
		return int(v)
	}
	exponent := bits.Len64(v) - 1 // at least subBits
	i := (exponent-subBits)*subs + int(v>>(exponent-subBits))
	return min(i, Buckets-1)
}

// Bound is the value below which everything in buckets 0 to i is.
func Bound(i int) uint64 {
	i++
	if i <= subs {
		return uint64(i)
	}
	exponent := i/subs - 1
	return uint64(subs+i%subs) << exponent
}

// Observe counts a value.
func (h *Histogram) Observe(v uint64) {
	h.counts[index(v)].Add(1)
	h.sum.Add(v)
}

// ObserveTime counts a duration, in microseconds; the sum is in nanoseconds.
func (h *Histogram) ObserveTime(d time.Duration) {
	d = max(d, 0)
	h.counts[index(uint64(d/time.Microsecond))].Add(1)
	h.sum.Add(uint64(d))
}

// Snapshot is the state of a histogram, or of several together.
type Snapshot struct {
	Counts [Buckets]uint64
	Sum    uint64
}

// Merge adds what h has counted.
func (s *Snapshot) Merge(h *Histogram) {
	s.Sum += h.sum.Load()
	for i := range h.counts {
		s.Counts[i] += h.counts[i].Load()
	}
}

// Count is the number of values.
func (s *Snapshot) Count() (n uint64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Below is the number of values below a power of two.
func (s *Snapshot) Below(exponent int) (n uint64) {
	for i, c := range s.Counts {
		if Bound(i) > 1<<exponent {
			break
		}
		n += c
	}
	return n
}

// Quantile is the bound below which that part of the values is, 0 without any.
func (s *Snapshot) Quantile(part float64) uint64 {
	total := s.Count()
	if total == 0 {
		return 0
	}
	want, n := uint64(part*float64(total)), uint64(0)
	for i, c := range s.Counts {
		if n += c; n > want || n == total {
			return Bound(i)
		}
	}
	return Bound(Buckets - 1)
}
