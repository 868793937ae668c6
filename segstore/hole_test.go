package segstore

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// FuzzHole: any bytes are a mark or are none; a mark says again what it said.
func FuzzHole(f *testing.F) {
	f.Add(encodeHole(1, 4, 1_700_000_000_000, 5000))
	f.Add(encodeHole(0, offsetMax, 0, holeBytes))
	f.Add(make([]byte, holeBytes))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isHole(data) || checkHole(data) != nil {
			return
		}
		if _, err := checkBatch(data); err == nil {
			t.Fatal("a mark is a batch too")
		}
		again := encodeHole(batchBase(data), endOf(data), batchTimestamp(data), int64(batchLength(data)))
		if err := checkHole(again); err != nil || batchBase(again) != batchBase(data) || endOf(again) != endOf(data) {
			t.Fatalf("%x: %v", again, err)
		}
	})
}

func TestHole_EachBitCounts(t *testing.T) {
	sound := encodeHole(7, 4000, 1_700_000_000_000, 70_000)
	if err := checkHole(sound); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * holeBytes {
		data := bytes.Clone(sound)
		data[bit/8] ^= 1 << (bit % 8)
		if isHole(data) && checkHole(data) == nil {
			t.Errorf("bit %d makes no difference", bit)
		}
	}
}

// The pieces of a hole are its whole blocks without those of older ones.
func TestHole_Pieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const blocks = 40
		h := hole{pos: rapid.Int64Range(0, 5*allocBytes).Draw(t, "pos")}
		h.end = h.pos + rapid.Int64Range(holeBytes, 30*allocBytes).Draw(t, "length")
		var older []hole
		for pos := h.pos; ; {
			pos += rapid.Int64Range(0, 3*allocBytes).Draw(t, "gap")
			end := pos + rapid.Int64Range(holeBytes, 8*allocBytes).Draw(t, "older")
			if end > h.end {
				break
			}
			older = append(older, hole{pos: pos, end: end, sure: rapid.Bool().Draw(t, "sure")})
			pos = end
		}
		var got, want [blocks]bool
		mark := func(blocks *[blocks]bool, from, to int64, is bool) {
			for at := from; at < to; at += allocBytes {
				blocks[at/allocBytes] = is
			}
		}
		for _, p := range h.pieces(older) {
			if p.pos%allocBytes != 0 || p.end%allocBytes != 0 || p.pos < h.pos+holeBytes || p.end > h.end {
				t.Fatalf("piece %+v of %+v", p, h)
			}
			mark(&got, p.pos, p.end, true)
		}
		from, to := h.blocks()
		mark(&want, from, to, true)
		for _, old := range older {
			if from, to := old.blocks(); old.sure {
				mark(&want, from, to, false)
			}
		}
		if got != want {
			t.Fatalf("%+v without %+v: %v, want %v", h, older, got, want)
		}
		for _, old := range older {
			if found, ok := holeAt(older, old.pos); !ok || found != old {
				t.Fatalf("holeAt(%d) = %+v, %v", old.pos, found, ok)
			}
		}
		if all := putHole(slices.Clone(older), h); len(all) != 1 || all[0] != h {
			t.Fatalf("putHole: %+v", all)
		}
	})
}
