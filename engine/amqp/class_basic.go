package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// basic handles class basic (60), but for the content of publishes.
// Codes: 403 exclusive use, 404, 405, 406 unknown delivery tag, 530 consumer
// tag in use, 540 what no broker does.
func (ch *channel) basic(id uint32, args, frame []byte) error {
	switch id {
	case amqp.BasicPublishID:
		return ch.basicPublish(args, frame)
	case amqp.BasicAckID:
		var m amqp.BasicAck
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.acknowledge(m.DeliveryTag, m.Multiple, settled)
	case amqp.BasicNackID:
		var m amqp.BasicNack
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.acknowledge(m.DeliveryTag, m.Multiple, rejected(m.Requeue))
	case amqp.BasicRejectID:
		var m amqp.BasicReject
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.acknowledge(m.DeliveryTag, false, rejected(m.Requeue))
	case amqp.BasicConsumeID:
		return ch.basicConsume(args)
	case amqp.BasicCancelID:
		return ch.basicCancel(args)
	case amqp.BasicCancelOkID: // answers ours
		return nil
	case amqp.BasicGetID:
		return ch.basicGet(args)
	case amqp.BasicQosID:
		return ch.basicQos(args)
	case amqp.BasicRecoverID, amqp.BasicRecoverAsyncID:
		return ch.basicRecover(id, args)
	}
	return notImplemented(id)
}

// verdict says what becomes of an acknowledged delivery.
type verdict uint8

const (
	settled  verdict = iota // acked
	dropped                 // rejected for good
	requeued                // back to the queue
)

func rejected(requeue bool) verdict {
	if requeue {
		return requeued
	}
	return dropped
}

func (ch *channel) acknowledge(tag uint64, multiple bool, v verdict) error {
	if v != settled {
		if q := ch.unacked.rejectsStream(tag, multiple); q != nil {
			return streamLacks(streamRejects, q)
		}
	}
	if ch.tx != nil {
		return ch.tx.acknowledge(ch, tag, multiple, v)
	}
	ok := ch.unacked.take(tag, multiple, func(r unackedRun) { ch.conclude(r, v) })
	ch.giveBack()
	if !ok {
		return unknownTag(tag)
	}
	return nil
}

func unknownTag(tag uint64) error {
	return amqp.Errorf(amqp.CodePreconditionFailed, 0, "unknown delivery tag %d", tag)
}

// conclude ends a delivery. Those that go back wait for giveBack.
func (ch *channel) conclude(r unackedRun, v verdict) {
	switch {
	case r.queue.IsStream():
		ch.concludeStream(r)
		return
	case v == requeued:
		ch.count(stats.Reject, r.count)
		ch.back = append(ch.back, r)
		return
	case v == dropped && r.queue.DeadLetters():
		ch.count(stats.Reject, r.count)
		ch.conn.flushSettled()
		run := r.taken()
		run.Each(r.queue.Reject)
	case v == dropped:
		ch.count(stats.Reject, r.count)
		ch.conn.settle(r, 0)
	default:
		ch.countAcked(r.count)
		ch.conn.settle(r, r.count)
	}
	ch.released(r)
}

func (ch *channel) basicQos(args []byte) error {
	var m amqp.BasicQos
	if err := m.Decode(args); err != nil {
		return err
	}
	if m.PrefetchSize != 0 {
		return amqp.Errorf(amqp.CodeNotImplemented, 0, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	// RabbitMQ's meaning: global=false is for consumers to come on this channel,
	// each by itself; global=true is shared by all of them.
	if m.Global {
		ch.globalLimit = m.PrefetchCount
		for _, cs := range ch.consumers {
			cs.reconsider()
		}
	} else {
		ch.prefetch = m.PrefetchCount
	}
	ch.conn.emitMethod(ch.id, &amqp.BasicQosOk{})
	return nil
}

func (ch *channel) basicConsume(args []byte) error {
	var m amqp.BasicConsume
	if err := m.Decode(args); err != nil {
		return err
	}
	tag := string(m.ConsumerTag)
	if tag == "" {
		tag = broker.GeneratedName("amq.ctag-")
	} else if ch.consumers[tag] != nil || ch.reply != nil && ch.reply.tag == tag {
		return amqp.Errorf(amqp.CodeNotAllowed, 0, "attempt to reuse consumer tag '%s'", tag)
	}
	if string(m.Queue) == replyQueue {
		return ch.consumeReplies(&m, tag)
	}
	q, err := ch.resolveQueue(m.Queue)
	if err != nil {
		return err
	}
	if ch.cannotRead(q, amqp.BasicConsumeID) {
		return nil
	}
	if len(ch.consumers) >= consumersMax {
		return amqp.Errorf(amqp.CodeResourceError, 0, "channel %d has reached its limit of %d consumers", ch.id, consumersMax)
	}
	priority, err := q.ConsumerPriority(m.Arguments)
	if err != nil {
		return err
	}
	timeout, err := q.AckTimeout(m.Arguments, ch.conn.shard.srv.tuning.Load().ackTimeout(q.IsStream()))
	if err != nil {
		return err
	}
	cs := &consumer{ch: ch, from: q, prefetch: uint64(ch.prefetch), argued: string(m.Arguments), timeout: timeout}
	cs.Consumer = broker.Consumer{Queue: q, Owner: cs, Tag: tag, NoAck: m.NoAck, Exclusive: m.Exclusive, Priority: priority}
	cs.number = -1
	ch.conn.commitBatch()
	if q.IsStream() {
		err = ch.consumeStream(cs, m.Arguments)
	} else {
		err = q.Attach(&cs.Consumer)
	}
	if err != nil {
		return err
	}
	if ch.consumers == nil {
		ch.consumers = map[string]*consumer{}
	}
	ch.consumers[tag] = cs
	if cs.stream == nil && cs.credit() > 0 {
		cs.enter() // who has the answer takes part in turns from then on
	}
	if !m.NoWait {
		ch.conn.emitMethod(ch.id, &amqp.BasicConsumeOk{ConsumerTag: []byte(tag)})
	}
	ch.conn.serve(cs)
	return nil
}

func (ch *channel) basicCancel(args []byte) error {
	var m amqp.BasicCancel
	if err := m.Decode(args); err != nil {
		return err
	}
	if cs := ch.consumers[string(m.ConsumerTag)]; cs != nil {
		delete(ch.consumers, cs.Tag)
		cs.detach()
		if cs.Queue.AutoDelete {
			ch.conn.disownIfGone(cs.Queue)
		}
	} else if ch.reply != nil && ch.reply.tag == string(m.ConsumerTag) {
		ch.endReplies()
	}
	if !m.NoWait {
		ch.conn.emitMethod(ch.id, &amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag})
	}
	return nil
}

func (ch *channel) basicRecover(id uint32, args []byte) error {
	var m amqp.BasicRecover // recover-async has the same arguments
	if err := m.Decode(args); err != nil {
		return err
	}
	if !m.Requeue {
		return amqp.Errorf(amqp.CodeNotImplemented, id, "requeue=false")
	}
	if q := ch.unacked.rejectsStream(0, true); q != nil {
		return streamLacks(streamRejects, q)
	}
	ch.conn.flushSettled()
	ch.requeueAll()
	if id == amqp.BasicRecoverID {
		ch.conn.emitMethod(ch.id, &amqp.BasicRecoverOk{})
	}
	return nil
}

// disownIfGone forgets an exclusive queue that its last consumer took along.
func (c *conn) disownIfGone(q *broker.Queue) {
	if q.Owner == c {
		if now, err := c.vhost.Queue([]byte(q.Name), c); err != nil || now != q {
			c.disown(q.Name)
		}
	}
}
