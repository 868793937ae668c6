package bodies

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

var (
	one   = Dir{Log: 1}
	two   = Dir{Log: 2}
	three = Dir{Log: 3, Transient: true}
)

func TestBodies_RoundTrip(t *testing.T) {
	eachDisk(t, func(t *testing.T, d disk.Disk) {
		f := open(t, d)
		defer f.close()
		for _, size := range []int{1, 4087, 4088, 262144, 262145, 1_500_000} {
			data := body(size)
			for _, piece := range []int{4096, 262144} {
				in := f.spool(data, piece)
				if err := finish(in, true, one, two, three); err != nil {
					t.Fatal(err)
				}
				in.Keep()
				ref := in.Ref()
				if ref.Size != uint64(size) {
					t.Fatalf("size %d", ref.Size)
				}
				for _, dir := range []Dir{one, two, three} {
					f.want(dir, ref, data)
					f.store.Remove(dir, []uint64{ref.ID})
					f.store.Drain()
					if _, err := f.get(dir, ref); !errors.Is(err, ErrDamaged) {
						t.Fatalf("removed, but: %v", err)
					}
				}
			}
		}
	})
}

// TestBodies_OpenSurvivesRemoval: what is on its way out gets there.
func TestBodies_OpenSurvivesRemoval(t *testing.T) {
	eachDisk(t, func(t *testing.T, d disk.Disk) {
		f := open(t, d)
		defer f.close()
		data := body(700_000)
		ref := f.put(data, false, one)
		woken := make(chan struct{}, 1)
		o := f.store.Open(one, ref, func() { woken <- struct{}{} })
		<-woken
		f.store.RemoveDir(one)
		f.store.Drain()
		if got, err := readAll(o); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		f.want(one, f.put(data, true, one), data) // the directory is made again
	})
}

// TestBodies_Abort: at every stage, nothing is left.
func TestBodies_Abort(t *testing.T) {
	for _, stage := range []string{"created", "written", "finishing", "finished", "returning", "opening", "reading"} {
		t.Run(stage, func(t *testing.T) {
			f, d := openSim(t, sim.Options{Seed: 3, Order: sim.Shuffled})
			in := f.store.Create(f.flow)
			if stage != "created" {
				in = f.spool(body(500_000), 50_000)
			}
			switch stage {
			case "finishing":
				in.Finish([]Dir{one, three}, true, func(error) {})
			case "finished":
				if err := finish(in, true, one, three); err != nil {
					t.Fatal(err)
				}
			case "returning":
				written := make(chan error, 1)
				in.Written(func(err error) { written <- err })
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				o := in.Outgoing()
				o.Start(1, func() {})
				o.Close()
			case "opening", "reading":
				if err := finish(in, false, one); err != nil {
					t.Fatal(err)
				}
				woken := make(chan struct{}, 1)
				o := f.store.Open(one, in.Ref(), func() { woken <- struct{}{} })
				if stage == "reading" {
					<-woken
					o.Start(4088, func() {})
					_, _ = o.Next()
				}
				o.Close()
				o.Close()
			}
			in.Abort()
			buf := f.pool.Get(1)
			in.Write(buf, 1) // what still comes is dropped
			f.store.Drain()
			if left := files(d); len(left) > 0 {
				t.Fatal(left)
			}
		})
	}
}

func TestBodies_Returned(t *testing.T) {
	f, d := openSim(t, sim.Options{})
	data := body(900_000)
	in := f.spool(data, 4096)
	written := make(chan error, 1)
	in.Written(func(err error) { written <- err })
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(in.Outgoing()); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	f.store.Drain()
	if left := files(d); len(left) > 0 {
		t.Fatal(left)
	}
}

// TestBodies_Faults: whatever call fails, Finish says so, and nothing is left
// after Abort.
func TestBodies_Faults(t *testing.T) {
	for _, rule := range []sim.Rule{
		{Calls: sim.CallMkdir, Path: "spool"},
		{Calls: sim.CallCreate, Path: "spool/*"},
		{Calls: sim.CallWrite, Err: syscall.ENOSPC},
		{Calls: sim.CallWrite, After: 3, Err: syscall.ENOSPC},
		{Calls: sim.CallSync},
		{Calls: sim.CallMkdir, Path: "bodies/*"},
		{Calls: sim.CallSyncDir, Path: "bodies"},
		{Calls: sim.CallSyncDir, Path: "bodies/*"},
		{Calls: sim.CallLink},
		{Calls: sim.CallLink, After: 1},
	} {
		t.Run(rule.Calls.String()+" "+rule.Path, func(t *testing.T) {
			f, d := openSim(t, sim.Options{Seed: 5, Order: sim.Shuffled})
			rule.Count = 1
			fault := d.Inject(rule)
			in := f.spool(body(600_000), 60_000)
			want := rule.Err
			if want == nil {
				want = syscall.EIO
			}
			if err := finish(in, true, one, two); !errors.Is(err, want) {
				t.Fatalf("got %v", err)
			}
			in.Abort()
			f.store.Drain()
			if fault.Struck() != 1 {
				t.Fatal("the fault did not strike")
			}
			if left := files(d); len(left) > 0 {
				t.Fatal(left)
			}
			data := body(1000)
			f.want(two, f.put(data, true, one, two), data)
		})
	}
}

// TestBodies_Damage: a body that is not what its record says is found out.
func TestBodies_Damage(t *testing.T) {
	f, d := openSim(t, sim.Options{})
	data := body(800_000)
	whole := f.put(data, true, one)
	for name, ref := range map[string]Ref{
		"missing": {ID: whole.ID + 1, Size: whole.Size, Sum: whole.Sum},
		"longer":  {ID: whole.ID, Size: whole.Size + 1, Sum: whole.Sum},
		"shorter": {ID: whole.ID, Size: whole.Size - 1, Sum: whole.Sum},
		"other":   {ID: whole.ID, Size: whole.Size, Sum: whole.Sum ^ 1},
	} {
		if got, err := f.get(one, ref); !errors.Is(err, ErrDamaged) || len(got) == len(data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	f.want(one, whole, data)

	read := d.Inject(sim.Rule{Calls: sim.CallRead, After: 1, Count: 1})
	if got, err := f.get(one, whole); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) || len(got) == len(data) {
		t.Errorf("a failed read: %d bytes, %v", len(got), err)
	}
	read.Remove()
	f.want(one, whole, data)

	closed := d.Inject(sim.Rule{Path: one.name(whole.ID), Calls: sim.CallOpen, Err: syscall.EACCES})
	if _, err := f.get(one, whole); !errors.Is(err, syscall.EACCES) || errors.Is(err, ErrDamaged) {
		t.Errorf("it may not be opened: %v", err)
	}
	closed.Remove()
	f.want(one, whole, data)

	if err := d.Flip(one.name(whole.ID), 500_000, 3); err != nil {
		t.Fatal(err)
	}
	if got, err := f.get(one, whole); !errors.Is(err, ErrDamaged) || len(got) == len(data) {
		t.Errorf("flipped bit: %d bytes, %v", len(got), err)
	}
	for range 2 { // the second finds nothing, and does not mind
		f.store.SetAside(one, whole.ID)
		f.store.Drain()
	}
	if left := files(d); len(left) > 0 {
		t.Fatal(left)
	}
	if all := d.Files(); !slices.Contains(all, "quarantine/body-0000000000000001-0000000000000064") {
		t.Fatal(all)
	}
}

func TestFlow_Bounds(t *testing.T) {
	f, d := openSim(t, sim.Options{Order: sim.Manual})
	resumed := 0
	small := f.store.NewFlow(func() { resumed++ })
	in := f.store.Create(small)
	write := func() { in.Write(f.pool.Get(readBytes), readBytes) }
	for range 4 {
		write()
		if small.Full() {
			t.Fatal("full too early")
		}
	}
	write()
	for range 2 { // asking twice makes one call
		if !small.Full() {
			t.Fatal("more than the bound is not full")
		}
	}
	f.store.work.drain() // the file is open, the writes are submitted
	for steps := 0; d.Step(); steps++ {
		if want := steps >= 2; (resumed > 0) != want {
			t.Fatalf("resumed %d after %d of 5 writes", resumed, steps+1)
		}
	}
	if resumed != 1 {
		t.Fatalf("resumed %d times", resumed)
	}
	if small.Full() {
		t.Fatal("full although nothing is on its way")
	}

	// What others have on their way counts, too, but for the first piece.
	f.store.writing.Add(writingBytesMax + 1)
	if small.Full() {
		t.Fatal("each may have one piece")
	}
	write()
	if !small.Full() {
		t.Fatal("a second piece although there is too much")
	}
	f.store.writing.Add(-writingBytesMax - 1)
	f.store.work.drain()
	for d.Step() {
	}
	if resumed != 2 {
		t.Fatalf("resumed %d times", resumed)
	}
	in.Abort()
}

func TestOutgoing_ReadAheadIsBounded(t *testing.T) {
	f, _ := openSim(t, sim.Options{})
	data := body(2_000_000)
	ref := f.put(data, false, one)
	before := f.pool.Stats().InUse
	f.store.reading.Add(2 * readingBytesMax)
	woken := make(chan struct{}, 1)
	o := f.store.Open(one, ref, func() { woken <- struct{}{} })
	<-woken
	notified := make(chan struct{}, 1)
	o.Start(0, func() { notified <- struct{}{} })
	for left := len(data); left > 0; {
		piece, err := o.Next()
		if err != nil {
			t.Fatal(err)
		}
		if piece == nil {
			<-notified
		}
		if n := f.pool.Stats().InUse - before; n > readBytesSmall {
			t.Fatalf("%d bytes in use", n)
		}
		left -= len(piece)
	}
	o.Close()
	f.store.reading.Add(-2 * readingBytesMax)
}

// TestLink: a linked body is its new owners' own; nothing that becomes of the
// first matters to them.
func TestLink(t *testing.T) {
	eachDisk(t, func(t *testing.T, d disk.Disk) {
		f := open(t, d)
		defer f.close()
		data := body(300_000)
		ref := f.put(data, true, one)
		linked, err := f.store.Link(one, ref, []Dir{two, three}, true)
		if err != nil || linked.ID == ref.ID || linked.Size != ref.Size || linked.Sum != ref.Sum {
			t.Fatalf("%+v linked as %+v: %v", ref, linked, err)
		}
		again, err := f.store.Link(one, ref, []Dir{two}, false)
		if err != nil || again.ID == linked.ID {
			t.Fatalf("linked again as %+v: %v", again, err)
		}
		f.store.RemoveDir(one)
		f.store.Remove(two, []uint64{again.ID})
		f.store.Drain()
		f.want(two, linked, data)
		f.want(three, linked, data)
		if _, err := f.store.Link(one, ref, []Dir{two, three}, true); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("linked what is gone: %v", err)
		}
		f.store.Drain()
		for _, dir := range []Dir{two, three} {
			if names, err := d.ReadDir(dir.path()); err != nil || len(names) != 1 {
				t.Errorf("%v: %v, %v", dir, names, err)
			}
		}
	})
}
