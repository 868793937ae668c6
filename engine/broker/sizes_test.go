package broker

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSizeTable_Model compares with a map.
func TestSizeTable_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.Uint64Range(0, 2000).Draw(rt, "base")
		table, model := newSizeTable(base), map[uint64]uint64{}
		next, low := base, base
		rt.Repeat(map[string]func(*rapid.T){
			"equal": func(t *rapid.T) {
				size := rapid.Uint64Range(0, 3).Draw(t, "size")
				for range rapid.IntRange(1, 1500).Draw(t, "count") {
					table.set(next, size)
					model[next] = size
					next++
				}
			},
			"differing": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "count") {
					size := rapid.Uint64Range(0, 1<<31).Draw(t, "size")
					table.set(next, size)
					model[next] = size
					next++
				}
			},
			"late": func(t *rapid.T) { // as the scan after a start does
				if next == low {
					return
				}
				offset := rapid.Uint64Range(low, next-1).Draw(t, "offset")
				size := rapid.Uint64Range(0, 9).Draw(t, "size")
				table.set(offset, size)
				model[offset] = size
			},
			"trim": func(t *rapid.T) {
				low = rapid.Uint64Range(low, next).Draw(t, "low")
				table.trim(low)
			},
			"sum": func(t *rapid.T) {
				first := rapid.Uint64Range(low, next).Draw(t, "first")
				count := rapid.Uint64Range(0, next-first+1000).Draw(t, "count")
				want := uint64(0)
				for offset := first; offset < first+count; offset++ {
					want += model[offset]
				}
				if got := table.sum(first, count); got != want {
					t.Fatalf("sum of %d from %d: %d, want %d", count, first, got, want)
				}
			},
		})
	})
}
