package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/arena"
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
	mandatory, immediate            bool
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
			if c.fast == ch {
				c.fast = nil
			}
		}
		c.emitMethod(ch.id, &amqp.TxSelectOk{})
		return nil
	case amqp.TxCommitID, amqp.TxRollbackID:
		if ch.tx == nil {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "channel is not transactional")
		}
		if id == amqp.TxCommitID {
			if err := ch.tx.commit(ch); err != nil {
				return err
			}
			c.emitMethod(ch.id, &amqp.TxCommitOk{})
			return nil
		}
		ch.tx.rollback(ch)
		c.emitMethod(ch.id, &amqp.TxRollbackOk{})
		return nil
	}
	return notImplemented(id)
}

// stage keeps a publish until commit. Codes: 506 when the transaction holds
// too much.
func (t *transaction) stage(ch *channel, body []byte) error {
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
		exchange: keep(p.exchange), key: keep(p.key), properties: keep(p.properties), body: keep(body),
		mandatory: p.mandatory, immediate: p.immediate,
	})
	return nil
}

func (t *transaction) acknowledge(ch *channel, tag uint64, multiple bool, v verdict) error {
	if !ch.unacked.take(tag, multiple, func(r unackedRun) { t.acks = append(t.acks, stagedAck{r, v}) }) {
		return unknownTag(tag)
	}
	return nil
}

// commit applies everything. Nothing in it can fail half way but a queue whose
// log is fenced: that is found out before anything is applied.
func (t *transaction) commit(ch *channel) error {
	c := ch.conn
	routes := make([][]*broker.Queue, len(t.publishes))
	for i := range t.publishes {
		p := &t.publishes[i]
		byHeaders, err := c.vhost.CheckPublish(p.exchange)
		if err != nil {
			continue // the exchange is gone since: the message goes nowhere, as without tx
		}
		ch.pub.byHeaders = byHeaders
		found, err := ch.route(p.exchange, p.key, p.properties)
		if err != nil {
			continue
		}
		routes[i] = append([]*broker.Queue(nil), found...)
		for _, q := range found {
			if err := q.Log().Err(); err != nil {
				return amqp.Errorf(amqp.CodeInternalError, 0, "queue '%s' cannot be written: %v", q.Name, err)
			}
		}
	}
	ch.pub.version = 0 // the cache has been used for other exchanges
	for i := range t.publishes {
		p := &t.publishes[i]
		c.accept(ch, routes[i], p.exchange, p.key, p.properties, p.body, p.mandatory, p.immediate)
		if amqp.DeliveryMode(p.properties) == 2 {
			c.promise(routes[i])
		}
	}
	c.commitBatch()
	for i := range c.promised {
		pr := &c.promised[i]
		if pr.offset == 0 {
			pr.offset = pr.log.Next()
			pr.log.WantDurable()
		}
	}
	for _, a := range t.acks {
		ch.conclude(a.run, a.v)
	}
	c.flushSettled()
	t.reset()
	return nil
}

// promise notes that tx.commit-ok must wait for the logs of durable queues.
func (c *conn) promise(queues []*broker.Queue) {
next:
	for _, q := range queues {
		if !q.Durable || q.Exclusive() {
			continue
		}
		for i := range c.promised {
			if c.promised[i].log == q.Log() && c.promised[i].offset == 0 {
				continue next
			}
		}
		c.promised = append(c.promised, promise{log: q.Log()})
	}
}

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
	*t = transaction{}
}
