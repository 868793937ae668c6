package segstore

import (
	"testing"

	"pgregory.net/rapid"
)

// TestReader_NextAt: records at any distance from each other are found, by readers
// that remember positions for each other and by one that doesn't.
func TestReader_NextAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := openTest(rt, testOptions{disk: newMemDisk()})
		defer s.close()
		l := s.log(1, false)
		var sizes []int
		for range rapid.IntRange(1, 45).Draw(rt, "batches") {
			b := NewBatch(s.pool)
			b.Reset(1)
			template := b.Template(nil, []byte("k"), nil)
			for range rapid.SampledFrom([]int{1, 2, 3, 4, 5, 8, 9, 100, 301}).Draw(rt, "records") {
				n := rapid.SampledFrom([]int{0, 1, 16, 127, 128, 400}).Draw(rt, "size")
				b.Add(template, bodyOf(uint64(len(sizes)), n))
				sizes = append(sizes, n)
			}
			if _, err := l.Append(b); err != nil {
				rt.Fatal(err)
			}
			b.Release()
		}
		k := rapid.IntRange(1, 90).Draw(rt, "stride")
		var shared Positions
		for lane := range min(k, 5) {
			r := l.NewReader()
			if lane != 1 {
				r.Use(&shared)
			}
			var rec Record
			for at := lane; at < len(sizes); at += k {
				if !r.NextAt(uint64(at), &rec) {
					if err := seek(r, uint64(at)); err != nil || !r.Next(&rec) {
						rt.Fatalf("record %d: %v", at, err)
					}
				}
				if rec.Offset != uint64(at) || string(rec.Body) != string(bodyOf(uint64(at), sizes[at])) {
					rt.Fatalf("found %d for %d, %d bytes for %d", rec.Offset, at, len(rec.Body), sizes[at])
				}
			}
			r.Close()
		}
	})
}
