package perf

import (
	"context"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// minLatencyBytes is the smallest body that holds a time.
const minLatencyBytes = client.StampBytes

// latencyResult is the JSON result of the latency scenario.
type latencyResult struct {
	results.Head
	Rows    []*latencyRow   `json:"rows"`
	Options *latencyOptions `json:"options"`
}

// keptUpShare is the part of the intended rate from which on the schedule was
// kept. Below it, messages queue up in front of the broker, and latency is a
// matter of how long the run was.
const keptUpShare = 0.99

func newLatencyResult(o *latencyOptions) *latencyResult {
	return &latencyResult{Head: results.Head{Scenario: "latency", Versions: results.Versions{Tool: scenario.ToolVersion()}}, Options: o}
}

func newLatencyRow(o *latencyOptions, rate uint64, m *meter) *latencyRow {
	f := m.result()
	row := &latencyRow{
		Rate: rate, Seconds: f.Seconds, PublishedPerSecond: f.PublishedPerSecond, ConsumedPerSecond: f.ConsumedPerSecond,
		Published: f.PublishedTotal, Missing: f.PublishedTotal - min(f.PublishedTotal, f.ConsumedTotal),
		Latency: f.Latency, SendDelay: client.NewLatencyFigures(m.delays, 0),
		BrokerCPU: f.BrokerCPU, BrokerCores: f.BrokerCores, BrokerThread: f.BrokerThread, RSS: f.RSS,
		ClientCPU: f.ClientCPU, ClientCores: f.ClientCores, ClientLoops: f.ClientLoops, Bottleneck: f.Bottleneck,
		GivenUp: !m.countEnded,
		KeptUp:  f.PublishedPerSecond >= keptUpShare*float64(rate),
	}
	if o.Series {
		row.Series = percentileSeries(m.latency)
	}
	return row
}

// percentileSeries lists the distribution, each step halving what is above it
// in a few points, as HdrHistogram's own files do.
func percentileSeries(h *hdrhistogram.Histogram) []percentile {
	var series []percentile
	for _, bracket := range h.CumulativeDistribution() {
		series = append(series, percentile{Percentile: bracket.Quantile, Value: float64(bracket.ValueAt) / 1e3, Count: bracket.Count})
	}
	return series
}

// finish fills in what concerns all rows.
func (r *latencyResult) finish(ctx context.Context, failure error) {
	r.Options.End(ctx, &r.Head, failure)
}

// check returns what makes the run a failure although it was measured.
func (r *latencyResult) check() error {
	for _, row := range r.Rows {
		if row.Missing > 0 && !row.Interrupted && !row.GivenUp {
			return fmt.Errorf("%d/s: %d of %d messages did not arrive", row.Rate, row.Missing, row.Published)
		}
	}
	return nil
}

func (r *latencyResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %d-byte messages; latency from the intended send time, us\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion, r.Options.Size)
	fmt.Fprintf(w, "%12s %12s %8s %8s %8s %8s %8s %9s %9s %10s %9s %9s\n", "rate/s", "consumed/s", "p50", "p90", "p99", "p99.9", "p99.99", "max",
		"sent late", "broker ns", "RSS", "own ns")
	for _, row := range r.Rows {
		cpu, rss := "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), results.HumanBytes(row.RSS.Last.RSS)
		}
		l := row.Latency
		fmt.Fprintf(w, "%12s %12s %8.0f %8.0f %8.0f %8.0f %8.0f %9.0f %9.0f %10s %9s %9.0f\n", results.HumanCount(row.Rate),
			results.HumanCount(uint64(row.ConsumedPerSecond)), l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max, row.SendDelay.P99, cpu, rss, row.ClientCPU)
		if l := row.Relay; l != nil {
			fmt.Fprintf(w, "%12s %12s %8.0f %8.0f %8.0f %8.0f %8.0f %9.0f\n", "bare relay", "", l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max)
		}
		switch {
		case row.Missing > 0 && !row.GivenUp:
			fmt.Fprintf(w, "%12s %d of %d messages did not arrive\n", "", row.Missing, row.Published)
		case row.Bottleneck:
			fmt.Fprintf(w, "%12s this tool is the bottleneck: its loops are busy and the broker is not\n", "")
		case !row.KeptUp && !row.Interrupted:
			fmt.Fprintf(w, "%12s only %s/s were sent: the schedule was not kept, latency grows with the time measured\n", "",
				results.HumanCount(uint64(row.PublishedPerSecond)))
		case row.GivenUp && !row.Interrupted:
			fmt.Fprintf(w, "%12s %d messages were still on their way when the run was given up\n", "", row.Missing)
		}
	}
	fmt.Fprintln(w, "\"sent late\": 99 of 100 messages were written by this tool at most so long after their intended time; it is part of the latency.")
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
	if r.Error != "" {
		fmt.Fprintln(w, "Ended early by an error: a partial result")
	}
}
