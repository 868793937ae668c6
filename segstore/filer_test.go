package segstore

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// slowDisk keeps the writes to segments until they are let go.
type slowDisk struct {
	*memDisk
	mu   sync.Mutex
	slow bool
	kept []*disk.Op
}

func (d *slowDisk) Submit(ops []*disk.Op) {
	d.mu.Lock()
	var rest []*disk.Op
	for _, op := range ops {
		if d.slow && op.Kind == disk.Write && strings.HasSuffix(op.File.Name(), segmentSuffix) {
			d.kept = append(d.kept, op)
		} else {
			rest = append(rest, op)
		}
	}
	d.mu.Unlock()
	d.memDisk.Submit(rest)
}

func (d *slowDisk) letGo() {
	d.mu.Lock()
	kept := d.kept
	d.slow, d.kept = false, nil
	d.mu.Unlock()
	d.memDisk.Submit(kept)
}

// openSlow opens a store whose logs are spilled at each flush tick, by the filer.
func openSlow(t *testing.T, d *slowDisk, change func(o *Options)) *testStore {
	return openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) {
		o.tune.manual, o.tune.now = false, nil
		o.HeldBytes, o.tune.heldFactor = 1, 1<<40
		if change != nil {
			change(o)
		}
	}})
}

// ticks lets some flush ticks pass. Only in a bubble of synctest.
func ticks(n int) {
	for range n {
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
}

// confirmed appends a record and says whether it gets durable.
func (s *testStore) confirmed(l *Log) bool {
	s.t.Helper()
	base := s.appendN(l, 1, 20)
	l.WantDurable()
	synctest.Wait()
	return l.Durable() > base
}

// While the files of one log are being written, the journal takes what others and
// the log itself take in: nobody waits for a spill.
func TestFiler_GroupsGoOnBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{memDisk: newMemDisk(), slow: true}
		s := openSlow(t, d, nil)
		l, other := s.log(1, false), s.log(2, false)
		if !s.confirmed(l) {
			t.Fatal("not durable without the filer")
		}
		ticks(3)
		if len(d.kept) == 0 || s.filer.idle() {
			t.Fatal("the filer is not at work")
		}
		for range 3 {
			if !s.confirmed(other) || !s.confirmed(l) {
				t.Fatal("a confirm waits for the filer")
			}
			l.Settle(l.Low(), 1)
			l.Roll()
			ticks(1)
		}
		if size := l.segments[0].size; size != segmentHeaderBytes {
			t.Errorf("%d bytes of the segment can be read before they are written", size)
		}
		d.letGo()
		ticks(3)
		if held := s.Stats().HeldBytes; held != 0 || !s.filer.idle() || !l.rolling() {
			t.Errorf("%d bytes are held afterwards, a roll is due: %v", held, l.rolling())
		}
		s.close()
		s = openTest(t, testOptions{disk: d.memDisk, journal: true})
		l, other = s.log(1, false), s.log(2, false)
		if l.Low() != 3 || l.Next() != 4 || other.Low() != 0 || other.Next() != 3 {
			t.Errorf("found [%d, %d) and [%d, %d)", l.Low(), l.Next(), other.Low(), other.Next())
		}
		s.close()
	})
}

// Memory is bounded: when the journal alone has too much, the flusher waits.
func TestFiler_BoundsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{memDisk: newMemDisk(), slow: true}
		s := openSlow(t, d, func(o *Options) { o.HeldBytes, o.tune.heldFactor = 4<<10, 3 })
		first := s.log(1, false)
		s.confirmed(first)
		s.confirmed(s.log(2, false))
		ticks(3)
		if len(d.kept) == 0 {
			t.Fatal("the filer is not at work")
		}
		var id uint64
		for id = 3; s.confirmed(s.log(id, false)); id++ {
			if id > 20 {
				t.Fatal("nothing bounds what only the journal has")
			}
		}
		d.letGo()
		ticks(2)
		if l := s.log(100, false); !s.confirmed(l) {
			t.Error("confirms do not go on after the filer")
		}
		s.close()
	})
}

// A log that is deleted while the filer has it is removed afterwards, by the
// flusher.
func TestFiler_LogDeletedInItsHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{memDisk: newMemDisk(), slow: true}
		s := openSlow(t, d, nil)
		l := s.log(1, false)
		s.confirmed(l)
		ticks(3)
		if err := l.Delete(); err != nil || len(d.kept) == 0 {
			t.Fatal(err, len(d.kept))
		}
		ticks(2)
		if d.find(l.dir()) == nil {
			t.Error("the directory is removed while a write to it is under way")
		}
		d.letGo()
		ticks(2)
		if d.find(l.dir()) != nil || s.Stats().Logs != 0 {
			t.Errorf("the directory stays, or the log: %d", s.Stats().Logs)
		}
		s.close()
	})
}

// Close does at last what was given to the filer and not begun.
func TestFiler_CloseTakesItsWorkBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{memDisk: newMemDisk(), slow: true}
		s := openSlow(t, d, func(o *Options) { o.tune.waveLogs = 1 })
		for id := range uint64(5) {
			s.confirmed(s.log(id+1, false))
		}
		ticks(3)
		if len(d.kept) == 0 || len(s.filer.queue) == 0 {
			t.Fatalf("%d writes kept, %d logs queued", len(d.kept), len(s.filer.queue))
		}
		done := make(chan struct{})
		go func() {
			s.close()
			close(done)
		}()
		synctest.Wait()
		d.letGo()
		<-done
		s = openTest(t, testOptions{disk: d.memDisk, journal: true})
		for id := range uint64(5) {
			if l := s.log(id+1, false); l.Unsettled() != 1 || s.Stats().ReplayedEntries != 0 {
				t.Errorf("log %d has %d records, %d entries replayed after a clean stop", id+1, l.Unsettled(), s.Stats().ReplayedEntries)
			}
		}
		s.close()
	})
}

// While the filer waits for space the flusher goes on, and consumers of other logs
// make the space.
func TestFiler_WaitsForSpaceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{memDisk: newMemDisk()}
		s := openSlow(t, d, func(o *Options) { o.HeldBytes, o.tune.heldFactor = 4<<10, 1 })
		full := true
		d.fail = func(what, p string) error {
			if full && what == "write" && strings.HasSuffix(p, segmentSuffix) {
				return syscall.ENOSPC
			}
			return nil
		}
		for id := range uint64(4) {
			s.confirmed(s.log(id+1, false))
		}
		ticks(3)
		if !s.NoSpace() {
			t.Fatal("the disk is not full")
		}
		if !s.confirmed(s.log(99, false)) {
			t.Error("confirms wait for space that the journal does not need")
		}
		if !s.NoSpace() {
			t.Error("the disk counts as having space again because the journal needs none")
		}
		d.memDisk.mu.Lock()
		full = false
		d.memDisk.mu.Unlock()
		ticks(20)
		if s.NoSpace() || s.Stats().HeldBytes > 8<<10 {
			t.Errorf("no space: %v, held %d", s.NoSpace(), s.Stats().HeldBytes)
		}
		if lines := s.lines.all(); len(lines) != 2 {
			t.Errorf("log lines %v", lines)
		}
		s.close()
	})
}
