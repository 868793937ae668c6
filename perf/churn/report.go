package churn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// Result is the JSON result of a churn scenario.
type Result struct {
	results.Head
	Unit    string              `json:"unit"` // what an operation is
	Rows    []*results.ChurnRow `json:"rows"`
	Options *Options            `json:"options"`
}

func newResult(w work, o *Options) *Result {
	return &Result{
		Head: results.Head{Scenario: w.name, Versions: results.Versions{Tool: scenario.ToolVersion()}},
		Unit: w.unit, Options: o,
	}
}

// describe names a row.
func describe(r *results.ChurnRow) string {
	return strings.TrimPrefix(fmt.Sprintf("%s, window %d", r.Kind, r.Window), ", ")
}

// finish fills in what concerns all rows.
func (r *Result) finish(ctx context.Context, failure error) {
	r.Options.End(ctx, &r.Head, failure)
}

// check returns what makes a run a failure although it was measured.
func (r *Result) check() error {
	for _, row := range r.Rows {
		if row.Operations == 0 && !row.Interrupted && r.Error == "" {
			return fmt.Errorf("%s: the broker did nothing in %.1f s", describe(row), row.Seconds)
		}
	}
	return nil
}

func (r *Result) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %s; durability: %s\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion, r.Unit,
		cmp.Or(r.Environment.Durability, "unknown"))
	fmt.Fprintf(w, "%-10s %7s %12s %9s %9s %9s %12s %10s %12s\n", "kind", "window", "per second", "p50 us", "p99 us", "p99.9 us",
		"broker ns", "RSS", "this tool ns")
	for _, row := range r.Rows {
		cpu, rss := "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), results.HumanBytes(row.RSS.Last.RSS)
		}
		fmt.Fprintf(w, "%-10s %7d %12s %9.0f %9.0f %9.0f %12s %10s %12.0f\n", cmp.Or(row.Kind, "-"), row.Window,
			results.HumanCount(uint64(row.PerSecond)), row.Latency.P50, row.Latency.P99, row.Latency.P999, cpu, rss, row.ClientCPU)
		if row.Bottleneck {
			fmt.Fprintln(w, "           this tool is the bottleneck: its loops are busy and the broker is not; try more connections or --loops")
		}
	}
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
	if r.Error != "" {
		fmt.Fprintln(w, "Ended early by an error: a partial result")
	}
}
