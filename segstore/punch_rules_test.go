package segstore

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestPunch_WaitsUntilSettledOnDisk: as long as the journal does not know that
// records are settled, or knows and is not synced, their space stays.
func TestPunch_WaitsUntilSettledOnDisk(t *testing.T) {
	for _, first := range []uint64{0, 1} { // the watermark moves, or a range is settled above it
		t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) {
			d := newMemDisk()
			s := openTest(t, testOptions{disk: d, change: smallPunches})
			l := s.log(1, false)
			s.fillLog(l, 40, 10, 200)
			l.Settle(first, 200)
			for range 4 {
				s.cycle(pass{sync: true}) // what was settled enters with flush ticks
				s.puncher.group.Wait()
			}
			if d.punched != 0 {
				t.Fatalf("%d bytes were punched before the journal had what was settled", d.punched)
			}
			s.punchAll()
			if d.punched == 0 {
				t.Fatal("nothing was punched in the end")
			}
			s.close()
		})
	}
}

func TestPunch_WaitsForTheRound(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: smallPunches})
	l := s.log(1, false)
	s.fillLog(l, 40, 10, 200)
	l.Settle(1, 200)
	s.punchAll()
	before := d.punched
	number := s.flusher.rounds + 1
	l.mu.Lock()
	l.settled.add(201, 290)
	l.punch.wanted = true
	l.enterPunch(&round{number: number}, pass{sync: true})
	decided := l.punch.next
	l.startPunch()
	l.mu.Unlock()
	s.puncher.group.Wait()
	if decided == nil || d.punched != before {
		t.Fatalf("punch %v, %d bytes punched before its round was synced", decided, d.punched-before)
	}
	l.mu.Lock()
	s.flusher.syncedRound.Store(number)
	l.startPunch()
	l.mu.Unlock()
	s.puncher.group.Wait()
	if d.punched == before {
		t.Fatal("nothing was punched when the round was synced")
	}
	s.close()
}

// TestPunch_MarkOfAFailedSync: a mark that a failed sync left in the page cache
// alone is written again before blocks are given back behind it.
func TestPunch_MarkOfAFailedSync(t *testing.T) {
	for seed := range uint64(30) {
		d := sim.New(sim.Options{Seed: seed})
		s := openTest(t, testOptions{disk: d, change: smallPunches})
		l := s.log(1, false)
		s.fillLog(l, 40, 10, 200)
		d.Inject(sim.Rule{Calls: sim.CallSync, Path: l.path(segmentName(0)), Err: syscall.EIO, Count: 1})
		l.Settle(1, 300)
		s.punchAll()
		if n := s.punches.Load(); n != 0 || d.Stats().SyncsFailed != 1 || l.Err() != nil {
			t.Fatalf("%d holes after %d failed syncs; the log's error is %v", n, d.Stats().SyncsFailed, l.Err())
		}
		d = d.Kill()
		s.crash()
		s = openTest(t, testOptions{disk: d, change: smallPunches})
		s.log(1, false)
		s.punchAll()
		if s.punches.Load() == 0 {
			t.Fatal("no hole in the second life")
		}
		d = d.PowerCut()
		s.crash()
		s = openTest(t, testOptions{disk: d, change: smallPunches})
		l = s.log(1, false)
		s.checkWhole(l)
		s.close()
	}
}

// noHoles is a disk whose file system has none.
type noHoles struct{ *memDisk }

func (d noHoles) Submit(ops []*disk.Op) {
	for _, op := range ops {
		if op.Kind == disk.Punch {
			op.Err = fmt.Errorf("punch: %w", syscall.EOPNOTSUPP)
			op.Done(op)
			continue
		}
		d.memDisk.Submit([]*disk.Op{op})
	}
}

// TestPunch_Unsupported: told once, and all goes on.
func TestPunch_Unsupported(t *testing.T) {
	s := openTest(t, testOptions{disk: noHoles{newMemDisk()}, change: smallPunches})
	for id := range uint64(3) {
		l := s.log(id+1, id == 2)
		s.fillLog(l, 40, 10, 200)
		l.Settle(1, 300)
		s.punchAll()
		if n := len(s.found(l)); n < 100 {
			t.Errorf("%d records are found", n)
		}
		s.checkWhole(l)
	}
	told := 0
	for _, line := range s.lines.all() {
		if strings.Contains(line, "cannot punch holes") {
			told++
		}
	}
	if told != 1 || s.punches.Load() != 0 {
		t.Errorf("told %d times, %d holes: %q", told, s.punches.Load(), s.lines.all())
	}
	s.close()
}

// TestPunch_DamageStaysDamage: a bad batch beside a hole, and a damaged mark, are
// reported; and nothing else is lost.
func TestPunch_DamageStaysDamage(t *testing.T) {
	for _, reopened := range []bool{false, true} {
		d := newMemDisk()
		s := openTest(t, testOptions{disk: d, change: func(o *Options) { smallPunches(o); o.tune.frontBytes = 1 }})
		l := s.log(1, false)
		s.fillLog(l, 60, 10, 200)
		settleBut(l, 200, 50)
		s.punchAll()
		name := l.path(segmentName(0))
		holes := l.segments[0].punched
		if len(holes) < 2 {
			t.Fatalf("holes %v", holes)
		}
		if reopened {
			s.crash()
			s = openTest(t, testOptions{disk: d, change: smallPunches})
			l = s.log(1, false)
		}
		data := d.content(name)
		data[holes[0].end+batchHeaderBytes+3] ^= 1 // in the live batch after the first hole
		live := data[holes[0].end:]
		lost := interval{batchBase(live), batchEnd(live)}
		d.mu.Lock()
		copy(d.find(name).data, data)
		d.mu.Unlock()
		want := uint64(0)
		for o := uint64(0); o < 200; o += 50 {
			if o < lost.first || o >= lost.end {
				want++
			}
		}
		got := uint64(0)
		for _, o := range s.found(l) {
			if o < 200 && o%50 == 0 {
				got++
			}
			if o >= lost.first && o < lost.end {
				t.Errorf("record %d is read from a damaged batch", o)
			}
		}
		if n := s.Stats().CorruptBatches; n != 1 || got != want {
			t.Errorf("reopened %v: %d corrupt batches, %d of %d survivors are found", reopened, n, got, want)
		}
		if !l.isSettled(lost.first+1, lost.end) || got == 0 {
			t.Fatalf("the batch %v is not the one meant", lost)
		}
		s.close()
	}
}

// TestPunch_WhileReading: who reads around holes that are being made finds what
// is unsettled, and takes nothing for damage.
func TestPunch_WhileReading(t *testing.T) {
	dir := t.TempDir()
	needsHoles(t, dir)
	s := openPunchStore(t, dir, func(o *Options) {
		smallPunches(o)
		o.SegmentBytes, o.tune.frontBytes, o.tune.blockBytes = 1<<20, 1, 16<<10
	})
	l := s.log(1, false)
	s.fillLog(l, 600, 10, 300)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := false; !last; {
				last = done.Load()
				there := 0
				for _, o := range s.found(l) {
					if o%600 == 0 {
						there++
					}
				}
				if there != 10 {
					t.Errorf("%d of the records to stay are found", there)
				}
			}
		})
	}
	for _, part := range []uint64{3, 10, 30, 100, 300, 600} { // holes begin small, and grow together
		for first := uint64(0); first < l.Next(); first += part {
			if first%600 == 0 {
				l.Settle(first+1, part-1)
			} else {
				l.Settle(first, part-1)
			}
		}
		for range 3 {
			s.syncTick()
			s.puncher.group.Wait()
		}
	}
	done.Store(true)
	readers.Wait()
	if n := s.Stats().CorruptBatches; n > 0 || s.punches.Load() < 5 {
		t.Errorf("%d holes, %d corrupt batches: %q", s.punches.Load(), n, s.lines.all())
	}
	s.checkWhole(l)
	s.stop(t, false)
}
