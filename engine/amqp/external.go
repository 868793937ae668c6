package amqp

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// External bodies: how large messages arrive. Their bodies go to files of
// package bodies while they come in; what goes to the queues' logs is a record
// with a reference (package broker, bodies.go).
//
//	collect      decides: by the announced size, or because the shard holds
//	             too much of smaller bodies. What would not be routed anywhere
//	             is not kept at all.
//	spoolPart    gathers consecutive parts of one body in a buffer, one per
//	             connection, that is written when it is full, when another body
//	             has its turn, or at the end of the Input.
//	externalDone has the complete body named for each of its queues. Input is
//	             stalled meanwhile (stallBody), so order and confirm numbers are
//	             those of the input.
//	filed        appends the record, or returns the message to its publisher.
//
// A message whose last byte has been received counts, whatever becomes of its
// connection while the body is being filed.

// external says that the body being received on p belongs in a file.
func (sh *shard) external(p *publish) bool {
	return sh.srv.bodies != nil && !isReplyKey(p.exchange, p.key) &&
		(p.size >= externalBytesMin || p.size > externalBytesLow && sh.assembling > assemblingBytesMax)
}

// beginExternal starts the file of a body; what has been collected of it moves.
func (ch *channel) beginExternal() {
	c, p := ch.conn, &ch.pub
	if ch.tx == nil && !p.mandatory && !p.immediate {
		// An error comes again when the message is complete.
		if queues, err := ch.route(p.exchange, p.key, p.more, p.properties); err == nil && len(queues) == 0 {
			p.discard = true
			p.dropBody(c.shard)
			return
		}
	}
	if c.flow == nil {
		c.flow = c.shard.srv.bodies.NewFlow(func() { c.shard.loop.Post((*spoolRunner)(c)) })
	}
	p.in = c.shard.srv.bodies.Create(c.flow)
	if p.body != nil {
		c.shard.assembling -= p.body.Len()
		p.in.Write(p.body, int(p.received))
		p.body = nil
	}
}

// spool is the buffer in which parts of one body gather.
type spool struct {
	in   *bodies.Incoming
	buf  *arena.Buf
	used int
	next int // size of the next buffer, at least
}

func (c *conn) spoolPart(in *bodies.Incoming, part []byte) {
	s := &c.spool
	if s.in != in {
		c.spoolFlush()
		s.in = in
	}
	for len(part) > 0 {
		if s.buf == nil {
			s.buf = c.shard.pool.Get(min(max(len(part), s.next), arena.BufBytesMax))
		}
		n := copy(s.buf.Bytes()[s.used:], part)
		s.used += n
		part = part[n:]
		if s.used == s.buf.Len() {
			s.next = 4 * s.used
			s.write()
		}
	}
}

func (s *spool) write() {
	s.in.Write(s.buf, s.used)
	s.buf, s.used = nil, 0
}

// spoolFlush writes what has gathered.
func (c *conn) spoolFlush() {
	if c.spool.buf != nil {
		c.spool.write()
	}
	c.spool = spool{}
}

// heedFlow stops reading while too much is on its way to the disk.
func (c *conn) heedFlow() {
	c.spoolFlush()
	if c.flow != nil && c.stall&stallSpool == 0 && c.state == stateOpen && c.flow.Full() {
		c.stall |= stallSpool
	}
}

type spoolRunner conn

// Run implements loop.Runner.
func (r *spoolRunner) Run() { (*conn)(r).resume(stallSpool) }

// externalPublish is a complete message with an external body.
type externalPublish struct {
	in                        *bodies.Incoming
	queues                    []*broker.Queue
	exchange, key, properties []byte // owned
	mandatory, immediate      bool
	seq                       uint64
	err                       error // of filing
}

// filing is what a connection's input is stalled for: bodies being named and
// synced, and then perhaps returned.
type filing struct {
	ch        *channel
	left      atomic.Int32         // bodies not done yet
	then      func(abandoned bool) // on the loop, when none is left
	abandoned bool                 // the channel is gone
}

// file has bodies filed and calls then. Those without queues only need to be
// written. With sync all of them are made durable, otherwise those of persistent
// messages.
func (c *conn) file(ch *channel, publishes []*externalPublish, sync bool, then func(abandoned bool)) {
	f := &filing{ch: ch, then: then}
	f.left.Store(int32(len(publishes)))
	c.filing = f
	c.stall |= stallBody
	for _, x := range publishes {
		done := func(err error) {
			x.err = err
			if f.left.Add(-1) == 0 {
				c.shard.loop.Post(loop.RunnerFunc(func() { c.filed(f) }))
			}
		}
		if len(x.queues) == 0 {
			x.in.Written(done)
			continue
		}
		dirs := make([]bodies.Dir, len(x.queues))
		for i, q := range x.queues {
			dirs[i] = q.BodyDir()
		}
		x.in.Finish(dirs, sync || amqp.DeliveryMode(x.properties) == 2, done)
	}
}

// filed goes on when all bodies of a filing are done.
func (c *conn) filed(f *filing) {
	if c.filing == f {
		c.filing = nil
	}
	f.then(f.abandoned)
	c.goOnReading()
}

// goOnReading ends the stall of a filing, unless messages wait to be returned.
func (c *conn) goOnReading() {
	c.commitBatch()
	if c.dead || c.filing != nil || len(c.returns) > 0 {
		return
	}
	c.resume(stallBody)
	c.endOfInput()
}

// externalDone takes a complete external body.
func (c *conn) externalDone(ch *channel) error {
	c.spoolFlush()
	p := &ch.pub
	in := p.in
	p.in = nil
	defer p.reset(c.shard)
	if ch.tx != nil {
		if err := ch.tx.stage(ch, nil, in); err != nil {
			in.Abort()
			ch.fail(asError(err))
		}
		return nil
	}
	if ch.confirm {
		ch.seq++
	}
	queues, err := ch.route(p.exchange, p.key, p.more, p.properties)
	if err != nil {
		in.Abort()
		e := asError(err)
		ch.fail(&amqp.Error{Code: e.Code, Text: e.Text, MethodID: amqp.BasicPublishID})
		return nil
	}
	p.properties = broker.ForQueues(queues, p.more, p.properties)
	if (p.mandatory || p.immediate) && broker.Nowhere(queues) {
		queues = nil // to return a large body and to keep it are too much at once
	}
	c.commitBatch()
	x := &externalPublish{
		in: in, queues: slices.Clone(queues), exchange: slices.Clone(p.exchange), key: slices.Clone(p.key),
		properties: slices.Clone(p.properties), mandatory: p.mandatory, immediate: p.immediate, seq: ch.seq,
	}
	c.file(ch, []*externalPublish{x}, false, func(abandoned bool) {
		switch {
		case x.err != nil:
			c.refused(ch, x, abandoned)
		case abandoned:
			ch.confirm, x.mandatory, x.immediate = false, false, false // nobody to tell
			c.acceptExternal(ch, x)
		default:
			c.acceptExternal(ch, x)
			c.whenReturned(func() {})
		}
	})
	return nil
}

// refused tells a publisher that its message could not be written: by a nack,
// or by closing the channel. Codes: 506 disk full, 541 others.
func (c *conn) refused(ch *channel, x *externalPublish, abandoned bool) {
	x.in.Abort()
	c.shard.srv.logger.Error("a large message could not be written", "peer", c.peer(), "exchange", string(x.exchange), "routing_key", string(x.key), "err", x.err)
	switch {
	case abandoned:
	case ch.confirm:
		ch.note(confirmation{seq: x.seq, failed: true})
	default:
		ch.fail(writeError(x.err))
	}
}

func writeError(err error) *amqp.Error {
	code := amqp.CodeInternalError
	if errors.Is(err, syscall.ENOSPC) {
		code = amqp.CodeResourceError
	}
	return amqp.Errorf(code, amqp.BasicPublishID, "the message could not be written: %v", err)
}

// acceptExternal is accept for a message whose body has been filed.
func (c *conn) acceptExternal(ch *channel, x *externalPublish) {
	if c.vhost.Tracing() {
		c.tracePublish(ch, x.queues, x.exchange, x.key, x.properties, nil)
	}
	code := uint16(0)
	if x.immediate && len(x.queues) > 0 {
		c.commitBatch()
		now := x.queues[:0:0]
		var busy []*broker.Queue
		for _, q := range x.queues {
			if q.Hidden() || q.DeliverableNow() {
				now = append(now, q)
			} else {
				busy = append(busy, q)
			}
		}
		if broker.Nowhere(now) {
			code, now = amqp.CodeNoConsumers, nil
		} else {
			for _, q := range busy {
				c.shard.srv.bodies.Remove(q.BodyDir(), []uint64{x.in.Ref().ID})
			}
		}
		x.queues = now
	} else if len(x.queues) == 0 && (x.mandatory || x.immediate) {
		code = nowhereCode(x.mandatory)
	} else if x.mandatory && ch.pub.entry.Dedup != nil && c.duplicate(ch, x.properties) {
		for _, q := range x.queues {
			c.shard.srv.bodies.Remove(q.BodyDir(), []uint64{x.in.Ref().ID})
		}
		code, x.queues = amqp.CodeNoRoute, nil
	}
	switch {
	case code != 0:
		c.commitBatch()
		ch.count(stats.ReturnUnroutable, 1)
		ch.countUnbatched(x.in.Ref().Size)
		c.returns = append(c.returns, pendingReturn{ch, x, code})
	case len(x.queues) == 0:
		c.commitBatch()
		ch.countDropped(x.in.Ref().Size)
		ch.confirmNow()
		x.in.Abort()
	default:
		broker.MarkExternal(x.properties)
		ref := x.in.Ref()
		c.batchAddRecord(ch, x.queues, x.exchange, x.key, x.properties, ref.Append(c.shard.refBytes[:0]), &ref)
		x.in.Keep()
	}
}

// pendingReturn is a large message to be returned as soon as the output is
// free: only one large content can be under way.
type pendingReturn struct {
	ch   *channel
	x    *externalPublish
	code uint16
}

// whenReturned calls then when all pending returns have been started. Whatever
// is sent after that comes behind them.
func (c *conn) whenReturned(then func()) {
	if len(c.returns) == 0 {
		then()
		return
	}
	c.waitFree(func() {
		r := c.returns[0]
		c.returns = slices.Delete(c.returns, 0, 1)
		c.emitFile(r.ch.id, &amqp.BasicReturn{
			ReplyCode: r.code, ReplyText: []byte(amqp.CodeName(r.code)), Exchange: r.x.exchange, RoutingKey: r.x.key,
		}, r.x.properties, r.x.in.Outgoing())
		r.ch.confirmNow()
		c.whenReturned(then)
		c.goOnReading()
	})
}

// abandonExternal forgets what is under way for a channel that ends.
func (ch *channel) abandonExternal() {
	c := ch.conn
	if c.filing != nil && c.filing.ch == ch {
		c.filing.abandoned = true
	}
	if len(c.returns) > 0 && c.returns[0].ch == ch {
		for _, r := range c.returns {
			r.x.in.Abort()
		}
		c.returns, c.whenFree = nil, nil
		c.stall &^= stallBody
	}
}

// doomed are external bodies of messages that a transaction acknowledged. They
// are removed when it is durable: a crash before that undoes it, and then the
// messages are there again.
type doomed struct {
	queue  *broker.Queue
	ids    []uint64
	ticket uint64 // 0 while the transaction is being applied
}

func (sh *shard) doom(q *broker.Queue, ids []uint64) {
	if len(ids) > 0 {
		sh.doomed = append(sh.doomed, doomed{queue: q, ids: ids})
	}
}

// sentence completes doom with the ticket of the transaction.
func (sh *shard) sentence(ticket uint64) {
	for i := range sh.doomed {
		if d := &sh.doomed[i]; d.ticket == 0 {
			d.ticket = ticket
		}
	}
	sh.execute()
}

// execute removes what is not needed any more. As all who wait for a commit do,
// it asks to be told of the next one before it looks. What the broker does not
// come to before it stops, the next start finds.
func (sh *shard) execute() {
	if len(sh.doomed) == 0 {
		return
	}
	sh.wanted.Store(true)
	durable := sh.srv.broker.Store().TxDurable()
	sh.doomed = slices.DeleteFunc(sh.doomed, func(d doomed) bool {
		if d.ticket > durable {
			return false
		}
		d.queue.RemoveBodies(d.ids)
		return true
	})
}
