package bodies

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestUnread: what cannot be listed is left alone until it can; others are served.
func TestUnread(t *testing.T) {
	d := sim.New(sim.Options{})
	f := open(t, d)
	data := body(5000)
	first, second := f.put(data, true, one), f.put(data, true, two)
	f.close()
	d = d.Kill()
	fault := d.Inject(sim.Rule{Path: one.path(), Calls: sim.CallReadDir | sim.CallLink | sim.CallRemove})
	f = open(t, d)
	left := f.store.Left()
	if len(left) != 2 || left[0].Log != one.Log || !errors.Is(left[0].Err, ErrUnread) || !errors.Is(left[0].Err, syscall.EIO) || left[0].IDs != nil ||
		left[1].Err != nil || !slices.Equal(left[1].IDs, []uint64{second.ID}) {
		t.Fatalf("left %+v", left)
	}
	if f.store.Unread(one) == nil || f.store.Unread(two) != nil || f.store.Unread(three) != nil {
		t.Error("one is unread, two and three are not")
	}
	f.store.Remove(one, []uint64{first.ID})
	f.store.nextID.Store(500)
	early := f.put(data, true, one, two)
	alone := f.put(data, true, one)
	linked, err := f.relink(two, second, true, three, one)
	if err != nil {
		t.Fatal(err)
	}
	f.want(two, early, data)
	f.want(three, linked, data)
	for _, ref := range []Ref{early, alone, linked} {
		if f.store.Lacks(one, ref) == nil {
			t.Errorf("%d has a name", ref.ID)
		}
	}
	if f.store.Lacks(two, early) != nil {
		t.Error("two lacks a body")
	}
	if _, err := f.store.Reread(one); !errors.Is(err, ErrUnread) {
		t.Error(err)
	}
	f.store.Drain()
	for _, name := range d.Files() {
		if strings.HasPrefix(name, one.path()) && name != one.name(first.ID) || strings.HasPrefix(name, SpoolDir) {
			t.Errorf("%s is there", name)
		}
	}
	fault.Remove()
	for range 2 { // the second has nothing to do
		again, err := f.store.Reread(one)
		if err != nil || again.IDs != nil && !slices.Equal(again.IDs, []uint64{first.ID}) {
			t.Fatal(again, err)
		}
	}
	f.want(one, first, data)
	if f.store.Unread(one) != nil || f.store.Lacks(one, early) == nil {
		t.Error("what came too early has a name now")
	}
	late := f.put(data, true, one)
	if err := f.store.Lacks(one, late); err != nil {
		t.Error(err)
	}
	f.want(one, late, data)
	f.store.Remove(one, []uint64{first.ID, early.ID, late.ID})
	f.store.Drain()
	if left := files(d); slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(name, one.path()) }) {
		t.Error(left)
	}
	f.close()
}

// TestUnread_GivenUp: as a whole it may be removed or put aside.
func TestUnread_GivenUp(t *testing.T) {
	for _, how := range []string{"removed", "put aside"} {
		d := sim.New(sim.Options{})
		f := open(t, d)
		f.put(body(5000), true, one)
		f.close()
		d = d.Kill()
		d.Inject(sim.Rule{Path: one.path(), Calls: sim.CallReadDir})
		f = open(t, d)
		if how == "removed" {
			f.store.RemoveDir(one)
			f.store.Drain()
		} else if err := f.store.Quarantine(one.Log); err != nil {
			t.Fatal(err)
		}
		if f.store.Unread(one) != nil {
			t.Errorf("%s: it is unread still", how)
		}
		aside := 0
		for _, name := range d.Files() {
			if strings.HasPrefix(name, quarantineDir) {
				aside++
			} else {
				t.Errorf("%s: %s is there", how, name)
			}
		}
		if (aside == 1) != (how == "put aside") {
			t.Errorf("%s: %d are aside", how, aside)
		}
		f.close()
	}
}

// TestUnread_Gone: who removes what cannot be listed has no bodies then.
func TestUnread_Gone(t *testing.T) {
	d := sim.New(sim.Options{})
	f := open(t, d)
	f.put(body(5000), true, one)
	f.close()
	d = d.Kill()
	fault := d.Inject(sim.Rule{Path: one.path(), Calls: sim.CallReadDir})
	f = open(t, d)
	fault.Remove()
	if err := d.RemoveAll(one.path()); err != nil {
		t.Fatal(err)
	}
	if left, err := f.store.Reread(one); err != nil || left.IDs != nil {
		t.Fatal(left, err)
	}
	data := body(6000)
	f.want(one, f.put(data, true, one), data)
	f.close()
}

// TestOpen_Unlistable: the directory of all is everyone's; one that is empty and cannot be
// removed is nobody's concern.
func TestOpen_Unlistable(t *testing.T) {
	d := sim.New(sim.Options{})
	f := open(t, d)
	ref := f.put(body(5000), true, one)
	f.store.Remove(one, []uint64{ref.ID})
	f.close()
	d = d.Kill()
	d.Inject(sim.Rule{Path: one.path(), Calls: sim.CallRemove})
	f = open(t, d)
	if left := f.store.Left(); len(left) != 1 || left[0].Err != nil || len(left[0].IDs) != 0 {
		t.Error(left)
	}
	data := body(6000)
	f.want(one, f.put(data, true, one), data)
	f.close()
	d = d.Kill()
	d.Inject(sim.Rule{Path: DurableDir, Calls: sim.CallReadDir, Err: fs.ErrPermission})
	if _, err := Open(Options{Disk: d, Arena: f.pool}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "mend the disk or the permissions") {
		t.Error(err)
	}
}
