package segstore

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// orphanDisk is a disk whose journal has a log, 7, that no directory knows.
func orphanDisk(t *testing.T) *memDisk {
	t.Helper()
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	l := s.log(7, false)
	s.appendN(l, 3, 20)
	s.appendN(l, 2, 20)
	l.Settle(1, 1)
	l.WantDurable()
	s.urge()
	s.crash()
	d.revive()
	return d
}

// Whatever step of setting a log aside finds no space, the log is as it was:
// it can be set aside later, by this process or the next.
func TestQuarantine_GivesUpOnAFullDisk(t *testing.T) {
	for step := 0; ; step++ {
		for _, restart := range []bool{false, true} {
			d := orphanDisk(t)
			s := openTest(t, testOptions{disk: d, journal: true})
			left, struck := step, ""
			d.fail = func(what, p string) error {
				if !slices.Contains([]string{"write", "create", "mkdir", "rename"}, what) {
					return nil
				}
				if left--; left == -1 {
					struck = what + " " + p
					return syscall.ENOSPC
				}
				return nil
			}
			err := s.Quarantine(7)
			d.fail = nil
			if struck == "" {
				if err != nil || step < 6 {
					t.Errorf("%d steps, %v", step, err)
				}
				s.close()
				return
			}
			if !disk.IsNoSpace(err) || s.NoSpace() || s.Pressured() || s.Stats().FencedLogs != 0 || s.journal.err != nil {
				t.Fatalf("%s: %v, %+v", struck, err, s.Stats())
			}
			if ids, err := s.ListLogs(); err != nil || !slices.Equal(ids, []uint64{7}) {
				t.Fatalf("%s: logs %v, %v", struck, ids, err)
			}
			if restart {
				s.crash()
				d.revive()
				s = openTest(t, testOptions{disk: d, journal: true})
				l := s.log(7, false)
				r := l.NewReader()
				if got := s.readAll(r, 0, 5); len(got) < 4 || l.Next() != 5 || l.Unsettled() != 4 {
					t.Errorf("%s: records %v, next %d, unsettled %d", struck, got, l.Next(), l.Unsettled())
				}
				r.Close()
				s.crash()
				d.revive()
				s = openTest(t, testOptions{disk: d, journal: true})
			}
			if err := s.Quarantine(7); err != nil {
				t.Fatalf("%s: afterwards: %v", struck, err)
			}
			names := d.names(quarantineDir)
			if len(names) != 1 || !slices.Equal(d.names(quarantineDir+"/"+names[0]), []string{segmentName(0), settledName}) {
				t.Fatalf("%s: in quarantine %v", struck, names)
			}
			s.close()
		}
	}
}

// While the flusher waits for space it does nothing else: a start must not wait
// with it.
func TestQuarantine_WhileTheFlusherWaitsForSpace(t *testing.T) {
	d := orphanDisk(t)
	waiting := make(chan struct{}, 1)
	s := openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) {
		o.tune.manual, o.tune.now = false, nil
		o.OnCommit = func() {
			select {
			case waiting <- struct{}{}:
			default:
			}
		}
	}})
	defer s.close()
	d.mu.Lock()
	d.fail = func(what, p string) error {
		if what == "write" && strings.HasPrefix(p, "journal") {
			return syscall.ENOSPC
		}
		return nil
	}
	d.mu.Unlock()
	l := s.log(1, false)
	s.appendN(l, 1, 20)
	l.WantDurable()
	for !s.NoSpace() {
		<-waiting
	}
	if err := s.Quarantine(7); !disk.IsNoSpace(err) {
		t.Errorf("%v", err)
	}
	d.mu.Lock()
	d.fail = nil
	d.mu.Unlock()
	for l.Durable() < l.Next() {
		<-waiting
	}
	if err := s.Quarantine(7); err != nil {
		t.Error(err)
	}
}

// Batches that have no place in a segment any more are kept as well.
func TestQuarantine_KeepsStrays(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	l := s.log(7, false)
	s.appendN(l, 3, 20)
	l.WantDurable()
	s.urge()
	s.appendN(l, 300, 1000) // by-passes the journal, and takes the others with it
	l.WantDurable()
	s.urge()
	s.crash()
	name := l.path(segmentName(0))
	data := d.content(name)
	first := batchLength(data[segmentHeaderBytes:])
	clear(data[segmentHeaderBytes : segmentHeaderBytes+first]) // what a power cut can do to a write
	d.revive()
	d.put(name, data)
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	if err := s.Quarantine(7); err != nil {
		t.Fatal(err)
	}
	stray := d.content(fmt.Sprintf("%s/%s/%020d%s", quarantineDir, d.names(quarantineDir)[0], 0, straySuffix))
	if err := checkSegmentHeader(stray, 7, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := checkBatch(stray[segmentHeaderBytes:]); err != nil || n != first || len(stray) != segmentHeaderBytes+first {
		t.Errorf("%d bytes of %d in a file of %d, %v", n, first, len(stray), err)
	}
}

// A start whose replay needs more memory than it may, on a disk that has less
// space than it says, ends: what could not be written can be read.
func TestOpen_SpillOnAFullDiskDoesNotWait(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, journal: true})
	l := s.log(1, false)
	for range 20 {
		s.appendN(l, 10, 200)
		l.WantDurable()
		s.urge()
	}
	s.crash()
	d.revive()
	d.fail = func(what, p string) error {
		if what == "write" || what == "create" {
			return syscall.ENOSPC
		}
		return nil
	}
	s = openTest(t, testOptions{disk: d, journal: true, change: func(o *Options) { o.HeldBytes = 1 }})
	d.fail = nil
	l = s.log(1, false)
	r := l.NewReader()
	defer r.Close()
	if got := s.readAll(r, 0, 200); len(got) != 200 || l.Unsettled() != 200 {
		t.Errorf("%d records, %d unsettled", len(got), l.Unsettled())
	}
	if !disk.IsNoSpace(l.Err()) || s.NoSpace() {
		t.Errorf("%v, no space %v", l.Err(), s.NoSpace())
	}
	s.Crash()
}

// On a full disk what cannot be read stays where it is, and its offsets are not
// given again.
func TestOpen_UnreadableFilesStayOnAFullDisk(t *testing.T) {
	d := buildLog(t, 0, 3)
	d.put(testDir+"/00000000000000000099.seg", []byte("this is not a segment header, but it is long enough to be one ........"))
	d.put(testDir+"/notes.txt", []byte("mine"))
	d.put("logs/elsewhere/x", nil)
	d.fail = func(what, p string) error {
		if what == "rename" || what == "create" {
			return syscall.ENOSPC
		}
		return nil
	}
	s := openTest(t, testOptions{disk: d})
	if ids, err := s.ListLogs(); err != nil || !slices.Equal(ids, []uint64{1}) {
		t.Fatalf("logs %v, %v", ids, err)
	}
	l := s.log(1, false)
	d.fail = nil
	if base := s.appendN(l, 1, 1); base != 100 {
		t.Errorf("offset %d was given", base)
	}
	want := []string{segmentName(0), segmentName(99), "notes.txt"}
	if got := d.names(testDir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	s.close()
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	s.log(1, false)
	if d.find(testDir+"/"+segmentName(99)+quarantineSuffix) == nil || d.find(testDir+"/notes.txt"+quarantineSuffix) == nil {
		t.Errorf("files %v", d.names(testDir))
	}
}
