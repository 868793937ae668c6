package perf

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// confirmOptions are the options of the confirm scenario.
type confirmOptions struct {
	scenario.Target
	Size         uint64        `json:"size"`
	Combinations string        `json:"combinations"`
	Connections  int           `json:"connections"`
	Queue        string        `json:"queue"`
	Duration     time.Duration `json:"duration_ns"` // of each combination
	Warmup       time.Duration `json:"warmup_ns"`
	RawTime      time.Duration `json:"raw_time_ns"` // of each raw disk figure

	list []confirmCombination
}

// confirmCombination is one line of the result.
type confirmCombination struct {
	queues, window int // window of each publishing channel
	channels       int // one per queue, or per connection if those are more
}

func (c confirmCombination) totalWindow() int { return c.channels * c.window }

// Limits of a combination.
const (
	confirmChannelsMax    = 1 << 16
	confirmTotalWindowMax = rawBatchRecords
)

// The last three have the same total window; one queue comes before and after
// the many, because machines drift.
const confirmDefault = "1x1,1x100,1x1000,1x10000,100x100,1000x10,1x10000"

func confirmScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "confirm",
		Summary: "publish with confirms: windows and queues against the raw disk",
		Details: "Publishes persistent messages to durable queues, nobody consumes. For each\n" +
			"combination QUEUESxWINDOW: messages confirmed per second, latency from sending a\n" +
			"message to the confirm that covers it, CPU, memory and bytes written by the broker.\n" +
			"Each queue has a channel with that many unconfirmed messages at most; channels are\n" +
			"spread over -x connections. With more connections than queues each connection has\n" +
			"one channel, with a window of its own.\n\n" +
			"With --data-dir the raw disk is measured right before and after each combination:\n" +
			"batches of as many records as the windows allow to be outstanding, with one write\n" +
			"and one fdatasync each, to a growing file and over a file written before.\n\n" +
			"The queues (--queue with a number) are deleted before and after.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &confirmOptions{
				Size: 16, Combinations: confirmDefault, Connections: 1, Queue: "perf-confirm",
				Duration: 3 * time.Second, Warmup: time.Second, RawTime: 500 * time.Millisecond,
			}
			flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body")
			flags.Text(&o.Combinations, "w", "combinations", "LIST", "queues and window of each, as QUEUESxWINDOW,…")
			flags.Count(&o.Connections, "x", "publishers", "N", "connections to spread the channels over")
			flags.Text(&o.Queue, "u", "queue", "PREFIX", "what the queues' names start with; existing ones are deleted")
			flags.Duration(&o.Duration, "z", "time", "SECONDS", "measure each combination for this long")
			flags.Duration(&o.Warmup, "", "warmup", "SECONDS", "run each this long before measuring")
			flags.Duration(&o.RawTime, "", "raw-time", "SECONDS", "measure each raw disk figure for this long")
			o.Target.Declare(flags, "measure the raw disk of the broker's data directory as well")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return runConfirm(ctx, o, out)
			}
		},
	}
}

// finish checks the options and reads the combinations.
func (o *confirmOptions) finish() error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	switch {
	case o.Connections < 1 || o.Connections > connectionsMax:
		return cli.Usagef("--publishers is 1 to %d", connectionsMax)
	case o.Size > bodyBytesMax:
		return cli.Usagef("--size is at most %d", bodyBytesMax)
	case o.Duration <= 0 || o.RawTime <= 0:
		return cli.Usagef("--time and --raw-time must be above 0")
	case o.Queue == "" || len(o.Queue) > shortStringMax-16:
		return cli.Usagef("--queue is 1 to %d bytes", shortStringMax-16)
	}
	for text := range strings.SplitSeq(o.Combinations, ",") {
		combination, err := parseCombination(text, o.Connections)
		if err != nil {
			return err
		}
		o.list = append(o.list, combination)
	}
	return nil
}

func parseCombination(text string, connections int) (confirmCombination, error) {
	queues, window, found := strings.Cut(strings.TrimSpace(text), "x")
	queueCount, err := cli.ParseQuantity(queues)
	windowSize, err2 := cli.ParseQuantity(window)
	if !found || err != nil || err2 != nil {
		return confirmCombination{}, cli.Usagef("--combinations: %q is not QUEUESxWINDOW", text)
	}
	channels := max(queueCount, uint64(connections))
	if queueCount == 0 || windowSize == 0 || channels > confirmChannelsMax || windowSize > confirmTotalWindowMax ||
		channels*windowSize > confirmTotalWindowMax {
		return confirmCombination{}, cli.Usagef("--combinations: %q is not between 1x1 and %d channels, %d messages together",
			text, confirmChannelsMax, confirmTotalWindowMax)
	}
	return confirmCombination{queues: int(queueCount), window: int(windowSize), channels: int(channels)}, nil
}

func (o *confirmOptions) queueName(number int) string {
	return o.Queue + "-" + strconv.Itoa(number+1)
}

// throughputOptions are what the shared parts of a run want to know.
func (o *confirmOptions) throughputOptions(c confirmCombination) *throughputOptions {
	options := &throughputOptions{
		Target: o.Target, Publishers: min(o.Connections, c.channels), Size: o.Size, ConfirmWindow: c.window,
		Persistent: true, Duration: o.Duration, Warmup: o.Warmup,
	}
	options.Loops = min(o.Loops, o.Connections, c.channels)
	return options
}

// runConfirm measures all combinations. An error or Ctrl-C leaves the result
// of those measured so far.
func runConfirm(ctx context.Context, o *confirmOptions, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	result := &confirmResult{Options: o, Confirm: results.Confirm{Scenario: "confirm"}}
	var disk *rawDisk
	if o.Record.DataDir != "" {
		if disk, err = openRawDisk(o.Record.DataDir); err != nil {
			return err
		}
		defer disk.close()
	}
	var failure error
	for _, combination := range o.list {
		if failure != nil || ctx.Err() != nil {
			break
		}
		var row *confirmRow
		row, failure = measureCombination(ctx, o, combination, disk, result, out)
		if failure != nil {
			failure = fmt.Errorf("%d queues, window %d: %w", combination.queues, combination.window, failure)
		} else if row != nil {
			result.Rows = append(result.Rows, row)
		}
	}
	result.finish(ctx, failure)
	if len(result.Rows) == 0 && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, result, func() { result.writeText(out.Stdout) }), failure, result.Check())
}

// measureCombination measures one combination between two looks at the raw
// disk. The row is nil when the run was interrupted before there was one.
func measureCombination(ctx context.Context, o *confirmOptions, c confirmCombination, disk *rawDisk, result *confirmResult, out scenario.Console) (*confirmRow, error) {
	appendBefore, overwriteBefore, err := measureRawPair(ctx, o, c, disk)
	if err != nil {
		return nil, err
	}
	run, err := newThroughputRun(o.throughputOptions(c))
	if err != nil {
		return nil, err
	}
	defer run.close()
	if err := connectConfirm(run, o, c, &result.Versions); err != nil {
		return nil, err
	}
	meter, failure := run.execute(ctx, out)
	if failure != nil {
		return nil, failure
	}
	row := newConfirmRow(o, c, meter)
	row.Interrupted = ctx.Err() != nil
	if disk != nil && ctx.Err() == nil {
		appendAfter, overwriteAfter, err := measureRawPair(ctx, o, c, disk)
		if err != nil {
			return nil, err
		}
		row.RawAppend = newRawComparison(row, appendBefore, appendAfter)
		row.RawOverwrite = newRawComparison(row, overwriteBefore, overwriteAfter)
	}
	return row, deleteConfirmQueues(o, c)
}

func measureRawPair(ctx context.Context, o *confirmOptions, c confirmCombination, disk *rawDisk) (appended, overwritten rawFigures, err error) {
	if disk == nil {
		return appended, overwritten, nil
	}
	if appended, err = disk.measure(ctx, rawAppend, c.totalWindow(), o.RawTime); err != nil {
		return appended, overwritten, err
	}
	overwritten, err = disk.measure(ctx, rawOverwrite, c.totalWindow(), o.RawTime)
	return appended, overwritten, err
}
