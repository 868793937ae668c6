package segstore

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// patience bounds the wait for what another goroutine does.
const patience = time.Minute

// fullUntil lets writes of segments find no space until ok; a test that waits for
// nothing ends by itself and fails.
func fullUntil(t *testing.T, d *memDisk, what string, ok func(try int) bool) {
	tries, space := 0, false
	d.fail = func(kind, p string) error {
		if kind != what || !strings.HasSuffix(p, segmentSuffix) || space {
			return nil
		}
		tries++
		space = ok(tries)
		if tries == 1000 {
			t.Errorf("there is no space after %d tries", tries)
			space = true
		}
		if space {
			return nil
		}
		return syscall.ENOSPC
	}
}

// Segments that were filled and not sealed yet, because nothing had to be synced,
// are all that consumers can give back.
func TestSpace_SettledSegmentsThatAreNotSealed(t *testing.T) {
	t.Run("written before", func(t *testing.T) { giveBackUnsealed(t, 1) })
	t.Run("written by what waits", func(t *testing.T) { giveBackUnsealed(t, 150) })
}

// giveBackUnsealed fills a disk, so many batches of 64 kB at a time.
func giveBackUnsealed(t *testing.T, batches int) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	d, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := openTest(t, testOptions{disk: d, segment: 1 << 20, change: func(o *Options) { o.tune.spaceWait = time.Millisecond }})
	l := s.log(1, false)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			for range batches {
				s.appendN(l, 64, 1000)
			}
			s.tick()
		}
		s.tick()
		s.tick()
	}()
	for deadline := time.Now().Add(patience); !s.NoSpace(); {
		if time.Now().After(deadline) {
			t.Fatal("the disk is not full")
		}
		<-time.After(time.Millisecond)
	}
	stop.Store(true)
	next := l.Next()
	for i, seg := range l.segments {
		if seg.sealed {
			t.Errorf("segment %d of %d is sealed", i, len(l.segments))
		}
	}
	l.Settle(0, next)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("all messages are settled, and there is no space")
	}
	if s.NoSpace() || l.Err() != nil {
		t.Errorf("no space: %v, %v", s.NoSpace(), l.Err())
	}
	s.appendN(l, 1, 1000)
	s.close()
	if names, err := os.ReadDir(dir + "/" + l.dir()); err != nil || len(names) > 3 {
		t.Errorf("files %v, %v", names, err)
	}
	s = openTest(t, testOptions{disk: d})
	if l := s.log(1, false); l.Next() != next+1 || l.Unsettled() != 1 {
		t.Errorf("next %d, want %d; unsettled %d", l.Next(), next+1, l.Unsettled())
	}
	s.close()
}

// A segment that the wave itself is to remove is removed before the wave waits on.
func TestSpace_DeadSegmentsOfTheWaveThatWaits(t *testing.T) {
	t.Run("of another log", func(t *testing.T) { waitWithDead(t, false) })
	t.Run("of the log that waits", func(t *testing.T) { waitWithDead(t, true) })
}

func waitWithDead(t *testing.T, same bool) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: 2000, change: func(o *Options) { o.tune.spaceWait = 1 }})
	full, other := s.log(1, false), s.log(2, false)
	for range 3 {
		s.appendN(full, 1, 1500)
		s.syncTick()
	}
	for range 3 {
		s.syncTick()
	}
	if n := len(full.segments); n != 3 || !full.segments[0].sealed || d.find(testSegment) == nil {
		t.Fatalf("%d segments", n)
	}
	full.Settle(0, 1)
	waits := other
	if same {
		waits = full
	}
	s.appendN(waits, 1, 100)
	waits.WantDurable()
	fullUntil(t, d, "write", func(int) bool { return d.find(testSegment) == nil })
	s.syncTick()
	if s.NoSpace() || waits.Durable() != waits.Next() {
		t.Errorf("no space: %v, durable %d of %d", s.NoSpace(), waits.Durable(), waits.Next())
	}
	s.close()
}

// What is to be written to a log that was deleted meanwhile needs no space.
func TestSpace_DeletedLogs(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.spaceWait = 1 }})
	l := s.log(1, false)
	s.appendN(l, 10, 100)
	deleted := false
	fullUntil(t, d, "write", func(try int) bool {
		if try == 3 {
			deleted = l.Delete() == nil
		}
		return false
	})
	s.tick()
	s.tick()
	if !deleted || s.NoSpace() {
		t.Errorf("deleted %v, no space %v", deleted, s.NoSpace())
	}
	d.fail = nil
	s.close()
}

// A disk may be too full for the name of a new segment.
func TestSpace_NoSpaceForAName(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.spaceWait = 1 }})
	l := s.log(1, false)
	s.appendN(l, 10, 100)
	fullUntil(t, d, "create", func(try int) bool { return try == 5 })
	l.WantDurable()
	s.urge()
	if l.Durable() != 10 || l.Err() != nil || s.NoSpace() {
		t.Errorf("durable %d, %v, no space %v", l.Durable(), l.Err(), s.NoSpace())
	}
	s.close()
}

// What is given back must not take the log's offsets with it, when the broker is
// killed before anything newer is written.
func TestSpace_OffsetsAreNotGivenAgain(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: 2000, change: func(o *Options) { o.tune.spaceWait = 1 }})
	l := s.log(1, false)
	for range 3 {
		s.appendN(l, 1, 1500)
		s.tick()
		s.tick()
	}
	if n := len(l.segments); n != 3 || l.segments[0].sealed || l.segments[2].size == segmentHeaderBytes {
		t.Fatalf("%d segments", n)
	}
	s.appendN(l, 1, 1500)
	fullUntil(t, d, "write", func(try int) bool {
		switch try {
		case 3:
			l.Settle(0, 3)
		case 20:
			d.left = 0
		}
		return false
	})
	s.tick()
	s.tick()
	s.crash()
	d.fail, d.left = nil, -1
	if names := d.names(testDir); len(names) > 3 {
		t.Errorf("nothing was given back: %v", names)
	}
	s = openTest(t, testOptions{disk: d})
	if l := s.log(1, false); l.Next() < 3 {
		t.Errorf("next %d: offsets would be given again", l.Next())
	}
	s.close()
}
