package perf

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"golang.org/x/sys/unix"
)

// snapshot is what all counters said at one moment.
type snapshot struct {
	at                        int64
	published, publishedBytes uint64
	consumed, bytesIn         uint64
	confirmed, nacked, acked  uint64
	failures, outOfOrder      uint64
	lastPublish, lastConsume  int64
	clientCPU, brokerCPU      time.Duration
	brokerWritten             uint64 // bytes
	writtenKnown              bool
	brokerThreads             map[int]process.ThreadLoad
	loopLoads                 []process.ThreadLoad
}

// meter turns the loops' counters into a progress line and a result. Called
// only from the goroutine that runs the scenario.
type meter struct {
	run      *throughputRun
	progress io.Writer // nil: quiet
	inPlace  bool      // a terminal: overwrite the line

	first, windowBegin, windowEnd, lastTick snapshot

	begun      bool
	countEnded bool // the work ended the run, not the clock
	latency    *hdrhistogram.Histogram
	interval   *hdrhistogram.Histogram
	stale      uint64
	memory     results.Memory // last sample
	memoryMax  results.Memory
	sampled    bool
}

func newMeter(run *throughputRun, out console) *meter {
	m := &meter{run: run, latency: client.NewHistogram(), interval: client.NewHistogram()}
	if !run.options.Output.Quiet {
		m.progress = out.stderr
		m.inPlace = isTerminal(out.stderr)
	}
	m.first = m.read()
	m.windowBegin, m.lastTick = m.first, m.first
	return m
}

// isTerminal reports whether w is a terminal: whether it has a window size.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// countersNow reads the loops' counters only.
func (m *meter) countersNow() snapshot {
	s := snapshot{at: client.Now()}
	for _, l := range m.run.loops {
		s.published += l.Published.Load()
		s.publishedBytes += l.PublishedBytes.Load()
		s.consumed += l.Consumed.Load()
		s.bytesIn += l.BytesIn.Load()
		s.confirmed += l.Confirmed.Load()
		s.nacked += l.Nacked.Load()
		s.acked += l.Acked.Load()
		s.failures += l.Failures.Load()
		s.outOfOrder += l.OutOfOrder.Load()
		s.lastPublish = max(s.lastPublish, l.LastPublish.Load())
		s.lastConsume = max(s.lastConsume, l.LastConsume.Load())
	}
	return s
}

// read reads counters, CPU times and thread loads.
func (m *meter) read() snapshot {
	s := m.countersNow()
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		s.clientCPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, l := range m.run.loops {
		load, _ := process.ReadThreadLoad(os.Getpid(), int(l.ThreadID.Load()))
		s.loopLoads = append(s.loopLoads, load)
	}
	if pid := m.run.options.BrokerPID; pid > 0 {
		s.brokerCPU, _ = process.CPU(pid)
		s.brokerThreads = process.ReadThreadLoads(pid)
		s.brokerWritten, s.writtenKnown = process.Written(pid)
	}
	return s
}

// begin starts the measured window.
func (m *meter) begin() {
	m.drainLatency(nil)
	m.stale = 0
	m.windowBegin, m.begun = m.read(), true
	m.sampleMemory()
}

func (m *meter) sampleMemory() {
	pid := m.run.options.BrokerPID
	if pid == 0 {
		return
	}
	if figures, err := process.Memory(pid); err == nil && figures.HWM > 0 {
		m.memory, m.memoryMax, m.sampled = figures, m.memoryMax.Max(figures), true
	}
}

func (m *meter) drainLatency(target *hdrhistogram.Histogram) {
	for _, l := range m.run.loops {
		if l.Latency != nil {
			m.stale += l.Latency.DrainInto(target)
		}
	}
}

// tick is called once a second.
func (m *meter) tick() {
	m.sampleMemory()
	m.interval.Reset()
	m.drainLatency(m.interval)
	if m.begun {
		m.latency.Merge(m.interval)
	}
	now := m.read()
	if m.progress != nil {
		m.writeProgress(m.lastTick, now)
	}
	m.lastTick = now
}

func (m *meter) writeProgress(before, now snapshot) {
	span := float64(now.at-before.at) / 1e9
	perSecond := func(from, to uint64) string { return results.HumanCount(uint64(float64(to-from) / span)) }
	var line strings.Builder
	phase := "warm-up"
	if m.begun {
		phase = fmt.Sprintf("%.0fs", float64(now.at-m.windowBegin.at)/1e9)
	}
	fmt.Fprintf(&line, "%7s  published %s/s  consumed %s/s", phase,
		perSecond(before.published, now.published), perSecond(before.consumed, now.consumed))
	if m.run.options.ConfirmWindow > 0 {
		fmt.Fprintf(&line, "  confirmed %s/s", perSecond(before.confirmed, now.confirmed))
	}
	if m.interval.TotalCount() > 0 {
		fmt.Fprintf(&line, "  latency p50 %.0f p99 %.0f us",
			float64(m.interval.ValueAtPercentile(50))/1e3, float64(m.interval.ValueAtPercentile(99))/1e3)
	}
	if m.sampled {
		fmt.Fprintf(&line, "  broker %.0f%% CPU %s", 100*float64(now.brokerCPU-before.brokerCPU)/1e9/span, results.HumanBytes(m.memory.RSS))
	}
	if m.anyBlocked() {
		line.WriteString("  BLOCKED by the broker")
	}
	if m.inPlace {
		fmt.Fprintf(m.progress, "\r%s\x1b[K", line.String())
	} else {
		fmt.Fprintln(m.progress, line.String())
	}
}

func (m *meter) anyBlocked() bool {
	for _, p := range m.run.publishers {
		if p.Blocked.Load() {
			return true
		}
	}
	return false
}

// finish ends the measured window. The clients are still running, or have
// failed.
func (m *meter) finish() {
	m.windowEnd = m.read()
	m.sampleMemory()
	if !m.begun {
		// Interrupted in the warm-up: better that than nothing.
		m.windowBegin = m.first
	}
	m.drainLatency(m.latency)
	if m.inPlace && m.progress != nil {
		fmt.Fprintln(m.progress)
	}
}
