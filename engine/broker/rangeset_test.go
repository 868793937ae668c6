package broker

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRangeSet_Model runs random histories against a map of offsets.
func TestRangeSet_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s rangeSet
		model := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				first := rapid.Uint64Range(0, 60).Draw(t, "first")
				count := rapid.Uint64Range(0, 12).Draw(t, "count")
				s.Add(first, count)
				for i := range count {
					model[first+i] = true
				}
			},
			"pop": func(t *rapid.T) {
				limit := rapid.Uint64Range(0, 10).Draw(t, "limit")
				first, count := s.PopFront(limit)
				var want []uint64
				if len(model) > 0 {
					for o := slices.Min(slices.Collect(maps.Keys(model))); uint64(len(want)) < limit && model[o]; o++ {
						want = append(want, o)
						delete(model, o)
					}
				}
				if count != uint64(len(want)) || count > 0 && first != want[0] {
					t.Fatalf("PopFront(%d) = %d, %d; want %v", limit, first, count, want)
				}
			},
			"remove": func(t *rapid.T) {
				offset := rapid.Uint64Range(0, 75).Draw(t, "offset")
				s.Remove(offset)
				delete(model, offset)
			},
			"": func(t *rapid.T) { checkRangeSet(t, &s, model) },
		})
	})
}

func checkRangeSet(t *rapid.T, s *rangeSet, model map[uint64]bool) {
	if s.Len() != uint64(len(model)) {
		t.Fatalf("Len = %d, want %d", s.Len(), len(model))
	}
	if s.Len() == 0 && s.spans != nil {
		t.Fatal("an empty set keeps memory")
	}
	found := 0
	for i, sp := range s.spans {
		if sp.first >= sp.end || i > 0 && s.spans[i-1].end >= sp.first {
			t.Fatalf("spans are empty, unordered or adjacent: %v", s.spans)
		}
		for o := sp.first; o < sp.end; o++ {
			if !model[o] {
				t.Fatalf("offset %d should not be there", o)
			}
			found++
		}
	}
	if found != len(model) {
		t.Fatalf("%d offsets, want %d", found, len(model))
	}
}
