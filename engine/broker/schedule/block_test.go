package schedule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBlock_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			last: rapid.Bool().Draw(t, "last"), run: rapid.Uint64().Draw(t, "run"), level: rapid.Uint64().Draw(t, "level"),
			sequence: rapid.Uint64().Draw(t, "sequence"), covered: rapid.Uint64().Draw(t, "covered"),
		}
		entries := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Entry {
			return Entry{rapid.Int64Min(0).Draw(t, "due"), rapid.Uint64().Draw(t, "offset")}
		}), 1, blockEntries, rapid.ID[Entry]).Draw(t, "entries")
		slices.SortFunc(entries, compare)
		body := appendBlock(nil, h, entries)
		if len(body) > blockBytesMax {
			t.Fatalf("%d bytes", len(body))
		}
		gotHeader, got, ok := decodeBlock(body, nil)
		if !ok || gotHeader != h || !slices.Equal(got, entries) {
			t.Fatalf("%v %+v %v, want %+v %v", ok, gotHeader, got, h, entries)
		}
		if _, _, ok := decodeBlock(body[:rapid.IntRange(0, len(body)-1).Draw(t, "cut")], nil); ok {
			t.Fatal("a block that is cut decodes")
		}
	})
}

func FuzzDecodeBlock(f *testing.F) {
	f.Add(appendBlock(nil, header{last: true, run: 3, level: 1, sequence: 7, covered: 900}, []Entry{{1000, 5}, {1000, 6}, {1 << 40, 2}}))
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		h, entries, ok := decodeBlock(body, nil)
		if !ok {
			return
		}
		if len(entries) == 0 || len(entries) > blockEntries || !slices.IsSortedFunc(entries, compare) || entries[0].Due < 0 {
			t.Fatalf("%+v %v", h, entries)
		}
		if _, again, ok := decodeBlock(appendBlock(nil, h, entries), nil); !ok || !slices.Equal(again, entries) {
			t.Fatalf("%v encodes to something else", entries)
		}
	})
}
