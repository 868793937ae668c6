package segstore

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

var errBroken = errors.New("input/output error")

// unreadLog is what a log of these tests has when it cannot be read.
type unreadLog struct {
	next, low uint64
	unsettled []uint64
}

// unreadDisk is a disk with two logs, each with a sealed segment with holes, an
// unsealed one, a settled file, and records and settlings that only the journal has.
func unreadDisk(t *testing.T, clean bool) (*memDisk, unreadLog) {
	t.Helper()
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true, segment: 4 << 10})
	var has unreadLog
	for _, id := range []uint64{1, 2} {
		l := s.log(id, false)
		for i := range 60 { // settled ones leave holes
			first := s.appendN(l, 3, 40)
			if i%5 == 1 {
				l.Settle(first, 3)
			}
		}
		for range 4 { // segments, the last one is unsealed
			l.mu.Lock()
			l.spill = true
			l.mu.Unlock()
			s.appendN(l, 5, 200)
			l.WantDurable()
			s.syncTick()
		}
		l.mu.Lock()
		l.journaled.rewrite = true
		l.mu.Unlock()
		l.Settle(0, 2)
		s.syncTick()
		first := s.appendN(l, 4, 20)
		l.Settle(first+1, 1)
		l.SetCursor(first)
		l.WantDurable()
		s.tick()
		s.urge()
		if d.find(l.path(settledName)) == nil || len(l.segments) < 2 || !l.segments[0].sealed || l.segments[len(l.segments)-1].sealed || l.heldBytes.Load() == 0 {
			t.Fatalf("segments %d, held %d", len(l.segments), l.heldBytes.Load())
		}
		has = unreadLog{next: l.Next(), low: l.Low(), unsettled: unsettledOf(l)}
	}
	if clean {
		s.close()
	} else {
		s.crash()
	}
	d.revive()
	return d, has
}

func unsettledOf(l *Log) (all []uint64) {
	for from := uint64(0); ; {
		first, n := l.NextUnsettled(from, 1)
		if n == 0 {
			return all
		}
		all = append(all, first)
		from = first + n
	}
}

// contents are the files below a directory.
func (d *memDisk) contents(dir string) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]string{}
	if n := d.find(dir); n != nil {
		for name, child := range n.children {
			out[name] = string(child.data)
		}
	}
	return out
}

// breakLog has what fail for files of log 1 whose names have that end.
func (d *memDisk) breakLog(what, end string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = func(kind, p string) error {
		if kind == what && strings.HasPrefix(p, "logs/0000000000000001") && strings.HasSuffix(p, end) {
			return errBroken
		}
		return nil
	}
}

func (d *memDisk) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = nil
}

// turnJournals has both files of the journal overwritten.
func (s *testStore) turnJournals(l *Log) {
	s.t.Helper()
	for before := s.Stats().Checkpoints; s.Stats().Checkpoints < before+3; {
		first := s.appendN(l, 20, 100)
		l.WantDurable()
		s.syncTick()
		l.Settle(first, 20)
		if s.Stats().JournalBytes > 1<<20 {
			s.t.Fatalf("the journal does not change files: %+v", s.Stats())
		}
	}
}

func (s *testStore) checkRead(l *Log, has unreadLog) {
	s.t.Helper()
	if l.Next() != has.next || l.Low() != has.low || !slices.Equal(unsettledOf(l), has.unsettled) {
		s.t.Errorf("next %d low %d unsettled %v, want %+v", l.Next(), l.Low(), unsettledOf(l), has)
	}
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 0, l.Next()); !contains(got, has.unsettled) {
		s.t.Errorf("%v are readable, want %v", got, has.unsettled)
	}
}

// TestLog_UnreadAtStart: whatever of a log cannot be read when it is opened, in
// whichever way, the store opens, other logs go on, nothing of the log is changed,
// and when it can be read again, in this life or a later one, all of it is there.
func TestLog_UnreadAtStart(t *testing.T) {
	small := func(o *Options) { o.JournalBytes = 8 << 10 }
	segment := segmentName(0)
	for _, what := range []struct{ call, end string }{
		{"readdir", "1"},
		{"open", segment}, {"size", segment}, {"read", segment},
		{"open", segmentSuffix}, {"read", segmentSuffix},
		{"open", settledName}, {"size", settledName}, {"read", settledName},
	} {
		for _, clean := range []bool{false, true} {
			for _, lives := range []int{0, 1, 2} {
				name := what.call + " " + what.end
				d, has := unreadDisk(t, clean)
				for life := 0; ; life++ {
					d.breakLog(what.call, what.end)
					before := d.contents("logs/0000000000000001")
					s := openTest(t, testOptions{disk: d, journal: true, segment: 4 << 10, change: small})
					l, other := s.log(1, false), s.log(2, false)
					if err := l.Unread(); !errors.Is(err, ErrUnread) || !errors.Is(err, errBroken) || !errors.Is(l.Err(), ErrUnread) {
						t.Fatalf("%s: %v, %v", name, l.Unread(), l.Err())
					}
					if st := s.Stats(); other.Err() != nil || st.FencedLogs != 1 || st.UnreadLogs != 1 {
						t.Fatalf("%s: %v, %+v", name, other.Err(), st)
					}
					if lines := strings.Join(s.lines.all(), "\n"); !strings.Contains(lines, "restart_queue") || !strings.Contains(lines, what.call+" logs/0000000000000001") {
						t.Errorf("%s: the operator is told: %s", name, lines)
					}
					s.checkUnread(l)
					s.checkRest(other, has, life)
					s.turnJournals(other)
					if err := l.Reread(); !errors.Is(err, errBroken) || l.Unread() == nil || s.Stats().UnreadLogs != 1 {
						t.Fatalf("%s: Reread of a broken log: %v", name, err)
					}
					if err := l.Reopen(); !errors.Is(err, ErrUnread) {
						t.Fatalf("%s: Reopen of an unread log: %v", name, err)
					}
					if after := d.contents("logs/0000000000000001"); !maps.Equal(before, after) {
						t.Fatalf("%s: files changed: %v, were %v", name, slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(before)))
					}
					if life < lives {
						if err := s.Close(); !errors.Is(err, ErrUnread) {
							t.Fatalf("%s: Close: %v", name, err)
						}
						s.checkEmpty()
						d.revive()
						continue
					}
					d.mend()
					s.mendLog(name, l, has)
					s.turnJournals(other)
					if kept := s.journal.w.KeptLogs(); len(kept) > 0 {
						t.Errorf("%s: files are kept for %v", name, kept)
					}
					s.close()
					break
				}
				s := openTest(t, testOptions{disk: d, journal: true, segment: 4 << 10})
				l := s.log(1, false)
				has.next, has.unsettled = has.next+1, append(slices.Clone(has.unsettled), has.next)
				s.checkRead(l, has)
				s.close()
			}
		}
	}
}

// checkUnread: the log shows nothing and takes nothing.
func (s *testStore) checkUnread(l *Log) {
	s.t.Helper()
	b := NewBatch(s.arena)
	defer b.Release()
	b.Reset(1000)
	b.Add(b.Template(nil, nil, nil), []byte("body"))
	if _, err := l.Append(b); !errors.Is(err, ErrUnread) {
		s.t.Errorf("Append: %v", err)
	}
	if err := s.Commit([]TxPart{{Log: l, Batch: b}}); !errors.Is(err, ErrUnread) {
		s.t.Errorf("Commit: %v", err)
	}
	tx := s.Begin()
	if _, err := l.append(b, true); !errors.Is(err, ErrUnread) {
		s.t.Errorf("append of a part of a transaction: %v", err)
	}
	tx.Settled(l, 0, 10)
	tx.End()
	l.Settle(0, 1<<40)
	l.SetCursor(5)
	l.WantDurable()
	s.urge()
	if l.Next() != 0 || l.Low() != 0 || l.Unsettled() != 0 || l.Cursor() != 0 || l.Durable() != 0 {
		s.t.Errorf("next %d low %d unsettled %d cursor %d durable %d", l.Next(), l.Low(), l.Unsettled(), l.Cursor(), l.Durable())
	}
}

// checkRest: the other log has everything in its first life, and takes more.
func (s *testStore) checkRest(l *Log, has unreadLog, life int) {
	s.t.Helper()
	if life == 0 {
		s.checkRead(l, has)
	}
	s.appendN(l, 1, 10)
	l.WantDurable()
	s.urge()
	if l.Durable() != l.Next() {
		s.t.Errorf("the other log: durable %d of %d", l.Durable(), l.Next())
	}
}

// mendLog reads the log again, opens it, and appends to it.
func (s *testStore) mendLog(name string, l *Log, has unreadLog) {
	s.t.Helper()
	if err := l.Reread(); err != nil || l.Unread() != nil || l.Err() == nil {
		s.t.Fatalf("%s: Reread: %v; %v", name, err, l.Err())
	}
	s.checkRead(l, has)
	if err := l.Reread(); err != nil {
		s.t.Errorf("%s: Reread of a log that was read: %v", name, err)
	}
	if err := l.Reopen(); err != nil || l.Err() != nil || s.Stats().FencedLogs+s.Stats().UnreadLogs != 0 {
		s.t.Fatalf("%s: Reopen: %v; %v, %+v", name, err, l.Err(), s.Stats())
	}
	s.checkRead(l, has)
	if at := s.appendN(l, 1, 10); at != has.next {
		s.t.Errorf("%s: an offset was given twice: %d, next was %d", name, at, has.next)
	}
	l.WantDurable()
	s.urge()
	if l.Durable() != has.next+1 {
		s.t.Errorf("%s: durable %d", name, l.Durable())
	}
}

// TestLog_UnreadAtEachStepOfACheckpoint: what the journal has of the log is found
// in the file that Open read, in one that a checkpoint is about to put aside, and in one
// that it has put aside.
func TestLog_UnreadAtEachStepOfACheckpoint(t *testing.T) {
	for _, step := range []string{"before", "about to", "after"} {
		d, has := unreadDisk(t, false)
		d.breakLog("read", segmentName(0))
		var refuse atomic.Bool
		refuse.Store(step == "about to")
		s := openTest(t, testOptions{disk: d, journal: true, segment: 4 << 10, change: func(o *Options) {
			o.JournalBytes = 8 << 10
			o.OnMeta = func(uint64, []byte) error { return nil }
		}})
		s.SetMetaCheckpoint(func() error {
			if refuse.Load() {
				return errors.New("not now")
			}
			return nil
		})
		l, other := s.log(1, false), s.log(2, false)
		switch step {
		case "about to":
			s.AppendMeta(1, []byte("a definition")) // keeps its file from being done with
			for len(s.journal.checkpoint.keep) == 0 {
				s.appendN(other, 20, 100)
				other.WantDurable()
				s.syncTick()
				if s.Stats().JournalBytes > 1<<20 {
					t.Fatal("the journal does not change files")
				}
			}
		case "after":
			s.turnJournals(other)
		}
		if kept := s.journal.w.KeptLogs(); (len(kept) > 0) != (step == "after") {
			t.Fatalf("%s: files are kept for %v", step, kept)
		}
		d.mend()
		s.mendLog(step, l, has)
		refuse.Store(false)
		s.journal.metaWork.Wait()
		s.close()
		s = openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.OnMeta = func(uint64, []byte) error { return nil } }})
		has.next, has.unsettled = has.next+1, append(has.unsettled, has.next)
		s.checkRead(s.log(1, false), has)
		s.SetMetaCheckpoint(func() error { return nil })
		s.close()
	}
}
