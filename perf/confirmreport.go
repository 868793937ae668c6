package perf

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/stats"
)

// confirmResult is the JSON result of the confirm scenario, with all its
// options.
type confirmResult struct {
	results.Confirm
	Options *confirmOptions `json:"options"`
}

func newConfirmRow(o *confirmOptions, c confirmCombination, m *meter) *confirmRow {
	figures := m.result()
	row := &confirmRow{
		Queues: c.queues, Window: c.window, TotalWindow: c.totalWindow(), Channels: c.channels,
		Connections: m.run.options.Publishers, Seconds: figures.Seconds,
		ConfirmedPerSecond: figures.ConfirmedPerSecond, NackedTotal: figures.NackedTotal,
		Latency:   client.NewLatencyFigures(m.latency, 0),
		BrokerCPU: figures.BrokerCPU, BrokerCores: figures.BrokerCores, RSS: figures.RSS,
		ClientCPU: figures.ClientCPU, Bottleneck: figures.Bottleneck,
	}
	row.WriteCosts = newWriteCosts(m.windowBegin, m.windowEnd, m.windowEnd.confirmed-m.windowBegin.confirmed, o.Size)
	return row
}

func newRawComparison(row *confirmRow, before, after rawFigures) *rawComparison {
	return &rawComparison{
		Before: before, After: after,
		RateRatio:    stats.Ratio(row.ConfirmedPerSecond, stats.Mean(before.RecordsPerSecond, after.RecordsPerSecond)),
		LatencyRatio: stats.Ratio(row.Latency.P50, stats.Mean(before.P50, after.P50)),
	}
}

// finish fills in what concerns all rows.
func (r *confirmResult) finish(ctx context.Context, failure error) {
	r.Interrupted = ctx.Err() != nil
	if failure != nil {
		r.Error = failure.Error()
	}
	r.Environment = scenario.ReadEnvironment(r.Options.Record)
	for _, row := range r.Rows {
		if row.Queues == 1 {
			continue
		}
		row.OfOneQueue = r.fractionOf(row, func(one *confirmRow) bool {
			return one.Queues == 1 && one.Channels == 1 && one.TotalWindow == row.TotalWindow
		})
		row.OfOneQueueSameChannels = r.fractionOf(row, func(one *confirmRow) bool {
			return one.Queues == 1 && one.Channels == row.Channels && one.Connections == row.Connections && one.Window == row.Window
		})
	}
}

// fractionOf is the row's rate by the mean of those rows that it is to be set
// against; nil when there is none.
func (r *confirmResult) fractionOf(row *confirmRow, isReference func(*confirmRow) bool) *float64 {
	sum, count := 0.0, 0.0
	for _, other := range r.Rows {
		if isReference(other) {
			sum, count = sum+other.ConfirmedPerSecond, count+1
		}
	}
	if count == 0 {
		return nil
	}
	fraction := stats.Ratio(row.ConfirmedPerSecond, sum/count)
	return &fraction
}

// rawText is the rate and, in brackets, the latency by the raw disk's; "-" for
// none. So is what fractionText returns.
func rawText(raw *rawComparison) string {
	if raw == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f)", raw.RateRatio, raw.LatencyRatio)
}

func fractionText(fraction *float64) string {
	if fraction == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *fraction)
}

func (r *confirmResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %d-byte persistent messages, durability: %s\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion,
		r.Options.Size, cmp.Or(r.Environment.Durability, "unknown"))
	fmt.Fprintf(w, "%6s %6s %8s %12s %9s %9s %9s %8s %10s %8s %8s   %s\n", "queues", "window", "channels", "confirmed/s", "p50 us", "p99 us", "p99.9 us",
		"ns CPU", "RSS", "W/pay", "W/rec", "of raw append  overwrite (latency)  of 1 queue  of 1 queue, same channels")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%6d %6d %8d %12s %9.0f %9.0f %9.0f", row.Queues, row.Window, row.Channels, results.HumanCount(uint64(row.ConfirmedPerSecond)),
			row.Latency.P50, row.Latency.P99, row.Latency.P999)
		cpu, rss, perPayload, perRecord := "-", "-", "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), results.HumanBytes(row.RSS.Last.RSS)
		}
		if row.WriteCosts != nil {
			perPayload, perRecord = fmt.Sprintf("%.2f", row.WriteCosts.PerPayload), fmt.Sprintf("%.2f", row.WriteCosts.PerRecord)
		}
		fmt.Fprintf(w, " %8s %10s %8s %8s   ", cpu, rss, perPayload, perRecord)
		fmt.Fprintf(w, "%13s  %19s  %10s  %25s\n", rawText(row.RawAppend), rawText(row.RawOverwrite),
			fractionText(row.OfOneQueue), fractionText(row.OfOneQueueSameChannels))
		if row.Bottleneck {
			fmt.Fprintf(w, "       this tool is the bottleneck: its loop is busy and the broker is not; try more connections (-x)\n")
		}
	}
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
	if r.Error != "" {
		fmt.Fprintln(w, "Ended early by an error: a partial result")
	}
}
