package segstore

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
)

// When both files are full, publishers feel pressure until the meta records of
// the older one are taken over; nothing blocks.
func TestCheckpoint_WaitsForTheMetaRecords(t *testing.T) {
	d := newMemDisk()
	var refuse atomic.Bool
	refuse.Store(true)
	asked := make(chan struct{}, 100)
	clock := newFakeClock()
	change := func(o *Options) {
		o.JournalBytes = 4 << 10
		o.OnMeta = func(uint64, []byte) error { return nil }
	}
	s := openTest(t, testOptions{disk: d, clock: clock, journal: true, change: change})
	defer s.close()
	s.SetMetaCheckpoint(func() error {
		defer func() { asked <- struct{}{} }()
		if refuse.Load() {
			return errors.New("not now")
		}
		return nil
	})
	l := s.log(1, false)
	s.AppendMeta(1, []byte("a definition"))
	s.urge()
	if s.MetaDurable() != 1 {
		t.Fatalf("meta durable %d", s.MetaDurable())
	}
	for !s.Pressured() {
		s.appendN(l, 10, 100)
		l.WantDurable()
		s.tick()
		if s.Stats().JournalBytes > 64<<10 {
			t.Fatal("no pressure")
		}
	}
	<-asked
	if l.Durable() != l.Next() {
		t.Errorf("durable %d of %d under pressure", l.Durable(), l.Next())
	}
	refuse.Store(false)
	for range 20 {
		clock.mu.Lock()
		clock.now = clock.now.Add(s.o.SyncInterval)
		clock.mu.Unlock()
		s.tick()
		s.journal.metaWork.Wait()
	}
	if s.Pressured() || s.Stats().Checkpoints == 0 {
		t.Errorf("pressured %v, %+v", s.Pressured(), s.Stats())
	}
}

// Quiet logs are carried from file to file and never get files of their own.
func TestCheckpoint_CarriesTinyTails(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.JournalBytes = 8 << 10 }})
	quiet, busy := s.log(1, false), s.log(2, false)
	s.appendN(quiet, 3, 20)
	quiet.Settle(1, 1)
	quiet.SetCursor(2)
	quiet.WantDurable()
	s.urge()
	for s.Stats().Checkpoints < 5 {
		base := s.appendN(busy, 10, 100)
		busy.WantDurable()
		s.tick()
		busy.Settle(base, 10)
	}
	if len(quiet.segments) != 0 || d.find(quiet.dir()) != nil {
		t.Error("the quiet log has files")
	}
	s.crash()
	d.losePower(func() bool { return false })
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	l := s.log(1, false)
	if l.Next() != 3 || l.Unsettled() != 2 || l.Cursor() != 2 {
		t.Errorf("next %d, unsettled %d, cursor %d", l.Next(), l.Unsettled(), l.Cursor())
	}
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 0, 3); !slices.Contains(got, 0) || !slices.Contains(got, 2) {
		t.Errorf("records %v", got)
	}
}

// When what is carried over is more than a file's size, it is not carried again
// until as much has been written: neither does an idle store go on with checkpoints,
// nor does each round of a busy one take one.
func TestCheckpoint_CarriesMoreThanAFile(t *testing.T) {
	s := openTest(t, testOptions{journal: true, change: func(o *Options) { o.JournalBytes = 1 << 10 }})
	defer s.close()
	var logs []*Log
	for id := range uint64(20) {
		l := s.log(1+id, false)
		s.appendN(l, 3, 100)
		l.WantDurable()
		logs = append(logs, l)
	}
	settle := func() {
		for range 10 {
			s.syncTick()
		}
	}
	settle()
	before := s.Stats()
	settle()
	idle := s.Stats()
	if idle.Checkpoints == 0 || idle.Checkpoints != before.Checkpoints || idle.JournalBytes != before.JournalBytes || s.Pressured() {
		t.Errorf("an idle store: pressured %v, %+v, before %+v", s.Pressured(), idle, before)
	}
	for i := range 20 {
		s.appendN(logs[i], 1, 100)
		logs[i].WantDurable()
		s.tick()
		if logs[i].Durable() != logs[i].Next() {
			t.Errorf("durable %d of %d", logs[i].Durable(), logs[i].Next())
		}
	}
	settle()
	busy := s.Stats()
	if n := busy.Checkpoints - idle.Checkpoints; n > 1 || s.Pressured() {
		t.Errorf("%d checkpoints in 20 rounds, pressured %v, %+v", n, s.Pressured(), busy)
	}
}

// A clean stop leaves nothing to replay.
func TestClose_LeavesACleanJournal(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	l := s.log(1, false)
	s.appendN(l, 10, 100)
	l.WantDurable()
	s.urge()
	s.close()
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	if st := s.Stats(); st.ReplayedEntries != 0 {
		t.Errorf("%d entries after a clean stop", st.ReplayedEntries)
	}
	if l := s.log(1, false); l.Unsettled() != 10 {
		t.Errorf("unsettled %d", l.Unsettled())
	}
}

// Logs that only the journal knows are listed, and can be set aside.
func TestQuarantine_OfALogInTheJournal(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	l, gone := s.log(7, false), s.log(8, false)
	for _, l := range []*Log{l, gone} {
		s.appendN(l, 3, 20)
		l.WantDurable()
	}
	s.urge()
	if err := gone.Delete(); err != nil {
		t.Fatal(err)
	}
	s.urge()
	s.crash()
	d.revive()
	s = openTest(t, testOptions{disk: d, journal: true})
	ids, err := s.ListLogs()
	if err != nil || !slices.Equal(ids, []uint64{7}) {
		t.Fatalf("logs %v, %v", ids, err)
	}
	if err := s.Quarantine(7); err != nil {
		t.Fatal(err)
	}
	if names := d.names(quarantineDir); len(names) != 1 || len(d.names(quarantineDir+"/"+names[0])) != 2 {
		t.Errorf("in quarantine: %v", names)
	}
	s.urge()
	s.crash()
	d.revive()
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	if ids, err := s.ListLogs(); err != nil || len(ids) != 0 {
		t.Errorf("logs %v, %v", ids, err)
	}
	if l := s.log(7, false); l.Next() != 0 {
		t.Errorf("next %d", l.Next())
	}
}

// A full disk fences nothing; when there is space again, the same write is done.
func TestSpace_AFullDiskLosesNothing(t *testing.T) {
	for _, large := range []bool{false, true} {
		t.Run(fmt.Sprint("large ", large), func(t *testing.T) {
			d := newMemDisk()
			full := true
			tries, told := 0, false
			var s *testStore
			s = openTest(t, testOptions{disk: d, journal: !large, change: func(o *Options) {
				o.tune.spaceWait = 1
				o.OnCommit = func() { told = told || s.NoSpace() && s.Pressured() }
			}})
			defer s.close()
			l := s.log(1, false)
			s.appendN(l, 10, 100)
			d.fail = func(kind, p string) error {
				if kind != "write" || !full {
					return nil
				}
				if tries++; tries == 7 {
					full = false
				}
				return syscall.ENOSPC
			}
			l.WantDurable()
			s.urge()
			if l.Durable() != 10 || l.Err() != nil || s.NoSpace() || s.Pressured() || tries < 7 || !told {
				t.Errorf("durable %d, %v, no space %v, pressure %v, %d tries, told %v", l.Durable(), l.Err(), s.NoSpace(), s.Pressured(), tries, told)
			}
			if lines := s.lines.all(); len(lines) != 2 {
				t.Errorf("log lines %v", lines)
			}
		})
	}
}
