package sim

import (
	"errors"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// TestCrashAfter_LastCallMayHaveHappened: the caller can't know.
func TestCrashAfter_LastCallMayHaveHappened(t *testing.T) {
	for name, tc := range map[string]struct {
		last     func(d *Disk, f disk.File) error
		happened func(d *Disk) bool // asked of a Disk without power cuts left in it
	}{
		"create": {
			func(d *Disk, _ disk.File) error { _, err := d.Open("g", disk.CreateNew); return err },
			func(d *Disk) bool { return len(d.Files()) == 2 },
		},
		"rename": {
			func(d *Disk, _ disk.File) error { return d.Rename("f", "g") },
			func(d *Disk) bool { return d.Files()[0] == "g" },
		},
		"write": {
			func(d *Disk, f disk.File) error { return write(d, f, 0, []byte("0123456789")) },
			func(d *Disk) bool { data, _ := d.ReadFile("f"); return len(data) > 5 },
		},
		"truncate": {
			func(d *Disk, f disk.File) error {
				return disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f})
			},
			func(d *Disk) bool { data, _ := d.ReadFile("f"); return len(data) == 0 },
		},
		"punch": {
			func(d *Disk, f disk.File) error {
				return disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Len: 1})
			},
			func(d *Disk) bool { data, _ := d.ReadFile("f"); return data[0] == 0 },
		},
	} {
		yes := 0
		for seed := range uint64(50) {
			d := New(Options{Seed: seed})
			f := durableFile(t, d, "f", []byte("x"))
			d.CrashAfter(2)
			if err := disk.Run(d, &disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, 1)}); err != nil {
				t.Fatal(err) // does not count
			}
			must(t, d.SyncDir(""))
			if err := tc.last(d, f); !errors.Is(err, ErrPowerCut) {
				t.Fatalf("%s at the crash point: %v", name, err)
			}
			if tc.happened(d.Kill()) {
				yes++
			}
		}
		if yes == 0 || yes == 50 {
			t.Errorf("%s happened in %d of 50 crashes", name, yes)
		}
	}
}

// TestCrashAfter_LastSyncMayHaveHappened: Sync and SyncDir, too.
func TestCrashAfter_LastSyncMayHaveHappened(t *testing.T) {
	for name, last := range map[string]func(d *Disk, f disk.File) error{
		"sync":    func(d *Disk, f disk.File) error { return syncFile(d, f) },
		"syncdir": func(d *Disk, _ disk.File) error { return d.SyncDir("") },
	} {
		certain := 0
		for seed := range uint64(50) {
			d := New(Options{Seed: seed})
			f := durableFile(t, d, "f", []byte("x"))
			must(t, write(d, f, 0, []byte("y")))
			must(t, d.Rename("f", "g"))
			d.CrashAfter(1)
			if err := last(d, f); !errors.Is(err, ErrPowerCut) {
				t.Fatalf("%s at the crash point: %v", name, err)
			}
			always := true
			for range 30 {
				after := d.PowerCut()
				if name == "syncdir" {
					always = always && after.Files()[0] == "g"
				} else {
					always = always && string(contentOf(t, after, after.Files()[0])) == "y"
				}
			}
			if always {
				certain++
			}
		}
		if certain == 0 || certain == 50 {
			t.Errorf("%s happened in %d of 50 crashes", name, certain)
		}
	}
}

func TestCrashAfter_CanBeTakenBack(t *testing.T) {
	d := New(Options{})
	d.CrashAfter(1)
	d.CrashAfter(0)
	must(t, d.SyncDir(""))
	select {
	case <-d.Crashed():
		t.Error("crashed")
	default:
	}
}

func TestKill_KeepsWhatIsUnsyncedUnsynced(t *testing.T) {
	lost := map[string]int{}
	for seed := range uint64(50) {
		d := New(Options{Seed: seed})
		f := durableFile(t, d, "f", []byte("old"))
		must(t, write(d, f, 0, []byte("new")))
		must(t, d.Rename("f", "g"))
		killed := d.Kill()
		if got := contentOf(t, killed, "g"); string(got) != "new" {
			t.Fatalf("a kill lost data: %q", got)
		}
		after := killed.PowerCut()
		name := after.Files()[0]
		lost[name]++
		lost[string(contentOf(t, after, name))]++
	}
	for _, outcome := range []string{"f", "g", "old", "new"} {
		if lost[outcome] == 0 {
			t.Errorf("%q never happened: %v", outcome, lost)
		}
	}
}

// TestDisk_BufferIsTheCallersAfterDone: what is unsynced does not change with it.
func TestDisk_BufferIsTheCallersAfterDone(t *testing.T) {
	d := New(Options{})
	f := durableFile(t, d, "f", nil)
	buf := []byte("first")
	must(t, write(d, f, 0, buf))
	copy(buf, "other")
	must(t, syncFile(d, f))
	if got := contentOf(t, d.PowerCut(), "f"); string(got) != "first" {
		t.Errorf("after the cut: %q", got)
	}
}
