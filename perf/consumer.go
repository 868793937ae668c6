package perf

import "github.com/basaltmq/basaltmq/wire/amqp"

// consumer reads deliveries from one connection.
type consumer struct {
	socket
	loop *loop

	pace      *pacer // nil: unlimited
	getFrame  []byte // encoded basic.get; nil: not polling
	getsSent  uint64
	bytesRead uint64

	seenDelivered, seenAcked, seenFailures, seenOutOfOrder uint64
}

// deliveryBytesGuess stands in for the size of a delivery until one was seen.
const deliveryBytesGuess = 4 << 10

func newGetFrame(queue string, noAck bool) []byte {
	return amqp.AppendMethodFrame(nil, clientChannel, &amqp.BasicGet{Queue: []byte(queue), NoAck: noAck})
}

func (c *consumer) work(now int64) (again bool, err error) {
	if c.closing {
		return c.farewell(c.loop.buffer), nil
	}
	c.due = 0
	limit := loopReadBytes
	if c.pace != nil {
		due := c.pace.dueBy(now)
		if due <= c.walker.delivered {
			c.due = c.pace.wakeUp(c.walker.delivered, now)
			return false, c.flush()
		}
		limit = c.bytesFor(due-c.walker.delivered, limit)
	}
	if c.getFrame != nil && c.walker.delivered+c.emptyGets == c.getsSent {
		c.out = append(c.out, c.getFrame...)
		c.getsSent++
	}
	// A broker that does not take our acks gets no more deliveries read.
	if err := c.flush(); err != nil || len(c.out) > 0 {
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
	return c.readable || c.getFrame != nil && c.walker.delivered+c.emptyGets == c.getsSent, nil
}

// takeDeliveries reads once; acks are collected in out.
func (c *consumer) takeDeliveries(limit int, now int64) error {
	inspector := c.walker.inspector
	if inspector != nil && inspector.latency != nil {
		inspector.latency.begin()
	}
	c.walker.acks = c.out
	n, err := c.receive(c.loop.buffer, limit)
	c.out, c.walker.acks = c.walker.acks, nil
	if inspector != nil {
		if inspector.latency != nil {
			inspector.latency.end()
		}
		c.loop.failures.Add(inspector.failures - c.seenFailures)
		c.loop.outOfOrder.Add(inspector.outOfOrder - c.seenOutOfOrder)
		c.seenFailures, c.seenOutOfOrder = inspector.failures, inspector.outOfOrder
	}
	c.bytesRead += uint64(n)
	c.loop.acked.Add(c.walker.acked - c.seenAcked)
	c.seenAcked = c.walker.acked
	c.loop.addConsumed(c.walker.delivered-c.seenDelivered, n, now)
	c.seenDelivered = c.walker.delivered
	return err
}

// bytesFor estimates how much to read for so many messages.
func (c *consumer) bytesFor(messages uint64, most int) int {
	size := uint64(deliveryBytesGuess)
	if c.walker.delivered > 0 {
		size = c.bytesRead/c.walker.delivered + 1
	}
	if messages > uint64(most)/size {
		return most
	}
	return int(messages * size)
}

func (c *consumer) startClosing() { c.startFarewell(nil) }
