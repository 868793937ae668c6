package segstore

import (
	"fmt"
	"testing"
)

func TestStore_PressureRisesAndIsRelieved(t *testing.T) {
	for _, transient := range []bool{false, true} {
		t.Run(fmt.Sprint("transient ", transient), func(t *testing.T) {
			commits := 0
			s := openTest(t, testOptions{change: func(o *Options) {
				o.TailBytesHigh, o.OnCommit = 200_000, func() { commits++ }
				o.tune.keptBytes = 1
			}})
			defer s.close()
			l := s.log(1, transient)
			for !s.Pressured() {
				s.appendN(l, 100, 100)
				if s.Stats().UnwrittenBytes > 300_000 {
					t.Fatal("no pressure")
				}
			}
			for range 2 {
				if wait, p := s.nextPass(); p.tick && wait == 0 {
					t.Fatal("the clock stands still, but a tick is due")
				}
				s.tick()
			}
			if s.Pressured() || s.Stats().UnwrittenBytes != 0 || s.Stats().ResidentBytes != 0 {
				t.Errorf("still pressured: %+v", s.Stats())
			}
			if commits == 0 {
				t.Error("OnCommit was not called")
			}
			r := l.NewReader()
			defer r.Close()
			if got := s.readAll(r, 0, l.Next()); uint64(len(got)) != l.Next() {
				t.Errorf("%d records of %d", len(got), l.Next())
			}
		})
	}
}

// Parked transient logs are on no other list; memory pressure alone must make
// the flusher come.
func TestStore_ParkedLogsAreWrittenWhenMemoryGetsShort(t *testing.T) {
	clock := newFakeClock()
	s := openTest(t, testOptions{clock: clock, change: func(o *Options) { o.TailBytesHigh = 400_000 }})
	defer s.close()
	l := s.log(1, true)
	s.appendN(l, 500, 100)
	s.tick()
	s.tick()
	if len(s.parked) != 1 || len(s.dirty) != 0 {
		t.Fatalf("%d parked, %d dirty", len(s.parked), len(s.dirty))
	}
	if wait, _ := s.nextPass(); wait < s.o.SyncInterval {
		t.Fatalf("the flusher wakes in %v for a parked log", wait)
	}
	other := s.log(2, true)
	s.appendN(other, 1000, 100)
	s.tick()
	if len(s.dirty) != 0 || len(s.parked) != 1 || !s.short() {
		t.Fatalf("%d dirty, %d parked, short %v", len(s.dirty), len(s.parked), s.short())
	}
	clock.now = clock.now.Add(s.o.FlushInterval)
	if wait, p := s.nextPass(); wait > 0 || !p.tick {
		t.Errorf("wait %v, tick %v with parked logs and memory short", wait, p.tick)
	}
	s.tick()
	if s.short() || other.segments == nil {
		t.Errorf("%d bytes unwritten", s.Stats().UnwrittenBytes)
	}
}

func TestStore_TransientLogsAreGoneAfterReopening(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.fullBytes = 1 }})
	l := s.log(1, true)
	if l.Durable() != l.Next() {
		t.Error("a transient log promises something")
	}
	for range 100 {
		s.appendN(l, 100, 100)
	}
	s.urge()
	if s.Stats().Writes == 0 || s.Stats().Syncs != 0 {
		t.Errorf("full chunks of a transient log: %+v", s.Stats())
	}
	s.close()
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	if l := s.log(1, true); l.Next() != 0 {
		t.Errorf("next %d", l.Next())
	}
	if names := d.names(transientDir); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
