package segstore

import (
	"slices"
	"testing"
)

// A start with many quiet logs in the journal makes no files for them, although
// they are together beyond the memory for such records; busy ones go to their
// segments. Beyond several times that memory all do.
func TestReplay_QuietLogsGetNoFiles(t *testing.T) {
	const quiet, busy = 200, 201
	for _, held := range []int64{64 << 10, 8 << 10} {
		d := newMemDisk()
		s := openTest(t, testOptions{disk: d, journal: true})
		for round := range 8 { // the last ones go beyond a piece
			for id := uint64(1); id <= quiet; id++ {
				if l := s.log(id, false); round < 3 || id == 7 {
					s.appendN(l, 2, 20)
					l.WantDurable()
				}
			}
			s.urge()
			s.crash()
			d.revive()
			s = openTest(t, testOptions{disk: d, journal: true})
		}
		l := s.log(busy, false)
		for range 40 {
			s.appendN(l, 10, 200)
			l.WantDurable()
			s.urge()
		}
		s.crash()
		d.revive()
		s = openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.HeldBytes = held }})
		files := d.names(logsDir)
		if wantAll := held < 10<<10; wantAll != (len(files) > quiet/2) || !slices.Contains(files, "00000000000000c9") {
			t.Errorf("held %d: %d logs have files", held, len(files))
		}
		if s.Stats().HeldBytes > quietHeldFactor*held {
			t.Errorf("held %d: %+v", held, s.Stats())
		}
		for id := uint64(1); id <= busy; id++ {
			l, want := s.log(id, false), 6
			switch id {
			case 7:
				want = 16
			case busy:
				want = 400
			}
			s.appendN(l, 1, 20)
			r := l.NewReader()
			if got := s.readAll(r, 0, l.Next()); len(got) != want+1 {
				t.Fatalf("log %d: %d records", id, len(got))
			}
			r.Close()
		}
		s.close()
	}
}
