package segstore

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// punchStore is a store on real files.
type punchStore struct {
	*testStore
	dir  string
	disk disk.Disk
}

func openPunchStore(t *testing.T, dir string, change func(o *Options)) *punchStore {
	t.Helper()
	d, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := openTest(t, testOptions{disk: d, change: func(o *Options) {
		o.tune.aheadBytes = 4 << 10
		if change != nil {
			change(o)
		}
	}})
	return &punchStore{s, dir, d}
}

func (s *punchStore) stop(t *testing.T, crash bool) {
	t.Helper()
	if crash {
		s.crash()
	} else {
		s.close()
	}
	if err := s.disk.Close(); err != nil {
		t.Error(err)
	}
}

// punchAll lets the store look for space until nothing is left to do.
func (s *testStore) punchAll() {
	s.t.Helper()
	for range 3 {
		s.syncTick()
	}
	for before := ^uint64(0); before != s.punches.Load(); {
		before = s.punches.Load()
		for range 4 {
			s.syncTick()
			s.puncher.group.Wait()
		}
	}
}

// found returns the offsets that can be read.
func (s *testStore) found(l *Log) []uint64 {
	s.t.Helper()
	r := l.NewReader()
	defer r.Close()
	return s.readAll(r, 0, l.Next())
}

// allocated is the bytes that files below dir take on the file system.
func allocated(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// needsHoles skips the test where the file system of dir has none.
func needsHoles(t *testing.T, dir string) {
	t.Helper()
	d, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	f, err := d.Open("probe", disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := disk.Run(d, &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, 64<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Len: 64 << 10}); err != nil {
		t.Skipf("the file system of %s has no holes: %v", dir, err)
	}
	if err := d.Remove("probe"); err != nil {
		t.Fatal(err)
	}
}

// fillLog appends batches of n records of size bytes, written and synced.
func (s *testStore) fillLog(l *Log, batches, n, size int) {
	s.t.Helper()
	for i := range batches {
		s.appendN(l, n, size)
		if i%64 == 63 {
			s.syncTick()
		}
	}
	for range 3 {
		s.syncTick()
	}
}

// TestPunch_OneOldRecord: gigabytes scaled down: one unsettled record in front
// of settled ones costs a batch and a few blocks, also after a restart.
func TestPunch_OneOldRecord(t *testing.T) {
	for _, test := range []struct {
		name          string
		segment       int64
		batches, size int
		crash         bool
	}{
		{"small segments", 4 << 20, 400, 1000, false},
		{"small segments, killed", 4 << 20, 400, 1000, true},
		{"default segments", 64 << 20, 3200, 1000, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && test.segment > 4<<20 {
				t.Skip("writes 200 MiB")
			}
			dir := t.TempDir()
			needsHoles(t, dir)
			options := func(o *Options) { o.SegmentBytes = test.segment }
			s := openPunchStore(t, dir, options)
			l := s.log(1, false)
			s.fillLog(l, test.batches, 64, test.size)
			full := allocated(t, filepath.Join(dir, l.dir()))
			if want := int64(test.batches) * 64 * int64(test.size); full < want {
				t.Fatalf("%d bytes are allocated for %d", full, want)
			}
			l.Settle(1, l.Next()-1)
			s.punchAll()
			check := func(when string) {
				t.Helper()
				// The first segment's batch, blocks at the hole's ends, and the last
				// segment: it is not sealed, or was only by Close.
				last := l.segments[len(l.segments)-1].end
				if when == "reopened and looked at" && last >= s.tune.sealBytes {
					last = 0
				}
				if got := allocated(t, filepath.Join(dir, l.dir())); got > 256<<10+last {
					t.Errorf("%s: %d of %d bytes are still allocated, the last segment has %d", when, got, full, last)
				}
				if got := allocated(t, filepath.Join(dir, "journal")); got > 1<<20 {
					t.Errorf("%s: the journal has %d bytes", when, got)
				}
				if n := l.settled.intervals(); n != 1 || l.Unsettled() != 1 {
					t.Errorf("%s: %d settled ranges, %d unsettled records", when, n, l.Unsettled())
				}
				if found := s.found(l); !slices.Contains(found, 0) {
					t.Errorf("%s: record 0 is not found", when)
				}
				if n := s.Stats().CorruptBatches; n != 0 {
					t.Errorf("%s: %d corrupt batches", when, n)
				}
			}
			check("punched")
			s.stop(t, test.crash)

			s = openPunchStore(t, dir, options)
			l = s.log(1, false)
			check("reopened")
			punches := s.punches.Load()
			s.punchAll()
			check("reopened and looked at")
			if again := s.punches.Load() - punches; !test.crash && again > 1 { // Close sealed the last segment
				t.Errorf("%d punches after a clean stop", again)
			}
			l.Settle(0, 1)
			for range 4 {
				s.syncTick()
			}
			if names := segmentNames(t, filepath.Join(dir, l.dir())); len(names) != 0 {
				t.Errorf("all is settled, and there are %q", names)
			}
			s.stop(t, false)
		})
	}
}

func segmentNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := parseSegmentName(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestPunch_ScatteredRecords: every thousandth record is unsettled; each keeps
// its batch and a block or two.
func TestPunch_ScatteredRecords(t *testing.T) {
	for _, test := range []struct {
		name              string
		records, size     int
		keptPer, ofRecord int64
	}{
		{"small batches", 10, 20, 12 << 10, 20_000},
		{"batches of 16 KiB", 16, 1000, 16<<10 + 8<<10, 1_000_000},
		{"batches of 64 KiB", 64, 1000, 64<<10 + 8<<10, 1_000_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			needsHoles(t, dir)
			options := func(o *Options) { o.SegmentBytes = 4 << 20 }
			s := openPunchStore(t, dir, options)
			l := s.log(1, false)
			s.fillLog(l, (16<<20)/(test.records*test.size), test.records, test.size)
			for first := uint64(1); first < l.Next(); first += 1000 {
				l.Settle(first, min(999, l.Next()-first))
			}
			survivors := int64(l.Unsettled())
			s.punchAll()
			check := func(when string) {
				t.Helper()
				last := l.segments[len(l.segments)-1]
				budget := survivors*test.keptPer + 256<<10
				if !last.sealed {
					budget += last.end
				}
				if got := allocated(t, filepath.Join(dir, l.dir())); got > budget {
					t.Errorf("%s: %d bytes are allocated for %d unsettled records, at most %d wanted", when, got, survivors, budget)
				}
				if got := s.found(l); int64(len(slices.DeleteFunc(got, func(o uint64) bool { return o%1000 != 0 }))) != survivors {
					t.Errorf("%s: not all of %d records are found", when, survivors)
				}
				if n := s.Stats().CorruptBatches; n != 0 {
					t.Errorf("%s: %d corrupt batches", when, n)
				}
			}
			check("punched")
			s.stop(t, true)
			s = openPunchStore(t, dir, options)
			l = s.log(1, false)
			check("killed")
			s.punchAll()
			check("killed and looked at")
			s.stop(t, false)
			s = openPunchStore(t, dir, options)
			l = s.log(1, false)
			s.punchAll()
			if n := s.punches.Load(); n > uint64(survivors) { // the last segment's, sealed by Close
				t.Errorf("%d holes punched after a clean stop", n)
			}
			check("stopped")
			s.stop(t, false)
		})
	}
}
