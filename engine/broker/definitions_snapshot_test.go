package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// simulate runs do on an open broker of a simulated disk and stops it as kill
// would; stop says what becomes of the disk.
func simulate(t tb, d *sim.Disk, stop func(*sim.Disk) *sim.Disk, do func(e *env)) *sim.Disk {
	t.Helper()
	e := openSim(t, d)
	do(e)
	// The machine first: nothing that happens while the process ends counts.
	d = stop(d)
	e.crash()
	return d
}

// stops are the ends of a machine.
var stops = []struct {
	name string
	stop func(*sim.Disk) *sim.Disk
}{{"kill", (*sim.Disk).Kill}, {"power cut", (*sim.Disk).PowerCut}}

// savedSeq is the number that the snapshot on a disk includes, 0 if there is
// none. A broken one is a failure.
func savedSeq(t tb, d *sim.Disk) uint64 {
	t.Helper()
	data, err := d.ReadFile(definitionsName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	seq, err := readSnapshot(data, emptyBroker().apply)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// TestDefinitions_SnapshotInterrupted ends the machine at every disk operation of
// a snapshot: the old one is there or the new one, and nothing is lost.
func TestDefinitions_SnapshotInterrupted(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} { // whether it is the first snapshot
		for _, s := range stops {
			t.Run(fmt.Sprintf("first=%v, %s", first, s.name), func(t *testing.T) {
				t.Parallel()
				seen := map[uint64]bool{}
				for seed := range uint64(10) {
					for at := int64(1); ; at++ {
						finished, seq := interruptSnapshot(t, seed, at, first, s.stop)
						seen[seq] = true
						if finished {
							break
						}
					}
				}
				if len(seen) != 2 {
					t.Errorf("snapshots found: %v, want the old and the new one", seen)
				}
			})
		}
	}
}

// interruptSnapshot lets the at-th operation of a snapshot be the last, unless
// it finished before, and returns the number that the snapshot found includes.
func interruptSnapshot(t *testing.T, seed uint64, at int64, first bool, stop func(*sim.Disk) *sim.Disk) (finished bool, seq uint64) {
	t.Helper()
	old, last := uint64(0), uint64(0)
	var want []string
	d := sim.New(sim.Options{Seed: seed})
	after := simulate(t, d, stop, func(e *env) {
		declareSome(e)
		if !first {
			if err := e.broker.checkpoint(); err != nil {
				t.Fatal(err)
			}
			old = e.broker.defs.saved
		}
		e.exchange(ExchangeDeclare{Name: "more", Type: "headers", Durable: true})
		if _, err := e.vh.DeleteExchange("orders", false); err != nil {
			t.Fatal(err)
		}
		last = e.broker.defs.Last()
		e.durable(last)
		want = dump(e.vh)
		d.CrashAfter(at)
		err := e.broker.checkpoint()
		finished = err == nil
		if !finished && !errors.Is(err, sim.ErrPowerCut) {
			t.Fatal(err)
		}
	})
	seq = savedSeq(t, after)
	if seq != old && seq != last || finished && seq != last {
		t.Fatalf("seed %d, operation %d: the snapshot includes %d (finished: %v), want %d or %d", seed, at, seq, finished, old, last)
	}
	e := openSim(t, after)
	if got := dump(e.vh); !slices.Equal(got, want) || e.broker.defs.Last() != last {
		t.Fatalf("seed %d, operation %d: %q up to %d, want %q up to %d", seed, at, got, e.broker.defs.Last(), want, last)
	}
	if err := e.broker.checkpoint(); err != nil {
		t.Fatalf("seed %d, operation %d: the next snapshot: %v", seed, at, err)
	}
	e.close()
	return finished, seq
}

// TestDefinitions_SnapshotFails: one that cannot be written leaves the old one,
// and all goes on; the journal keeps what it has.
func TestDefinitions_SnapshotFails(t *testing.T) {
	t.Parallel()
	for _, rule := range []sim.Rule{
		{Path: definitionsTemp, Calls: sim.CallCreate, Err: syscall.ENOSPC},
		{Path: definitionsTemp, Calls: sim.CallWrite, Err: syscall.ENOSPC},
		{Path: definitionsTemp, Calls: sim.CallWrite, Short: true, Err: syscall.EIO},
		{Path: definitionsTemp, Calls: sim.CallSync},
		{Path: definitionsTemp, Calls: sim.CallRename},
		{Path: ".", Calls: sim.CallSyncDir},
	} {
		t.Run(rule.Calls.String(), func(t *testing.T) {
			t.Parallel()
			d := sim.New(sim.Options{})
			e := openSim(t, d)
			declareSome(e)
			if err := e.broker.checkpoint(); err != nil {
				t.Fatal(err)
			}
			old := e.broker.defs.saved
			e.exchange(ExchangeDeclare{Name: "more", Type: "headers", Durable: true})
			last := e.broker.defs.Last()
			e.durable(last) // so that the rule strikes nothing of the store's
			injection := d.Inject(rule)
			if err := e.broker.checkpoint(); !errors.Is(err, injection.Err) {
				t.Errorf("checkpoint: %v", err)
			}
			if e.broker.defs.saved != old || e.broker.defs.Err() != nil {
				t.Errorf("saved up to %d, want %d; %v", e.broker.defs.saved, old, e.broker.defs.Err())
			}
			if seq := savedSeq(t, d); seq != old && (rule.Calls != sim.CallSyncDir || seq != last) {
				t.Errorf("the snapshot includes %d, want %d", seq, old)
			}
			want := dump(e.vh)
			after := d.PowerCut()
			e.crash()
			e = openSim(t, after)
			defer e.close()
			if got := dump(e.vh); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if err := e.broker.checkpoint(); err != nil {
				t.Errorf("with a disk that is well again: %v", err)
			}
			if seq := savedSeq(t, after); seq != last {
				t.Errorf("the snapshot includes %d, want %d", seq, last)
			}
		})
	}
}

// TestDefinitions_LeftoverOfASnapshot: state 3 of Definitions.
func TestDefinitions_LeftoverOfASnapshot(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	if err := writeWhole(d, definitionsTemp, []byte("left by a crash, and longer than what comes next, "+
		"which is why what is written over it must not be taken for the beginning of it: it is removed before")); err != nil {
		t.Fatal(err)
	}
	e := openSim(t, d)
	e.exchange(ExchangeDeclare{Name: "one", Type: "fanout", Durable: true})
	d = d.Kill()
	e.crash()
	e = openSim(t, d)
	declareSome(e)
	last := e.broker.defs.Last()
	e.close()
	if seq := savedSeq(t, d); seq != last {
		t.Errorf("the snapshot includes %d, want %d", seq, last)
	}
}

// TestDefinitions_PowerCutAfterDurable: what Durable promised is there, whatever
// the disk did with the rest; what is there beyond it is a prefix.
func TestDefinitions_PowerCutAfterDurable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		d := sim.New(sim.Options{Seed: seed})
		names := 0
		for life := range 4 {
			sure, last := 0, 0
			before := names
			d = simulate(t, d, (*sim.Disk).PowerCut, func(e *env) {
				for i := range 8 {
					e.exchange(ExchangeDeclare{Name: fmt.Sprintf("e%03d", names), Type: "fanout", Durable: true})
					names++
					if i == int(seed)%8 {
						e.durable(e.broker.defs.Last())
					}
				}
				// Looked at before the cut: whoever was told then was told the truth.
				sure, last = int(e.broker.defs.Durable()), int(e.broker.defs.Last())
			})
			e := openSim(t, d)
			found := e.broker.Recovered().Exchanges
			if found < sure || found > last || uint64(found) != e.broker.defs.Last() {
				t.Fatalf("seed %d, life %d: %d exchanges, durable were %d of %d, %d before", seed, life, found, sure, last, before)
			}
			for i := range found {
				if e.vh.exchanges[fmt.Sprintf("e%03d", i)] == nil {
					t.Fatalf("seed %d, life %d: number %d of %d is missing", seed, life, i, found)
				}
			}
			names = found
			d = d.Kill()
			e.crash()
		}
	}
}

// TestDefinitions_DiskFull: declares wait for space, and then go on.
func TestDefinitions_DiskFull(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	declareSome(e)
	e.durable(e.broker.defs.Last())
	full := make(chan struct{}, 1)
	e.disk.setHinder(func(op *disk.Op) (<-chan struct{}, error) {
		if op.Kind != disk.Write {
			return nil, nil
		}
		select {
		case full <- struct{}{}:
		default:
		}
		return nil, syscall.ENOSPC
	})
	e.exchange(ExchangeDeclare{Name: "waits", Type: "fanout", Durable: true})
	last := e.broker.defs.Last()
	<-full
	if e.broker.defs.pendingSeq() != last || e.broker.defs.Err() != nil {
		t.Errorf("pending %d, want %d; %v", e.broker.defs.pendingSeq(), last, e.broker.defs.Err())
	}
	e.disk.setHinder(nil)
	e.durable(last)
	want := dump(e.vh)
	d = d.PowerCut()
	e.crash()
	e = openSim(t, d)
	defer e.close()
	if got := dump(e.vh); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
