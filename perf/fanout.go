package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fanoutOptions are the options of the fanout scenario.
type fanoutOptions struct {
	scenario.Target
	Queues        string        `json:"queues"`
	Size          uint64        `json:"size"`
	Publishers    int           `json:"publishers"`
	AckEvery      int           `json:"ack_every"`
	Prefetch      int           `json:"prefetch"`
	ConfirmWindow int           `json:"confirm_window"`
	Persistent    bool          `json:"persistent"`
	Prefix        string        `json:"prefix"`
	Duration      time.Duration `json:"duration_ns"` // of each row
	Warmup        time.Duration `json:"warmup_ns"`

	list []int
}

// fanoutQueuesMax bounds the queues, and consumers, of a row.
const fanoutQueuesMax = 10000

func fanoutScenario() scenario.Scenario {
	return scenario.Scenario{
		Name: "fanout", Summary: "publish to a fanout exchange with more and more queues",
		Details: "For each number of -k, publishes to a fanout exchange with that many durable queues\n" +
			"bound to it and a consumer on each. Deliveries a second are those of all queues\n" +
			"together; CPU is by delivery. Exchange and queues (--prefix) are deleted before and\n" +
			"after.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &fanoutOptions{Queues: "1,2,4,8,16", Size: 16, Publishers: 1, Prefix: "perf-fanout", Duration: 3 * time.Second, Warmup: time.Second}
			flags.Text(&o.Queues, "k", "queues", "LIST", "how many queues, a row for each")
			flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body")
			flags.Count(&o.Publishers, "x", "publishers", "N", "number of publishers")
			flags.Count(&o.AckEvery, "a", "ack", "N", "acknowledge every N messages; 0: no_ack")
			flags.Count(&o.Prefetch, "P", "prefetch", "N", "prefetch count of each consumer; 0: unlimited")
			flags.Count(&o.ConfirmWindow, "c", "confirm", "N", "publish with confirms, at most N unconfirmed per publisher")
			flags.Toggle(&o.Persistent, "p", "persistent", "publish persistent messages")
			flags.Text(&o.Prefix, "u", "prefix", "TEXT", "what names start with; existing things of such names are deleted")
			flags.Duration(&o.Duration, "z", "time", "SECONDS", "measure each row for this long")
			flags.Duration(&o.Warmup, "", "warmup", "SECONDS", "run each row this long before measuring")
			o.Target.Declare(flags, "report the filesystem of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return runFanout(ctx, o, out)
			}
		},
	}
}

// finish checks the options and reads the numbers of queues.
func (o *fanoutOptions) finish() error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	if err := checkAcks(o.Prefetch, o.AckEvery); err != nil {
		return err
	}
	switch {
	case o.Size > bodyBytesMax:
		return cli.Usagef("--size is at most %d", bodyBytesMax)
	case o.Publishers < 1 || o.Publishers > connectionsMax:
		return cli.Usagef("--publishers is 1 to %d", connectionsMax)
	case o.Prefix == "" || len(o.Prefix) > shortStringMax-16 || strings.Contains(o.Prefix, "%"):
		return cli.Usagef("--prefix is 1 to %d bytes without %%", shortStringMax-16)
	case o.Duration <= 0:
		return cli.Usagef("--time must be above 0")
	}
	for text := range strings.SplitSeq(o.Queues, ",") {
		count, err := cli.ParseQuantity(text)
		if err != nil || count == 0 || count > fanoutQueuesMax {
			return cli.Usagef("--queues: %q is not a number from 1 to %d", strings.TrimSpace(text), fanoutQueuesMax)
		}
		o.list = append(o.list, int(count))
	}
	return nil
}

// rowOptions are what the shared parts of a run want to know.
func (o *fanoutOptions) rowOptions(queues int) *throughputOptions {
	return &throughputOptions{
		Target: o.Target, Publishers: o.Publishers, Consumers: queues, Size: o.Size, AckEvery: o.AckEvery, Prefetch: o.Prefetch,
		ConfirmWindow: o.ConfirmWindow, Persistent: o.Persistent, Exchange: o.Prefix, routingSet: true,
		QueuePattern: o.Prefix + "-%", PatternFrom: 1, PatternTo: queues, Duration: o.Duration, Warmup: o.Warmup,
		label: fmt.Sprintf("%d queues: ", queues),
	}
}

// fanoutResult is the JSON result of the fanout scenario.
type fanoutResult struct {
	results.Head
	Rows    []*fanoutRow   `json:"rows"`
	Options *fanoutOptions `json:"options"`
}

// runFanout measures all rows. An error or Ctrl-C leaves the result of those
// measured so far.
func runFanout(ctx context.Context, o *fanoutOptions, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	r := &fanoutResult{Head: results.Head{Scenario: "fanout"}, Options: o}
	var failure error
	for _, queues := range o.list {
		if failure != nil || ctx.Err() != nil {
			break
		}
		var row *fanoutRow
		if row, failure = o.measure(ctx, queues, &r.Versions, out); failure != nil {
			failure = fmt.Errorf("%d queues: %w", queues, failure)
		} else {
			r.Rows = append(r.Rows, row)
		}
	}
	o.End(ctx, &r.Head, failure)
	if len(r.Rows) == 0 && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, r, func() { r.writeText(out.Stdout) }), failure)
}

func (o *fanoutOptions) measure(ctx context.Context, queues int, broker *versions, out scenario.Console) (*fanoutRow, error) {
	remove := func(s *session.Session) error {
		if err := s.Call(session.ClientChannel, &amqp.ExchangeDelete{Exchange: []byte(o.Prefix)}, &amqp.ExchangeDeleteOk{}); err != nil {
			return err
		}
		return s.CallAll(queues, func(i int) (uint16, amqp.Method) {
			return session.ClientChannel, &amqp.QueueDelete{Queue: []byte(o.Prefix + "-" + strconv.Itoa(i+1))}
		}, &amqp.QueueDeleteOk{})
	}
	if err := o.Control(broker, func(s *session.Session) error {
		if err := remove(s); err != nil {
			return err
		}
		return s.Call(session.ClientChannel, &amqp.ExchangeDeclare{
			Exchange: []byte(o.Prefix), Type: []byte("fanout"), Durable: true,
		}, &amqp.ExchangeDeclareOk{})
	}); err != nil {
		return nil, err
	}
	row, err := o.measureConnected(ctx, queues, out)
	if cleaning := o.Control(nil, remove); err == nil {
		err = cleaning
	}
	return row, err
}

func (o *fanoutOptions) measureConnected(ctx context.Context, queues int, out scenario.Console) (*fanoutRow, error) {
	run, err := newThroughputRun(o.rowOptions(queues))
	if err != nil {
		return nil, err
	}
	defer run.close()
	if err := run.connect(); err != nil {
		return nil, err
	}
	meter, err := run.execute(ctx, out)
	if err != nil {
		return nil, err
	}
	f := meter.result()
	return &fanoutRow{
		Queues: queues, Interrupted: ctx.Err() != nil, Seconds: f.Seconds,
		PublishedPerSecond: f.PublishedPerSecond, DeliveredPerSecond: f.ConsumedPerSecond,
		BrokerCPU: f.BrokerCPU, BrokerCores: f.BrokerCores, BrokerThread: f.BrokerThread, RSS: f.RSS,
		ClientCPU: f.ClientCPU, ClientCores: f.ClientCores, ClientLoops: f.ClientLoops, Bottleneck: f.Bottleneck,
	}, nil
}

func (r *fanoutResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %d-byte messages\n", r.Versions.BrokerProduct, r.Versions.BrokerVersion, r.Options.Size)
	fmt.Fprintf(w, "%8s %14s %14s %20s %10s %22s\n", "queues", "published/s", "delivered/s", "broker ns/delivery", "RSS", "this tool ns/delivery")
	for _, row := range r.Rows {
		cpu, rss := "-", "-"
		if row.BrokerCPU != nil {
			cpu, rss = fmt.Sprintf("%.0f", *row.BrokerCPU), results.HumanBytes(row.RSS.Last.RSS)
		}
		fmt.Fprintf(w, "%8d %14s %14s %20s %10s %22.0f\n", row.Queues, results.HumanCount(uint64(row.PublishedPerSecond)),
			results.HumanCount(uint64(row.DeliveredPerSecond)), cpu, rss, row.ClientCPU)
		if row.Bottleneck {
			fmt.Fprintf(w, "%8s this tool is the bottleneck: its loops are busy and the broker is not\n", "")
		}
	}
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
	if r.Error != "" {
		fmt.Fprintln(w, "Ended early by an error: a partial result")
	}
}
