package segstore

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// smallPunches makes holes of single blocks in segments of 64 KiB.
func smallPunches(o *Options) {
	o.SegmentBytes, o.PunchBytes, o.JournalBytes = 64<<10, 1, 64<<10
	o.tune.indexBytes, o.tune.sealBytes, o.tune.aheadBytes = 4<<10, 1<<10, 4<<10
}

// settleBut settles all below end but for every nth.
func settleBut(l *Log, end, nth uint64) {
	for first := uint64(1); first < end; first += nth {
		l.Settle(first, min(nth-1, end-first))
	}
}

// punchScenario makes holes around every 200th record, and larger ones when
// most of these are settled too. It returns the operations of the disk before
// the first hole.
func punchScenario(s *testStore, l *Log, d *sim.Disk, crashAfter int64) (before int64) {
	b := NewBatch(s.arena)
	defer b.Release()
	for batch := range uint64(200) {
		b.Reset(7)
		for i := range 10 + batch%7 {
			b.Add(b.Template([]byte("exchange"), []byte("key"), nil), bodyOf(l.Next()+i, int(60+(37*batch+i)%90)))
		}
		if _, err := l.Append(b); err != nil {
			s.t.Fatal(err)
		}
	}
	for range 3 {
		s.syncTick()
	}
	before = d.Changes()
	d.CrashAfter(crashAfter)
	settleBut(l, l.Next(), 200)
	for range 5 {
		s.syncTick()
		s.puncher.group.Wait()
	}
	settleBut(l, l.Next(), 600)
	for range 5 {
		s.syncTick()
		s.puncher.group.Wait()
	}
	return before
}

// checkWhole walks a segment from batch to batch and hole to hole: all of it
// must be one or the other.
func (s *testStore) checkWhole(l *Log) {
	s.t.Helper()
	for _, seg := range l.segments {
		h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
		if err != nil {
			s.t.Fatal(err)
		}
		sc := scanner{store: s.Store, file: h.file, limit: seg.size, block: allocBytes}
		for pos := int64(segmentHeaderBytes); pos < sc.limit; {
			batch, err := sc.batch(pos)
			if err != nil {
				s.t.Fatalf("segment %d at %d: %v", seg.base, pos, err)
			}
			pos += int64(batchLength(batch))
		}
		sc.release()
		s.files.release(h)
	}
}

// TestPunch_CrashAtEveryOperation cuts the power, and kills, at every operation
// of the making of holes. What was unsettled is there, what was settled on
// stable storage stays so, and no hole looks like damage.
func TestPunch_CrashAtEveryOperation(t *testing.T) {
	run := func(d *sim.Disk, crashAfter int64) (before int64, low uint64, holes uint64) {
		s := openTest(t, testOptions{disk: d, change: smallPunches})
		l := s.log(1, false)
		before = punchScenario(s, l, d, crashAfter)
		defer s.Crash()
		return before, l.Low(), s.punches.Load()
	}
	seeds := uint64(5)
	if testing.Short() {
		seeds = 1
	}
	d := sim.New(sim.Options{Seed: 1})
	before, _, holes := run(d, 0)
	operations := d.Changes() - before
	if operations < 20 || holes < 8 {
		t.Fatalf("%d holes in %d operations", holes, operations)
	}
	for seed := range seeds {
		for n := int64(1); n <= operations; n++ {
			d := sim.New(sim.Options{Seed: seed})
			run(d, n)
			for _, after := range []struct {
				name string
				disk *sim.Disk
			}{{"power cut", d.PowerCut()}, {"kill", d.Kill()}} {
				t.Run(fmt.Sprintf("%s seed %d operation %d", after.name, seed, n), func(t *testing.T) {
					s := openTest(t, testOptions{disk: after.disk, change: smallPunches})
					l := s.log(1, false)
					for range 2 {
						r := l.NewReader()
						s.checkWhole(l)
						there := map[uint64]bool{}
						for _, o := range s.readAll(r, 0, l.Next()) {
							there[o] = true
						}
						r.Close()
						for from := uint64(0); ; {
							first, count := l.NextUnsettled(from, 1)
							if count == 0 {
								break
							}
							if !there[first] {
								t.Fatalf("record %d is unsettled and missing", first)
							}
							from = first + 1
						}
						for o := uint64(0); o < l.Next(); o += 600 {
							if !there[o] || l.Low() > 0 {
								t.Fatalf("record %d is lost", o)
							}
						}
						if n := s.Stats().CorruptBatches; n > 0 {
							t.Fatalf("%d corrupt batches: %q", n, s.lines.all())
						}
						settleBut(l, l.Next(), 600)
						s.punchAll()
					}
					s.close()
				})
			}
		}
	}
}
