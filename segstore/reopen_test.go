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
