package segstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// whileWriting lets a cycle write segments of the log, and calls do in the
// middle of the first such write, before its bytes are there.
func whileWriting(s *testStore, d *memDisk, do func()) {
	s.t.Helper()
	called := false
	d.mu.Lock()
	d.fail = func(what, p string) error {
		if what == "write" && strings.HasSuffix(p, segmentSuffix) && !called {
			called = true
			d.mu.Unlock()
			do()
			d.mu.Lock()
		}
		return nil
	}
	d.mu.Unlock()
	s.urge()
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if !called {
		s.t.Fatal("nothing was written to a segment")
	}
}

// A reader that looked into a gap behind the tail, while the batches after the gap
// were on their way to the segment, was told that there is nothing up to their
// end. Once they were out of memory, it and all other readers of the log passed
// over them.
func TestReader_GapBeforeBatchesBeingWrittenDoesNotHideThem(t *testing.T) {
	for _, at := range []uint64{10, 13, 19} {
		s, l, d := onDisk(t, 1, 10, 100)
		s.appendN(l, 10, 100)
		l.Settle(10, 10)
		s.tick()
		s.tick() // nothing of these is left, in memory or on disk
		s.appendN(l, 10, 100)
		l.WantDurable()
		r, other := l.NewReader(), l.NewReader()
		whileWriting(s, d, func() {
			var missing ErrMissing
			if err := seek(r, at); !errors.As(err, &missing) || missing.Next != 20 {
				t.Errorf("seek to %d while 20 to 29 are written: %v", at, err)
			}
		})
		if got := s.Stats().ResidentBytes; got != 0 {
			t.Fatalf("%d bytes resident", got)
		}
		want := []uint64{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}
		for _, r := range []*Reader{r, other} {
			if got := s.readAll(r, at, 30); !slices.Equal(got, want) {
				t.Errorf("from %d on: records %v, want %v", at, got, want)
			}
			r.Close()
		}
		s.close()
	}
}

// Bad bytes at the end of what a segment has cost the records there, but not
// those that are being written behind them.
func TestReader_CorruptEndDoesNotHideBatchesBeingWritten(t *testing.T) {
	s, l, d := onDisk(t, 2, 10, 100)
	defer s.close()
	name := l.path(segmentName(0))
	d.mu.Lock()
	data := d.find(name).data
	data[segmentHeaderBytes+batchLength(data[segmentHeaderBytes:])+100] ^= 4
	d.mu.Unlock()
	s.appendN(l, 10, 100)
	l.WantDurable()
	r := l.NewReader()
	defer r.Close()
	whileWriting(s, d, func() {
		var missing ErrMissing
		if err := seek(r, 15); !errors.As(err, &missing) || missing.Next != 20 {
			t.Errorf("seek to a corrupt batch: %v", err)
		}
	})
	if got := s.readAll(r, 10, 30); !slices.Equal(got, []uint64{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}) {
		t.Errorf("records %v", got)
	}
}
