package process

import (
	"os"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
	"golang.org/x/sys/unix"
)

// Usage is what this process and the broker have used at one moment, since
// they started.
type Usage struct {
	OwnCPU        time.Duration
	OwnThreads    []ThreadLoad // in the order they were asked for
	BrokerCPU     time.Duration
	BrokerThreads map[int]ThreadLoad
	BrokerWritten Writes
	WrittenKnown  bool
}

// ReadUsage reads the usage of this process, of some of its threads, and of the
// broker's process unless pid is 0. What can't be read is left out.
func ReadUsage(pid int, ownThreads []int) Usage {
	var u Usage
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil {
		u.OwnCPU = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	for _, tid := range ownThreads {
		load, _ := ReadThreadLoad(os.Getpid(), tid)
		u.OwnThreads = append(u.OwnThreads, load)
	}
	if pid > 0 {
		u.BrokerCPU, _ = CPU(pid)
		u.BrokerThreads = ReadThreadLoads(pid)
		u.BrokerWritten, u.WrittenKnown = Written(pid)
	}
	return u
}

// Costs is what a span of time has cost. Shares are those of its length for
// which a thread ran or wanted to.
type Costs struct {
	OwnCPU       time.Duration
	OwnShares    []float64
	BrokerCPU    time.Duration
	BrokerThread float64 // share of the busiest thread
}

// Between computes the costs of the span between two readings of the same
// processes and threads.
func Between(begin, end Usage, span time.Duration) Costs {
	c := Costs{OwnCPU: end.OwnCPU - begin.OwnCPU, BrokerCPU: end.BrokerCPU - begin.BrokerCPU}
	for i := range end.OwnThreads {
		load := end.OwnThreads[i].Run + end.OwnThreads[i].Wait
		if i < len(begin.OwnThreads) {
			load -= begin.OwnThreads[i].Run + begin.OwnThreads[i].Wait
		}
		c.OwnShares = append(c.OwnShares, min(1, float64(load)/float64(span)))
	}
	c.BrokerThread = busiest(begin.BrokerThreads, end.BrokerThreads, span)
	return c
}

// busyShare is the load of a thread above which it is taken to be the limit,
// and brokerBusyShare the load of the broker's busiest thread below which the
// broker is taken not to be. The gap keeps runs quiet in which both are busy.
const (
	busyShare       = 0.9
	brokerBusyShare = 0.8
)

// OwnBottleneck reports whether all of this process's threads that have work
// are busy and the broker is not. It must have been looked at.
func (c Costs) OwnBottleneck(hasWork func(thread int) bool) bool {
	for i, share := range c.OwnShares {
		if share <= busyShare && hasWork(i) {
			return false
		}
	}
	return c.BrokerThread < brokerBusyShare
}

// MemoryWatch samples the memory of a process.
type MemoryWatch struct {
	PID       int // 0: nothing is watched
	Last, Max results.Memory
	Known     bool // at least one sample was taken
}

// Sample takes a sample, if it can.
func (w *MemoryWatch) Sample() {
	if w.PID == 0 {
		return
	}
	if figures, err := Memory(w.PID); err == nil && figures.HWM > 0 {
		w.Last, w.Max, w.Known = figures, w.Max.Max(figures), true
	}
}
