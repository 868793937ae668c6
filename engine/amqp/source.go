package amqp

import (
	"errors"
	"io/fs"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// External bodies: how large messages leave. Before a content begins its file
// is open and has the right size; it is then the connection's "big" content
// (output.go), filled piece by piece from the disk. A connection sends one
// such content at a time; who has another waits until the output is free.

// headerFlagsAt is where a content header frame has the property flags: behind
// the frame's head, class, weight and body size.
const headerFlagsAt = 7 + 2 + 2 + 8

// emitFile begins a content whose body comes from a file. The output must have
// room for its head, and nothing may be held back: see waitFree.
func (c *conn) emitFile(channel uint16, m amqp.Method, properties []byte, source *bodies.Outgoing) {
	head := amqp.AppendMethodFrame(c.shard.scratch[:0], channel, m)
	at := len(head)
	head = amqp.AppendHeaderFrame(head, channel, source.Size(), properties)
	broker.UnmarkExternal(head[at+headerFlagsAt:])
	c.shard.scratch = head
	if c.big.active || !c.room(len(head)) {
		panic("amqp: a large content begun while the output is not free")
	}
	c.emit(head)
	c.big = content{channel: channel, active: true, source: source, left: source.Size()}
	source.Start(int(c.frameMax)-amqp.FrameOverhead, func() { c.shard.loop.Post((*sourceRunner)(c)) })
	c.pump()
}

// refill gets the next piece of the large content from its file; false when it
// is still being read, or cannot be.
func (c *conn) refill() bool {
	if c.big.failed {
		return false
	}
	data, err := c.big.source.Next()
	if err != nil {
		// Not here: this is in the middle of output.
		c.big.failed = true
		c.shard.loop.Defer(&damageRunner{conn: c, source: c.big.source, err: err})
		return false
	}
	c.big.body = data
	c.big.left -= uint64(len(data))
	return len(data) > 0
}

// sourceRunner goes on with the output when a piece has been read.
type sourceRunner conn

// Run implements loop.Runner.
func (r *sourceRunner) Run() {
	c := (*conn)(r)
	if c.dead {
		return
	}
	c.flush()
	if c.sending == nil && c.hungry() {
		c.serveSoon()
	}
}

// damageRunner ends a connection in the middle of a content that cannot be
// completed (541). The message stays in its queue; if its body is damaged for
// good, the body is put aside, and the next who takes the message passes over
// it. If the disk fails, the next who takes it shelves it.
type damageRunner struct {
	conn   *conn
	source *bodies.Outgoing
	err    error
}

// Run implements loop.Runner.
func (r *damageRunner) Run() {
	c := r.conn
	c.shard.srv.logger.Error("the body of a message cannot be read to its end", "peer", c.peer(), "err", r.err)
	if errors.Is(r.err, bodies.ErrDamaged) {
		r.source.SetAside()
	} else {
		r.source.Suspect()
	}
	if c.dead || c.big.source != r.source {
		return
	}
	c.fail(amqp.Errorf(amqp.CodeInternalError, 0, "the body of a message cannot be read"))
	c.flush()
}

// outputFree says that everything produced so far has left.
func (c *conn) outputFree() bool {
	return !c.big.active && len(c.held) == 0 && c.outLen == 0 && c.sending == nil
}

// waitFree calls f, from a runner, when the output is free. Consumers are not
// served before. One at a time: who waits has stalled the input.
func (c *conn) waitFree(f func()) {
	c.whenFree = f
	c.offerFree()
}

// offerFree lets who waits for a free output go on, if it is.
func (c *conn) offerFree() {
	if c.whenFree != nil && !c.freeing && c.outputFree() {
		c.freeing = true
		c.shard.loop.Defer((*freeRunner)(c))
	}
}

type freeRunner conn

// Run implements loop.Runner.
func (r *freeRunner) Run() {
	c := (*conn)(r)
	c.freeing = false
	f := c.whenFree
	if c.dead || f == nil || !c.outputFree() {
		return // flush offers again
	}
	c.whenFree = nil
	f()
	c.flush()
	if c.sending == nil && c.hungry() {
		c.serveSoon()
	}
}

// openExternal opens the body of an external record at offset. An error says
// that the record holds no reference.
func openExternal(c *conn, q *broker.Queue, offset uint64, body []byte, wake func()) (*bodies.Outgoing, error) {
	ref, ok := bodies.DecodeRef(body)
	if !ok || c.shard.srv.bodies == nil {
		return nil, bodies.ErrDamaged
	}
	q.FoundBody(offset, ref.ID)
	return c.shard.srv.bodies.Open(q.BodyDir(), ref, wake), nil
}

// bodyFailed reports a message whose body cannot be opened. If it is not there or not
// what it was, the message is passed over as one whose record is damaged: unreadable.
// If the disk fails, it may be whole: the message is shelved, and nothing is lost.
func (c *conn) bodyFailed(q *broker.Queue, offset uint64, properties []byte, body *bodies.Outgoing, err error) outcome {
	if q.IsStream() && offset < q.Log().Low() {
		return unreadable // retention was faster
	}
	if !errors.Is(err, bodies.ErrDamaged) {
		if !errors.Is(err, bodies.ErrClosed) { // else the broker is stopping
			c.shard.srv.logger.Error("a message waits because its body cannot be read: mend the disk or the permissions, then use basaltmqctl restart_queue, or restart the broker",
				"queue", q.Name, "vhost", q.VHost.Name, "offset", offset, "err", err)
		}
		q.Shelve(offset)
		return shelved
	}
	if q.Excuses(offset, properties, err) {
		c.shard.srv.logger.Warn("a message is passed over because its body is gone: it was acknowledged just before the crash, or it was not persistent; nothing that was promised is lost",
			"queue", q.Name, "vhost", q.VHost.Name, "offset", offset, "err", err)
		return unreadable
	}
	c.shard.srv.logger.Error("a message is lost: it is passed over because its body is missing or damaged; check the disk",
		"queue", q.Name, "vhost", q.VHost.Name, "offset", offset, "err", err)
	if body != nil && !errors.Is(err, fs.ErrNotExist) {
		q.ForgetBody(offset)
		body.SetAside()
	}
	return unreadable
}

// openBody has the external body of the record at hand opened: runDone when it
// is, fetching while it is being opened, unreadable or shelved when it cannot be.
func (cs *consumer) openBody() outcome {
	var err error
	opened := false
	if cs.body == nil {
		cs.body, err = openExternal(cs.ch.conn, cs.from, cs.record.Offset, cs.record.Body, cs.Wake)
	}
	if err == nil {
		opened, err = cs.body.Opened()
	}
	switch {
	case err != nil:
		failed := cs.ch.conn.bodyFailed(cs.from, cs.record.Offset, cs.built.Properties, cs.body, err)
		cs.closeBody()
		return failed
	case !opened:
		return fetching
	}
	return runDone
}

func (cs *consumer) closeBody() {
	if cs.body != nil {
		cs.body.Close()
		cs.body = nil
	}
}

// deliverFile starts the delivery of the record at hand, whose body is open.
func (cs *consumer) deliverFile(tag uint64) {
	body := cs.body
	cs.body = nil
	cs.ch.conn.emitFile(cs.ch.id, &amqp.BasicDeliver{
		ConsumerTag: []byte(cs.Tag), DeliveryTag: tag, Redelivered: cs.run.Redelivered,
		Exchange: cs.built.Exchange, RoutingKey: cs.built.RoutingKey,
	}, cs.built.Properties, body)
}
