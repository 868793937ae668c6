package crash

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// auditMode is what becomes of a queue after a restart.
type auditMode int

const (
	auditPeek  auditMode = iota // read everything, give it back
	auditDrain                  // read everything, ack it
	auditNone
)

// getsMax: shorter queues are read by basic.get.
const getsMax = 100

// audit reads a whole queue that nobody else uses and compares it with the
// ledger.
func (s *Session) audit(queue string, mode auditMode) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Abort()
	count, err := c.messageCount(queue)
	if err != nil {
		return err
	}
	var ids []messageID
	order := map[uint16]uint64{}
	receive := func(event amqptest.Event, redelivered bool) error {
		id, err := identify(event)
		if err != nil {
			return fmt.Errorf("invariant 4: queue %s: %w", queue, err)
		}
		ids = append(ids, id)
		s.ledger.deliver(queue, id, redelivered, map[uint16]uint64{})
		if last := order[id.publisher]; last >= id.sequence {
			s.ledger.problem("invariant 6: in queue %s message %s stands behind number %d", queue, id, last)
		}
		order[id.publisher] = id.sequence
		return nil
	}
	var last uint64
	whole := false
	if count > getsMax {
		if last, whole, err = c.consumeAll(queue, count, receive); err != nil {
			return err
		}
		if !whole {
			s.ledger.giveBack(queue, ids...)
			ids, order = nil, map[uint16]uint64{}
			if err := c.reopen(); err != nil {
				return err
			}
		}
	}
	if !whole {
		if last, err = c.getAll(queue, receive); err != nil {
			return err
		}
	}
	if left, err := c.messageCount(queue); err != nil || left != 0 {
		return fmt.Errorf("queue %s announced %d messages, but %d are left after all were read (%v)", queue, count, left, err)
	}
	if len(ids) > int(count) {
		s.ledger.problem("invariant 4: queue %s announced %d messages and has %d", queue, count, len(ids))
	}
	s.ledger.compare(queue, ids)
	if mode == auditDrain {
		s.ledger.acking(queue, ids...)
		if len(ids) > 0 {
			if err := c.SendMethod(1, &amqp.BasicAck{DeliveryTag: last, Multiple: true}); err != nil {
				return err
			}
		}
		if err := c.sync(); err != nil {
			return err
		}
		s.ledger.acked(queue, false, ids...)
		return nil
	}
	s.ledger.giveBack(queue, ids...)
	_, err = c.Call(1, &amqp.ChannelClose{ReplyCode: 200}, amqp.ChannelCloseOkID)
	return err
}

// getAll reads until the queue is empty.
func (c *client) getAll(queue string, receive func(amqptest.Event, bool) error) (last uint64, err error) {
	for {
		if err := c.SendMethod(1, &amqp.BasicGet{Queue: []byte(queue)}); err != nil {
			return 0, err
		}
		event, err := c.Next()
		if err != nil {
			return 0, err
		}
		switch m := event.Method.(type) {
		case *amqp.BasicGetEmpty:
			return last, nil
		case *amqp.BasicGetOk:
			last = m.DeliveryTag
			if err := receive(event, m.Redelivered); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("reading queue %s: got %q", queue, event)
		}
	}
}

// deliveryPatience: when no delivery came for so long, the announced count was
// too high: it includes messages that turn out to have ended with the last life
// (their ack was lost, their body is gone). Reading by basic.get then tells
// where the end is.
const deliveryPatience = time.Second

// consumeAll reads count messages; whole is false if there were fewer.
func (c *client) consumeAll(queue string, count uint32, receive func(amqptest.Event, bool) error) (last uint64, whole bool, err error) {
	if _, err := c.Call(1, &amqp.BasicConsume{Queue: []byte(queue), ConsumerTag: []byte("audit")}, amqp.BasicConsumeOkID); err != nil {
		return 0, false, err
	}
	for range count {
		event, err := c.NextBefore(time.Now().Add(deliveryPatience))
		if isTimeout(err) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		m, ok := event.Method.(*amqp.BasicDeliver)
		if !ok {
			return 0, false, fmt.Errorf("reading queue %s: got %q", queue, event)
		}
		last = m.DeliveryTag
		if err := receive(event, m.Redelivered); err != nil {
			return 0, false, err
		}
	}
	return last, true, nil
}

// reopen closes channel 1, which gives back what it holds, and opens it again.
// Deliveries on their way return unseen.
func (c *client) reopen() error {
	if err := c.SendMethod(1, &amqp.ChannelClose{ReplyCode: 200}); err != nil {
		return err
	}
	for {
		event, err := c.Next()
		if err != nil {
			return err
		}
		if _, closed := event.Method.(*amqp.ChannelCloseOk); closed {
			_, err = c.Call(1, &amqp.ChannelOpen{}, amqp.ChannelOpenOkID)
			return err
		}
	}
}

// compare settles all doubts about a queue: ids is what it holds.
func (l *ledger) compare(queue string, ids []messageID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue(queue)
	found := make(map[messageID]bool, len(ids))
	for _, id := range ids {
		found[id] = true
	}
	l.counts.Audited += len(ids)
	var lost []messageID
	for id, e := range q.entries {
		if found[id] || e.state == gone || e.ack != notAcked {
			continue
		}
		switch {
		case e.state == safe:
			lost = append(lost, id)
		case !l.settled:
			q.count(e, false) // it may still come back
			continue
		}
		l.counts.Ended++
		q.end(e, fmt.Sprintf("not there at the audit of life %d", l.life))
	}
	if len(lost) == 0 {
		return
	}
	byNumber := func(a, b messageID) int {
		return cmp.Or(cmp.Compare(a.publisher, b.publisher), cmp.Compare(a.sequence, b.sequence))
	}
	slices.SortFunc(lost, byNumber)
	slices.SortFunc(ids, byNumber)
	text := fmt.Sprintf("invariant 1: lost: %d messages of queue %s, where %d are left", len(lost), queue, len(ids))
	if len(ids) > 0 {
		text += fmt.Sprintf(" (%s to %s)", ids[0], ids[len(ids)-1])
	}
	for i, id := range lost {
		if i < lostShown || i >= len(lost)-lostShown {
			text += "\n\t" + l.story(queue, id, q.entries[id])
		}
	}
	l.note("%s", text)
}

// lostShown is how many of the first and of the last lost messages of a queue
// are told.
const lostShown = 3
