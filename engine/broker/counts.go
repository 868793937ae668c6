package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Delivery counts. A queue with a delivery limit counts how often each message
// has come back: by reject, nack or recover, by the end of its channel, by the
// loss of its connection (as quorum queues do up to RabbitMQ 4.2). One that has
// come back more often than the limit is dead. From its second delivery on a
// message carries the count in the header x-delivery-count.
//
// Only messages that came back have an entry, until they are settled. What
// changes is written, a little later and for many at once, to a log beside the
// queue's own, which is made when the first message comes back; its id is in
// the queue's definition:
//
//	record body: for each message uvarint offset, uvarint count
//
// The last record that names an offset counts. When most of what the log has is
// out of date, all counts are written anew and what was before is settled, in
// one transaction. A crash may lose the counts of the last moments, like
// acknowledgements.

// counts is part of an upkeep.
type counts struct {
	of      map[uint64]uint32
	changed []uint64 // offsets whose count is not in the log
	written int      // entries in the log
}

const (
	countsPerRecord  = 4096
	countsSlack      = 1024 // entries that may be out of date
	deliveriesQuorum = 20   // RabbitMQ's default limit of quorum queues
)

// forget drops the counts of settled offsets.
func (c *counts) forget(first, count uint64) {
	if len(c.of) == 0 {
		return
	}
	if count < uint64(len(c.of)) {
		for offset := first; offset < first+count; offset++ {
			delete(c.of, offset)
		}
	} else {
		maps.DeleteFunc(c.of, func(offset uint64, _ uint32) bool { return offset-first < count })
	}
}

// CountsDeliveries says whether messages of the queue carry a count when they
// are delivered again.
func (q *Queue) CountsDeliveries() bool {
	s := q.settings.Load()
	return s != nil && s.deliveryLimit != unlimited
}

// DeliveryCount is how often a message has come back.
func (q *Queue) DeliveryCount(offset uint64) uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.upkeep == nil {
		return 0
	}
	return q.upkeep.counts.of[offset]
}

// headerCount is the header that tells a message's count.
const headerCount = "x-delivery-count"

// WithCount returns the encoded properties of a message as they are delivered: where
// the queue counts, the header x-delivery-count is the broker's alone. The first
// time there is none, whatever the message brought along: programs publish again
// what they got, with its headers.
func (q *Queue) WithCount(properties []byte, offset uint64, redelivered bool) []byte {
	if !q.CountsDeliveries() {
		return properties
	}
	count := uint32(0)
	if redelivered {
		count = q.DeliveryCount(offset)
	}
	return withCount(properties, count)
}

func withCount(properties []byte, count uint32) []byte {
	if count == 0 && !bytes.Contains(properties, []byte(headerCount)) {
		return properties
	}
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil {
		return properties
	}
	if p.Flags&amqp.FlagHeaders == 0 {
		p.Headers = nil
	}
	b := amqp.NewTableBuilder(p.Headers)
	b.Delete(headerCount)
	if count > 0 {
		b.SetInt64(headerCount, int64(count))
		p.Flags |= amqp.FlagHeaders
	}
	p.Headers = b.Table()
	counted := p.Append(nil)
	if IsExternal(properties) {
		MarkExternal(counted)
	}
	return counted
}

// comeBack is what Requeue does on a queue with a delivery limit; the caller
// holds mu.
func (q *Queue) comeBack(first, count uint64) {
	e := q.upkeep
	c := &e.counts
	if c.of == nil {
		c.of = map[uint64]uint32{}
	}
	for offset := first; offset < first+count; offset++ {
		n := c.of[offset] + 1
		if int64(n) > e.set.deliveryLimit {
			q.bury(offset, 1, deliveryLimit)
			continue
		}
		c.of[offset] = n
		c.changed = append(c.changed, offset)
		q.returned.Add(offset, 1)
		e.entered(offset, 1)
	}
	q.VHost.broker.keeper.arm(q, 0)
}

// judgeCounts ends ready messages that have come back more often than the limit,
// which may have become lower; the caller holds mu. What consumers hold is
// judged when it comes back.
func (q *Queue) judgeCounts() {
	e := q.upkeep
	if e.set.deliveryLimit == unlimited {
		return
	}
	var over []uint64
	for offset, n := range e.counts.of {
		if int64(n) > e.set.deliveryLimit && q.returned.Contains(offset) {
			over = append(over, offset)
		}
	}
	slices.Sort(over)
	for _, offset := range over {
		q.returned.Remove(offset)
		e.left(offset, 1)
		q.bury(offset, 1, deliveryLimit)
	}
}

// writeCounts writes what has changed to the log of counts.
func (k *keeper) writeCounts(q *Queue, now int64) (again int64) {
	q.mu.Lock()
	c := &q.upkeep.counts
	if len(c.changed) == 0 && (c.written == 0 || len(c.of) > 0) {
		q.mu.Unlock()
		return unlimited
	}
	all := c.written+len(c.changed) > 2*len(c.of)+countsSlack || len(c.of) == 0
	offsets := c.changed
	if all {
		offsets = slices.Collect(maps.Keys(c.of))
	}
	entries := make([]byte, 0, 8*len(offsets))
	var ends []int
	number := 0
	for _, offset := range offsets {
		if n, ok := c.of[offset]; ok {
			entries = binary.AppendUvarint(binary.AppendUvarint(entries, offset), uint64(n))
			if number++; number%countsPerRecord == 0 {
				ends = append(ends, len(entries))
			}
		}
	}
	if number%countsPerRecord != 0 {
		ends = append(ends, len(entries))
	}
	c.changed = nil
	if all {
		c.written = 0
	}
	c.written += number
	q.mu.Unlock()
	if !q.Durable || q.Owner != nil {
		return unlimited
	}
	log, err := q.VHost.countsLog(q)
	if log == nil {
		if err != nil {
			k.broker.logger.Error("delivery counts of a queue cannot be kept and begin anew after a restart", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
		}
		return unlimited
	}
	k.appendCounts(q, log, entries, ends, all, now)
	return unlimited
}

func (k *keeper) appendCounts(q *Queue, log *segstore.Log, entries []byte, ends []int, all bool, now int64) {
	b := k.broker.store.NewBatch()
	defer b.Release()
	b.Reset(now)
	t, from := b.Template(nil, nil, nil), 0
	for _, end := range ends {
		b.Add(t, entries[from:end])
		from = end
	}
	low, next := log.Low(), log.Next()
	var err error
	if all {
		tx := k.broker.store.Begin()
		var base uint64
		if base, err = log.Append(b); err == nil {
			tx.Appended(log, base, base+uint64(b.Count()))
			tx.Settled(log, low, next-low)
		}
		tx.End()
	} else {
		_, err = log.Append(b)
	}
	if err != nil && !errors.Is(err, segstore.ErrDeleted) && !errors.Is(err, segstore.ErrClosed) {
		k.broker.logger.Error("delivery counts of a queue cannot be written", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
	}
}

// countsLog returns the queue's log of counts, making it; nil when the queue is
// gone.
func (vh *VHost) countsLog(q *Queue) (*segstore.Log, error) {
	vh.mu.Lock()
	defer vh.mu.Unlock()
	if q.sides().countsLog != nil || vh.queues[q.Name] != q.base() {
		return q.sides().countsLog, nil
	}
	var id uint64
	if q.isLevel() {
		id = q.countsLogID()
	} else {
		id = vh.broker.newLogID()
	}
	log, err := vh.broker.store.OpenLog(id, segstore.LogOptions{})
	if err != nil {
		return nil, err
	}
	side := q.needSides()
	side.countsLog, side.countsID = log, id
	if !q.isLevel() {
		vh.broker.record(queueRecord(recQueueDeclare, vh, q))
	}
	return log, nil
}

// readCounts reads a log of counts of q. It waits for the disk.
func (q *Queue) readCounts(log *segstore.Log) (counts, error) {
	c := counts{of: map[uint64]uint32{}}
	if err := readLog(log, func(_ uint64, body []byte) { c.read(body) }); err != nil {
		return c, err
	}
	maps.DeleteFunc(c.of, func(offset uint64, _ uint32) bool {
		first, n := q.log.NextUnsettled(offset, 1)
		return n == 0 || first != offset
	})
	return c, nil
}

// read takes the entries of one record.
func (c *counts) read(body []byte) {
	for len(body) > 0 {
		offset, w := binary.Uvarint(body)
		if w <= 0 {
			return
		}
		n, v := binary.Uvarint(body[w:])
		if v <= 0 || n > 1<<31 {
			return
		}
		c.of[offset] = uint32(n)
		c.written++
		body = body[w+v:]
	}
}
