package perf

import (
	"fmt"
	"io"
	"time"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// throughputResult is the JSON result of the throughput scenario, with all its
// options.
type throughputResult struct {
	results.Throughput
	Options *throughputOptions `json:"options"`
}

// result computes the figures; the loops have ended.
func (m *meter) result() *throughputResult {
	begin, end := m.windowBegin, m.windowEnd
	// Not those of the window's end: a message may be consumed and end the run
	// before the loop that published it has counted it.
	totals := m.countersNow()
	span := time.Duration(max(end.at-begin.at, 1))
	rate := func(from, to uint64, last int64) float64 {
		seconds := span.Seconds()
		if m.countEnded && last > begin.at {
			// What came after the last message was waiting, not work.
			seconds = float64(last-begin.at) / 1e9
		}
		return float64(to-from) / seconds
	}
	result := &throughputResult{Options: m.run.options, Throughput: results.Throughput{
		Scenario: "throughput", Seconds: span.Seconds(),
		PublishedPerSecond: rate(begin.published, end.published, end.lastPublish),
		ConsumedPerSecond:  rate(begin.consumed, end.consumed, end.lastConsume),
		ConfirmedPerSecond: rate(begin.confirmed, end.confirmed, 0),
		PublishedTotal:     totals.published, ConsumedTotal: totals.consumed,
		ConfirmedTotal: totals.confirmed, NackedTotal: totals.nacked, AckedTotal: totals.acked,
		VerifyFailures: totals.failures, OutOfOrder: totals.outOfOrder,
		BytesOutPerSecond: rate(begin.publishedBytes, end.publishedBytes, end.lastPublish),
		BytesInPerSecond:  rate(begin.bytesIn, end.bytesIn, end.lastConsume),
		BacklogAtStart:    m.run.backlog,
		Versions:          m.run.broker,
		Environment:       scenario.ReadEnvironment(m.run.options.Record),
	}}
	if len(m.run.publishers) > 0 {
		result.PublishWireBytes = m.run.publishers[0].Encoding.Size
	}
	if m.run.options.MeasureLatency {
		result.Latency = client.NewLatencyFigures(m.latency, m.stale)
	}
	m.addCosts(result, span)
	return result
}

// addCosts fills in CPU and memory.
func (m *meter) addCosts(result *throughputResult, span time.Duration) {
	begin, end := m.windowBegin, m.windowEnd
	messages := max(1, end.published-begin.published, end.consumed-begin.consumed)
	costs := process.Between(begin.usage, end.usage, span)
	result.ClientCPU = float64(costs.OwnCPU) / float64(messages)
	result.ClientCores = float64(costs.OwnCPU) / float64(span)
	result.ClientLoops = costs.OwnShares
	if m.memory.Known {
		perMessage := float64(costs.BrokerCPU) / float64(messages)
		cores := float64(costs.BrokerCPU) / float64(span)
		result.BrokerCPU, result.BrokerCores, result.BrokerThread = &perMessage, &cores, &costs.BrokerThread
		result.RSS = &rssFigures{Last: m.memory.Last, Max: m.memory.Max}
		result.WriteCosts = newWriteCosts(begin, end, end.published-begin.published, m.run.options.Size)
		result.Bottleneck = costs.OwnBottleneck(func(i int) bool { return len(m.run.loops[i].Clients) > 0 })
	}
}

// bottleneckAdvice says what may help; more loops only do while clients share
// them and there are cores.
func (r *throughputResult) bottleneckAdvice() string {
	clients := r.Options.Publishers + r.Options.Consumers
	if loops := min(clients, r.Environment.CPU.Cores); loops > r.Options.Loops {
		return fmt.Sprintf("try --loops %d", loops)
	}
	return "spread the load over more clients, or give it more cores"
}

func (r *throughputResult) writeText(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Broker", "%s %s", r.Versions.BrokerProduct, r.Versions.BrokerVersion)
	line("Measured", "%.1f s", r.Seconds)
	if r.BacklogAtStart > 0 {
		line("Backlog", "%s messages were in the queues at the start", results.HumanCount(r.BacklogAtStart))
	}
	line("Published", "%s/s, %s in total", results.HumanCount(uint64(r.PublishedPerSecond)), results.HumanCount(r.PublishedTotal))
	line("Consumed", "%s/s, %s in total", results.HumanCount(uint64(r.ConsumedPerSecond)), results.HumanCount(r.ConsumedTotal))
	if r.Options.ConfirmWindow > 0 {
		line("Confirmed", "%s/s, %s in total, %s nacked", results.HumanCount(uint64(r.ConfirmedPerSecond)), results.HumanCount(r.ConfirmedTotal), results.HumanCount(r.NackedTotal))
	}
	if l := r.Latency; l != nil {
		line("Latency", "min %.0f  p50 %.0f  p95 %.0f  p99 %.0f  p99.9 %.0f  max %.0f us (%s messages)",
			l.Min, l.P50, l.P95, l.P99, l.P999, l.Max, results.HumanCount(uint64(l.Samples)))
		if l.Stale > 0 {
			line("", "%s messages from before the run were not counted", results.HumanCount(l.Stale))
		}
	}
	if r.Options.Verify {
		line("Verified", "%d bodies wrong, %d messages out of order", r.VerifyFailures, r.OutOfOrder)
	}
	if r.BrokerCPU != nil {
		line("Broker CPU", "%.0f ns/message, %.2f cores, busiest thread %.0f%%", *r.BrokerCPU, *r.BrokerCores, 100**r.BrokerThread)
		line("Broker memory", "RSS %s (max %s), peak %s, anonymous %s, file %s", results.HumanBytes(r.RSS.Last.RSS),
			results.HumanBytes(r.RSS.Max.RSS), results.HumanBytes(r.RSS.Max.HWM), results.HumanBytes(r.RSS.Last.Anon), results.HumanBytes(r.RSS.Last.File))
	}
	if w := r.WriteCosts; w != nil {
		line("Broker writes", "%s, %.2f bytes per payload byte, %.2f per record byte", results.HumanBytes(w.Bytes), w.PerPayload, w.PerRecord)
	}
	if f := r.Relay; f != nil {
		line("Bare relay", "%s/s before, %s/s after; this run is %.3f of it", results.HumanCount(uint64(f.Before)), results.HumanCount(uint64(f.After)), f.Fraction)
	}
	line("This tool's CPU", "%.0f ns/message, %.2f cores", r.ClientCPU, r.ClientCores)
	if r.Bottleneck {
		line("Warning", "this tool is the bottleneck: its loops are busy and the broker is not; %s", r.bottleneckAdvice())
	}
	if r.Interrupted {
		line("Note", "interrupted: a partial result")
	}
	if r.Error != "" {
		line("Note", "ended early by an error: a partial result")
	}
}
