package routing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHashTable_AgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h hashTable
		model := map[uint32][]uint32{} // hash -> values
		total, next := 0, uint32(1)
		hashes := rapid.OneOf(rapid.Uint32Range(0, 20), rapid.SampledFrom([]uint32{1 << 31, ^uint32(0), ^uint32(0) - 1}))
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "count") {
					hash := hashes.Draw(t, "hash")
					h.insert(hash, next)
					model[hash] = append(model[hash], next)
					next++
					total++
				}
			},
			"remove": func(t *rapid.T) {
				hash := hashes.Draw(t, "hash")
				if values := model[hash]; len(values) > 0 {
					at := rapid.IntRange(0, len(values)-1).Draw(t, "at")
					h.remove(hash, values[at])
					model[hash] = slices.Delete(values, at, at+1)
					total--
				}
			},
			"": func(t *rapid.T) {
				if h.count != total || total == 0 && h.slots != nil {
					t.Fatalf("count %d in %d slots, want %d", h.count, len(h.slots), total)
				}
				hash := hashes.Draw(t, "hash")
				var got []uint32
				for value, position := h.probe(hash, h.home(hash)); value != 0; value, position = h.probe(hash, position) {
					got = append(got, value)
				}
				slices.Sort(got)
				if !slices.Equal(got, model[hash]) {
					t.Fatalf("probe(%d) = %v, want %v", hash, got, model[hash])
				}
			},
		})
	})
}
