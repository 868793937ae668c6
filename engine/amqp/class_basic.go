package amqp

import (
	"errors"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
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
		r.queue.Reject(r.offset, r.count)
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
	cs := &consumer{ch: ch, from: q, prefetch: uint64(ch.prefetch), timeout: timeout}
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

// pendingGet is a basic.get that waits for the disk; input is stalled.
type pendingGet struct {
	ch        *channel
	queue     *broker.Queue
	from      *broker.Queue // that run is from: the queue, or a level of it
	run       broker.Run
	remaining uint64
	noAck     bool
	reader    *segstore.Reader
	body      *bodies.Outgoing // of an external message
}

// dropGet ends the pending get, if there is one, without an answer.
func (c *conn) dropGet() {
	g := c.get
	if g == nil {
		return
	}
	if g.reader != nil {
		g.reader.Close()
	}
	if g.body != nil {
		g.body.Close()
	}
	if g.run.Count > 0 {
		g.run.Queue.Return(g.run)
	}
	c.endGet()
}

// endGet keeps the memory of the pending get for the loop's next.
func (c *conn) endGet() {
	*c.get = pendingGet{}
	c.shard.spareGet, c.get = c.get, nil
}

func (ch *channel) basicGet(args []byte) error {
	var m amqp.BasicGet
	if err := m.Decode(args); err != nil {
		return err
	}
	q, err := ch.resolveQueue(m.Queue)
	if err != nil {
		return err
	}
	if q.IsStream() {
		return streamLacks("basic.get", q)
	}
	c := ch.conn
	c.commitBatch()
	if c.get, c.shard.spareGet = c.shard.spareGet, nil; c.get == nil {
		c.get = new(pendingGet)
	}
	*c.get = pendingGet{ch: ch, queue: q, noAck: m.NoAck}
	return c.goOnGetting()
}

// goOnGetting answers the pending get, or notes that the disk is being read.
func (c *conn) goOnGetting() error {
	g := c.get
	for {
		if g.run.Count == 0 {
			g.run, g.remaining = g.queue.Get()
			if g.run.Count == 0 {
				g.ch.count(stats.GetEmpty, 1)
				g.queue.CountGot(stats.GetEmpty, false, 0)
				c.emitMethod(g.ch.id, &amqp.BasicGetEmpty{})
				c.dropGet()
				return nil
			}
			if g.from != g.run.Queue && g.reader != nil {
				g.reader.Close()
				g.reader = nil
			}
			g.from = g.run.Queue
		}
		if g.reader == nil {
			g.reader = g.from.Log().NewReader()
		}
		err := g.reader.Seek(g.run.First, func() { c.shard.loop.Post((*getRunner)(c)) })
		var missing segstore.ErrMissing
		switch {
		case err == nil:
			if c.answerGet() {
				return nil
			}
		case errors.Is(err, segstore.ErrNotResident):
			c.stall |= stallGet
			return nil
		case errors.As(err, &missing):
			g.from.Settle(g.run.First, 1)
			g.run = broker.Run{}
		case errors.Is(err, segstore.ErrDeleted): // with the queue, just now
			c.emitMethod(g.ch.id, &amqp.BasicGetEmpty{})
			c.dropGet()
			return nil
		default:
			name := g.queue.Name
			c.dropGet()
			return amqp.Errorf(amqp.CodeInternalError, amqp.BasicGetID, "cannot read a message of queue '%s': %v", name, err)
		}
	}
}

// answerGet sends the record the reader stands at, or notes what has to be
// waited for. False: the message is unreadable or expired, and it is the next one's
// turn.
func (c *conn) answerGet() bool {
	g := c.get
	ch, run, reader := g.ch, g.run, g.reader
	var record segstore.Record
	reader.Next(&record)
	t := reader.Template(record.Template)
	if (g.from.Kept() || expires(t.Properties)) && !g.keep(c, &record, &t) {
		return false
	}
	external := broker.IsExternal(t.Properties)
	if external {
		switch g.openBody(c, &record, t.Properties) {
		case unreadable:
			g.from.Settle(run.First, 1)
			g.run = broker.Run{}
			return false
		case fetching:
			c.stall |= stallGet
			return true
		}
		if !c.outputFree() {
			c.stall |= stallGet
			c.waitFree((*getRunner)(c).Run)
			return true
		}
	}
	ch.deliveryTag++
	if g.noAck {
		g.from.Settle(run.First, 1)
	} else {
		r := unackedRun{tag: ch.deliveryTag, count: 1, offset: run.First, queue: g.from, since: c.shard.loop.Now().Unix()}
		if ms, _ := g.queue.AckTimeout(nil, c.shard.srv.tuning.Load().ackTimeout(false)); ms > 0 {
			r.deadline = ch.expectAck(ms)
		}
		ch.unacked.add(r)
	}
	m := &amqp.BasicGetOk{
		DeliveryTag: ch.deliveryTag, Redelivered: run.Redelivered, Exchange: t.Exchange,
		RoutingKey: t.RoutingKey, MessageCount: uint32(min(g.remaining, 1<<32-1)),
	}
	body, size := g.body, uint64(len(record.Body))
	if external {
		size = body.Size()
	}
	if g.queue.VHost.Tracing() {
		c.traceDelivered(ch, g.queue, &t, record.Body, run.Redelivered)
	}
	ch.countGot(g.queue, g.noAck, run.Redelivered, size)
	c.endGet()
	if external {
		c.emitFile(ch.id, m, t.Properties, body)
		reader.Close()
		return true
	}
	c.emitContent(ch.id, m, t.Properties, record.Body, reader.Close)
	return true
}

// openBody has an external body opened; see consumer.openBody.
func (g *pendingGet) openBody(c *conn, record *segstore.Record, properties []byte) outcome {
	var err error
	opened := false
	if g.body == nil {
		g.body, err = openExternal(c, g.from, record.Offset, record.Body, func() { c.shard.loop.Post((*getRunner)(c)) })
	}
	if err == nil {
		opened, err = g.body.Opened()
	}
	switch {
	case err != nil:
		c.bodyMissing(g.from, record.Offset, properties, err)
		if g.body != nil {
			g.body.Close()
			g.body = nil
		}
		return unreadable
	case !opened:
		return fetching
	}
	return runDone
}

// getRunner goes on with a get when the disk has been read.
type getRunner conn

// Run implements loop.Runner.
func (r *getRunner) Run() {
	c := (*conn)(r)
	if c.dead || c.get == nil {
		return
	}
	c.stall &^= stallGet
	if err := c.goOnGetting(); err != nil {
		c.fail(err)
	}
	if c.stall&stallGet == 0 {
		c.stall |= stallGet
		c.resume(stallGet)
	}
	c.flush()
}

// disownIfGone forgets an exclusive queue that its last consumer took along.
func (c *conn) disownIfGone(q *broker.Queue) {
	if q.Owner == c {
		if now, err := c.vhost.Queue([]byte(q.Name), c); err != nil || now != q {
			c.disown(q.Name)
		}
	}
}
