package perf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// latencyOptions are the options of the latency scenario.
type latencyOptions struct {
	scenario.Target
	Rates         string        `json:"rates"` // messages a second, all publishers together
	Size          uint64        `json:"size"`
	Publishers    int           `json:"publishers"`
	Consumers     int           `json:"consumers"`
	AckEvery      int           `json:"ack_every"`
	Prefetch      int           `json:"prefetch"`
	ConfirmWindow int           `json:"confirm_window"`
	Persistent    bool          `json:"persistent"`
	Queue         string        `json:"queue"`
	Duration      time.Duration `json:"duration_ns"` // of each rate
	Warmup        time.Duration `json:"warmup_ns"`
	Calibrate     time.Duration `json:"calibrate_ns,omitempty"` // of each of two
	Series        bool          `json:"series"`

	list []uint64
}

// Limits of a latency run. patience is how much longer than planned it may take
// a broker that does not keep up.
const (
	latencyRateMax  = 100000000
	latencyPatience = 5 * time.Second
)

func latencyScenario() scenario.Scenario {
	return scenario.Scenario{
		Name: "latency", Summary: "latency percentiles at given rates, on an open-loop schedule",
		Details: "For each rate of -r, messages are intended for evenly spaced times, whatever became of\n" +
			"those before: a broker that stalls is charged for every message that had to wait. The\n" +
			"latency of a message runs from its intended time until a consumer has read it, also\n" +
			"when it was sent late; how late this tool itself was is shown beside it. A rate ends\n" +
			"when everything has arrived. The queue is deleted before and after.\n\n" +
			"With --calibrate the same bytes go through a process that only copies them, from one\n" +
			"publisher on the same schedule, right before and after each rate: on a busy or virtual\n" +
			"machine much of the upper percentiles is not the broker's.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &latencyOptions{
				Rates: "10k,50k,100k,250k", Size: 16, Publishers: 1, Consumers: 1, Queue: "perf-latency",
				Duration: 5 * time.Second, Warmup: time.Second,
			}
			flags.Text(&o.Rates, "r", "rates", "LIST", "messages a second, all publishers together, a row for each")
			flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body, at least 8: it holds a time")
			flags.Count(&o.Publishers, "x", "publishers", "N", "number of publishers")
			flags.Count(&o.Consumers, "y", "consumers", "N", "number of consumers")
			flags.Count(&o.AckEvery, "a", "ack", "N", "acknowledge every N messages; 0: no_ack")
			flags.Count(&o.Prefetch, "P", "prefetch", "N", "prefetch count of each consumer; 0: unlimited")
			flags.Count(&o.ConfirmWindow, "c", "confirm", "N", "publish with confirms, at most N unconfirmed per publisher")
			flags.Toggle(&o.Persistent, "p", "persistent", "publish persistent messages")
			flags.Text(&o.Queue, "u", "queue", "NAME", "queue to use; an existing one is deleted")
			flags.Duration(&o.Duration, "z", "time", "SECONDS", "measure each rate for this long")
			flags.Duration(&o.Warmup, "", "warmup", "SECONDS", "run each this long before measuring")
			flags.Duration(&o.Calibrate, "", "calibrate", "SECONDS", "measure the bare relay at the same rate for so long before and after")
			flags.Toggle(&o.Series, "", "series", "add the whole percentile series of each rate to the result")
			o.Target.Declare(flags, "report the filesystem of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return runLatency(ctx, o, out)
			}
		},
	}
}

// finish checks the options and reads the rates.
func (o *latencyOptions) finish() error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	if err := checkAcks(o.Prefetch, o.AckEvery); err != nil {
		return err
	}
	switch {
	case o.Size < minLatencyBytes || o.Size > bodyBytesMax:
		return cli.Usagef("--size is %d to %d", minLatencyBytes, bodyBytesMax)
	case o.Publishers < 1 || o.Publishers > connectionsMax || o.Consumers < 1 || o.Consumers > connectionsMax:
		return cli.Usagef("--publishers and --consumers are 1 to %d", connectionsMax)
	case o.Queue == "" || len(o.Queue) > shortStringMax:
		return cli.Usagef("--queue is 1 to %d bytes", shortStringMax)
	case o.Duration <= 0:
		return cli.Usagef("--time must be above 0")
	}
	for text := range strings.SplitSeq(o.Rates, ",") {
		rate, err := cli.ParseQuantity(text)
		if err != nil || rate == 0 || rate > latencyRateMax {
			return cli.Usagef("--rates: %q is not a number from 1 to %d", strings.TrimSpace(text), latencyRateMax)
		}
		if rate%uint64(o.Publishers) != 0 {
			return cli.Usagef("--rates: %d a second can't be shared evenly by %d publishers", rate, o.Publishers)
		}
		o.list = append(o.list, rate)
	}
	return nil
}

// rateOptions are what the shared parts of a run want to know. The messages of
// the warm-up and of the measured time are a fixed number, so that the run ends
// with the last one's arrival; the time is a bound for when that does not come.
func (o *latencyOptions) rateOptions(rate uint64) *throughputOptions {
	planned := o.Warmup + o.Duration
	return &throughputOptions{
		Target: o.Target, Publishers: o.Publishers, Consumers: o.Consumers, Size: o.Size, AckEvery: o.AckEvery, Prefetch: o.Prefetch,
		ConfirmWindow: o.ConfirmWindow, Persistent: o.Persistent, Queue: o.Queue, MeasureLatency: true,
		PublishRate: rate / uint64(o.Publishers), PublishMax: max(1, uint64(float64(rate)*planned.Seconds())),
		Warmup: o.Warmup, Duration: 2*o.Duration + latencyPatience,
		measureDelays: true, label: fmt.Sprintf("%d/s: ", rate),
	}
}

// runLatency measures all rates. An error or Ctrl-C leaves the result of those
// measured so far.
func runLatency(ctx context.Context, o *latencyOptions, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	result := newLatencyResult(o)
	var failure error
	for _, rate := range o.list {
		if failure != nil || ctx.Err() != nil {
			break
		}
		var row *latencyRow
		if row, failure = measureRate(ctx, o, rate, result, out); failure != nil {
			failure = fmt.Errorf("%d/s: %w", rate, failure)
		} else {
			result.Rows = append(result.Rows, row)
		}
	}
	result.finish(ctx, failure)
	if len(result.Rows) == 0 && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, result, func() { result.writeText(out.Stdout) }), failure, result.check())
}

// measureRate measures one rate, with a queue that is new.
func measureRate(ctx context.Context, o *latencyOptions, rate uint64, result *latencyResult, out scenario.Console) (*latencyRow, error) {
	relayed, err := newRelayLatency(ctx, o, rate, out)
	if err != nil {
		return nil, err
	}
	remove := func(s *session.Session) error {
		return s.Call(session.ClientChannel, &amqp.QueueDelete{Queue: []byte(o.Queue)}, &amqp.QueueDeleteOk{})
	}
	if err := o.Control(&result.Versions, remove); err != nil {
		return nil, err
	}
	run, err := newThroughputRun(o.rateOptions(rate))
	if err != nil {
		return nil, err
	}
	defer run.close()
	if err := run.connect(); err != nil {
		return nil, errors.Join(err, o.Control(nil, remove))
	}
	meter, failure := run.execute(ctx, out)
	if failure != nil {
		return nil, failure
	}
	row := newLatencyRow(o, rate, meter)
	row.Interrupted = ctx.Err() != nil
	if err := o.Control(nil, remove); err != nil {
		return nil, err
	}
	row.Relay, err = relayed.finish(ctx)
	return row, err
}
