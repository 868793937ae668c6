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
	channels       int // as given, or one per queue, or per connection if those are more
}

func (c confirmCombination) totalWindow() int { return c.channels * c.window }

// Limits of a combination.
const (
	confirmChannelsMax    = 1 << 16
	confirmTotalWindowMax = rawBatchRecords
)

// All but the first three have the same total window. One queue, with one channel
// and with as many as the thousand queues have, comes before and after those,
// because machines drift.
const confirmDefault = "1x1,1x100,1x1000,1x10000,1x100x100,100x100,1x10x1000,1000x10,1x10x1000,1x10000"

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
			"QUEUESxWINDOWxCHANNELS has exactly so many channels, at least one for each queue;\n" +
			"channel number i publishes to queue i % QUEUES, and the window is still each\n" +
			"channel's. With fewer channels than connections only so many connections are opened.\n\n" +
			"Rows of several queues are set against one queue in the same run: \"of 1 queue\" is one\n" +
			"with ONE channel and the same total window (1000x10 by 1x10000), \"of 1 queue,\n" +
			"same channels\" one with the same channels, connections and windows (1000x10 by\n" +
			"1x10x1000). The first has the cost of the channels in it, the second only that of the\n" +
			"queues. Where the list has such a row several times, their mean counts: name it before\n" +
			"and after the many.\n\n" +
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
			flags.Text(&o.Combinations, "w", "combinations", "LIST", "queues, window of each channel and channels (one per queue), as QUEUESxWINDOW[xCHANNELS],…")
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

// parseCombination reads QUEUESxWINDOW or QUEUESxWINDOWxCHANNELS.
func parseCombination(text string, connections int) (confirmCombination, error) {
	parts := strings.Split(strings.TrimSpace(text), "x")
	var numbers [3]uint64
	valid := len(parts) == 2 || len(parts) == 3
	for i := 0; valid && i < len(parts); i++ {
		var err error
		numbers[i], err = cli.ParseQuantity(parts[i])
		valid = err == nil
	}
	if !valid {
		return confirmCombination{}, cli.Usagef("--combinations: %q is neither QUEUESxWINDOW nor QUEUESxWINDOWxCHANNELS", text)
	}
	queues, window, channels := numbers[0], numbers[1], numbers[2]
	if len(parts) == 2 {
		channels = max(queues, uint64(connections))
	} else if channels < queues {
		return confirmCombination{}, cli.Usagef("--combinations: %q has %d channels for %d queues: give at least one for each queue", text, channels, queues)
	}
	if queues == 0 || window == 0 || channels > confirmChannelsMax || window > confirmTotalWindowMax ||
		channels*window > confirmTotalWindowMax {
		return confirmCombination{}, cli.Usagef("--combinations: %q is not between 1x1 and %d channels, %d messages together",
			text, confirmChannelsMax, confirmTotalWindowMax)
	}
	return confirmCombination{queues: int(queues), window: int(window), channels: int(channels)}, nil
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
			failure = fmt.Errorf("%s: %w", results.DescribeCombination(combination.queues, combination.window, combination.channels), failure)
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
