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
		sum, count := 0.0, 0.0
		for _, one := range r.Rows {
			if one.Queues == 1 && one.TotalWindow == row.TotalWindow {
				sum, count = sum+one.ConfirmedPerSecond, count+1
			}
		}
		if count > 0 {
			fraction := stats.Ratio(row.ConfirmedPerSecond, sum/count)
			row.OfOneQueue = &fraction
		}
	}
}

func (r *confirmResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %d-byte persistent messages, durability: %s\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion,
		r.Options.Size, cmp.Or(r.Environment.Durability, "unknown"))
	fmt.Fprintf(w, "%6s %6s %12s %9s %9s %9s %8s %10s %8s %8s   %s\n", "queues", "window", "confirmed/s", "p50 us", "p99 us", "p99.9 us",
		"ns CPU", "RSS", "W/pay", "W/rec", "of raw append  overwrite (latency)  of 1 queue")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%6d %6d %12s %9.0f %9.0f %9.0f", row.Queues, row.Window, results.HumanCount(uint64(row.ConfirmedPerSecond)),
			row.Latency.P50, row.Latency.P99, row.Latency.P999)
		cpu, rss, perPayload, perRecord := "-", "-", "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), results.HumanBytes(row.RSS.Last.RSS)
		}
		if row.WriteCosts != nil {
			perPayload, perRecord = fmt.Sprintf("%.2f", row.WriteCosts.PerPayload), fmt.Sprintf("%.2f", row.WriteCosts.PerRecord)
		}
		fmt.Fprintf(w, " %8s %10s %8s %8s   ", cpu, rss, perPayload, perRecord)
		for _, raw := range []*rawComparison{row.RawAppend, row.RawOverwrite} {
			if raw != nil {
				fmt.Fprintf(w, "%.2f (%.2f)  ", raw.RateRatio, raw.LatencyRatio)
			}
		}
		if row.OfOneQueue != nil {
			fmt.Fprintf(w, "%.2f", *row.OfOneQueue)
		}
		fmt.Fprintln(w)
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
