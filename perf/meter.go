package perf

import (
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// snapshot is what all counters said at one moment.
type snapshot struct {
	at                        int64
	published, publishedBytes uint64
	consumed, bytesIn         uint64
	confirmed, nacked, acked  uint64
	failures, outOfOrder      uint64
	lastPublish, lastConsume  int64
	usage                     process.Usage
}

// meter turns the loops' counters into a progress line and a result. Called
// only from the goroutine that runs the scenario.
type meter struct {
	run      *throughputRun
	progress *scenario.Progress

	first, windowBegin, windowEnd, lastTick snapshot

	begun      bool
	countEnded bool // the work ended the run, not the clock
	latency    *hdrhistogram.Histogram
	interval   *hdrhistogram.Histogram
	delays     *hdrhistogram.Histogram // of the publishers' own schedule
	stale      uint64
	memory     process.MemoryWatch
}

func newMeter(run *throughputRun, out scenario.Console) *meter {
	m := &meter{
		run: run, latency: client.NewHistogram(), interval: client.NewHistogram(), delays: client.NewHistogram(),
		progress: scenario.NewProgress(out, run.options.Output.Quiet), memory: process.MemoryWatch{PID: run.options.BrokerPID},
	}
	m.first = m.read()
	m.windowBegin, m.lastTick = m.first, m.first
	return m
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
	s.usage = scenario.ReadUsage(m.run.options.BrokerPID, m.run.loops)
	return s
}

// begin starts the measured window.
func (m *meter) begin() {
	m.drainLatency(nil)
	m.drainDelays(nil)
	m.stale = 0
	m.windowBegin, m.begun = m.read(), true
	m.memory.Sample()
}

func (m *meter) drainLatency(target *hdrhistogram.Histogram) {
	for _, l := range m.run.loops {
		if l.Latency != nil {
			m.stale += l.Latency.DrainInto(target)
		}
	}
}

func (m *meter) drainDelays(target *hdrhistogram.Histogram) {
	for _, l := range m.run.loops {
		if l.Delays != nil {
			l.Delays.DrainInto(target)
		}
	}
}

// tick is called once a second.
func (m *meter) tick() {
	m.memory.Sample()
	m.interval.Reset()
	m.drainLatency(m.interval)
	if m.begun {
		m.latency.Merge(m.interval)
	}
	now := m.read()
	m.showProgress(m.lastTick, now)
	m.lastTick = now
}

func (m *meter) showProgress(before, now snapshot) {
	span := float64(now.at-before.at) / 1e9
	perSecond := func(from, to uint64) string { return results.HumanCount(uint64(float64(to-from) / span)) }
	var line strings.Builder
	phase := "warm-up"
	if m.begun {
		phase = fmt.Sprintf("%.0fs", float64(now.at-m.windowBegin.at)/1e9)
	}
	fmt.Fprintf(&line, "%s%7s  published %s/s  consumed %s/s", m.run.options.label, phase,
		perSecond(before.published, now.published), perSecond(before.consumed, now.consumed))
	if m.run.options.ConfirmWindow > 0 {
		fmt.Fprintf(&line, "  confirmed %s/s", perSecond(before.confirmed, now.confirmed))
	}
	if m.interval.TotalCount() > 0 {
		fmt.Fprintf(&line, "  latency p50 %.0f p99 %.0f us",
			float64(m.interval.ValueAtPercentile(50))/1e3, float64(m.interval.ValueAtPercentile(99))/1e3)
	}
	if m.memory.Known {
		fmt.Fprintf(&line, "  broker %.0f%% CPU %s", 100*float64(now.usage.BrokerCPU-before.usage.BrokerCPU)/1e9/span, results.HumanBytes(m.memory.Last.RSS))
	}
	if m.anyBlocked() {
		line.WriteString("  BLOCKED by the broker")
	}
	m.progress.Show(line.String())
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
	m.memory.Sample()
	if !m.begun {
		// Interrupted in the warm-up: better that than nothing.
		m.windowBegin = m.first
	}
	m.drainLatency(m.latency)
	m.drainDelays(m.delays)
	m.progress.End()
}
