package amqp

import (
	"errors"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

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
				if ch := g.ch; ch.cannotRead(g.queue, amqp.BasicGetID) { // drops the get
					return nil
				}
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
		case shelved:
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
		r := unackedRun{tag: ch.deliveryTag, spaced: spaced{run.First, 1, 1}, queue: g.from, since: c.shard.loop.Now().Unix()}
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
		failed := c.bodyFailed(g.from, record.Offset, properties, g.body, err)
		if g.body != nil {
			g.body.Close()
			g.body = nil
		}
		return failed
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
