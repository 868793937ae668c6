package inspect

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSettledSet_AgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, model := &settledSet{}, map[uint64]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "ranges") {
			first := rapid.Uint64Range(0, 60).Draw(t, "first")
			end := rapid.Uint64Range(0, 64).Draw(t, "end")
			set.add(first, end)
			for o := first; o < end; o++ {
				model[o] = true
			}
		}
		set.normalise()
		for range rapid.IntRange(0, 20).Draw(t, "insertions") {
			first := rapid.Uint64Range(0, 60).Draw(t, "first")
			end := rapid.Uint64Range(0, 64).Draw(t, "end")
			set.insert(first, end)
			for o := first; o < end; o++ {
				model[o] = true
			}
		}
		for i := 1; i < len(set.ranges); i++ {
			if set.ranges[i].first <= set.ranges[i-1].end {
				t.Fatalf("ranges %v", set.ranges)
			}
		}
		first := rapid.Uint64Range(0, 64).Draw(t, "from")
		end := rapid.Uint64Range(first, 70).Draw(t, "to")
		want := uint64(0)
		for o := first; o < end; o++ {
			if model[o] != set.has(o) {
				t.Fatalf("offset %d: %v", o, set.has(o))
			}
			if model[o] {
				want++
			}
		}
		if got := set.count(first, end); got != want {
			t.Fatalf("count [%d, %d) = %d, want %d in %v", first, end, got, want, set.ranges)
		}
	})
}
