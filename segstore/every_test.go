package segstore

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSettleEvery_Model: whatever way offsets are settled, one by one, in rows or every
// k-th, what is unsettled is the rest, now and after a restart, clean or not.
func TestSettleEvery_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newMemDisk()
		o := testOptions{disk: d, segment: 64 << 10}
		s := openTest(rt, o)
		defer func() { s.close() }()
		l := s.log(1, false)
		var settled []bool
		check := func() {
			rt.Helper()
			at, left := uint64(0), uint64(0)
			for o, done := range settled {
				if done {
					continue
				}
				left++
				if first, n := l.NextUnsettled(at, 1); n != 1 || first != uint64(o) {
					rt.Fatalf("at %d: %d, %d is unsettled, want %d", at, first, n, o)
				}
				at = uint64(o) + 1
			}
			if _, n := l.NextUnsettled(at, 1); n > 0 || l.Unsettled() != left {
				rt.Fatalf("%d are unsettled, want %d", l.Unsettled(), left)
			}
			if low := slices.Index(append(slices.Clone(settled), false), false); l.Low() != uint64(low) {
				rt.Fatalf("the watermark is %d, want %d", l.Low(), low)
			}
		}
		restart := func() {
			s.close()
			s = openTest(rt, o)
			l = s.log(1, false)
			if n := int(l.Next()); n > len(settled) || slices.Contains(settled[n:], false) {
				rt.Fatalf("next is %d, want %d", n, len(settled))
			} else {
				settled = settled[:n] // the others never reached the disk
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{1, 10, 64, 700}).Draw(t, "n")
				s.appendN(l, n, 3)
				settled = append(settled, make([]bool, n)...)
			},
			"every": func(t *rapid.T) {
				// As consumers do that take turns: each its part of a range.
				n := len(settled)
				if n == 0 {
					return
				}
				first := rapid.IntRange(0, n-1).Draw(t, "first")
				k := rapid.IntRange(1, 70).Draw(t, "stride")
				count := rapid.IntRange(1, 300).Draw(t, "count")
				lanes := rapid.SliceOfDistinct(rapid.IntRange(0, k-1), rapid.ID[int]).Draw(t, "lanes")
				for _, lane := range lanes {
					l.SettleEvery(uint64(first+lane), uint64(k), uint64(count))
					for i := range count {
						if o := first + lane + i*k; o < n {
							settled[o] = true
						}
					}
				}
			},
			"row": func(t *rapid.T) {
				if len(settled) == 0 {
					return
				}
				first := rapid.IntRange(0, len(settled)-1).Draw(t, "first")
				n := min(rapid.IntRange(1, 40).Draw(t, "count"), len(settled)-first)
				l.Settle(uint64(first), uint64(n))
				for i := range n {
					settled[first+i] = true
				}
			},
			"write": func(*rapid.T) {
				l.WantDurable()
				s.urge()
			},
			"tick":    func(*rapid.T) { s.tick() },
			"look":    func(*rapid.T) { check() },
			"restart": func(*rapid.T) { restart() },
		})
		check()
		restart()
		check()
	})
}

// TestSettleEvery_TurnsLeaveNothing: consumers that take turns and settle in any order
// leave no interval behind.
func TestSettleEvery_TurnsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOptions{disk: newMemDisk()})
	defer s.close()
	l := s.log(1, false)
	const k, rounds = 64, 100
	for range 5 {
		base := l.Next()
		s.appendN(l, k*rounds, 3)
		for lane := range uint64(k) {
			l.SettleEvery(base+(lane*37)%k, k, rounds)
		}
		if l.Low() != l.Next() || !l.settled.empty() {
			t.Fatalf("watermark %d of %d, %d intervals", l.Low(), l.Next(), l.settled.intervals())
		}
	}
}
