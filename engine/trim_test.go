package engine

import "testing"

func TestCalm(t *testing.T) {
	total := uint64(5 * burstBytes)
	c := newCalm(func() uint64 { return total })
	for _, step := range []struct {
		name      string
		allocates uint64
		free      bool
	}{
		{"what starting took is garbage, too", 0, true},
		{"idle", 0, false},
		{"ticking", calmBytes / 2, false},
		{"burst", 2 * burstBytes, false},
		{"burst goes on", burstBytes, false},
		{"burst is over", 100, true},
		{"idle again", 100, false},
		{"small work", burstBytes / 2, false},
		{"not worth it", 0, false},
		{"small work adds up", burstBytes, false},
		{"and is over", 0, true},
	} {
		total += step.allocates
		got := c.look()
		if got != step.free {
			t.Errorf("%s: %v", step.name, got)
		}
		if got {
			c.freed()
		}
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
