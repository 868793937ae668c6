package bodies

import (
	"fmt"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestCrash_EveryOp cuts the power at every operation of some publishes: a body
// that Finish reported durable is there, whole, under each durable name.
func TestCrash_EveryOp(t *testing.T) {
	data := []([]byte){body(70_000), body(20_000), body(300_000)}
	type kept struct {
		dir  Dir
		ref  Ref
		data []byte
	}
	// history returns what was reported durable.
	history := func(f *fixture) (list []kept) {
		for i, dirs := range [][]Dir{{one}, {two, one}, {one, three, two}} {
			in := f.spool(data[i], 30_000)
			if finish(in, true, dirs...) != nil {
				in.Abort()
				break
			}
			in.Keep()
			for _, dir := range dirs {
				if !dir.Transient {
					list = append(list, kept{dir, in.Ref(), data[i]})
				}
			}
			f.store.Drain()
		}
		return list
	}
	points := int64(0)
	for cut := int64(1); points == 0 || cut <= points+1; cut++ {
		for seed := range uint64(5) {
			d := sim.New(sim.Options{Seed: seed*1000 + uint64(cut)})
			f := open(t, d)
			if cut <= points || points == 0 {
				d.CrashAfter(cut)
			}
			list := history(f)
			if len(list) == 5 && points == 0 {
				points = d.Changes()
			}
			f.close()
			for _, next := range []*sim.Disk{d.PowerCut(), d.PowerCut()} {
				after := open(t, next)
				for _, k := range list {
					got, err := after.get(k.dir, k.ref)
					if err != nil || !slices.Equal(got, k.data) {
						t.Fatalf("cut %d seed %d: %s: %d bytes, %v", cut, seed, k.dir.name(k.ref.ID), len(got), err)
					}
				}
				for _, name := range files(next) {
					if name[:7] != DurableDir+"/" {
						t.Fatalf("cut %d seed %d: %s is left", cut, seed, name)
					}
				}
				after.close()
			}
		}
	}
	if points < 30 {
		t.Fatalf("only %d points to cut at", points)
	}
}

// TestOpen_Leftovers: what an earlier run leaves is wiped, listed, or left alone.
func TestOpen_Leftovers(t *testing.T) {
	d := sim.New(sim.Options{})
	f := open(t, d)
	data := body(5000)
	first, second := f.put(data, true, one, three), f.put(data, true, one)
	f.spool(data, 1000) // not finished
	empty := f.put(data, true, two)
	f.store.Remove(two, []uint64{empty.ID})
	f.store.Drain()
	for _, name := range []string{"bodies/readme", "bodies/0000000000000001/x"} {
		file, err := d.Open(name, 2)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	f.close()

	d = d.Kill()
	f = open(t, d)
	left := f.store.Left()
	if got, want := fmt.Sprint(left), fmt.Sprintf("[{1 [%d %d] <nil>}]", first.ID, second.ID); got != want {
		t.Fatalf("left %s, want %s", got, want)
	}
	if f.store.Left() != nil {
		t.Fatal("told twice")
	}
	want := []string{"bodies/0000000000000001/0000000000000064", "bodies/0000000000000001/0000000000000065", "bodies/0000000000000001/x", "bodies/readme"}
	if got := files(d); !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
	f.want(one, first, data)
	for range 2 {
		if err := f.store.Quarantine(1); err != nil {
			t.Fatal(err)
		}
		f.store.nextID.Store(500)
		f.want(one, f.put(data, true, one), data)
	}
	got := d.Files()
	for _, name := range []string{"quarantine/bodies-0000000000000001/x", "quarantine/bodies-0000000000000001.2/00000000000001f4"} {
		if !slices.Contains(got, name) {
			t.Fatalf("%s is not in %q", name, got)
		}
	}
	f.close()
}

// TestFinish_NameTaken: an id given out twice does no harm.
func TestFinish_NameTaken(t *testing.T) {
	f, _ := openSim(t, sim.Options{})
	data := body(5000)
	ref := f.put(data, true, one)
	f.store.nextID.Store(ref.ID)
	in := f.spool(body(6000), 1000)
	if err := finish(in, true, two, one); err == nil {
		t.Fatal("no error")
	}
	in.Abort()
	f.store.Drain()
	f.want(one, ref, data)
}

func TestStore_Closed(t *testing.T) {
	f, _ := openSim(t, sim.Options{})
	ref := f.put(body(100), false, one)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.get(one, ref); err == nil {
		t.Fatal("opened on a closed store")
	}
	in := f.spool(body(5000), 1000)
	in.Finish([]Dir{one}, false, func(error) { t.Error("done on a closed store") })
	in.Abort()
	f.store.Remove(one, []uint64{ref.ID})
}
