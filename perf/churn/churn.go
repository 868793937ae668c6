package churn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
)

// Options are the options of a churn scenario. Those that a scenario does not
// have are left out of its JSON.
type Options struct {
	scenario.Target
	Windows     string        `json:"windows"`
	Kinds       string        `json:"kinds,omitempty"`
	Connections int           `json:"connections,omitempty"`
	Duration    time.Duration `json:"duration_ns"` // of each row
	Warmup      time.Duration `json:"warmup_ns"`
	Operations  uint64        `json:"operations,omitempty"` // of each row
	Prefix      string        `json:"prefix,omitempty"`
	Exchange    string        `json:"exchange,omitempty"`
	Unbind      bool          `json:"unbind,omitempty"`

	windows []int
	kinds   []string
}

// The kinds of things that come in two.
const (
	transient = "transient"
	durable   = "durable"
)

// Limits of the options.
const (
	connectionsMax = 1 << 14
	windowMax      = 1 << 14
	prefixMax      = 200 // of the 255 bytes of a short string
)

// work is what one scenario does again and again. All of it is called on the
// scenario's goroutine.
type work struct {
	name, summary, details string
	unit                   string   // what an operation is called, in the plural
	kinds                  []string // at least one; a single empty one where there is no choice
	windows                string   // default of --windows
	prefix                 string   // default of --prefix; empty: it has no names

	declare func(flags *cli.FlagSet, o *Options) // more options; may be nil
	// prepare and cleanUp run on a control connection before and after a row;
	// nil: nothing to do.
	prepare, cleanUp func(s *session.Session, o *Options, row *results.ChurnRow) error
	// connect opens the connections of a row and gives them to run's loops.
	connect func(run *rowRun) error
	// limit is the largest window; 0: windowMax.
	limit int
}

// Scenarios returns all scenarios of this package.
func Scenarios() []scenario.Scenario {
	var all []scenario.Scenario
	for _, w := range []work{bindWork(), queueWork(), connectionWork(), channelWork(), consumerWork()} {
		all = append(all, w.scenario())
	}
	return all
}

func (w work) scenario() scenario.Scenario {
	return scenario.Scenario{
		Name: w.name, Summary: w.summary, Details: w.details,
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &Options{
				Windows: w.windows, Kinds: strings.Join(w.kinds, ","), Connections: 1, Prefix: w.prefix,
				Duration: 3 * time.Second, Warmup: 500 * time.Millisecond,
			}
			flags.Text(&o.Windows, "w", "windows", "LIST", "operations unanswered at a time on each connection, a row for each")
			if len(w.kinds) > 1 {
				flags.Text(&o.Kinds, "", "kinds", "LIST", "what to measure, a row for each")
			}
			if w.name != connectionName {
				flags.Count(&o.Connections, "x", "connections", "N", "connections that do it at the same time")
			}
			flags.Duration(&o.Duration, "z", "time", "SECONDS", "measure each row for this long; 0: until interrupted or all is done")
			flags.Duration(&o.Warmup, "", "warmup", "SECONDS", "run each row this long before measuring; 0 by default with -C")
			flags.Quantity(&o.Operations, "C", "operations", "N", "end each row after so many operations")
			if w.prefix != "" {
				flags.Text(&o.Prefix, "u", "prefix", "TEXT", "what names start with; existing things of such names are deleted")
			}
			if w.declare != nil {
				w.declare(flags, o)
			}
			o.Target.Declare(flags, "report the filesystem of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := w.finish(flags, o); err != nil {
					return err
				}
				return w.run(ctx, o, out)
			}
		},
	}
}

// finish checks the options.
func (w work) finish(flags *cli.FlagSet, o *Options) error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	if flags.Given("operations") && !flags.Given("warmup") {
		o.Warmup = 0
	}
	if flags.Given("operations") && !flags.Given("time") {
		o.Duration = 0
	}
	limit := windowMax
	if w.limit > 0 {
		limit = w.limit
	}
	for text := range strings.SplitSeq(o.Windows, ",") {
		window, err := cli.ParseQuantity(text)
		if err != nil || window == 0 || window > uint64(limit) {
			return cli.Usagef("--windows: %q is not a number from 1 to %d", strings.TrimSpace(text), limit)
		}
		o.windows = append(o.windows, int(window))
	}
	for kind := range strings.SplitSeq(o.Kinds, ",") {
		if kind = strings.TrimSpace(kind); !slices.Contains(w.kinds, kind) {
			return cli.Usagef("--kinds: %q is not one of %s", kind, strings.Join(w.kinds, ", "))
		}
		o.kinds = append(o.kinds, kind)
	}
	switch {
	case o.Connections < 1 || o.Connections > connectionsMax:
		return cli.Usagef("--connections is 1 to %d", connectionsMax)
	case w.prefix != "" && (o.Prefix == "" || len(o.Prefix) > prefixMax):
		return cli.Usagef("--prefix is 1 to %d bytes", prefixMax)
	}
	return nil
}

// run measures all rows. An error or Ctrl-C leaves the result of those measured
// so far.
func (w work) run(ctx context.Context, o *Options, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	result := newResult(w, o)
	var failure error
	for _, kind := range o.kinds {
		for _, window := range o.windows {
			if failure != nil || ctx.Err() != nil {
				break
			}
			row := &results.ChurnRow{Kind: kind, Window: window, Connections: o.Connections}
			measured, err := w.measureRow(ctx, o, row, result, out)
			if measured {
				result.Rows = append(result.Rows, row)
			}
			if err != nil {
				failure = fmt.Errorf("%s: %w", describe(row), err)
			}
		}
	}
	result.finish(ctx, failure)
	if len(result.Rows) == 0 && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, result, func() { result.writeText(out.Stdout) }), failure, result.check())
}
