package perf

import (
	"context"
	"fmt"
	"io"
)

// confirmResult is the JSON result of the confirm scenario.
type confirmResult struct {
	Scenario    string          `json:"scenario"`
	Interrupted bool            `json:"interrupted"`
	Error       string          `json:"error,omitempty"`
	Rows        []*confirmRow   `json:"rows"`
	Options     *confirmOptions `json:"options"`
	Versions    versions        `json:"versions"`
	Environment environment     `json:"environment"`
}

// confirmRow is one combination.
type confirmRow struct {
	Queues      int  `json:"queues"`
	Window      int  `json:"window"`       // of each channel
	TotalWindow int  `json:"total_window"` // of all channels
	Channels    int  `json:"channels"`
	Connections int  `json:"connections"`
	Interrupted bool `json:"interrupted,omitempty"`

	Seconds            float64         `json:"seconds"`
	ConfirmedPerSecond float64         `json:"confirmed_per_s"`
	NackedTotal        uint64          `json:"nacked_total"`
	Latency            *latencyFigures `json:"latency"` // from sending to the confirm

	BrokerCPU   *float64    `json:"broker_cpu_ns_per_message,omitempty"`
	BrokerCores *float64    `json:"broker_cpu_cores,omitempty"`
	RSS         *rssFigures `json:"rss,omitempty"`
	WriteCosts  *writeCosts `json:"broker_writes,omitempty"`
	ClientCPU   float64     `json:"client_cpu_ns_per_message"`
	Bottleneck  bool        `json:"client_is_bottleneck"`

	RawAppend    *rawComparison `json:"raw_append,omitempty"`
	RawOverwrite *rawComparison `json:"raw_overwrite,omitempty"`
	// With many queues: the rate as a fraction of what one queue with the same
	// total window reached in the same run (the mean of all such rows).
	OfOneQueue *float64 `json:"of_one_queue,omitempty"`
}

// rawComparison sets a row against the raw disk: batches of total_window
// records, measured right before and after.
type rawComparison struct {
	Before       rawFigures `json:"before"`
	After        rawFigures `json:"after"`
	RateRatio    float64    `json:"rate_ratio"`    // confirmed/s by raw records/s, the mean of both
	LatencyRatio float64    `json:"latency_ratio"` // median of confirms by median of raw writes, the mean of both
}

func newConfirmRow(o *confirmOptions, c confirmCombination, m *meter) *confirmRow {
	figures := m.result()
	row := &confirmRow{
		Queues: c.queues, Window: c.window, TotalWindow: c.totalWindow(), Channels: c.channels,
		Connections: m.run.options.Publishers, Seconds: figures.Seconds,
		ConfirmedPerSecond: figures.ConfirmedPerSecond, NackedTotal: figures.NackedTotal,
		Latency:   newLatencyFigures(m.latency, 0),
		BrokerCPU: figures.BrokerCPU, BrokerCores: figures.BrokerCores, RSS: figures.RSS,
		ClientCPU: figures.ClientCPU, Bottleneck: figures.Bottleneck,
	}
	row.WriteCosts = newWriteCosts(m.windowBegin, m.windowEnd, m.windowEnd.confirmed-m.windowBegin.confirmed, o.Size)
	return row
}

func newRawComparison(row *confirmRow, before, after rawFigures) *rawComparison {
	return &rawComparison{
		Before: before, After: after,
		RateRatio:    ratio(row.ConfirmedPerSecond, mean(before.RecordsPerSecond, after.RecordsPerSecond)),
		LatencyRatio: ratio(row.Latency.P50, mean(before.P50, after.P50)),
	}
}

// finish fills in what concerns all rows.
func (r *confirmResult) finish(ctx context.Context, failure error) {
	r.Interrupted = ctx.Err() != nil
	if failure != nil {
		r.Error = failure.Error()
	}
	r.Environment = readEnvironment(r.Options.Record)
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
			fraction := ratio(row.ConfirmedPerSecond, sum/count)
			row.OfOneQueue = &fraction
		}
	}
}

// check returns what makes the run a failure although it was measured.
func (r *confirmResult) check() error {
	for _, row := range r.Rows {
		switch {
		case row.NackedTotal > 0:
			return fmt.Errorf("%d queues, window %d: the broker refused %d messages (basic.nack)", row.Queues, row.Window, row.NackedTotal)
		case row.ConfirmedPerSecond == 0 && !row.Interrupted:
			return fmt.Errorf("%d queues, window %d: the broker confirmed nothing", row.Queues, row.Window)
		}
	}
	return nil
}

func (r *confirmResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %d-byte persistent messages, durability: %s\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion,
		r.Options.Size, orUnknown(r.Environment.Durability))
	fmt.Fprintf(w, "%6s %6s %12s %9s %9s %9s %8s %10s %8s %8s   %s\n", "queues", "window", "confirmed/s", "p50 us", "p99 us", "p99.9 us",
		"ns CPU", "RSS", "W/pay", "W/rec", "of raw append  overwrite (latency)  of 1 queue")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%6d %6d %12s %9.0f %9.0f %9.0f", row.Queues, row.Window, humanCount(uint64(row.ConfirmedPerSecond)),
			row.Latency.P50, row.Latency.P99, row.Latency.P999)
		cpu, rss, perPayload, perRecord := "-", "-", "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), humanBytes(row.RSS.Last.RSS)
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

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
