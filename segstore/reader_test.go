package segstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// onDisk returns a store whose log 1 has n batches of k records behind the
// tail: nothing is resident.
func onDisk(t tester, n, k, size int) (*testStore, *Log, *memDisk) {
	t.Helper()
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: 16 << 10, change: func(o *Options) {
		o.tune.keptBytes = 64 << 10
		o.tune.blockBytes = 4 << 10
		o.tune.indexBytes = 1 << 10
		o.tune.frontBytes = 1
	}})
	l := s.log(1, false)
	for range n {
		s.appendN(l, k, size)
	}
	l.WantDurable()
	s.urge()
	if got := s.Stats().ResidentBytes; got != 0 {
		t.Fatalf("%d bytes resident", got)
	}
	return s, l, d
}

func TestReader_ManyReadersAtDifferentPositions(t *testing.T) {
	s, l, _ := onDisk(t, 300, 7, 30)
	defer s.close()
	readers := make([]*Reader, 9)
	at := make([]uint64, len(readers))
	for i := range readers {
		readers[i] = l.NewReader()
		at[i] = uint64(i) * l.Next() / uint64(len(readers))
	}
	for moving := true; moving; {
		moving = false
		for i, r := range readers {
			to := min(at[i]+5, l.Next())
			if got := s.readAll(r, at[i], to); uint64(len(got)) != to-at[i] {
				t.Fatalf("reader %d at %d: %d records", i, at[i], len(got))
			}
			moving = moving || to > at[i]
			at[i] = to
		}
	}
	if len(l.back.blocks) > 4 || len(l.back.indexed) > 4 {
		t.Errorf("%d blocks and %d indexes cached", len(l.back.blocks), len(l.back.indexed))
	}
	for _, r := range readers {
		r.Close()
	}
	s.stopFetcher()
	if l.back != nil || s.blockBytes.Load() != 0 {
		t.Errorf("the cache outlives its readers: %d bytes", s.blockBytes.Load())
	}
	for _, seg := range l.segments {
		if seg.sealed && seg.index != nil {
			t.Error("an index outlives the readers")
		}
	}
}

func TestReader_RandomSeeksBehindTheTail(t *testing.T) {
	s, l, _ := onDisk(t, 200, 9, 25)
	defer s.close()
	r := l.NewReader()
	defer r.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	var rec Record
	for range 2000 {
		o := rng.Uint64N(l.Next())
		if err := seek(r, o); err != nil {
			t.Fatal(err)
		}
		if !r.Next(&rec) || rec.Offset != o || !bytes.Equal(rec.Body, bodyOf(o, 25)) {
			t.Fatalf("record %d: %+v", o, rec)
		}
	}
}

// Sequential reading reads every block once, ahead of the reader.
func TestReader_ReadsAhead(t *testing.T) {
	s, l, _ := onDisk(t, 300, 7, 30)
	defer s.close()
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 0, l.Next()); uint64(len(got)) != l.Next() {
		t.Fatalf("%d records", len(got))
	}
	s.stopFetcher()
	if read, wrote := s.Stats().ReadBytes, s.Stats().WrittenBytes; read > wrote*3/2 {
		t.Errorf("%d bytes read to see %d", read, wrote)
	}
}

func TestReader_LargeRecords(t *testing.T) {
	s, l, _ := onDisk(t, 3, 2, 600_000)
	defer s.close()
	s.appendN(l, 1, 2_000_000) // resident
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 0, l.Next()); len(got) != 7 {
		t.Errorf("records %v", got)
	}
	if len(l.segments) != 3 {
		t.Errorf("%d segments", len(l.segments))
	}
}

func TestReader_BytesStayValidUntilItMoves(t *testing.T) {
	s, l, _ := onDisk(t, 50, 5, 100)
	defer s.close()
	r, other := l.NewReader(), l.NewReader()
	if err := seek(r, 0); err != nil {
		t.Fatal(err)
	}
	var rec Record
	r.Next(&rec)
	body := rec.Body
	for range 3 {
		s.readAll(other, 0, l.Next())
	}
	other.Close()
	if err := l.Delete(); err != nil {
		t.Fatal(err)
	}
	s.urge()
	if !bytes.Equal(body, bodyOf(0, 100)) {
		t.Error("a pinned body changed")
	}
	r.Close()
}

func TestReader_WakeIsCalledOnceAndClosedReadersAreNotWoken(t *testing.T) {
	s, l, d := onDisk(t, 10, 5, 100)
	defer s.close()
	hold := make(chan struct{})
	reading := make(chan struct{}, 10)
	d.fail = func(what, p string) error {
		if what == "read" {
			d.mu.Unlock()
			reading <- struct{}{}
			<-hold
			d.mu.Lock()
		}
		return nil
	}
	woken := make(chan int, 10)
	a, b := l.NewReader(), l.NewReader()
	for i, r := range []*Reader{a, b} {
		if err := r.Seek(3, func() { woken <- i }); !errors.Is(err, ErrNotResident) {
			t.Fatal(err)
		}
	}
	if err := a.Seek(3, func() { woken <- 10 }); !errors.Is(err, ErrNotResident) {
		t.Fatal(err) // replaces the first wake
	}
	<-reading
	b.Close()
	close(hold)
	if got := <-woken; got != 10 {
		t.Errorf("woken: %d", got)
	}
	s.stopFetcher()
	if len(woken) != 0 {
		t.Errorf("another wake: %d", <-woken)
	}
	if err := a.Seek(3, nil); err != nil {
		t.Errorf("after the wake: %v", err)
	}
	a.Close()
}

func TestReader_FailedReadIsReportedAndCanBeTriedAgain(t *testing.T) {
	s, l, d := onDisk(t, 10, 5, 100)
	defer s.close()
	broken := errors.New("input/output error")
	d.mu.Lock()
	d.fail = func(what, p string) error {
		if what == "read" {
			return broken
		}
		return nil
	}
	d.mu.Unlock()
	r := l.NewReader()
	defer r.Close()
	if err := seek(r, 7); !errors.Is(err, broken) {
		t.Fatalf("seek: %v", err)
	}
	var rec Record
	if r.Next(&rec) {
		t.Error("Next after an error")
	}
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if got := s.readAll(r, 7, 50); len(got) != 43 {
		t.Errorf("records %v", got)
	}
}

func TestReader_HolesAreMissing(t *testing.T) {
	s := openTest(t, testOptions{segment: 2 << 10, change: smallLimits})
	defer s.close()
	l := s.log(1, false)
	var want []uint64
	for i := range 200 {
		base := s.appendN(l, 3, 20)
		if i%7 < 4 {
			l.Settle(base, 3)
		} else {
			want = append(want, base, base+1, base+2)
		}
		if i%50 == 0 {
			s.syncTick()
		}
	}
	s.syncTick()
	s.syncTick()
	r := l.NewReader()
	defer r.Close()
	got := s.readAll(r, 0, l.Next())
	got = slices.DeleteFunc(got, func(o uint64) bool { return l.isSettled(o, o+1) })
	if !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
}

func TestReader_CorruptBatchIsReportedOnceAndMissing(t *testing.T) {
	s, l, d := onDisk(t, 100, 5, 100)
	defer s.close()
	name := l.path(segmentName(l.segments[0].base))
	d.mu.Lock()
	d.find(name).data[segmentHeaderBytes+3*batchLength(d.find(name).data[segmentHeaderBytes:])+100] ^= 4
	d.mu.Unlock()
	for range 2 {
		r := l.NewReader()
		got := s.readAll(r, 0, l.Next())
		r.Close()
		if len(got) != 495 || slices.Contains(got, 15) || slices.Contains(got, 19) {
			t.Errorf("%d records", len(got))
		}
	}
	lines := s.lines.all()
	if s.Stats().CorruptBatches != 1 || len(lines) != 1 || !strings.Contains(lines[0], name) {
		t.Errorf("%d corrupt batches, log %v", s.Stats().CorruptBatches, lines)
	}
	r := l.NewReader()
	defer r.Close()
	var missing ErrMissing
	if err := seek(r, 16); !errors.As(err, &missing) || missing.Next != 20 {
		t.Errorf("seek into the corrupt batch: %v", err)
	}
}

// Index bits may rot too: reading goes on without it.
func TestReader_CorruptIndexIsWorkedAround(t *testing.T) {
	s, l, d := onDisk(t, 100, 5, 100)
	defer s.close()
	seg := l.segments[0]
	d.mu.Lock()
	d.find(l.path(segmentName(seg.base))).data[seg.indexPos+20] ^= 4
	d.mu.Unlock()
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 50, l.Next()); len(got) != 450 {
		t.Errorf("%d records", len(got))
	}
}

func TestReader_BackwardAndForwardInsideABatch(t *testing.T) {
	s := openTest(t, testOptions{})
	defer s.close()
	l := s.log(1, false)
	s.appendN(l, 100, 10)
	s.appendN(l, 100, 200)
	r := l.NewReader()
	defer r.Close()
	var rec Record
	seq := uint64(0)
	for _, o := range []uint64{50, 60, 10, 0, 99, 98, 150, 101, 30} {
		if err := r.Seek(o, nil); err != nil {
			t.Fatal(err)
		}
		if !r.Next(&rec) || rec.Offset != o || !bytes.Equal(rec.Body, bodyOf(o, len(rec.Body))) {
			t.Fatalf("record %d: %+v", o, rec)
		}
		if changed := r.BatchSeq() != seq; changed != (o == 50 || o == 150 || o == 30) {
			t.Errorf("at %d: batch changed %v", o, changed)
		}
		seq = r.BatchSeq()
	}
}
