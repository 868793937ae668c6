package amqp

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// transaction holds what a channel did since tx.select or the last commit.
// Publishes are routed at commit; acknowledged deliveries are out of the
// channel's list from the moment they are acknowledged, and come back to it on
// rollback.
type transaction struct {
	publishes []stagedPublish
	acks      []stagedAck
	bufs      []*arena.Buf // where the staged bytes are
	used      int          // bytes used of the last buffer
	bytes     int
}

type stagedPublish struct {
	exchange, key, properties, body []byte
	more                            [][]byte // routing keys of CC and BCC
	mandatory, immediate            bool
	in                              *bodies.Incoming // an external body, instead of body
	entry                           broker.Entry
}

type stagedAck struct {
	run unackedRun
	v   verdict
}

// txClass handles class tx (90): select, commit, rollback. Codes: 406 without
// select, or on a confirm channel.
func (ch *channel) txClass(id uint32) error {
	c := ch.conn
	switch id {
	case amqp.TxSelectID:
		if ch.confirm {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "cannot switch from confirm to tx mode")
		}
		if ch.tx == nil {
			c.commitBatch()
			ch.tx = &transaction{}
			c.unlearn(ch)
		}
		c.emitMethod(ch.id, &amqp.TxSelectOk{})
		return nil
	case amqp.TxCommitID, amqp.TxRollbackID:
		if ch.tx == nil {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "channel is not transactional")
		}
		if id == amqp.TxCommitID {
			return ch.tx.commit(ch)
		}
		ch.tx.rollback(ch)
		c.emitMethod(ch.id, &amqp.TxRollbackOk{})
		return nil
	}
	return notImplemented(id)
}

// stage keeps a publish until commit. Codes: 506 when the transaction holds
// too much. An external body, in, does not count: it is in a file.
func (t *transaction) stage(ch *channel, body []byte, in *bodies.Incoming) error {
	p := &ch.pub
	need := len(p.exchange) + len(p.key) + len(p.properties) + len(body)
	if t.bytes+need > txBytesMax {
		return amqp.Errorf(amqp.CodeResourceError, amqp.BasicPublishID, "a transaction may hold %d bytes; commit more often", txBytesMax)
	}
	t.bytes += need
	if n := len(t.bufs); n == 0 || t.used+need > t.bufs[n-1].Len() {
		t.bufs = append(t.bufs, ch.conn.shard.pool.Get(max(need, 4*arena.KiB<<min(2*len(t.bufs), 6))))
		t.used = 0
	}
	buf := t.bufs[len(t.bufs)-1].Bytes()
	keep := func(b []byte) []byte {
		kept := buf[t.used : t.used+copy(buf[t.used:], b)]
		t.used += len(b)
		return kept
	}
	t.publishes = append(t.publishes, stagedPublish{
		exchange: keep(p.exchange), key: keep(p.key), properties: keep(p.properties), body: keep(body), more: p.more,
		mandatory: p.mandatory, immediate: p.immediate, in: in,
	})
	return nil
}

func (t *transaction) acknowledge(ch *channel, tag uint64, multiple bool, v verdict) error {
	if !ch.unacked.take(tag, multiple, func(r unackedRun) { t.acks = append(t.acks, stagedAck{r, v}) }) {
		return unknownTag(tag)
	}
	return nil
}

// commit applies everything and answers. Nothing in it can fail half way but a
// queue whose log is fenced: that is found out before anything is applied, and
// so is that an external body cannot be filed.
func (t *transaction) commit(ch *channel) error {
	c := ch.conn
	routes := make([][]*broker.Queue, len(t.publishes))
	for i := range t.publishes {
		p := &t.publishes[i]
		entry, err := c.vhost.CheckPublish(p.exchange)
		if err != nil {
			continue // the exchange is gone since: the message goes nowhere, as without tx
		}
		ch.pub.entry, p.entry = entry, entry
		if d := entry.Dedup; d != nil {
			if err := d.Unread(); err != nil {
				return err
			}
		}
		found, err := ch.route(p.exchange, p.key, p.more, p.properties)
		if err != nil {
			continue
		}
		routes[i] = append([]*broker.Queue(nil), found...)
		p.properties = broker.ForQueues(found, p.more, p.properties)
		for _, q := range found {
			if err := q.Log().Err(); err != nil {
				return amqp.Errorf(amqp.CodeInternalError, 0, "queue '%s' cannot be written: %v", q.Name, err)
			}
		}
	}
	ch.pub.version, ch.pub.checked = 0, 0 // the cache has been used for other exchanges
	if err := t.checkSize(routes); err != nil {
		return err
	}
	external := t.external(ch, routes)
	if len(external) == 0 {
		t.apply(ch, routes, nil)
		return nil
	}
	c.commitBatch()
	c.flushSettled()
	var filed []*externalPublish
	for _, x := range external {
		if x != nil {
			filed = append(filed, x)
		}
	}
	c.file(ch, filed, true, func(abandoned bool) {
		if abandoned {
			return // rolled back: the bodies have been given up
		}
		for _, x := range filed {
			if x.err != nil {
				e := writeError(x.err)
				ch.fail(&amqp.Error{Code: e.Code, Text: e.Text, MethodID: amqp.TxCommitID})
				return
			}
		}
		t.apply(ch, routes, external)
	})
	return nil
}

// external makes the list of publishes with external bodies, by their place
// among all; nil when there is none.
func (t *transaction) external(ch *channel, routes [][]*broker.Queue) (list []*externalPublish) {
	for i := range t.publishes {
		p := &t.publishes[i]
		if p.in == nil {
			continue
		}
		if list == nil {
			list = make([]*externalPublish, len(t.publishes))
		}
		if (p.mandatory || p.immediate) && broker.Nowhere(routes[i]) {
			routes[i] = nil // as without a transaction
		}
		list[i] = &externalPublish{
			in: p.in, queues: routes[i], exchange: slices.Clone(p.exchange), key: slices.Clone(p.key),
			properties: slices.Clone(p.properties), mandatory: p.mandatory, immediate: p.immediate,
		}
	}
	return list
}

// apply does what was staged; external is nil, or names those of the publishes
// whose bodies have been filed.
func (t *transaction) apply(ch *channel, routes [][]*broker.Queue, external []*externalPublish) {
	c := ch.conn
	// Everything from here to End is one step for the store, also in a crash.
	c.commitBatch()
	c.flushSettled()
	for i := range t.publishes {
		if expires(t.publishes[i].properties) {
			expectExpirations(routes[i])
		}
	}
	c.shard.tx = c.shard.srv.broker.Store().Begin()
	for i := range t.publishes {
		p := &t.publishes[i]
		ch.pub.entry = p.entry
		if p.in != nil {
			p.in = nil // not the transaction's any more
			c.acceptExternal(ch, external[i])
		} else {
			c.accept(ch, routes[i], p.exchange, p.key, p.properties, p.body, p.mandatory, p.immediate)
		}
	}
	c.commitBatch()
	for _, a := range t.acks {
		ch.conclude(a.run, a.v)
	}
	ch.giveBack()
	c.flushSettled()
	ticket := c.shard.tx.End()
	c.ticket = max(c.ticket, ticket)
	c.shard.tx = nil
	c.shard.sentence(ticket)
	t.reset()
	c.whenReturned(func() { c.emitMethod(ch.id, &amqp.TxCommitOk{}) })
}

// checkSize refuses what does not fit one entry of the journal: each queue gets
// its copy. Codes: 506.
func (t *transaction) checkSize(routes [][]*broker.Queue) error {
	bytes := uint64(0)
	for i := range t.publishes {
		p := &t.publishes[i]
		size := len(p.exchange) + len(p.key) + len(p.properties) + len(p.body) + recordOverhead
		bytes += uint64(size * len(routes[i]))
		if p.entry.Dedup != nil {
			bytes += uint64(recordOverhead * (len(routes[i]) + 1))
		}
	}
	if err := segstore.CheckTxBytes(bytes); err != nil {
		return amqp.Errorf(amqp.CodeResourceError, 0, "%v; commit more often", err)
	}
	return nil
}

// recordOverhead is more than a record and its share of a batch take besides
// its parts.
const recordOverhead = 64

// rollback forgets the publishes and takes the acks back. t may be nil.
func (t *transaction) rollback(ch *channel) {
	if t == nil {
		return
	}
	for _, a := range t.acks {
		ch.unacked.putBack(a.run)
	}
	t.reset()
}

func (t *transaction) reset() {
	for _, b := range t.bufs {
		b.Release()
	}
	for i := range t.publishes {
		if in := t.publishes[i].in; in != nil {
			in.Abort()
		}
	}
	*t = transaction{}
}
