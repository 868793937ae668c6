package bodies

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// relink calls LinkSoon and waits.
func (f *fixture) relink(from Dir, ref Ref, sync bool, to ...Dir) (Ref, error) {
	type result struct {
		ref Ref
		err error
	}
	done := make(chan result, 1)
	f.store.LinkSoon(from, ref, to, sync, func(ref Ref, err error) { done <- result{ref, err} })
	r := <-done
	return r.ref, r.err
}

// TestLinkSoon: other directories get the body under another name, the one it came
// from too, if it is among them; each name is removed by itself.
func TestLinkSoon(t *testing.T) {
	eachDisk(t, func(t *testing.T, d disk.Disk) {
		f := open(t, d)
		defer f.close()
		data := body(700_000)
		ref := f.put(data, false, one, two)
		linked, err := f.relink(one, ref, true, one, two, three)
		if err != nil {
			t.Fatal(err)
		}
		if linked.ID == ref.ID || linked.Size != ref.Size || linked.Sum != ref.Sum {
			t.Fatalf("%+v of %+v", linked, ref)
		}
		f.store.Remove(one, []uint64{ref.ID})
		f.store.Drain()
		f.want(two, ref, data)
		for _, dir := range []Dir{one, two, three} {
			f.want(dir, linked, data)
		}
		if _, err := f.relink(one, ref, false, two); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("of a name that is gone: %v", err)
		}
	})
}

// TestLinkSoon_Durable: with sync the new names survive a power cut.
// TestLink_Errors tells a body that is gone from a disk that fails.
func TestLink_Errors(t *testing.T) {
	f, d := openSim(t, sim.Options{})
	ref := f.put(body(5000), true, one)
	for _, sync := range []bool{false, true} {
		fault := d.Inject(sim.Rule{Path: two.path() + "/*", Calls: sim.CallLink})
		if _, err := f.relink(one, ref, sync, two); err == nil || errors.Is(err, ErrDamaged) {
			t.Errorf("a failing disk, sync %v: %v", sync, err)
		}
		fault.Remove()
		if _, err := f.relink(one, Ref{ID: ref.ID + 1, Size: ref.Size}, sync, two); !errors.Is(err, ErrDamaged) {
			t.Errorf("a body that is gone, sync %v: %v", sync, err)
		}
	}
}

func TestLinkSoon_Durable(t *testing.T) {
	for seed := range uint64(20) {
		f, d := openSim(t, sim.Options{Seed: seed})
		data := body(5000)
		ref := f.put(data, false, one)
		linked, err := f.relink(one, ref, true, two)
		if err != nil {
			t.Fatal(err)
		}
		f.close()
		f = open(t, d.PowerCut())
		f.want(two, linked, data)
		f.close()
	}
}
