package amqp

import (
	"errors"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// consumer is a subscription of a channel. It is in its queue's ring while it
// has credit and its connection can send; then it is woken when there is
// something to take.
type consumer struct {
	broker.Consumer
	ch       *channel
	prefetch uint64
	timeout  int64 // for acknowledgements, ms; 0: none
	unacked  uint64
	gone     bool // cancelled or its queue deleted

	posted    atomic.Bool // a Run is in the loop's mailbox
	cancelled atomic.Bool // the queue is gone: set by Cancelled, handled by Run

	entered bool // in the ring, as far as this side knows
	queued  bool // in conn.serveList
	reading bool // waits for the disk

	run      broker.Run    // taken, not sent yet
	from     *broker.Queue // that reader reads: the queue, or a level of it
	reader   *segstore.Reader
	wake     func() // Wake, made once
	at       uint64 // offset the reader will return next; valid if placed
	placed   bool
	batchSeq uint64
	number   int // template number the deliver template was built from
	deliver  amqp.DeliverTemplate
	built    segstore.Template // copies of what deliver was built from
	record   segstore.Record
	have     bool             // record was read but did not fit
	external bool             // records of this template have external bodies
	traced   bool             // the virtual host is being traced; see trace.go
	careful  bool             // something has to be seen to before a record is sent; see careful.go
	stream   *streamDelivery  // nil: of a classic queue; see stream.go
	deadline int64            // when the record at hand expires, ms
	body     *bodies.Outgoing // record's, being opened or open
}

// Outcomes of encode.
type outcome uint8

const (
	runDone    outcome = iota // everything taken has been encoded
	full                      // no room left in the output buffer
	fetching                  // the disk is being read
	unreadable                // the next record's body is damaged: encodeBatch only
	overdue                   // the next record has expired: encodeBatch only
)

// Wake implements broker.ConsumerOwner. Any goroutine.
func (cs *consumer) Wake() {
	if cs.posted.CompareAndSwap(false, true) {
		cs.ch.conn.shard.loop.Post(cs)
	}
}

// Cancelled implements broker.ConsumerOwner. Any goroutine.
func (cs *consumer) Cancelled() {
	cs.cancelled.Store(true)
	cs.Wake()
}

// Run implements loop.Runner.
func (cs *consumer) Run() {
	cs.posted.Store(false)
	c := cs.ch.conn
	if cs.gone || c.dead {
		return
	}
	if cs.cancelled.Load() {
		cs.queueGone()
		return
	}
	cs.reading = false
	c.serve(cs)
}

// queueGone tells the client that its queue has been deleted
// (consumer_cancel_notify).
func (cs *consumer) queueGone() {
	c := cs.ch.conn
	cs.end()
	c.disown(cs.Queue.Name)
	c.flush()
}

// end ends the subscription against the client's will.
func (cs *consumer) end() {
	c := cs.ch.conn
	tag := cs.Tag
	cs.detach()
	delete(cs.ch.consumers, tag)
	if c.cancelNotify {
		c.emitMethod(cs.ch.id, &amqp.BasicCancel{ConsumerTag: []byte(tag), NoWait: true})
	}
	if cs.Queue.AutoDelete {
		c.disownIfGone(cs.Queue)
	}
}

// detach ends the subscription; unacknowledged deliveries stay with the channel.
func (cs *consumer) detach() {
	if cs.gone {
		return
	}
	cs.gone = true
	cs.returnRun()
	if cs.reader != nil {
		cs.reader.Close()
		cs.reader = nil
	}
	cs.closeBody()
	cs.Queue.Detach(&cs.Consumer)
}

// returnRun gives back what was taken and not sent.
func (cs *consumer) returnRun() {
	if cs.run.Count > 0 && cs.stream == nil {
		cs.run.Queue.Return(cs.run)
	}
	cs.run = broker.Run{}
	cs.have = false
}

// credit is how many more messages the client may be sent.
func (cs *consumer) credit() uint64 {
	if cs.NoAck {
		return 1 << 62
	}
	n := uint64(1 << 62)
	if cs.prefetch > 0 {
		n = remaining(cs.prefetch, cs.unacked)
	}
	if limit := uint64(cs.ch.globalLimit); limit > 0 {
		n = min(n, remaining(limit, cs.ch.outstanding))
	}
	return n
}

func remaining(limit, used uint64) uint64 {
	if used >= limit {
		return 0
	}
	return limit - used
}

// reconsider is called when credit may have come or gone.
func (cs *consumer) reconsider() {
	if cs.gone || cs.reading {
		return
	}
	if cs.entered && cs.credit() == 0 {
		cs.leave()
		return
	}
	if !cs.entered || cs.run.Count > 0 || cs.Queue.Limited() {
		cs.ch.conn.serve(cs)
	}
}

func (cs *consumer) leave() {
	if cs.entered {
		cs.entered = false
		cs.Queue.Leave(&cs.Consumer)
	}
}

// serve puts cs on the list of consumers to be served when the input at hand
// is done.
func (c *conn) serve(cs *consumer) {
	if !cs.queued {
		cs.queued = true
		c.serveList = append(c.serveList, cs)
	}
	c.serveSoon()
}

func (c *conn) serveSoon() {
	if !c.serving {
		c.serving = true
		c.shard.loop.Defer(&c.serveRun)
	}
}

type serveRunner struct{ conn *conn }

// Run implements loop.Runner: it serves the connection's consumers until there
// is nothing to send, the socket is full, or others should get their turn.
func (r *serveRunner) Run() {
	c := r.conn
	c.serving = false
	if c.dead || c.state != stateOpen {
		return
	}
	for buffers := 0; c.hungry(); buffers++ {
		if c.occupied() || buffers == serveBuffersMax {
			break
		}
		if len(c.replying) > 0 {
			c.deliverReplies()
		}
		if !c.big.active && len(c.held) == 0 {
			c.serveOnce()
		}
		c.flush()
		if c.dead {
			return
		}
	}
	if !c.hungry() {
		return
	}
	if c.occupied() {
		// Drained (or the commit) comes back here. Nobody waits for us meanwhile.
		for _, cs := range c.serveList {
			cs.leave()
		}
		return
	}
	c.serveSoon()
}

// occupied says that consumers cannot send anything for now.
func (c *conn) occupied() bool {
	return c.blocked() || c.big.active || len(c.held) > 0 || c.whenFree != nil
}

// serveOnce lets each listed consumer fill the output buffer in turn; those
// that have more to send stay on the list.
func (c *conn) serveOnce() {
	list := c.serveList
	for i, cs := range list {
		if !cs.gone && !cs.fill() {
			// Full: this one goes on later, behind the others.
			copy(list, list[i+1:])
			list[len(list)-1-i] = cs
			clear(list[len(list)-i:])
			c.serveList = list[:len(list)-i]
			return
		}
		cs.queued = false
	}
	clear(list)
	c.serveList = list[:0]
}

// fill sends what cs may have; false when the output buffer is full.
func (cs *consumer) fill() bool {
	if cs.stream != nil {
		return cs.fillStream()
	}
	for {
		if cs.run.Count == 0 {
			credit := cs.credit()
			if credit == 0 {
				cs.leave()
				return true
			}
			if !cs.entered {
				cs.entered = true
				cs.Queue.Enter(&cs.Consumer)
			}
			cs.run, _ = cs.Queue.Take(&cs.Consumer, credit, cs.ch.conn.shard.loop.Now().UnixMilli())
			if cs.run.Count == 0 {
				cs.idle()
				return true
			}
			if cs.from != cs.run.Queue {
				cs.turnTo(cs.run.Queue)
			}
			if cs.from.Kept() {
				cs.number = -1 // see careful.go
			}
		}
		switch cs.encode() {
		case full:
			return false
		case fetching:
			cs.reading = true
			cs.leave()
			return true
		}
	}
}

// turnTo reads from another queue: the runs of a priority queue come from its
// levels.
func (cs *consumer) turnTo(q *broker.Queue) {
	if cs.reader != nil {
		cs.reader.Close()
		cs.reader = nil
	}
	cs.from, cs.placed, cs.have, cs.number = q, false, false, -1
}

// idle gives back the memory that reading needs while there is nothing to read.
func (cs *consumer) idle() {
	if cs.reader != nil && !cs.have {
		cs.reader.Close()
		cs.placed = false
	}
}

// encode writes deliveries of the taken run into the output buffer.
func (cs *consumer) encode() outcome {
	c := cs.ch.conn
	for cs.run.Count > 0 {
		if !cs.place() {
			if cs.run.Count == 0 {
				continue
			}
			return fetching
		}
		if !c.room(outBytesMax - c.outLen) {
			return full
		}
		done, bytes, state := cs.encodeBatch()
		cs.sent(done, bytes)
		switch state {
		case unreadable:
			cs.have = false
			cs.skip(1)
		case overdue:
			cs.have = false
			cs.expire()
		case full, fetching:
			return state
		}
	}
	return runDone
}

// place positions the reader at the run's first offset; false when that needs
// the disk, or when the run turned out to be gone.
func (cs *consumer) place() bool {
	if cs.have || cs.placed && cs.at == cs.run.First {
		return true
	}
	if cs.reader == nil {
		cs.reader = cs.from.Log().NewReader()
		cs.wake = cs.Wake
	}
	if cs.stream != nil {
		cs.reader.SetQuery(cs.Stream.Query)
	}
	cs.placed = false
	for cs.run.Count > 0 {
		err := cs.reader.Seek(cs.run.First, cs.wake)
		if err == nil {
			cs.placed, cs.at = true, cs.run.First
			return true
		}
		if errors.Is(err, segstore.ErrNotResident) {
			return false
		}
		var missing segstore.ErrMissing
		if !errors.As(err, &missing) {
			if !errors.Is(err, segstore.ErrDeleted) { // else the queue is gone, and the consumer about to hear of it
				cs.ch.conn.shard.srv.logger.Error("messages cannot be read and are passed over until the queue is opened again",
					"queue", cs.Queue.Name, "vhost", cs.Queue.VHost.Name, "offset", cs.run.First, "count", cs.run.Count, "err", err)
			}
			cs.giveUp()
			return false
		}
		cs.skip(min(missing.Next-cs.run.First, cs.run.Count))
	}
	return false
}

// skip drops offsets that have no record: damaged ones, reported by the store;
// of a stream also those that retention removed or that the filter passes over.
func (cs *consumer) skip(n uint64) {
	if cs.stream == nil {
		cs.from.Settle(cs.run.First, n)
	}
	cs.run.First += n
	cs.run.Count -= n
}

// giveUp cancels a consumer whose queue cannot be read; the messages stay.
func (cs *consumer) giveUp() {
	cs.Cancelled()
}

// encodeBatch encodes records of the batch the reader is in. It stops before a
// record that does not fit, or whose external body is not open yet or damaged.
func (cs *consumer) encodeBatch() (done, bytes uint64, state outcome) {
	c := cs.ch.conn
	out := c.out.Bytes()[:c.outLen]
	limit := c.out.Len()
	tag := cs.ch.deliveryTag
	count := cs.run.Count
	for done < count {
		if !cs.have {
			if !cs.reader.Next(&cs.record) {
				cs.placed = false
				break
			}
			cs.at++
		}
		if cs.record.Template != cs.number || cs.reader.BatchSeq() != cs.batchSeq {
			cs.buildTemplate()
		}
		if cs.careful {
			if cs.overdue() {
				state = overdue
				break
			}
			if cs.traced {
				cs.traceDelivery()
			}
		}
		if cs.external {
			cs.have = true
			if state = cs.openBody(); state == runDone && len(out) > 0 {
				state = full
			}
			if state != runDone {
				break
			}
			cs.have = false
			c.outLen = 0
			size := cs.body.Size()
			cs.deliverFile(tag + 1)
			cs.ch.deliveryTag = tag + 1
			return done + 1, bytes + size, full
		}
		body := cs.record.Body
		if len(out)+cs.deliver.Size(len(body), c.frameMax) > limit {
			if len(out) == 0 {
				cs.have = false
				c.outLen = 0
				cs.deliverLarge(tag + 1)
				cs.ch.deliveryTag = tag + 1
				return done + 1, bytes + uint64(len(body)), full
			}
			cs.have, state = true, full
			break
		}
		cs.have = false
		tag++
		out = cs.deliver.Append(out, tag, cs.run.Redelivered, body, c.frameMax)
		bytes += uint64(len(body))
		done++
	}
	c.outLen = len(out)
	cs.ch.deliveryTag = tag
	return done, bytes, state
}

// buildTemplate prepares the deliver frame for the record's template. Batches
// of one publisher repeat the same one: then the frame is kept.
func (cs *consumer) buildTemplate() {
	cs.number, cs.batchSeq = cs.record.Template, cs.reader.BatchSeq()
	t := cs.reader.Template(cs.number)
	cs.careful = (cs.from.Kept() || expires(t.Properties)) && cs.beCareful(&t)
	if cs.traced = cs.Queue.VHost.Tracing(); cs.traced {
		cs.beTraced()
	}
	if string(t.Properties) == string(cs.built.Properties) && string(t.RoutingKey) == string(cs.built.RoutingKey) &&
		string(t.Exchange) == string(cs.built.Exchange) && cs.built.Properties != nil {
		return
	}
	cs.built.Properties = append(cs.built.Properties[:0], t.Properties...)
	cs.built.RoutingKey = append(cs.built.RoutingKey[:0], t.RoutingKey...)
	cs.built.Exchange = append(cs.built.Exchange[:0], t.Exchange...)
	cs.external = broker.IsExternal(t.Properties)
	if cs.external {
		return // delivered by deliverFile
	}
	cs.deliver.Build(cs.ch.id, []byte(cs.Tag), t.Exchange, t.RoutingKey, t.Properties)
}

// deliverLarge starts a delivery that does not fit an output buffer: its body
// is cut into frames as the socket takes them, and a reader of its own keeps
// the bytes.
func (cs *consumer) deliverLarge(tag uint64) {
	t := cs.built
	reader := cs.reader
	cs.reader, cs.placed = nil, false
	cs.number = -1 // the next reader counts batches anew
	cs.ch.conn.emitContent(cs.ch.id, &amqp.BasicDeliver{
		ConsumerTag: []byte(cs.Tag), DeliveryTag: tag, Redelivered: cs.run.Redelivered,
		Exchange: t.Exchange, RoutingKey: t.RoutingKey,
	}, t.Properties, cs.record.Body, reader.Close)
}

// sent accounts for n deliveries just encoded from the run's front, with so many
// bytes of bodies.
func (cs *consumer) sent(n, bytes uint64) {
	if n == 0 {
		return
	}
	cs.countSent(n, bytes)
	cs.timeDelivery()
	ch := cs.ch
	first := cs.run.First
	cs.run.First += n
	cs.run.Count -= n
	ch.conn.shard.tracer.sent(cs, cs.run.First)
	if cs.NoAck {
		cs.from.Settle(first, n)
		return
	}
	cs.unacked += n
	ch.outstanding += n
	r := unackedRun{tag: ch.deliveryTag - n + 1, count: n, offset: first, queue: cs.from, consumer: cs, since: ch.conn.shard.loop.Now().Unix()}
	if cs.timeout > 0 {
		r.deadline = ch.expectAck(cs.timeout)
	}
	ch.unacked.add(r)
}
