package perf

import (
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What the fake broker does with messages.

func (b *fakeBroker) lockedQueue(name string) *fakeQueue {
	if b.queues[name] == nil {
		b.queues[name] = &fakeQueue{}
	}
	return b.queues[name]
}

// publish takes a message; false ends the connection.
func (c *fakeConn) publish(channel uint16, queue string, message fakeMessage) bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published++
	b.changed.Broadcast()
	b.bodies += len(message.body)
	if b.closeAfter > 0 && b.published > b.closeAfter {
		c.send(0, &amqp.ConnectionClose{
			ReplyCode: 404, ReplyText: []byte("NOT_FOUND - no exchange 'gone' in vhost '/'"),
			ClassID: 60, MethodID: 40,
		})
		return false
	}
	if confirming := c.channels[channel]; confirming != nil {
		confirming.publishTag++
		confirming.unanswered = append(confirming.unanswered, confirming.publishTag)
		b.unacked = max(b.unacked, len(confirming.unanswered))
		if b.sources[queue] == nil {
			b.sources[queue] = map[*fakeChannel]bool{}
		}
		b.sources[queue][confirming] = true
	}
	if b.loseEvery > 0 && b.published%b.loseEvery == 0 {
		b.lost++
		return true
	}
	if b.forget {
		return true
	}
	targets, fanout := b.fanouts[c.exchange]
	if !fanout {
		targets = []string{queue}
	}
	for _, target := range targets {
		q := b.lockedQueue(target)
		q.messages = append(q.messages, message)
		if b.doubleEvery > 0 && b.published%b.doubleEvery == 0 {
			q.messages = append(q.messages, message)
		}
		b.pump(q)
	}
	if b.published == b.stallAt {
		time.Sleep(b.stallFor) // what is measured is that somebody waits for it
	}
	return true
}

// pump delivers a queue's messages to its consumers in turn.
func (b *fakeBroker) pump(q *fakeQueue) {
	for len(q.consumers) > 0 && len(q.messages) > 0 {
		if b.swapOrder {
			if len(q.messages) < 2 {
				return
			}
			q.messages[0], q.messages[1] = q.messages[1], q.messages[0]
			b.deliver(q)
		}
		b.deliver(q)
	}
}

func (b *fakeBroker) deliver(q *fakeQueue) {
	message := q.messages[0]
	q.messages = q.messages[1:]
	c := q.consumers[q.next%len(q.consumers)]
	q.next++
	b.deliverN++
	if b.corruptEvery > 0 && b.deliverN%b.corruptEvery == 0 {
		message.body[len(message.body)-1] ^= 1
	}
	c.tag++
	c.sendContent(&amqp.BasicDeliver{
		ConsumerTag: []byte("ctag"), DeliveryTag: c.tag, RoutingKey: []byte("k"),
	}, message)
}

// confirm answers what one read brought.
func (c *fakeConn) confirm() {
	b := c.broker
	for number, channel := range c.channels {
		if b.holdConfirms || len(channel.unanswered) == 0 {
			continue
		}
		if !b.confirmSingly {
			c.send(number, &amqp.BasicAck{DeliveryTag: channel.unanswered[len(channel.unanswered)-1], Multiple: true})
		} else {
			for i := len(channel.unanswered) - 1; i >= 0; i-- {
				tag := channel.unanswered[i]
				if b.nackEvery > 0 && tag%uint64(b.nackEvery) == 0 {
					c.send(number, &amqp.BasicNack{DeliveryTag: tag})
				} else {
					c.send(number, &amqp.BasicAck{DeliveryTag: tag})
				}
			}
		}
		channel.unanswered = channel.unanswered[:0]
	}
}

// waitFor waits until a condition on the broker's counters holds.
func (b *fakeBroker) waitFor(condition func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !condition() {
		b.changed.Wait()
	}
}
