package segstore

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

func TestLog_IdleSizeStaysSmall(t *testing.T) {
	if n := unsafe.Sizeof(Log{}); n > 500 {
		t.Errorf("a Log is %d bytes", n)
	}
}

// A stream that is published and consumed at the same pace never reaches the
// disk, and holds no memory once it stops.
func TestStore_SettledRecordsAreNeverWritten(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	defer s.close()
	l := s.log(1, false)
	for range 50 {
		base := s.appendN(l, 1000, 16)
		s.tick()
		l.Settle(base, 1000)
	}
	s.tick()
	s.tick()
	s.syncTick()
	if st := s.Stats(); st.WrittenBytes != 0 || st.Writes != 0 || st.UnwrittenBytes != 0 || st.ResidentBytes != 0 {
		t.Errorf("after a settled stream: %+v", st)
	}
	if names := d.names(logsDir); len(names) != 0 {
		t.Errorf("files of an empty log: %v", names)
	}
	if l.Durable() != 50_000 || l.Low() != 50_000 {
		t.Errorf("durable %d, low %d", l.Durable(), l.Low())
	}
}

func TestStore_QuietLogsCostFourKiB(t *testing.T) {
	s := openTest(t, testOptions{})
	defer s.close()
	for id := range uint64(40) {
		s.appendN(s.log(id, false), 1, 16)
	}
	if got := s.Stats().ResidentBytes; got != 40*4*arena.KiB {
		t.Errorf("%d bytes for 40 logs of one record", got)
	}
	log := s.logs[7]
	for range 100 {
		s.appendN(log, 100, 100)
	}
	if got := len(log.chunks[len(log.chunks)-1].data); got != arena.BufBytesMax {
		t.Errorf("a busy log appends to chunks of %d bytes", got)
	}
}

func TestStore_ABacklogDoesNotStayInMemory(t *testing.T) {
	s := openTest(t, testOptions{segment: 1 << 20})
	defer s.close()
	l := s.log(1, false)
	for range 100 {
		for range 4 {
			s.appendN(l, 3000, 16)
		}
		s.tick()
	}
	s.tick()
	s.tick()
	if got := s.Stats().ResidentBytes; got > 2<<20 {
		t.Errorf("%d bytes resident for a backlog of 1.2 million records", got)
	}
	// The consumers read the front; it is in memory.
	r := l.NewReader()
	defer r.Close()
	if err := r.Seek(0, nil); err != nil {
		t.Errorf("the front is not resident: %v", err)
	}
}

func TestStore_AgeDecidesWhatIsWritten(t *testing.T) {
	s := openTest(t, testOptions{})
	defer s.close()
	l := s.log(1, false)
	s.appendN(l, 1, 16)
	s.tick()
	s.appendN(l, 1, 16)
	if n := s.Stats().Writes; n != 0 {
		t.Fatalf("%d writes of a record younger than a tick", n)
	}
	s.tick()
	if got := l.segments[0].next; got != 1 {
		t.Fatalf("written up to %d, want 1", got)
	}
	s.urge() // not a tick: nothing ages
	if got := l.segments[0].next; got != 1 {
		t.Fatalf("written up to %d, want 1", got)
	}
	s.tick()
	if got := l.segments[0].next; got != 2 {
		t.Fatalf("written up to %d, want 2", got)
	}
	if l.Durable() != 0 {
		t.Errorf("durable %d before any sync", l.Durable())
	}
	s.syncTick()
	if l.Durable() != 2 {
		t.Errorf("durable %d after the sync tick", l.Durable())
	}
}

func TestLog_WantDurableCommitsManyLogsTogether(t *testing.T) {
	commits := 0
	s := openTest(t, testOptions{change: func(o *Options) { o.OnCommit = func() { commits++ } }})
	defer s.close()
	var logs []*Log
	for id := range uint64(10) {
		l := s.log(id, false)
		logs = append(logs, l)
		for range 5 {
			s.appendN(l, 2, 16)
			l.WantDurable()
		}
	}
	s.urge()
	for _, l := range logs {
		if l.Durable() != 10 {
			t.Errorf("log %d: durable %d", l.ID(), l.Durable())
		}
	}
	if st := s.Stats(); commits != 1 || st.Writes != 10 || st.Cycles != 1 {
		t.Errorf("%d commits, %+v; want 1 commit, a write per log with header and extent", commits, st)
	}
	syncs := s.Stats().Syncs
	for _, l := range logs {
		l.WantDurable()
	}
	s.urge()
	if st := s.Stats(); st.Syncs != syncs || commits != 1 {
		t.Errorf("durable logs were synced again: %d syncs, %d commits", st.Syncs-syncs, commits)
	}
}

func TestLog_WantDurableOfSettledRecordsCostsNothing(t *testing.T) {
	s := openTest(t, testOptions{})
	defer s.close()
	l := s.log(1, false)
	s.appendN(l, 10, 16)
	l.WantDurable()
	l.Settle(0, 10)
	s.urge()
	if st := s.Stats(); l.Durable() != 10 || st.Writes != 0 || st.Syncs != 0 {
		t.Errorf("durable %d, %+v", l.Durable(), st)
	}
}

func TestLog_DurabilityOSDoesNotSyncForConfirms(t *testing.T) {
	s := openTest(t, testOptions{os: true})
	defer s.close()
	l := s.log(1, false)
	s.appendN(l, 10, 16)
	l.WantDurable()
	s.urge()
	if st := s.Stats(); l.Durable() != 10 || st.Syncs != 0 {
		t.Errorf("durable %d, %d syncs", l.Durable(), st.Syncs)
	}
	s.syncTick()
	if st := s.Stats(); st.Syncs == 0 {
		t.Error("nothing was synced at the sync interval")
	}
}

// A sealed segment must not hide that its batches are durable.
func TestLog_DurableMovesWhenASegmentIsSealed(t *testing.T) {
	s := openTest(t, testOptions{segment: 1 << 10})
	defer s.close()
	l := s.log(1, false)
	for range 10 {
		s.appendN(l, 10, 100)
		l.WantDurable()
		s.urge()
		if l.Durable() != l.Next() {
			t.Fatalf("durable %d, next %d", l.Durable(), l.Next())
		}
	}
	if len(l.segments) != 10 || !l.segments[8].sealed || l.segments[9].sealed {
		t.Errorf("%d segments, the last but one sealed: %v", len(l.segments), l.segments[8].sealed)
	}
}

func TestStore_AnEmptiedLogKeepsNoSegmentAndItsOffsets(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: 1 << 10})
	l := s.log(1, false)
	for range 10 {
		s.appendN(l, 10, 100)
		s.tick()
	}
	s.syncTick()
	l.Settle(5, 90)
	s.tick()
	if got := len(l.segments); got != 2 {
		t.Fatalf("%d segments with unsettled records at both ends", got)
	}
	l.Settle(0, 100)
	s.tick()
	if got := len(l.segments); got != 1 {
		t.Fatalf("%d segments of an empty log before it is quiet", got)
	}
	s.syncTick()
	s.syncTick()
	if names := d.names(l.dir()); len(names) != 1 || names[0] != settledName {
		t.Errorf("files of an empty log: %v", names)
	}
	if len(s.dirty)+len(s.slow)+len(s.urgent) != 0 {
		t.Errorf("an idle log is listed: %d dirty, %d slow", len(s.dirty), len(s.slow))
	}
	s.crash()
	d.losePower(func() bool { return false })
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	l = s.log(1, false)
	if l.Next() != 100 || l.Unsettled() != 0 {
		t.Errorf("next %d, unsettled %d", l.Next(), l.Unsettled())
	}
	if base := s.appendN(l, 1, 10); base != 100 {
		t.Errorf("base %d", base)
	}
}

func TestStore_TenThousandDirtyLogsInBoundedFiles(t *testing.T) {
	n := uint64(10_000)
	if testing.Short() {
		n = 500
	}
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	for id := range n {
		l := s.log(id, false)
		s.appendN(l, 2, 16)
		l.WantDurable()
	}
	s.urge()
	if got := s.Stats().OpenFiles; got > s.tune.filesMax {
		t.Errorf("%d open files", got)
	}
	for id, l := range s.logs {
		if l.Durable() != 2 {
			t.Fatalf("log %d: durable %d", id, l.Durable())
		}
		l.Settle(0, 1)
	}
	if got := s.Stats().ResidentBytes; got > 8<<20 {
		t.Errorf("%d bytes resident", got)
	}
	s.close()
	s = openTest(t, testOptions{disk: d})
	ids, err := s.ListLogs()
	if err != nil || uint64(len(ids)) != n {
		t.Fatalf("%d logs, %v", len(ids), err)
	}
	for _, id := range ids {
		if l := s.log(id, false); l.Next() != 2 || l.Low() != 1 {
			t.Fatalf("log %d: next %d, low %d", id, l.Next(), l.Low())
		}
	}
	s.close()
}

func TestStore_ClosedStoreRefuses(t *testing.T) {
	s := openTest(t, testOptions{})
	l := s.log(1, false)
	s.appendN(l, 1, 1)
	s.close()
	s.close()
	b := NewBatch(s.arena)
	if _, err := l.Append(b); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.OpenLog(2, LogOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	r := l.NewReader()
	if err := r.Seek(0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("seek: %v", err)
	}
	r.Close()
	l.Settle(0, 1)
	l.WantDurable()
	if err := l.Delete(); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestStore_SettledFileIsRewrittenWhenLong(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.settledBytes = 4 << 10 }})
	l := s.log(1, false)
	s.appendN(l, 5000, 16)
	s.syncTick()
	s.syncTick()
	for i := uint64(1); i < 4000; i += 2 {
		l.Settle(i, 1)
		if i%16 == 1 {
			s.tick()
		}
	}
	for i := uint64(0); i < 4000; i += 2 {
		l.Settle(i, 1)
		s.tick()
	}
	if n := len(d.content(l.path(settledName))); n > 4<<10 {
		t.Errorf("the settled file has %d bytes for one watermark", n)
	}
	s.crash()
	d.revive()
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	l = s.log(1, false)
	if l.Low() != 4000 || l.Unsettled() != 1000 {
		t.Errorf("low %d, unsettled %d", l.Low(), l.Unsettled())
	}
}

func TestLog_BytesFollowsTheBacklog(t *testing.T) {
	s := openTest(t, testOptions{})
	defer s.close()
	l := s.log(1, false)
	if l.Bytes() != 0 {
		t.Errorf("%d bytes in an empty log", l.Bytes())
	}
	for range 10 {
		s.appendN(l, 100, 100)
	}
	if got := l.Bytes(); got < 100_000 || got > 110_000 {
		t.Errorf("%d bytes for 1000 records of 100", got)
	}
	l.Settle(0, 900)
	if got := l.Bytes(); got < 10_000 || got > 11_000 {
		t.Errorf("%d bytes for 100 records of 100", got)
	}
}
