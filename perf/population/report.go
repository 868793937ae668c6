package population

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// Result is the JSON result of a count scenario.
type Result struct {
	results.Head
	Unit             string              `json:"unit"`
	Before           *results.BrokerLook `json:"before"` // idle, nothing made yet
	Rows             []*results.CountRow `json:"rows"`
	RemovedPerSecond float64             `json:"removed_per_s,omitempty"`
	After            *results.BrokerLook `json:"after,omitempty"` // all removed again
	Options          any                 `json:"options"`
}

func newResult(name, unit string, options any) *Result {
	return &Result{
		Head: results.Head{Scenario: name, Versions: results.Versions{Tool: scenario.ToolVersion()}},
		Unit: unit, Options: options,
	}
}

// compare fills in the growth of memory; the row is not in the result yet.
func (r *Result) compare(row *results.CountRow) {
	if row.Look.Memory == nil || r.Before.Memory == nil || row.Count == 0 {
		return
	}
	each := func(before *results.Memory, count int) *float64 {
		bytes := (float64(row.Look.Memory.RSS) - float64(before.RSS)) / float64(count)
		return &bytes
	}
	row.BytesEach = each(r.Before.Memory, row.Count)
	if len(r.Rows) > 0 {
		if last := r.Rows[len(r.Rows)-1]; row.Count > last.Count {
			row.BytesEachMore = each(last.Look.Memory, row.Count-last.Count)
		}
	}
}

// run measures and writes the result.
func (o *common) run(ctx context.Context, r *Result, measure func(context.Context, *Result, scenario.Console) error, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	return r.end(ctx, o, measure(ctx, r, out), out)
}

// end writes the result, with what went wrong.
func (r *Result) end(ctx context.Context, o *common, failure error, out scenario.Console) error {
	o.End(ctx, &r.Head, failure)
	if len(r.Rows) == 0 && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, r, func() { r.writeText(out.Stdout) }), failure)
}

func (r *Result) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %s\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion, r.Unit)
	fmt.Fprintf(w, "%-12s %10s %10s %10s %12s %12s %12s %12s %12s\n", "count", "RSS", "anonymous", "peak", "bytes each", "each more",
		"made/s", "broker ns", "this tool ns")
	memory := func(name string, look *results.BrokerLook) {
		fmt.Fprintf(w, "%-12s", name)
		if m := look.Memory; m != nil {
			fmt.Fprintf(w, " %10s %10s %10s", results.HumanBytes(m.RSS), results.HumanBytes(m.Anon), results.HumanBytes(m.HWM))
		} else {
			fmt.Fprintf(w, " %10s %10s %10s", "-", "-", "-")
		}
	}
	whole := func(value *float64) string {
		if value == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f", *value)
	}
	memory("0", r.Before)
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		memory(results.HumanCount(uint64(row.Count)), row.Look)
		fmt.Fprintf(w, " %12s %12s %12s %12s %12.0f\n", whole(row.BytesEach), whole(row.BytesEachMore), results.HumanCount(uint64(row.PerSecond)),
			whole(row.BrokerCPU), row.ClientCPU)
		if d := row.Look.Disk; d != nil {
			fmt.Fprintf(w, "%-12s %s on disk in %s files\n", "", results.HumanBytes(d.Allocated), results.HumanCount(uint64(d.Files)))
		}
		if row.Bottleneck {
			fmt.Fprintf(w, "%-12s this tool is the bottleneck of making them: it is busy and the broker is not\n", "")
		}
	}
	if r.After != nil {
		memory("0 again", r.After)
		fmt.Fprintf(w, "   removed at %s/s\n", results.HumanCount(uint64(r.RemovedPerSecond)))
	}
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
	if r.Error != "" {
		fmt.Fprintln(w, "Ended early by an error: a partial result")
	}
}
