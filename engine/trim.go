package engine

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Every calmInterval it is looked whether there is less to do; with every second
// look buffers that have not been used since the last time go back to the kernel.
// The first look is early: most of what starting needed is needed no more.
const (
	calmInterval = time.Second
	firstLook    = calmInterval / 4
)

// trim returns idle buffers. When a burst of work is over, it returns all that
// are free, what the burst left of garbage on the Go heap (the collector would
// keep it until the heap grows again, perhaps for days), and the pages of the
// program that it needed.
func (e *Engine) trim() {
	defer close(e.trimmed)
	ticker := time.NewTicker(firstLook)
	defer ticker.Stop()
	calm := newCalm(heapAllocated(), processorTime)
	for look := 1; ; look++ {
		select {
		case <-ticker.C:
			if look == 1 {
				ticker.Reset(calmInterval)
			}
			switch {
			case calm.look():
				e.pool.TrimAll()
				debug.FreeOSMemory()
				giveBackProgram()
				calm.freed()
			case look == 1:
				giveBackProgram()
			case look%2 == 0:
				e.pool.Trim()
			}
		case <-e.stop:
			return
		}
	}
}

// A burst is worth the trouble when it allocated burstBytes, or took a tenth of a
// processor for an interval; it is over when less than calmBytes were allocated
// and calmTime was used in a whole interval.
const (
	burstBytes = 1 << 20
	calmBytes  = 32 << 10
	burstTime  = calmInterval / 10
	calmTime   = calmInterval / 50
)

// calm watches what the process does.
type calm struct {
	allocated func() uint64        // bytes since the process began
	used      func() time.Duration // processor time since then

	lastBytes uint64 // at the last look
	lastTime  time.Duration
	since     uint64 // bytes when memory was last freed
	busy      bool   // there was a busy interval since then
}

func newCalm(allocated func() uint64, used func() time.Duration) *calm {
	return &calm{allocated: allocated, used: used, lastBytes: allocated(), lastTime: used()}
}

// look reports whether a burst is over.
func (c *calm) look() bool {
	bytes, used := c.allocated(), c.used()
	c.busy = c.busy || used-c.lastTime >= burstTime
	quiet := bytes-c.lastBytes < calmBytes && used-c.lastTime < calmTime
	c.lastBytes, c.lastTime = bytes, used
	return quiet && (c.busy || bytes-c.since > burstBytes)
}

// freed begins to count anew.
func (c *calm) freed() {
	c.lastBytes, c.lastTime = c.allocated(), c.used()
	c.since, c.busy = c.lastBytes, false
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0 // then only memory counts
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// heapAllocated reads the runtime's counter; it does not stop the process.
func heapAllocated() func() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	return func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
}
