package amqp

import (
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// channel is one AMQP channel. What publishing and confirming touch is at the
// beginning, four lines of the cache: a connection may have a thousand.
type channel struct {
	conn     *conn
	id       uint16
	closing  bool   // channel.close sent: all but close and close-ok is discarded
	confirm  bool   // in confirm mode
	enlisted bool   // in conn.confirming
	prefetch uint16 // for new consumers; 0 is unlimited
	// globalLimit is for all consumers of the channel; 0 is unlimited.
	globalLimit uint16

	// Confirm mode.
	seq     uint64 // number of the last publish
	acked   uint64 // last number told to the client
	pending []confirmation

	counts *channelCounts // nil: nothing yet; see counters.go

	pub publish

	tx        *transaction
	lastQueue string // last queue declared, for methods with an empty queue name

	deliveryTag uint64
	unacked     unackedList
	back        []unackedRun // about to go back to their queues
	outstanding uint64       // unacked deliveries to consumers (not by basic.get)
	taken       uint64       // what consumers will have unacked that is not sent yet
	consumers   map[string]*consumer
	reply       *replyConsumer // see replyto.go
	late        *lateTimer     // for acknowledgements; nil until somebody has a limit
}

// channelMethod dispatches a method frame on a channel other than 0.
func (c *conn) channelMethod(number uint16, id uint32, args, frame []byte) error {
	if c.state != stateOpen {
		if c.state == stateClosing {
			return nil
		}
		return amqp.Errorf(amqp.CodeChannelError, id, "unexpected method %s on channel %d in connection state %s", amqp.MethodName(id), number, stateNames[c.state])
	}
	ch := c.channel(number)
	if ch == nil {
		return c.withoutChannel(number, id)
	}
	if ch.closing {
		switch id {
		case amqp.ChannelCloseOkID:
			c.forget(ch)
		case amqp.ChannelCloseID:
			c.emitMethod(number, &amqp.ChannelCloseOk{})
			c.forget(ch)
		case amqp.ChannelOpenID:
			return ch.method(id, args, frame) // 504
		}
		return nil
	}
	if ch.pub.state != pubIdle {
		return amqp.Errorf(amqp.CodeUnexpectedFrame, amqp.BasicPublishID, "expected content header or body for basic.publish, got method %s instead", amqp.MethodName(id))
	}
	err := ch.method(id, args, frame)
	if err == nil {
		return nil
	}
	e := asError(err)
	if e.MethodID == 0 {
		e = &amqp.Error{Code: e.Code, Text: e.Text, MethodID: id}
	}
	if e.Hard() {
		return e
	}
	ch.fail(e)
	return nil
}

// channel finds an open channel; runs of frames on one channel cost no lookup.
func (c *conn) channel(number uint16) *channel {
	if c.current != nil && c.current.id == number {
		return c.current
	}
	ch := c.channels.get(number)
	if ch != nil {
		c.current = ch
	}
	return ch
}

// withoutChannel handles a method on a channel that is not open.
func (c *conn) withoutChannel(number uint16, id uint32) error {
	switch id {
	case amqp.ChannelOpenID:
		if len(c.channels) >= int(c.channelMax) {
			return amqp.Errorf(amqp.CodeNotAllowed, 0, "number of channels opened (%d) has reached the negotiated channel_max (%d)", len(c.channels), c.channelMax)
		}
		if limit, ok := c.user.AddChannel(); !ok {
			return amqp.Errorf(amqp.CodeNotAllowed, 0, "number of channels opened for user '%s' has reached the maximum allowed user limit of (%d)", c.user.Name, limit)
		}
		c.counted++
		c.channels.add(&channel{conn: c, id: number, prefetch: c.shard.srv.tuning.Load().Prefetch})
		c.vhost.Churn().Count(stats.ChannelCreated)
		c.emitMethod(number, &amqp.ChannelOpenOk{})
		return nil
	case amqp.ChannelCloseOkID:
		return nil // answers ours, which crossed with the client's channel.close
	}
	return amqp.Errorf(amqp.CodeChannelError, id, "expected 'channel.open' on channel %d, got %s", number, amqp.MethodName(id))
}

// forget removes a channel; its number may be opened again.
func (c *conn) forget(ch *channel) {
	c.channels.remove(ch.id)
	c.vhost.Churn().Count(stats.ChannelClosed)
	c.counted--
	c.user.RemoveChannels(1)
	if c.current == ch {
		c.current = nil
	}
}

// fail closes the channel with an error and gives back what it held.
func (ch *channel) fail(e *amqp.Error) {
	c := ch.conn
	c.shard.srv.logger.Info("closing AMQP channel", "peer", c.peer(), "channel", ch.id, "code", e.Code, "reason", e.Text)
	c.commitBatch()
	c.sendConfirms() // what was published before must not look lost
	ch.abandon()
	c.emitMethod(ch.id, &amqp.ChannelClose{ReplyCode: e.Code, ReplyText: []byte(e.Text), ClassID: uint16(e.MethodID >> 16), MethodID: uint16(e.MethodID)})
	ch.closing = true
}

// cannotRead closes the channel with 541 if what is stored of a queue is not known.
// Only the channel: what else the connection does has nothing to do with that.
func (ch *channel) cannotRead(q *broker.Queue, method uint32) bool {
	err := q.Unread()
	if err == nil {
		return false
	}
	ch.fail(&amqp.Error{Code: amqp.CodeInternalError, Text: asError(err).Text, MethodID: method})
	return true
}

// abandon releases everything the channel holds.
func (ch *channel) abandon() {
	c := ch.conn
	c.unlearn(ch)
	if c.bodyOf == ch {
		c.bodyOf = nil // the rest of the body frame is skipped
	}
	if c.get != nil && c.get.ch == ch {
		c.dropGet()
		c.whenFree = nil
		c.stall &^= stallGet
	}
	ch.pub.reset(c.shard)
	ch.abandonExternal()
	ch.late.stop()
	ch.endReplies()
	ch.tx.rollback(ch)
	ch.tx = nil
	c.flushSettled()
	// What the channel held is back in its place before the consumers go and
	// others get their turn.
	for _, cs := range ch.consumers {
		cs.returnRun()
	}
	ch.requeueAll()
	for _, cs := range ch.consumers {
		cs.detach()
	}
	ch.consumers = nil
	ch.pending = nil
}

// method dispatches by class.
func (ch *channel) method(id uint32, args, frame []byte) error {
	switch uint16(id >> 16) {
	case amqp.ClassBasic:
		return ch.basic(id, args, frame)
	case amqp.ClassQueue:
		return ch.queue(id, args)
	case amqp.ClassExchange:
		return ch.exchange(id, args)
	case amqp.ClassChannel:
		return ch.class20(id, args)
	case amqp.ClassConfirm:
		return ch.confirmClass(id, args)
	case amqp.ClassTx:
		return ch.txClass(id)
	case amqp.ClassAccess:
		// Access tickets are gone since 0-9-1; old clients still ask.
		if id == amqp.AccessRequestID {
			ch.conn.emitMethod(ch.id, &amqp.AccessRequestOk{})
			return nil
		}
	case amqp.ClassConnection:
		return amqp.Errorf(amqp.CodeCommandInvalid, id, "method %s on channel %d", amqp.MethodName(id), ch.id)
	}
	return notImplemented(id)
}

func notImplemented(id uint32) error {
	if name := amqp.MethodName(id); name != "unknown" {
		return amqp.Errorf(amqp.CodeCommandInvalid, id, "%s is not for a server to receive", name)
	}
	return amqp.Errorf(amqp.CodeNotImplemented, id, "unknown method %d.%d", id>>16, id&0xffff)
}

// class20 is class channel: open (again: 504), flow, close.
func (ch *channel) class20(id uint32, args []byte) error {
	c := ch.conn
	switch id {
	case amqp.ChannelOpenID:
		return amqp.Errorf(amqp.CodeChannelError, id, "second 'channel.open' seen on channel %d", ch.id)
	case amqp.ChannelFlowID:
		var m amqp.ChannelFlow
		if err := m.Decode(args); err != nil {
			return err
		}
		if !m.Active {
			// As RabbitMQ since 2.0: clients limit themselves by basic.qos, and
			// their test suites expect this answer.
			return amqp.Errorf(amqp.CodeNotImplemented, 0, "active=false")
		}
		c.emitMethod(ch.id, &amqp.ChannelFlowOk{Active: true})
		return nil
	case amqp.ChannelCloseID:
		var m amqp.ChannelClose
		if err := m.Decode(args); err != nil {
			return err
		}
		c.commitBatch()
		c.sendConfirms()
		ch.abandon()
		c.forget(ch)
		c.emitMethod(ch.id, &amqp.ChannelCloseOk{})
		return nil
	case amqp.ChannelCloseOkID:
		return nil
	}
	return notImplemented(id)
}

// resolveQueue finds the queue a method names; an empty name means the last
// one declared on the channel (specification of queue.bind and others). It is
// for what reads: the user must be permitted to.
func (ch *channel) resolveQueue(name []byte) (*broker.Queue, error) {
	n, err := ch.queueName(name)
	if err != nil {
		return nil, err
	}
	if err := ch.conn.permit(access.Read, "queue", n); err != nil {
		return nil, err
	}
	return ch.conn.vhost.Queue(n, ch.conn)
}

func (ch *channel) queueName(name []byte) ([]byte, error) {
	if len(name) > 0 {
		return name, nil
	}
	if ch.lastQueue == "" {
		return nil, amqp.Errorf(amqp.CodeNotFound, 0, "no previously declared queue")
	}
	return []byte(ch.lastQueue), nil
}

// recorded keeps the connection's output back until a definition record is
// durable (invariant 3).
func (ch *channel) recorded(seq uint64) error {
	c := ch.conn
	if seq == 0 {
		return nil
	}
	if err := c.shard.srv.broker.Definitions().Err(); err != nil {
		return amqp.Errorf(amqp.CodeInternalError, 0, "%v", err)
	}
	c.barrier = max(c.barrier, seq)
	return nil
}
