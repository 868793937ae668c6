package segstore

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Bad bytes before a good batch are what a crash leaves of a write that a later
// one overtook, where bytes are missing. Everything else, and everything after a
// stop in good order, is damage. In any case the records do not count.
func TestRecovery_OvertakenWriteIsNoDamage(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	for _, size := range []int{300, 3000, 10} {
		s.appendN(l, 1, size)
	}
	l.WantDurable()
	s.urge()
	s.crash()
	whole := d.content(testSegment)
	from := segmentHeaderBytes + batchLength(whole[segmentHeaderBytes:])
	to := from + batchLength(whole[from:])
	sector := to &^ (sectorBytes - 1) // the last one, which the next batch has a part of
	if to == sector || from > sector-3*sectorBytes {
		t.Fatalf("the batch is at %d to %d", from, to)
	}
	for _, c := range []struct {
		name   string
		change func(data []byte)
		torn   bool
	}{
		{"nothing arrived", func(b []byte) { clear(b[from:to]) }, true},
		{"a sector did not arrive", func(b []byte) { clear(b[sector-1024 : sector-512]) }, true},
		{"the end did not arrive", func(b []byte) { clear(b[sector:to]) }, true},
		{"a flipped bit", func(b []byte) { b[from+1000] ^= 4 }, false},
		{"garbage", func(b []byte) { copy(b[from:to], bytes.Repeat([]byte{0xA5}, to-from)) }, false},
		{"half a sector of zeros", func(b []byte) { clear(b[sector-700 : sector-400]) }, false},
	} {
		for _, clean := range []bool{false, true} {
			data := slices.Clone(whole)
			c.change(data)
			d := newMemDisk()
			d.put(testSegment, data)
			torn := c.torn && !clean
			s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.AfterCleanStop, o.tune.sealBytes = clean, 1 }})
			l := s.log(1, false)
			r := l.NewReader()
			if got := s.readAll(r, 0, 3); !slices.Equal(got, []uint64{0, 2}) || l.Unsettled() != 2 || l.Next() != 3 {
				t.Errorf("%s: records %v, unsettled %d, next %d", c.name, got, l.Unsettled(), l.Next())
			}
			r.Close()
			lines := s.lines.all()
			if len(lines) != 1 || strings.HasPrefix(lines[0], "WARN") != torn || (s.Stats().CorruptBatches == 0) != torn {
				t.Errorf("%s, clean stop %v: %d corrupt batches, log %v", c.name, clean, s.Stats().CorruptBatches, lines)
			}
			s.close()

			// The segment is sealed now; who reads there meets the bytes again.
			s = openTest(t, testOptions{disk: d, change: func(o *Options) { o.AfterCleanStop = true }})
			l = s.log(1, false)
			if !l.segments[0].sealed || l.Unsettled() != 2 {
				t.Fatalf("sealed %v, unsettled %d", l.segments[0].sealed, l.Unsettled())
			}
			r = l.NewReader()
			if got := s.readAll(r, 0, 3); !slices.Equal(got, []uint64{0, 2}) {
				t.Errorf("%s: records %v", c.name, got)
			}
			r.Close()
			if lines := s.lines.all(); s.Stats().CorruptBatches != 0 || slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ERROR") }) {
				t.Errorf("%s, the next start: log %v", c.name, lines)
			}
			s.close()
		}
	}
}

// A segment whose header is zeros was never synced.
func TestRecovery_SegmentThatWasNeverSynced(t *testing.T) {
	data := buildLog(t, 0, 3).content(testSegment)
	clear(data[:segmentHeaderBytes])
	for _, clean := range []bool{false, true} {
		d := newMemDisk()
		d.put(testSegment, data)
		s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.AfterCleanStop = clean }})
		if l := s.log(1, false); l.Next() != 3 || l.Unsettled() != 0 {
			t.Errorf("next %d, unsettled %d", l.Next(), l.Unsettled())
		}
		level := map[bool]string{false: "WARN", true: "ERROR"}[clean]
		if lines := s.lines.all(); len(lines) != 1 || !strings.HasPrefix(lines[0], level) {
			t.Errorf("clean stop %v: log %v", clean, lines)
		}
		s.close()
	}
}
