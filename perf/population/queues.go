package population

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// queueOptions are the options of queue-count.
type queueOptions struct {
	common
	Prefix     string `json:"prefix"`
	Transient  bool   `json:"transient"`
	Arguments  string `json:"queue_args,omitempty"`
	Messages   int    `json:"messages"` // in each queue
	Size       uint64 `json:"size"`
	Persistent bool   `json:"persistent"`
	Keep       bool   `json:"keep"`

	arguments amqp.Table
}

// Limits of the options, and how many queues are made between two looks at the
// clock.
const (
	bodyBytesMax = 1 << 20
	prefixMax    = 200
	queueChunk   = 500
)

func queueScenario() scenario.Scenario {
	const name = "queue-count"
	return scenario.Scenario{
		Name: name, Summary: "declare many queues and see what an idle one costs the broker",
		Details: "Declares -n queues, durable ones unless --transient, puts -m messages into each\n" +
			"(with confirms), lets the broker rest and reads its memory (--broker-pid) and disk\n" +
			"(--data-dir). At the end it checks that every queue is there with its messages, and\n" +
			"deletes them, unless --keep.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &queueOptions{Prefix: "perf-queue-count", Size: 16}
			o.common.declare(flags, "queues")
			flags.Text(&o.Prefix, "u", "prefix", "TEXT", "what names start with; existing queues of such names are deleted")
			flags.Toggle(&o.Transient, "", "transient", "declare queues that do not survive a restart")
			flags.Text(&o.Arguments, "", "queue-args", "JSON", "arguments of the declarations")
			flags.Count(&o.Messages, "m", "messages", "N", "messages in each queue")
			flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body")
			flags.Toggle(&o.Persistent, "p", "persistent", "publish persistent messages")
			flags.Toggle(&o.Keep, "", "keep", "leave the queues there")
			o.Target.Declare(flags, "report the size of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return o.common.run(ctx, newResult(name, "queues", o), o.run, out)
			}
		},
	}
}

func (o *queueOptions) finish() error {
	if err := o.common.finish(); err != nil {
		return err
	}
	switch {
	case o.Prefix == "" || len(o.Prefix) > prefixMax:
		return cli.Usagef("--prefix is 1 to %d bytes", prefixMax)
	case o.Size > bodyBytesMax:
		return cli.Usagef("--size is at most %d", bodyBytesMax)
	}
	var err error
	o.arguments, err = cli.ParseTable("queue-args", o.Arguments)
	return err
}

// run makes, looks and deletes on one control connection.
func (o *queueOptions) run(ctx context.Context, r *Result, out scenario.Console) error {
	return o.Control(&r.Versions, func(s *session.Session) error {
		q := &queues{o: o, s: s}
		if err := q.remove(o.most()); err != nil {
			return err
		}
		if o.Messages > 0 {
			if err := s.Call(session.ClientChannel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{}); err != nil {
				return err
			}
		}
		g := &growth{unit: r.Unit, threads: 1, add: q.add, check: q.check}
		if !o.Keep {
			g.remove = func(made int) error {
				// On a connection of its own: what failed may have closed the channel,
				// somewhere in the chunk that was not counted.
				return o.Control(nil, func(s *session.Session) error {
					return (&queues{o: o, s: s}).remove(min(made+queueChunk, o.most()))
				})
			}
		}
		return g.run(ctx, &o.common, r, out)
	})
}

// queues makes and removes the queues.
type queues struct {
	o         *queueOptions
	s         *session.Session
	published uint64
}

func (q *queues) name(number int) []byte {
	return strconv.AppendInt([]byte(q.o.Prefix+"-"), int64(number), 10)
}

func (q *queues) add(ctx context.Context, from, to int, made *atomic.Int64) error {
	for from < to && ctx.Err() == nil {
		count := min(queueChunk, to-from)
		if err := q.s.CallAll(count, func(i int) (uint16, amqp.Method) {
			return session.ClientChannel, &amqp.QueueDeclare{Queue: q.name(from + i), Durable: !q.o.Transient, Arguments: q.o.arguments}
		}, &amqp.QueueDeclareOk{}); err != nil {
			return err
		}
		if err := q.publish(from, count); err != nil {
			return err
		}
		from += count
		made.Add(int64(count))
	}
	return nil
}

// publish puts messages into count queues.
func (q *queues) publish(from, count int) error {
	properties := (&amqp.Properties{DeliveryMode: 1, Flags: amqp.FlagDeliveryMode})
	if q.o.Persistent {
		properties.DeliveryMode = 2
	}
	encoded := properties.Append(nil)
	total := count * q.o.Messages
	err := q.s.PublishAll(q.published, total, func(dst []byte, i int) []byte {
		queue := string(q.name(from + i/q.o.Messages))
		return append(dst, client.EncodePublish("", queue, encoded, q.o.Size, q.s.FrameMax).Bytes...)
	})
	q.published += uint64(total)
	return err
}

// check asks for every queue's messages.
func (q *queues) check(count int) error {
	wrong := 0
	for number := range count {
		var declared amqp.QueueDeclareOk
		if err := q.s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: q.name(number), Passive: true}, &declared); err != nil {
			return fmt.Errorf("queue %s: %w", q.name(number), err)
		}
		if declared.MessageCount != uint32(q.o.Messages) {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d queues do not hold the %d messages that were confirmed", wrong, count, q.o.Messages)
	}
	return nil
}

func (q *queues) remove(count int) error {
	return q.s.CallAll(count, func(i int) (uint16, amqp.Method) {
		return session.ClientChannel, &amqp.QueueDelete{Queue: q.name(i)}
	}, &amqp.QueueDeleteOk{})
}
