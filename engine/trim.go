package engine

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// trimInterval is how often memory that is not used goes back to the kernel.
const trimInterval = 2 * time.Second

// trim returns idle buffers, and after a burst of work on the Go heap, of
// connections or queues that came or went, what that left of garbage: the
// collector would keep it until the heap grows again, perhaps for days.
func (e *Engine) trim() {
	defer close(e.trimmed)
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	calm := newCalm(heapAllocated())
	first := true
	for {
		select {
		case <-ticker.C:
			e.pool.Trim()
			if calm.look() {
				debug.FreeOSMemory()
				calm.freed()
				giveBackProgram()
			} else if first {
				giveBackProgram()
			}
			first = false
		case <-e.stop:
			return
		}
	}
}

// A burst is worth a collection when it allocated burstBytes; it is over when
// less than calmBytes were allocated in a whole interval.
const (
	burstBytes = 1 << 20
	calmBytes  = 32 << 10
)

// calm watches how much the process allocates.
type calm struct {
	allocated func() uint64 // bytes since the process began
	last      uint64        // at the last look
	since     uint64        // when memory was last freed
}

func newCalm(allocated func() uint64) *calm {
	return &calm{allocated: allocated, last: allocated()}
}

// look reports whether a burst is over.
func (c *calm) look() bool {
	now := c.allocated()
	quiet := now-c.last < calmBytes
	c.last = now
	return quiet && now-c.since > burstBytes
}

// freed begins to count anew.
func (c *calm) freed() {
	c.last = c.allocated()
	c.since = c.last
}

// heapAllocated reads the runtime's counter; it does not stop the process.
func heapAllocated() func() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	return func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
}
