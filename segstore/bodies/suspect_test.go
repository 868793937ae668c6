package bodies

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestSuspect: a body that failed in the middle is not opened until it is tried again, or
// is removed; others are.
func TestSuspect(t *testing.T) {
	f, d := openSim(t, sim.Options{})
	data := body(3_000_000)
	bad, good := f.put(data, true, one, two), f.put(data, true, one)
	suspect := func() {
		t.Helper()
		fault := d.Inject(sim.Rule{Path: one.name(bad.ID), Calls: sim.CallRead, After: 1})
		woken := make(chan struct{}, 1)
		wake := func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
		o := f.store.Open(one, bad, wake)
		defer o.Close()
		<-woken
		if _, err := o.Opened(); err != nil {
			t.Fatal(err)
		}
		o.Suspect() // of what?
		o.Start(0, wake)
		for {
			part, err := o.Next()
			if err != nil {
				break
			}
			if part == nil {
				<-woken
			}
		}
		fault.Remove()
		o.Suspect()
	}
	suspect()
	for range 2 {
		if _, err := f.get(one, bad); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "could not be read to its end before") {
			t.Fatal(err)
		}
	}
	f.want(one, good, data)
	f.want(two, bad, data)
	if n := f.store.Retry(two) + f.store.Retry(one) + f.store.Retry(one); n != 1 {
		t.Errorf("%d were suspect", n)
	}
	f.want(one, bad, data)
	suspect()
	f.store.Remove(one, []uint64{bad.ID})
	suspects := func() int { return len(f.store.suspects) }
	if suspects() != 0 {
		t.Error("it is suspect although it is gone")
	}
}
