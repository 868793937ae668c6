package segstore

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestSegment_NoteRun: a segment knows the same of batches noted together as of
// batches noted one by one.
func TestSegment_NoteRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := openTest(rt, testOptions{disk: newMemDisk()})
		defer s.close()
		l := s.log(1, false)
		for i := range rapid.IntRange(1, 120).Draw(rt, "batches") {
			b := NewBatch(s.pool)
			b.Reset(int64(i))
			template := b.Template(nil, []byte("k"), nil)
			for range rapid.IntRange(1, 5).Draw(rt, "records") {
				b.Add(template, bodyOf(0, rapid.SampledFrom([]int{0, 16, 300, 3000}).Draw(rt, "size")))
			}
			if _, err := l.Append(b); err != nil {
				rt.Fatal(err)
			}
			b.Release()
		}
		every := rapid.SampledFrom([]int64{1, 100, 5000, 64 << 10}).Draw(rt, "every")
		single := &segment{size: segmentHeaderBytes, end: segmentHeaderBytes}
		whole := &segment{size: segmentHeaderBytes, end: segmentHeaderBytes}
		for _, c := range l.chunks {
			if rapid.IntRange(0, 9).Draw(rt, "gap") == 0 {
				continue
			}
			c := *c // what the log keeps of its own stays
			for c.flushed < c.used {
				c.saved, c.savedNext = c.flushed, c.flushedNext
				for range rapid.IntRange(1, 50).Draw(rt, "saved") {
					if c.saved < c.used {
						batch := c.data[c.saved:]
						single.note(batch[:batchLength(batch)], every)
						c.savedNext = batchEnd(batch)
						c.saved += batchLength(batch)
					}
				}
				whole.noteRun(&c, every)
				c.flushed, c.flushedNext = c.saved, c.savedNext
			}
			if !reflect.DeepEqual(single, whole) {
				rt.Fatalf("one by one %+v, together %+v", single, whole)
			}
		}
	})
}
