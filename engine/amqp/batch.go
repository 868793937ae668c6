package amqp

import (
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// batch collects publishes of one channel to the same queues. It belongs to
// the shard and is empty between two Input calls (invariant 6).
type batch struct {
	builder      *segstore.Batch
	ch           *channel
	queues       []*broker.Queue
	count        int
	exchange     *broker.Exchange // that the last record was published to
	counted      int              // records counted in their exchanges
	countedBytes uint64
	dedup        *broker.Deduplicator // of the exchange they were published to; nil: duplicates are taken
	external     []broker.BodyAt      // of the records whose bodies are in files
	seq          uint64               // confirm number of the last publish in it
	persistent   bool
	expiring     bool       // some have an expiration of their own
	to           []appended // what became of it; used while it is committed
}

// batchRepeat opens the batch for a channel's publishes that repeat the one it has
// learned, or finds it open, and returns the number of their template.
func (c *conn) batchRepeat(ch *channel) int {
	b, p := &c.shard.batch, &ch.pub
	if p.recordBytes == 0 {
		p.encodeRecord(c.shard)
	}
	if b.count > 0 && (b.ch != ch || b.dedup != p.entry.Dedup || !slices.Equal(b.queues, p.queues)) {
		c.commitBatch()
	}
	template := -1
	if b.count > 0 {
		template = b.builder.Template(p.exchange, p.key, p.properties)
	}
	if template < 0 {
		c.commitBatch()
		c.batchBegin(ch, p.queues, p.expiring)
		template = b.builder.FirstTemplate(p.template.Attached(int(p.recordBytes)))
	}
	if b.exchange != p.entry.Exchange {
		c.throughExchange(b, p.entry.Exchange)
	}
	b.persistent = b.persistent || p.persistent
	b.expiring = b.expiring || p.expiring
	return template
}

func (c *conn) batchAdd(ch *channel, queues []*broker.Queue, exchange, key, properties, body []byte) {
	c.batchAddRecord(ch, queues, exchange, key, properties, body, nil)
}

// batchAddRecord adds a record to the batch; ref is its external body, if any.
func (c *conn) batchAddRecord(ch *channel, queues []*broker.Queue, exchange, key, properties, body []byte, ref *bodies.Ref) {
	b := &c.shard.batch
	if b.count > 0 && (b.ch != ch || b.dedup != ch.pub.entry.Dedup || !slices.Equal(b.queues, queues)) {
		c.commitBatch()
	}
	if b.count == 0 {
		c.batchBegin(ch, queues, expires(properties))
	}
	t := b.builder.Template(exchange, key, properties)
	if t < 0 {
		c.commitBatch()
		c.batchBegin(ch, queues, expires(properties))
		t = b.builder.Template(exchange, key, properties)
	}
	if b.exchange != ch.pub.entry.Exchange {
		c.throughExchange(b, ch.pub.entry.Exchange)
	}
	b.builder.Add(t, body)
	if ref != nil {
		b.external = append(b.external, broker.BodyAt{Index: b.builder.Count() - 1, Ref: *ref})
	}
	b.count++
	b.seq = ch.seq
	if !b.persistent {
		b.persistent = amqp.DeliveryMode(properties) == 2
	}
	if !b.expiring {
		b.expiring = expires(properties)
	}
	if b.builder.Size() >= segstore.BatchBytesTarget {
		c.commitBatch()
	}
}

// batchBegin opens a batch; expiring is said of its first record.
func (c *conn) batchBegin(ch *channel, queues []*broker.Queue, expiring bool) {
	b := &c.shard.batch
	now := c.shard.loop.Now()
	if expiring || slices.ContainsFunc(queues, (*broker.Queue).Kept) {
		// The loop's time is that of the beginning of its turn. What is in hand was
		// received before now, and must not expire early.
		now = time.Now()
	}
	b.builder.Reset(now.UnixMilli())
	b.ch, b.dedup = ch, ch.pub.entry.Dedup
	b.queues = append(b.queues[:0], queues...)
	b.persistent, b.expiring = false, false
}

// expires says whether encoded properties have an expiration.
func expires(properties []byte) bool {
	return len(properties) > 0 && properties[0]&byte(amqp.FlagExpiration>>8) != 0
}

// expectExpirations is Queue.ExpectExpirations for several.
func expectExpirations(queues []*broker.Queue) (first bool) {
	for _, q := range queues {
		first = q.ExpectExpirations() || first
	}
	return first
}

// commitBatch appends the batch to its queues' logs.
func (c *conn) commitBatch() {
	b := &c.shard.batch
	if b.count == 0 {
		return
	}
	c.countBatch(b)
	b.count = 0
	ch := b.ch
	now := c.shard.loop.Now().UnixMilli()
	first := false
	if b.expiring && c.shard.tx == nil { // else it was said before the transaction
		first = expectExpirations(b.queues)
	}
	if first {
		c.shard.tx = c.shard.srv.broker.Store().Begin()
	}
	records, external := b.builder, b.external
	var unread error // what the exchange has seen is not known
	if b.dedup != nil {
		if unread = b.dedup.Unread(); unread != nil {
			b.dedup = nil
		} else {
			records, external = b.dedup.Judge(records, external, now)
		}
	}
	if ch.confirm && b.persistent && c.shard.tx == nil {
		records.WantDurable() // see confirmWhen
	}
	var refused []int
	failed := false
	for _, q := range b.queues {
		var end uint64
		var behind bool
		var err error
		if unread != nil {
			err = unread
			q.RefuseBodies(external)
		} else if records.Count() > 0 {
			end, behind, err = q.Publish(records, now, external...)
		} else { // all are duplicates: their confirm waits for what was published before
			end = q.Log().Next()
		}
		if behind {
			c.pacing.behind = q
		}
		more, inLog, err := refusedBy(err, records.Count())
		failed = failed || err != nil
		refused = broker.MergeRefused(refused, more)
		if tx := c.shard.tx; tx != nil && err == nil && end > 0 {
			tx.Appended(q.Log(), end-uint64(inLog), end)
		}
		if err != nil && (c.refusal == nil || c.refusalTold && !ch.confirm) {
			c.shard.srv.logger.Error("a queue takes no messages", "queue", q.Name, "vhost", q.VHost.Name, "peer", c.peer(), "err", err)
			c.refusal = amqp.Errorf(amqp.CodeInternalError, amqp.BasicPublishID, "queue '%s' in vhost '%s' takes no messages: %v", q.Name, q.VHost.Name, err)
			c.refusalTold = ch.confirm // then the publisher hears of it by basic.nack
		}
		if ch.confirm {
			b.to = append(b.to, appended{q, end, err})
		}
	}
	if b.dedup != nil {
		refused = b.dedup.Done(b.queues, refused, failed, c.shard.tx)
		b.dedup = nil
	}
	if first {
		c.shard.tx.End()
		c.shard.tx = nil
	}
	if ch.confirm {
		ch.timeConfirm(b.seq)
		ch.confirmBatch(b.seq, b.builder.Count(), refused, b.persistent, b.to)
		clear(b.to)
		b.to = b.to[:0]
	}
	clear(b.queues)
	b.queues, b.external = b.queues[:0], b.external[:0]
	if b.builder.Size() > 2*segstore.BatchBytesTarget {
		b.builder.Release()
	}
}
