package engine

import (
	"testing"
	"time"
)

func TestCalm(t *testing.T) {
	total, used := uint64(5*burstBytes), time.Second
	c := newCalm(func() uint64 { return total }, func() time.Duration { return used })
	for _, step := range []struct {
		name      string
		allocates uint64
		uses      time.Duration
		free      bool
	}{
		{"what starting took is garbage, too", 0, 0, true},
		{"idle", 0, 0, false},
		{"ticking", calmBytes / 2, calmTime / 2, false},
		{"burst", 2 * burstBytes, calmTime, false},
		{"burst goes on", burstBytes, calmTime, false},
		{"burst is over", 100, 0, true},
		{"idle again", 100, 0, false},
		{"small work", burstBytes / 2, 0, false},
		{"not worth it", 0, 0, false},
		{"small work adds up", burstBytes, 0, false},
		{"and is over", 0, 0, true},
		{"busy without the heap", 0, burstTime, false},
		{"less busy", 0, calmTime, false},
		{"not busy any more", 0, 0, true},
		{"never busy", 0, burstTime - 1, false},
		{"nothing to free", 0, 0, false},
	} {
		total += step.allocates
		used += step.uses
		got := c.look()
		if got != step.free {
			t.Errorf("%s: %v", step.name, got)
		}
		if got {
			used += burstTime // freeing itself
			c.freed()
		}
	}
}

func TestProcessorTime_Grows(t *testing.T) {
	for before := processorTime(); processorTime() == before; {
	}
}

func TestHeapAllocated(t *testing.T) {
	allocated := heapAllocated()
	before := allocated()
	kept = make([]byte, 4<<20)
	if grown := allocated() - before; grown < 4<<20 {
		t.Errorf("4 MiB more, and the counter moved by %d", grown)
	}
	kept = nil
}

var kept []byte
