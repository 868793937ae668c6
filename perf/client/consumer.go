package client

import (
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Consumer reads deliveries from one connection.
type Consumer struct {
	socket
	Loop *Loop

	Pace      *pacer // nil: unlimited
	GetFrame  []byte // encoded basic.get; nil: not polling
	getsSent  uint64
	bytesRead uint64

	seenDelivered, seenAcked, seenFailures, seenOutOfOrder uint64
}

// deliveryBytesGuess stands in for the size of a delivery until one was seen.
const deliveryBytesGuess = 4 << 10

func NewGetFrame(queue string, noAck bool) []byte {
	return amqp.AppendMethodFrame(nil, session.ClientChannel, &amqp.BasicGet{Queue: []byte(queue), NoAck: noAck})
}

func (c *Consumer) work(now int64) (again bool, err error) {
	if c.closing {
		return c.farewell(c.Loop.buffer), nil
	}
	c.due = 0
	limit := loopReadBytes
	if c.Pace != nil {
		due := c.Pace.dueBy(now)
		if due <= c.Walker.delivered {
			c.due = c.Pace.wakeUp(c.Walker.delivered, now)
			return false, c.flush()
		}
		limit = c.bytesFor(due-c.Walker.delivered, limit)
	}
	if c.GetFrame != nil && c.Walker.delivered+c.emptyGets == c.getsSent {
		c.Out = append(c.Out, c.GetFrame...)
		c.getsSent++
	}
	// A broker that does not take our acks gets no more deliveries read.
	if err := c.flush(); err != nil || len(c.Out) > 0 {
		return false, err
	}
	if !c.readable {
		return false, nil
	}
	if err := c.takeDeliveries(limit, now); err != nil {
		return false, err
	}
	if err := c.flush(); err != nil {
		return false, err
	}
	return c.readable || c.GetFrame != nil && c.Walker.delivered+c.emptyGets == c.getsSent, nil
}

// takeDeliveries reads once; acks are collected in out.
func (c *Consumer) takeDeliveries(limit int, now int64) error {
	inspector := c.Walker.Inspector
	if inspector != nil && inspector.Latency != nil {
		inspector.Latency.begin()
	}
	c.Walker.acks = c.Out
	n, err := c.receive(c.Loop.buffer, limit)
	c.Out, c.Walker.acks = c.Walker.acks, nil
	if inspector != nil {
		if inspector.Latency != nil {
			inspector.Latency.end()
		}
		c.Loop.Failures.Add(inspector.failures - c.seenFailures)
		c.Loop.OutOfOrder.Add(inspector.outOfOrder - c.seenOutOfOrder)
		c.seenFailures, c.seenOutOfOrder = inspector.failures, inspector.outOfOrder
	}
	c.bytesRead += uint64(n)
	c.Loop.Acked.Add(c.Walker.acked - c.seenAcked)
	c.seenAcked = c.Walker.acked
	c.Loop.addConsumed(c.Walker.delivered-c.seenDelivered, n, now)
	c.seenDelivered = c.Walker.delivered
	return err
}

// bytesFor estimates how much to read for so many messages.
func (c *Consumer) bytesFor(messages uint64, most int) int {
	size := uint64(deliveryBytesGuess)
	if c.Walker.delivered > 0 {
		size = c.bytesRead/c.Walker.delivered + 1
	}
	if messages > uint64(most)/size {
		return most
	}
	return int(messages * size)
}

func (c *Consumer) startClosing() { c.startFarewell(nil) }
