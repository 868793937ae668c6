package segstore

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// checkShape verifies the set's own invariants.
func (s *intervalSet) checkShape(t tester) {
	t.Helper()
	count, last := uint64(0), interval{}
	for i, leaf := range s.leaves {
		if len(leaf) == 0 || len(leaf) > leafIntervalsMax {
			t.Fatalf("leaf %d has %d intervals", i, len(leaf))
		}
		for _, iv := range leaf {
			if iv.first >= iv.end || (count > 0 && iv.first <= last.end) {
				t.Fatalf("interval %v after %v", iv, last)
			}
			count, last = count+iv.end-iv.first, iv
		}
	}
	if count != s.count {
		t.Fatalf("count %d, counted %d", s.count, count)
	}
}

func TestIntervalSet_AgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const space = 3000
		var set intervalSet
		model := map[uint64]bool{}
		low := uint64(0)
		offset := rapid.Uint64Range(0, space)
		run := func(from uint64) (first, end uint64) {
			for first = from; first < space+5000 && !model[first]; first++ {
			}
			for end = first; model[end]; end++ {
			}
			return first, end
		}
		for range rapid.IntRange(1, 300).Draw(t, "operations") {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			default:
				first := max(offset.Draw(t, "first"), low)
				end := first + rapid.OneOf(rapid.Just(uint64(1)), rapid.Uint64Range(1, 60)).Draw(t, "length")
				got := set.add(first, end)
				for o := first; o < end; o++ {
					model[o] = true
				}
				for first > low && model[first-1] {
					first--
				}
				for model[end] {
					end++
				}
				if got != (interval{first, end}) {
					t.Fatalf("add returned %v, want [%d,%d)", got, first, end)
				}
			case 6: // every k-th offset of a stretch
				from, stride := max(offset.Draw(t, "from"), low), rapid.Uint64Range(1, 200).Draw(t, "stride")
				count := rapid.Uint64Range(1, 400).Draw(t, "count")
				set.addEvery(from, stride, count)
				for i := range count {
					model[from+i*stride] = true
				}
			case 7: // every second offset of a stretch
				from := max(offset.Draw(t, "from"), low)
				for o := from; o < from+600; o += 2 {
					set.add(o, o+1)
					model[o] = true
				}
			case 8:
				low = max(low, offset.Draw(t, "low"))
				got := set.advance(low)
				for o := range model {
					if o < low {
						delete(model, o)
					}
				}
				for model[low] {
					delete(model, low)
					low++
				}
				if got != low {
					t.Fatalf("advance returned %d, want %d", got, low)
				}
			case 9:
				from := offset.Draw(t, "from")
				to := from + rapid.Uint64Range(1, 100).Draw(t, "span")
				all := true
				for o := from; o < to; o++ {
					all = all && model[o]
				}
				if got := set.containsRange(from, to); got != all {
					t.Fatalf("containsRange [%d,%d): %v", from, to, got)
				}
				iv, ok := set.after(from)
				first, end := run(from)
				if ok != (first < end) || ok && (max(iv.first, from) != first || iv.end != end) {
					t.Fatalf("after(%d): %v %v, want [%d,%d)", from, iv, ok, first, end)
				}
			}
			set.checkShape(t)
			if set.count != uint64(len(model)) {
				t.Fatalf("count %d, want %d", set.count, len(model))
			}
		}
	})
}

// The case that a list of intervals would turn quadratic: 100,000 unacked
// records acked at random.
func TestIntervalSet_HundredThousandRandomAcks(t *testing.T) {
	const n = 100_000
	var set intervalSet
	low := uint64(0)
	for _, o := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		if uint64(o) == low {
			low = set.advance(low + 1)
		} else {
			set.add(uint64(o), uint64(o)+1)
		}
	}
	if low != n || !set.empty() || set.count != 0 {
		t.Fatalf("low %d, %d intervals left", low, set.intervals())
	}
}

func BenchmarkIntervalSet_RandomAcks(b *testing.B) {
	const n = 100_000
	perm := rand.New(rand.NewPCG(1, 2)).Perm(n)
	var set intervalSet
	low, i := uint64(0), 0
	for b.Loop() {
		if i == n {
			i, low = 0, 0
		}
		if o := uint64(perm[i]); o == low {
			low = set.advance(low + 1)
		} else {
			set.add(o, o+1)
		}
		i++
	}
}
