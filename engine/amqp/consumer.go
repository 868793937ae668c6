package amqp

import (
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
	argued   string // arguments, encoded: for operators
	timeout  int64  // for acknowledgements, ms; 0: none
	unacked  uint64
	gone     bool // cancelled or its queue deleted

	posted    atomic.Bool // a Run is in the loop's mailbox
	cancelled atomic.Bool // the queue is gone: set by Cancelled, handled by Run

	entered bool // in the ring, as far as this side knows
	stalled bool // not in it, but keeps the share that it has been dealt
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
		cs.unsent(cs.run.Count)
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
		used := cs.ch.outstanding + cs.ch.taken
		if cs.stream == nil {
			used -= cs.run.Count
		}
		n = min(n, remaining(limit, used))
	}
	return n
}

// unsent says that n messages of the run will not be sent: the others on the channel
// may have waited for the credit.
func (cs *consumer) unsent(n uint64) {
	ch := cs.ch
	if cs.NoAck || cs.stream != nil || n == 0 {
		return
	}
	if ch.taken -= n; ch.globalLimit > 0 {
		for _, other := range ch.consumers {
			if other != cs && !other.entered {
				other.Wake()
			}
		}
	}
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
	if (cs.entered || cs.stalled) && cs.credit() == 0 {
		cs.leave()
		return
	}
	if !cs.entered || cs.run.Count > 0 || cs.Queue.Limited() {
		cs.ch.conn.serve(cs)
	}
}

// enter says that the consumer can take.
func (cs *consumer) enter() {
	if !cs.entered {
		cs.entered, cs.stalled = true, false
		cs.Queue.Enter(&cs.Consumer)
	}
}

// stall is for a consumer that cannot take for now: its connection cannot send
// (blocked), or it waits for the disk.
func (cs *consumer) stall(blocked bool) {
	if cs.entered {
		cs.stalled = cs.Queue.Stall(&cs.Consumer, blocked)
		cs.entered = !cs.stalled
	}
}

func (cs *consumer) leave() {
	if cs.entered || cs.stalled {
		cs.entered, cs.stalled = false, false
		cs.Queue.Leave(&cs.Consumer)
	}
}
