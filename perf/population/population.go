package population

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// common are the options of both scenarios.
type common struct {
	scenario.Target
	Counts string        `json:"counts"`
	Settle time.Duration `json:"settle_ns"`
	Hold   time.Duration `json:"hold_ns,omitempty"`

	counts []int
}

// countMax bounds how many things one run makes.
const countMax = 10000000

func (o *common) declare(flags *cli.FlagSet, what string) {
	o.Counts, o.Settle = "1000", 2*time.Second
	flags.Text(&o.Counts, "n", "counts", "LIST", "how many "+what+", growing; memory is read at each")
	flags.Duration(&o.Settle, "", "settle", "SECONDS", "let the broker rest this long before reading its memory")
	flags.Duration(&o.Hold, "", "hold", "SECONDS", "hold all of them for so long at the end")
}

func (o *common) finish() error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	for text := range strings.SplitSeq(o.Counts, ",") {
		count, err := cli.ParseQuantity(text)
		if err != nil || count == 0 || count > countMax {
			return cli.Usagef("--counts: %q is not a number from 1 to %d", strings.TrimSpace(text), countMax)
		}
		o.counts = append(o.counts, int(count))
	}
	if !slices.IsSorted(o.counts) {
		return cli.Usagef("--counts must grow: %s", o.Counts)
	}
	return nil
}

// most is the largest count.
func (o *common) most() int { return o.counts[len(o.counts)-1] }

// growth is how one kind of thing is made and removed.
type growth struct {
	unit    string
	threads int // how many of this tool's threads make them
	// add makes things number from … to-1 and counts them in made. It returns
	// early, without an error, when ctx ends.
	add func(ctx context.Context, from, to int, made *atomic.Int64) error
	// check finds out whether all count things are still there.
	check func(count int) error
	// remove removes things number 0 … count-1; nil: they stay.
	remove func(count int) error
}

// Scenarios returns all scenarios of this package.
func Scenarios() []scenario.Scenario {
	return []scenario.Scenario{connectionScenario(), queueScenario()}
}

// run grows step by step and removes everything. Ctrl-C ends it early, with the
// figures so far.
func (g *growth) run(ctx context.Context, o *common, r *Result, out scenario.Console) error {
	progress := scenario.NewProgress(out, o.Output.Quiet)
	scenario.Pause(ctx, o.Settle)
	var err error
	if r.Before, err = o.Look(); err != nil {
		return err
	}
	made := 0
	failure := func() error {
		for _, count := range o.counts {
			row := &results.CountRow{}
			from := made
			made, err = g.step(ctx, o, row, from, count, progress)
			if err != nil || ctx.Err() != nil {
				return err
			}
			scenario.Pause(ctx, o.Settle)
			if row.Look, err = o.Look(); err != nil {
				return err
			}
			r.compare(row)
			r.Rows = append(r.Rows, row)
		}
		scenario.Pause(ctx, o.Hold)
		return g.check(made)
	}()
	if g.remove == nil {
		return failure
	}
	began := time.Now()
	if err := g.remove(made); err != nil {
		return errors.Join(failure, err)
	}
	r.RemovedPerSecond = float64(made) / max(time.Since(began).Seconds(), 1e-9)
	if failure == nil && ctx.Err() == nil {
		scenario.Pause(ctx, o.Settle)
		r.After, failure = o.Look()
	}
	return failure
}

// step makes things until there are count, and fills in what that took. It
// returns how many there are.
func (g *growth) step(ctx context.Context, o *common, row *results.CountRow, from, count int, progress *scenario.Progress) (made int, err error) {
	var counter atomic.Int64
	begin, began := process.ReadUsage(o.BrokerPID, nil), client.Now()
	ended := make(chan error, 1)
	go func() { ended <- g.add(ctx, from, count, &counter) }()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	last := int64(0)
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-second.C:
			now := counter.Load()
			progress.Show(fmt.Sprintf("%s of %s %s, %s/s", results.HumanCount(uint64(from)+uint64(now)), results.HumanCount(uint64(count)), g.unit, results.HumanCount(uint64(now-last))))
			last = now
		}
	}
	progress.End()
	span := time.Duration(max(client.Now()-began, 1))
	added := counter.Load()
	row.Count, row.Seconds = from+int(added), span.Seconds()
	row.PerSecond = float64(added) / row.Seconds
	costs := process.Between(begin, process.ReadUsage(o.BrokerPID, nil), span)
	row.ClientCPU = float64(costs.OwnCPU) / float64(max(added, 1))
	if o.BrokerPID > 0 {
		perOne := float64(costs.BrokerCPU) / float64(max(added, 1))
		row.BrokerCPU = &perOne
		// Its share of the cores it can use: threads that wait for replies are idle.
		costs.OwnShares = []float64{float64(costs.OwnCPU) / float64(span) / float64(g.threads)}
		row.Bottleneck = costs.OwnBottleneck(func(int) bool { return true })
	}
	return row.Count, err
}
