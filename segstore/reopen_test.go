package segstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestLog_ReopenAfterEachFailure: whatever failed, the log stays fenced while it
// does, and takes records again when it does not. Nothing in it is lost, its
// offsets go on, and the next start finds it as it was.
func TestLog_ReopenAfterEachFailure(t *testing.T) {
	broken := errors.New("input/output error")
	for _, what := range []string{"write", "sync", "create", "syncdir", "mkdir", "open"} {
		t.Run(what, func(t *testing.T) {
			d := newMemDisk()
			s := openTest(t, testOptions{disk: d})
			l := s.log(1, false)
			setFail := func(fail bool) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.fail = nil
				if fail {
					d.fail = func(kind, p string) error {
						if kind == what && strings.Contains(p, "0000000000000001") {
							return broken
						}
						return nil
					}
				}
			}
			if what == "write" || what == "sync" { // others need a first file
				s.appendN(l, 3, 10)
				l.WantDurable()
				s.urge()
			}
			setFail(true)
			first := s.appendN(l, 5, 10)
			l.WantDurable()
			s.urge()
			if !errors.Is(l.Err(), broken) {
				t.Fatalf("not fenced: %v", l.Err())
			}
			l.Settle(first+1, 2)
			if err := l.Reopen(); !errors.Is(err, broken) || l.Err() == nil {
				t.Fatalf("Reopen on a broken disk: %v; %v", err, l.Err())
			}
			setFail(false)
			r := l.NewReader()
			defer r.Close()
			if err := l.Reopen(); err != nil || l.Err() != nil {
				t.Fatalf("Reopen: %v; %v", err, l.Err())
			}
			if l.Durable() != first+5 || s.Stats().FencedLogs != 0 {
				t.Errorf("durable %d, %+v", l.Durable(), s.Stats())
			}
			if err := l.Reopen(); !errors.Is(err, ErrNotFenced) {
				t.Errorf("Reopen of an open log: %v", err)
			}
			if next := s.appendN(l, 1, 10); next != first+5 {
				t.Errorf("an offset was given twice: %d", next)
			}
			l.WantDurable()
			s.urge()
			want := []uint64{first, first + 3, first + 4, first + 5}
			if got := s.readAll(r, first, first+6); !contains(got, want) || l.Durable() != first+6 {
				t.Errorf("%v are there, want %v; durable %d", got, want, l.Durable())
			}
			r.Close()
			s.close()
			s = openTest(t, testOptions{disk: d})
			defer s.close()
			l = s.log(1, false)
			r = l.NewReader()
			defer r.Close()
			if got := s.readAll(r, first, first+6); l.Unsettled() != first+4 || !contains(got, want) {
				t.Errorf("after a restart %v are there, %d unsettled", got, l.Unsettled())
			}
		})
	}
}

func contains(got, want []uint64) bool {
	return !slices.ContainsFunc(want, func(o uint64) bool { return !slices.Contains(got, o) })
}

// TestLog_ReopenReadsWhatMemoryLacks: records that were evicted come from the old
// file, if their checksums are right; those that cannot be had are missing, told,
// and their bytes are kept.
func TestLog_ReopenReadsWhatMemoryLacks(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.frontBytes, o.tune.keptBytes = 1, 1 }})
	l := s.log(1, false)
	for range 4 {
		s.appendN(l, 10, 3000)
		l.WantDurable()
		s.urge()
	}
	if l.ResidentBytes() > 64<<10 {
		t.Fatalf("%d bytes resident", l.ResidentBytes())
	}
	d.mu.Lock()
	node := d.find(l.path(segmentName(0)))
	node.data[segmentHeaderBytes+15_000] ^= 1 // in the first batch
	d.fail = func(kind, p string) error {
		if kind == "write" {
			return errors.New("broken")
		}
		return nil
	}
	d.mu.Unlock()
	s.appendN(l, 1, 10)
	l.WantDurable()
	s.urge()
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if l.Err() == nil {
		t.Fatal("not fenced")
	}
	before := s.Stats().CorruptBatches
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	r := l.NewReader()
	defer r.Close()
	got := s.readAll(r, 0, 41)
	if len(got) != 31 || got[0] != 10 || got[30] != 40 {
		t.Errorf("%v are readable, want 10 to 40", got)
	}
	lines := strings.Join(s.lines.all(), "\n")
	if s.Stats().CorruptBatches != before+1 || !strings.Contains(lines, "they are lost log=1 records=10") {
		t.Errorf("%d corrupt batches, want %d more than %d; %s", s.Stats().CorruptBatches, 1, before, lines)
	}
	if kept := d.find(l.path(segmentName(0) + quarantineSuffix)); kept == nil {
		t.Error("the bytes are gone")
	}
	l.Settle(0, 10)
	r.Close()
	s.close()
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	if l = s.log(1, false); l.Unsettled() != 31 || l.Next() != 41 {
		t.Errorf("after a restart %d are unsettled, next %d", l.Unsettled(), l.Next())
	}
}

// TestLog_ReopenAfterTheJournalFailed: it says that only a start helps.
func TestLog_ReopenAfterTheJournalFailed(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	defer s.crash()
	l := s.log(1, false)
	d.fail = func(kind, p string) error {
		if kind == "sync" && strings.HasPrefix(p, "journal/") {
			return errors.New("broken")
		}
		return nil
	}
	s.appendN(l, 1, 10)
	l.WantDurable()
	s.urge()
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if err := l.Reopen(); !errors.Is(err, ErrJournalFailed) || l.Err() == nil {
		t.Errorf("Reopen: %v; %v", err, l.Err())
	}
}

// slowRename is a memDisk on which renames of segments wait.
type slowRename struct {
	*memDisk
	reached, proceed chan struct{}
}

func (d *slowRename) Rename(from, to string) error {
	if strings.HasSuffix(to, segmentSuffix) {
		d.reached <- struct{}{}
		<-d.proceed
	}
	return d.memDisk.Rename(from, to)
}

// evicted returns a fenced log of 5 records of which memory has the last only, and
// others of the file are settled: what Reopen writes has other positions.
func evicted(s *testStore, d *memDisk) *Log {
	s.t.Helper()
	l := s.log(1, false)
	for range 4 {
		s.appendN(l, 1, 30_000)
		l.WantDurable()
		s.urge()
	}
	l.Settle(0, 1)
	l.Settle(2, 1)
	d.mu.Lock()
	d.fail = func(kind, p string) error {
		if kind == "write" && strings.HasSuffix(p, segmentSuffix) {
			return errors.New("broken")
		}
		return nil
	}
	d.mu.Unlock()
	s.appendN(l, 1, 10)
	l.WantDurable()
	s.urge()
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if l.Err() == nil || l.ResidentBytes() > 64<<10 {
		s.t.Fatalf("%v, %d bytes resident", l.Err(), l.ResidentBytes())
	}
	return l
}

func evicting(o *Options) { o.tune.frontBytes, o.tune.keptBytes = 1, 1 }

// TestLog_ReopenUnderReaders: who reads while new files get their names waits, and
// then finds his record where it is now. A read that began before, of a segment
// that was replaced, is not taken for one of a damaged file.
func TestLog_ReopenUnderReaders(t *testing.T) {
	d := &slowRename{newMemDisk(), make(chan struct{}), make(chan struct{})}
	s := openTest(t, testOptions{disk: d, change: evicting})
	l := evicted(s, d.memDisk)
	old := l.segments[0]
	outcome := make(chan error)
	go func() { outcome <- l.Reopen() }()
	<-d.reached
	r, woken := l.NewReader(), make(chan struct{})
	if err := r.Seek(3, func() { close(woken) }); !errors.Is(err, ErrNotResident) {
		t.Errorf("a read of a file that may be the old one or the new one: %v", err)
	}
	if s.fetching() > 0 {
		t.Error("somebody reads while the file changes")
	}
	close(d.proceed)
	if err := <-outcome; err != nil {
		t.Fatal(err)
	}
	<-woken
	if got := s.readAll(r, 0, 5); !slices.Equal(got, []uint64{1, 3, 4}) {
		t.Errorf("%v are there, want 1, 3, 4", got)
	}
	r.Close()
	if _, err := s.load(&fetch{log: l, segment: old, offset: 1}); err != errReplaced {
		t.Errorf("a late read of the old segment: %v", err)
	}
	if s.Stats().CorruptBatches != 0 {
		t.Errorf("damage was reported: %v", s.lines.all())
	}
	s.close()
}

func (s *testStore) fetching() int {
	s.fetcher.mu.Lock()
	defer s.fetcher.mu.Unlock()
	return len(s.fetcher.queue) + s.fetcher.workers
}

// TestLog_ReopenHoldsTheCheckpoint: a file of the journal is not given up while a log
// with entries in it is being opened again, nor before what they say is elsewhere.
func TestLog_ReopenHoldsTheCheckpoint(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.JournalBytes = 16 << 10 }})
	l, other := s.log(1, false), s.log(2, false)
	s.appendN(l, 3, 10)
	s.tick()
	s.tick()
	d.mu.Lock()
	d.fail = func(kind, p string) error {
		if strings.Contains(p, "0000000000000001") {
			return errors.New("broken")
		}
		return nil
	}
	d.mu.Unlock()
	l.Roll()
	s.tick()
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	if l.Err() == nil {
		t.Fatal("not fenced")
	}
	r := &reopening{store: s.Store, log: l}
	r.remaker.store, r.remaker.log = s.Store, l
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	fill := func() {
		for range 6 {
			s.appendN(other, 1, 4000)
			other.WantDurable()
			s.urge()
			s.syncTick()
		}
	}
	tx := s.Begin() // what it settles only the journal has
	tx.Settled(l, 0, 1)
	tx.End()
	s.urge()
	fill()
	if n := s.Stats().Checkpoints; n != 0 {
		t.Fatalf("%d checkpoints while the log's files were in other hands", n)
	}
	if err := l.Reopen(); !errors.Is(err, ErrReopening) {
		t.Errorf("a second Reopen: %v", err)
	}
	err := r.write()
	if err == nil {
		err = r.swap()
	}
	r.release()
	if err = r.install(err); err != nil {
		t.Fatal(err)
	}
	s.reopens.Done()
	for range 5 { // no flush ticks, which would tell the journal of it again
		s.cycle(pass{step: true})
	}
	if n := s.Stats().Checkpoints; n != 1 {
		t.Fatalf("%d checkpoints", n)
	}
	s.crash()
	d.fail = nil
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	l = s.log(1, false)
	reader := l.NewReader()
	defer reader.Close()
	if got := s.readAll(reader, 0, 3); len(got) != 3 || l.Unsettled() != 2 {
		t.Errorf("%v are there, %d unsettled, want 2", got, l.Unsettled())
	}
}

// TestLog_ReopenWaitsForTransactions: a part of a transaction does not reach a file
// before all of it is synced.
func TestLog_ReopenWaitsForTransactions(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: evicting})
	l, other := evicted(s, d), s.log(2, false)
	tx := s.Begin()
	tx.Settled(l, 1, 1)
	first := s.appendN(other, 1, 10)
	tx.Appended(other, first, first+1)
	ticket := tx.End()
	if s.TxDurable() >= ticket {
		t.Fatal("durable without a round")
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if s.TxDurable() < ticket {
		t.Error("the settled file tells of a transaction that is not durable")
	}
	s.close()
}
