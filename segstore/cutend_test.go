package segstore

import (
	"slices"
	"strings"
	"testing"
)

// The end of a segment that is no good batch is what a crash leaves of a write,
// if bytes are missing and there was a crash. Everything else is damage, unless
// the journal has the records.
func TestRecovery_DamagedEndIsNoUnfinishedOne(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	for _, size := range []int{300, 3000} {
		s.appendN(l, 1, size)
	}
	l.WantDurable()
	s.urge()
	s.crash()
	whole := d.content(testSegment)
	from := segmentHeaderBytes + batchLength(whole[segmentHeaderBytes:])
	sector := len(whole) &^ (sectorBytes - 1)
	for _, c := range []struct {
		name   string
		change func(data []byte) []byte
		torn   string // the level after a crash
	}{
		{"nothing arrived", func(b []byte) []byte { clear(b[from:]); return b }, ""},
		{"a sector did not arrive", func(b []byte) []byte { clear(b[sector-1024 : sector-512]); return b }, "WARN"},
		{"the end did not arrive", func(b []byte) []byte { return b[:len(b)-100] }, "WARN"},
		{"half a header", func(b []byte) []byte { return b[:from+20] }, "WARN"},
		{"a flipped bit", func(b []byte) []byte { b[from+1000] ^= 4; return b }, "ERROR"},
		{"half a sector of zeros", func(b []byte) []byte { clear(b[sector-700 : sector-400]); return b }, "ERROR"},
	} {
		for _, clean := range []bool{false, true} {
			d := newMemDisk()
			d.put(testSegment, c.change(slices.Clone(whole)))
			s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.AfterCleanStop = clean }})
			if l := s.log(1, false); l.Next() != 1 || l.Unsettled() != 1 {
				t.Errorf("%s: next %d, unsettled %d", c.name, l.Next(), l.Unsettled())
			}
			want := c.torn
			if clean {
				want = "ERROR"
			}
			wantReport(t, c.name, s, want, "end of a segment")
			s.close()
		}
	}
}

// wantReport checks that all the log says is one line of a level, with a text, and
// that the counter agrees; level "" is silence.
func wantReport(t *testing.T, name string, s *testStore, level, text string) {
	t.Helper()
	lines, corrupt := s.lines.all(), s.Stats().CorruptBatches
	switch {
	case level == "" && len(lines) == 0:
	case level != "" && len(lines) == 1 && strings.HasPrefix(lines[0], level) && strings.Contains(lines[0], text):
	default:
		t.Errorf("%s: log %v, want one line, %q", name, lines, level+text)
	}
	if (corrupt > 0) != (level == "ERROR") {
		t.Errorf("%s: %d corrupt batches counted, log %v", name, corrupt, lines)
	}
}

// sealedLog returns the disk of a log with two segments, the first one sealed.
func sealedLog(t *testing.T) (d *memDisk, first []byte) {
	t.Helper()
	d = buildLog(t, 200, 2, 1, 2, 1)
	first = d.content(testSegment)
	if len(d.names(testDir)) < 2 || !new(segment).decodeTrailer(first[len(first)-trailerBytes:], int64(len(first))) {
		t.Fatalf("the first segment of %v is not sealed", d.names(testDir))
	}
	return d, first
}

// No record is lost with an index or a trailer, and who reads the log is told so.
func TestRecovery_DamagedIndexLosesNothing(t *testing.T) {
	_, first := sealedLog(t)
	trailer := len(first) - trailerBytes
	for _, c := range []struct {
		name  string
		pos   int
		clean bool
	}{
		{"the trailer, after a crash", trailer + 20, false},
		{"the trailer, after a clean stop", trailer + 20, true},
		{"the index, after a crash", trailer - 3, false},
		{"the index, after a clean stop", trailer - 3, true},
	} {
		d, first := sealedLog(t)
		data := slices.Clone(first)
		data[c.pos] ^= 1
		d.put(testSegment, data)
		s := openTest(t, testOptions{disk: d, segment: 200, change: func(o *Options) { o.AfterCleanStop = c.clean }})
		l := s.log(1, false)
		r := l.NewReader()
		if got := s.readAll(r, 0, l.Next()); !slices.Equal(got, []uint64{0, 1, 2, 3, 4, 5}) {
			t.Errorf("%s: records %v", c.name, got)
		}
		r.Close()
		lines := s.lines.all()
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR") || !strings.Contains(lines[0], "no record is lost") {
			t.Errorf("%s: log %v", c.name, lines)
		}
		s.close()
	}
}

// After a crash a segment may be empty. After a stop in good order one before
// another is not: it has lost what was in it.
func TestRecovery_SegmentThatLostItsBytes(t *testing.T) {
	for _, clean := range []bool{false, true} {
		d, _ := sealedLog(t)
		d.put(testSegment, nil)
		s := openTest(t, testOptions{disk: d, segment: 200, change: func(o *Options) { o.AfterCleanStop = clean }})
		if l := s.log(1, false); l.Next() != 6 || l.Unsettled() == 0 || l.Unsettled() == 6 {
			t.Errorf("next %d, unsettled %d", l.Next(), l.Unsettled())
		}
		wantReport(t, "an empty segment", s, map[bool]string{false: "", true: "ERROR"}[clean], "has lost its bytes")
		s.close()
	}
}
