package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// backlogOptions are the options of the backlog scenario.
type backlogOptions struct {
	scenario.Target
	Messages   uint64        `json:"messages"`
	Size       uint64        `json:"size"`
	Publishers int           `json:"publishers"`
	Persistent bool          `json:"persistent"`
	AckEvery   int           `json:"ack_every"`
	Prefetch   int           `json:"prefetch"`
	Queue      string        `json:"queue"`
	Purge      bool          `json:"purge"`
	Settle     time.Duration `json:"settle_ns"`
	Stall      time.Duration `json:"stall_ns"`
}

// backlogMessagesMax is what a queue's message count, 32 bits in
// queue.declare-ok, can tell.
const backlogMessagesMax = 1<<32 - 1

func backlogScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "backlog",
		Summary: "fill a queue, see what it costs, drain it and check that all is there",
		Details: "Publishes -C messages to one durable queue, without confirms, waits until the broker\n" +
			"counts them all, and reports the publish rate, the broker's memory (--broker-pid) and\n" +
			"its bytes on disk (--data-dir). Then one consumer takes everything and checks content\n" +
			"and order of every message. Exit status 1 when one is missing, damaged or out of\n" +
			"order. The queue is deleted at the end.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &backlogOptions{
				Messages: 1000000, Size: 16, Publishers: 1, Queue: "perf-backlog",
				Settle: 2 * time.Second, Stall: 30 * time.Second,
			}
			flags.Quantity(&o.Messages, "C", "messages", "N", "how many messages")
			flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body, at least 8: it holds a number")
			flags.Count(&o.Publishers, "x", "publishers", "N", "number of publishers")
			flags.Toggle(&o.Persistent, "p", "persistent", "publish persistent messages")
			flags.Count(&o.AckEvery, "a", "ack", "N", "acknowledge every N messages; 0: no_ack")
			flags.Count(&o.Prefetch, "P", "prefetch", "N", "prefetch count of the consumer; 0: unlimited")
			flags.Text(&o.Queue, "u", "queue", "NAME", "queue to use; must be empty")
			flags.Toggle(&o.Purge, "", "purge", "empty the queue before starting")
			flags.Duration(&o.Settle, "", "settle", "SECONDS", "let the broker rest this long before taking its memory")
			flags.Duration(&o.Stall, "", "stall", "SECONDS", "give up after so long without a message")
			o.Target.Declare(flags, "report the size of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return runBacklog(ctx, o, out)
			}
		},
	}
}

func (o *backlogOptions) finish() error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	if err := checkAcks(o.Prefetch, o.AckEvery); err != nil {
		return err
	}
	switch {
	case o.Messages == 0 || o.Messages > backlogMessagesMax:
		return cli.Usagef("--messages is 1 to %d", backlogMessagesMax)
	case o.Size < client.StampBytes || o.Size > bodyBytesMax:
		return cli.Usagef("--size is %d to %d", client.StampBytes, bodyBytesMax)
	case o.Publishers < 1 || o.Publishers > connectionsMax:
		return cli.Usagef("--publishers is 1 to %d", connectionsMax)
	case o.AckEvery > 0 && o.Messages%uint64(o.AckEvery) != 0:
		return cli.Usagef("--ack %d would leave a rest of %d messages unacknowledged", o.AckEvery, o.Messages%uint64(o.AckEvery))
	case o.Queue == "" || len(o.Queue) > shortStringMax:
		return cli.Usagef("--queue is 1 to %d bytes", shortStringMax)
	case o.Stall <= 0:
		return cli.Usagef("--stall must be above 0")
	}
	return nil
}

// phaseOptions are what the shared parts of a run want to know. Publishers is
// set in both phases: the consumer checks the sequence of each.
func (o *backlogOptions) phaseOptions() *throughputOptions {
	return &throughputOptions{
		Target: o.Target, Publishers: o.Publishers, Size: o.Size, Verify: true, AckEvery: o.AckEvery, Prefetch: o.Prefetch,
		Queue: o.Queue, Persistent: o.Persistent, PublishMax: o.Messages,
	}
}

// runBacklog fills, looks and drains. Ctrl-C ends it early, with the figures
// so far and the queue deleted.
func runBacklog(ctx context.Context, o *backlogOptions, out scenario.Console) error {
	release, err := o.Begin()
	if err != nil {
		return err
	}
	defer release()
	r := &backlogResult{Options: o, Backlog: results.Backlog{Scenario: "backlog"}}
	if err := o.prepareQueue(r); err != nil {
		return err
	}
	failure := r.run(ctx, out)
	r.Interrupted = ctx.Err() != nil
	if failure != nil {
		r.Error = failure.Error()
	}
	r.Environment = scenario.ReadEnvironment(o.Record)
	failure = errors.Join(failure, o.deleteQueue())
	if r.Fill == nil && failure != nil {
		return failure
	}
	return errors.Join(o.Output.Write(out, r, func() { r.writeText(out.Stdout) }), failure)
}

func (r *backlogResult) run(ctx context.Context, out scenario.Console) (err error) {
	o := r.Options
	if r.Before, err = o.Look(); err != nil {
		return err
	}
	if r.Fill, err = o.fill(ctx, out); err != nil || ctx.Err() != nil {
		return err
	}
	scenario.Pause(ctx, o.Settle)
	if r.Filled, err = o.Look(); err != nil {
		return err
	}
	var checked checkedDrain
	if r.Drain, checked, err = o.drain(ctx, out); r.Drain == nil {
		return err
	}
	r.Missing, r.Damaged, r.OutOfOrder, r.Surplus = checked.missing, checked.damaged, checked.outOfOrder, checked.surplus
	if err != nil || ctx.Err() != nil {
		return err
	}
	scenario.Pause(ctx, o.Settle)
	if r.Drained, err = o.Look(); err != nil {
		return err
	}
	if left, err := o.messageCount(); err != nil {
		return err
	} else if r.Missing == 0 {
		r.Surplus += left
	}
	return r.Check(o.Messages)
}

// prepareQueue declares the queue and sees to it that it is empty.
func (o *backlogOptions) prepareQueue(r *backlogResult) error {
	return o.Control(&r.Versions, func(s *session.Session) error {
		var declared amqp.QueueDeclareOk
		if err := s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(o.Queue), Durable: true}, &declared); err != nil {
			return err
		}
		if declared.MessageCount == 0 {
			return nil
		}
		if !o.Purge {
			return cli.Usagef("queue %q holds %d messages already: give --purge to throw them away", o.Queue, declared.MessageCount)
		}
		return s.Call(session.ClientChannel, &amqp.QueuePurge{Queue: []byte(o.Queue)}, &amqp.QueuePurgeOk{})
	})
}

func (o *backlogOptions) deleteQueue() error {
	return o.Control(nil, func(s *session.Session) error {
		return s.Call(session.ClientChannel, &amqp.QueueDelete{Queue: []byte(o.Queue)}, &amqp.QueueDeleteOk{})
	})
}

// messageCount asks the broker how many messages wait in the queue.
func (o *backlogOptions) messageCount() (count uint64, err error) {
	err = o.Control(nil, func(s *session.Session) error {
		count, err = o.callCount(s)
		return err
	})
	return count, err
}

func (o *backlogOptions) callCount(s *session.Session) (uint64, error) {
	var declared amqp.QueueDeclareOk
	err := s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(o.Queue), Passive: true}, &declared)
	return uint64(declared.MessageCount), err
}

// countPollSpan is the pause between two questions of awaitCount.
const countPollSpan = 2 * time.Millisecond

// awaitCount waits until the broker has taken all messages out of the sockets.
func (o *backlogOptions) awaitCount(ctx context.Context) error {
	return o.Control(nil, func(s *session.Session) error {
		last, lastChange := uint64(0), time.Now()
		for ctx.Err() == nil {
			count, err := o.callCount(s)
			if err != nil || count >= o.Messages {
				return err
			}
			if count != last {
				last, lastChange = count, time.Now()
			}
			if time.Since(lastChange) > o.Stall {
				return fmt.Errorf("of %d messages published the broker counts only %d", o.Messages, count)
			}
			scenario.Pause(ctx, countPollSpan)
		}
		return nil
	})
}
