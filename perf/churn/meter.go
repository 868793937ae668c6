package churn

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// sample is what all counters said at one moment.
type sample struct {
	at, last   int64 // ns; last: of the latest operation
	operations uint64
	usage      process.Usage
}

// meter turns the loops' counters into a progress line and a row.
type meter struct {
	run      *rowRun
	unit     string
	progress *scenario.Progress

	first, windowBegin, windowEnd, lastTick sample

	begun      bool
	countEnded bool // the operations ran out, not the clock
	latency    *hdrhistogram.Histogram
	interval   *hdrhistogram.Histogram
	memory     process.MemoryWatch
}

func newMeter(run *rowRun, unit string, out scenario.Console) *meter {
	m := &meter{
		run: run, unit: unit, progress: scenario.NewProgress(out, run.o.Output.Quiet),
		latency: client.NewHistogram(), interval: client.NewHistogram(),
		memory: process.MemoryWatch{PID: run.o.BrokerPID},
	}
	m.first = m.read()
	m.windowBegin, m.lastTick = m.first, m.first
	return m
}

func (m *meter) read() sample {
	s := sample{at: client.Now(), usage: scenario.ReadUsage(m.run.o.BrokerPID, m.run.loops)}
	for _, l := range m.run.loops {
		s.operations += l.Operations.Load()
		s.last = max(s.last, l.LastOperation.Load())
	}
	return s
}

func (m *meter) drainLatency(into *hdrhistogram.Histogram) {
	for _, l := range m.run.loops {
		if l.Latency != nil {
			l.Latency.DrainInto(into)
		}
	}
}

// begin starts the measured window.
func (m *meter) begin() {
	m.drainLatency(nil)
	m.windowBegin, m.begun = m.read(), true
	m.memory.Sample()
}

// tick is called once a second.
func (m *meter) tick() {
	m.memory.Sample()
	m.interval.Reset()
	m.drainLatency(m.interval)
	if m.begun {
		m.latency.Merge(m.interval)
	}
	now, before := m.read(), m.lastTick
	m.lastTick = now
	span := float64(now.at-before.at) / 1e9
	phase := "warm-up"
	if m.begun {
		phase = fmt.Sprintf("%.0fs", float64(now.at-m.windowBegin.at)/1e9)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s: %7s  %s %s/s", describe(m.run.row), phase,
		results.HumanCount(uint64(float64(now.operations-before.operations)/span)), m.unit)
	if m.interval.TotalCount() > 0 {
		fmt.Fprintf(&line, "  latency p50 %.0f p99 %.0f us",
			float64(m.interval.ValueAtPercentile(50))/1e3, float64(m.interval.ValueAtPercentile(99))/1e3)
	}
	if m.memory.Known {
		fmt.Fprintf(&line, "  broker %.0f%% CPU %s", 100*float64(now.usage.BrokerCPU-before.usage.BrokerCPU)/1e9/span,
			results.HumanBytes(m.memory.Last.RSS))
	}
	m.progress.Show(line.String())
}

// finish ends the measured window.
func (m *meter) finish() {
	m.windowEnd = m.read()
	m.memory.Sample()
	if !m.begun {
		// Interrupted in the warm-up: better that than nothing.
		m.windowBegin = m.first
	}
	m.drainLatency(m.latency)
	m.progress.End()
}

// fill computes the figures of the row.
func (m *meter) fill(row *results.ChurnRow) {
	begin, end := m.windowBegin, m.windowEnd
	span := time.Duration(max(end.at-begin.at, 1))
	if m.countEnded && end.last > begin.at {
		// What came after the last operation was waiting, not work.
		span = time.Duration(end.last - begin.at)
	}
	row.Seconds = span.Seconds()
	row.Operations = end.operations - begin.operations
	row.PerSecond = float64(row.Operations) / row.Seconds
	row.Latency = client.NewLatencyFigures(m.latency, 0)
	costs := process.Between(begin.usage, end.usage, time.Duration(max(end.at-begin.at, 1)))
	operations := float64(max(row.Operations, 1))
	row.ClientCPU = float64(costs.OwnCPU) / operations
	row.ClientCores = float64(costs.OwnCPU) / float64(span)
	row.ClientLoops = costs.OwnShares
	if !m.memory.Known {
		return
	}
	perOperation, cores := float64(costs.BrokerCPU)/operations, float64(costs.BrokerCPU)/float64(span)
	row.BrokerCPU, row.BrokerCores, row.BrokerThread = &perOperation, &cores, &costs.BrokerThread
	row.RSS = &results.RSS{Last: m.memory.Last, Max: m.memory.Max}
	if begin.usage.WrittenKnown && end.usage.WrittenKnown {
		written := float64(end.usage.BrokerWritten.Called-begin.usage.BrokerWritten.Called) / operations
		row.BrokerWritten = &written
	}
	row.Bottleneck = costs.OwnBottleneck(func(i int) bool { return len(m.run.loops[i].Clients) > 0 })
}
