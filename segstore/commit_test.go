package segstore

import (
	"errors"
	"strings"
	"testing"
)

// A confirm costs one write and one sync for ten thousand logs as for one.
func TestCommit_OneWriteAndOneSyncForAnyNumberOfLogs(t *testing.T) {
	n := uint64(10_000)
	if testing.Short() {
		n = 1000
	}
	s := openTest(t, testOptions{journal: true, change: func(o *Options) { o.tune.aheadBytes, o.HeldBytes = 16<<20, 1<<30 }})
	defer s.crash()
	var logs []*Log
	for id := range n {
		logs = append(logs, s.log(id, false))
	}
	least := uint64(1 << 60)
	for round := range 8 {
		before := s.Stats()
		for _, l := range logs {
			s.appendN(l, 1, 16)
			l.WantDurable()
		}
		s.urge()
		for _, l := range logs {
			if l.Durable() != l.Next() {
				t.Fatalf("log %d: durable %d", l.ID(), l.Durable())
			}
		}
		after := s.Stats()
		writes, syncs := after.Writes-before.Writes, after.Syncs-before.Syncs
		if syncs != 1 || after.JournalGroups-before.JournalGroups != 1 {
			t.Errorf("round %d: %d syncs, %d groups", round, syncs, after.JournalGroups-before.JournalGroups)
		}
		least = min(least, writes)
	}
	if least != 1 { // the others made space ahead, too
		t.Errorf("at least %d writes", least)
	}
}

func TestCommit_SmallGoesToTheJournalAndLargeByIt(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	small, large := s.log(1, false), s.log(2, false)
	s.appendN(small, 10, 100)
	for range 5 {
		s.appendN(large, 600, 100)
	}
	small.WantDurable()
	large.WantDurable()
	s.urge()
	if small.Durable() != 10 || large.Durable() != 3000 {
		t.Fatalf("durable %d and %d", small.Durable(), large.Durable())
	}
	if len(small.segments) != 0 || len(large.segments) != 1 {
		t.Errorf("%d and %d segments", len(small.segments), len(large.segments))
	}
	if n := s.Segments(); n.Files != 1 || n.Bytes < 300_000 || n.Bytes != large.segments[0].size {
		t.Errorf("%+v", n)
	}
	st := s.Stats()
	if st.JournalBytes > 3000 || st.BypassedBytes < 300_000 || st.JournalSyncs != 1 {
		t.Errorf("%+v", st)
	}
	if d.find(small.dir()) != nil {
		t.Error("a log that only the journal knows has a directory")
	}
}

func TestCommit_HeldMemoryIsBounded(t *testing.T) {
	s := openTest(t, testOptions{journal: true, change: func(o *Options) { o.HeldBytes = 100 << 10 }})
	defer s.close()
	var logs []*Log
	for id := range uint64(100) {
		l := s.log(id, false)
		logs = append(logs, l)
		s.appendN(l, 1, 16)
		if id%10 == 0 {
			s.appendN(l, 10, 1000)
		}
		l.WantDurable()
	}
	s.urge()
	syncs := s.Stats().Syncs
	for range 3 {
		s.tick()
	}
	st := s.Stats()
	if st.HeldBytes > 100<<10 || st.Syncs != syncs {
		t.Errorf("%d bytes held, %d syncs to get there", st.HeldBytes, st.Syncs-syncs)
	}
	if len(logs[10].segments) != 1 {
		t.Error("a log with more than the smallest chunk was spared")
	}
	for _, l := range logs {
		r := l.NewReader()
		if got := s.readAll(r, 0, l.Next()); uint64(len(got)) != l.Next() {
			t.Errorf("log %d: %d of %d records", l.ID(), len(got), l.Next())
		}
		r.Close()
	}
}

// A failed write or sync of the journal is the end of all durable logs, and of
// no transient one. Nothing is reported durable after it.
func TestCommit_AFailedJournalFencesAllDurableLogs(t *testing.T) {
	broken := errors.New("input/output error")
	for _, what := range []string{"write", "sync"} {
		t.Run(what, func(t *testing.T) {
			d := newMemDisk()
			s := openTest(t, testOptions{disk: d, journal: true})
			a, b, transient := s.log(1, false), s.log(2, false), s.log(3, true)
			s.appendN(a, 5, 10)
			a.WantDurable()
			s.urge()
			d.fail = func(kind, p string) error {
				if kind == what && strings.HasPrefix(p, "journal/") {
					return broken
				}
				return nil
			}
			s.appendN(a, 1, 10)
			s.appendN(transient, 5, 10)
			a.WantDurable()
			s.urge()
			if a.Durable() != 5 || !errors.Is(a.Err(), broken) || !errors.Is(b.Err(), broken) || transient.Err() != nil {
				t.Errorf("durable %d, errors %v, %v, %v", a.Durable(), a.Err(), b.Err(), transient.Err())
			}
			if _, err := s.OpenLog(4, LogOptions{}); !errors.Is(err, broken) {
				t.Errorf("open: %v", err)
			}
			if lines := s.lines.all(); len(lines) != 1 || !strings.Contains(lines[0], "journal/0") || !strings.Contains(lines[0], "restarted") {
				t.Errorf("log lines %v", lines)
			}
			d.mu.Lock()
			d.fail = nil
			d.mu.Unlock()
			s.appendN(transient, 5, 10)
			a.WantDurable()
			s.syncTick()
			if a.Durable() != 5 {
				t.Errorf("durable %d after the failure", a.Durable())
			}
			if err := s.Close(); !errors.Is(err, broken) {
				t.Errorf("close: %v", err)
			}
			s.checkEmpty()
			s = openTest(t, testOptions{disk: d, journal: true})
			defer s.close()
			if l := s.log(1, false); l.Next() < 5 || l.Unsettled() != l.Next() {
				t.Errorf("next %d, unsettled %d", l.Next(), l.Unsettled())
			}
		})
	}
}

func TestTx_IsWrittenAtOnceAndNeverByTheJournal(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.tune.groupBytes = 1000 }})
	defer s.close()
	a, b := s.log(1, false), s.log(2, false)
	s.appendN(a, 3, 10)
	a.WantDurable()
	s.urge()
	groups := s.Stats().JournalGroups
	batch := NewBatch(s.arena)
	defer batch.Release()
	batch.Reset(0)
	batch.Add(batch.Template(nil, []byte("key"), nil), bodyOf(0, 400<<10))
	parts := []TxPart{{Log: b, Batch: batch}, {Log: a, First: 1, Count: 1}, {Log: a, Batch: batch}}
	if err := s.Commit(parts); err != nil {
		t.Fatal(err)
	}
	if s.TxDurable() >= parts[0].Ticket {
		t.Error("durable before it was written")
	}
	s.urge()
	if s.TxDurable() != parts[0].Ticket || parts[2].Base != 3 || a.Durable() != 4 || b.Durable() != 1 {
		t.Errorf("TxDurable %d, base %d, durable %d and %d", s.TxDurable(), parts[2].Base, a.Durable(), b.Durable())
	}
	if n := s.Stats().JournalGroups - groups; n != 1 || len(a.segments)+len(b.segments) != 0 {
		t.Errorf("%d groups, %d segments", n, len(a.segments)+len(b.segments))
	}
}

func TestTx_LimitsAndFencedLogs(t *testing.T) {
	s := openTest(t, testOptions{journal: true})
	defer func() { _ = s.Close() }()
	a, b := s.log(1, false), s.log(2, false)
	batch := NewBatch(s.arena)
	defer batch.Release()
	batch.Reset(0)
	batch.Add(batch.Template(nil, nil, nil), make([]byte, TxBytesMax))
	if err := s.Commit([]TxPart{{Log: a, Batch: batch}}); !errors.Is(err, ErrTxTooLarge) || a.Next() != 0 {
		t.Errorf("commit: %v, next %d", err, a.Next())
	}
	b.mu.Lock()
	b.fence(errors.New("broken"))
	b.mu.Unlock()
	batch.Reset(0)
	batch.Add(batch.Template(nil, nil, nil), []byte("x"))
	if err := s.Commit([]TxPart{{Log: a, Batch: batch}, {Log: b, Batch: batch}}); err == nil || a.Next() != 0 {
		t.Errorf("commit with a fenced log: %v, next %d", err, a.Next())
	}
}
