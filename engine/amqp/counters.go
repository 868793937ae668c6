package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Counting. A channel's counters are plain numbers on its loop; the same goes
// into the counters that its virtual host has for this loop, which others read.
// Everything is counted by batch, by run of deliveries, or by frame.

// channelCounts are what a channel counts, and the publish whose confirm it times.
// What publishing and confirming touch is at the beginning, in one line of the cache.
type channelCounts struct {
	timed timedPublish
	stats.Counts
	_ [48]byte // to the size of whole lines
}

// count counts n of a kind on a channel.
func (ch *channel) count(k stats.Kind, n uint64) {
	if n > 0 {
		ch.counters()[k] += n
		ch.conn.count(k, n)
	}
}

// count counts for the virtual host; a connection without one has nothing to
// count.
func (c *conn) count(k stats.Kind, n uint64) {
	if c.counts != nil {
		c.counts.Add(k, n)
	}
}

func (ch *channel) counters() *stats.Counts {
	if ch.counts == nil {
		ch.counts = new(channelCounts)
	}
	return &ch.counts.Counts
}

// countDropped counts a publish that no queue gets.
func (ch *channel) countDropped(bytes uint64) {
	ch.count(stats.DropUnroutable, 1)
	ch.countUnbatched(bytes)
}

// countUnbatched counts a publish that goes into no batch.
func (ch *channel) countUnbatched(bytes uint64) {
	ch.count(stats.Publish, 1)
	ch.count(stats.BytesIn, bytes)
	if x := ch.pub.entry.Exchange; x != nil {
		x.CountPublished(1, 0, bytes)
	}
}

// tally is what has been published on a loop, and the counters that others read
// have not heard of yet: a batch of ten messages is not worth six atomic additions.
// They hear of it before any output leaves, so nobody misses what he was answered.
type tally struct {
	counts   *stats.Loop
	exchange *broker.Exchange

	messages, copies, unroutable, bytes uint64
}

// tell has the counters hear of what was published.
func (t *tally) tell() {
	if t.messages == 0 {
		return
	}
	if t.counts != nil {
		t.counts.Add(stats.Publish, t.messages)
		t.counts.Add(stats.BytesIn, t.bytes)
		if t.copies > 0 {
			t.counts.Add(stats.PublishOut, t.copies)
		}
	}
	if t.exchange != nil {
		t.exchange.CountRouted(t.messages, t.copies, t.unroutable, t.bytes)
	}
	*t = tally{}
}

// throughExchange notes that the records from here on were published to x.
func (c *conn) throughExchange(b *batch, x *broker.Exchange) {
	c.countRecords(b)
	b.exchange = x
}

// countRecords counts the records since the last call as published to the
// batch's exchange.
func (c *conn) countRecords(b *batch) {
	messages := uint64(b.count - b.counted)
	if messages == 0 {
		return
	}
	total := b.bytes()
	bytes := total - b.countedBytes
	b.counted, b.countedBytes = b.count, total
	counts := b.ch.counters()
	counts[stats.Publish] += messages
	counts[stats.BytesIn] += bytes
	t := &c.shard.tally
	if t.exchange != b.exchange || t.counts != c.counts {
		t.tell()
		t.exchange, t.counts = b.exchange, c.counts
	}
	copies := messages * visible(b.queues)
	t.messages += messages
	t.bytes += bytes
	t.copies += copies
	if copies == 0 {
		t.unroutable += messages
	}
}

// bytes is the size of the bodies in the batch.
func (b *batch) bytes() uint64 { return broker.BodyBytes(b.builder, b.external) }

// visible is how many of the queues are not hidden ones.
func visible(queues []*broker.Queue) (n uint64) {
	for _, q := range queues {
		if !q.Hidden() {
			n++
		}
	}
	return n
}

// countBatch counts a batch that is about to be appended.
func (c *conn) countBatch(b *batch) {
	c.countRecords(b)
	b.counted, b.countedBytes, b.exchange = 0, 0, nil
}

// countSent counts deliveries that are in the output now.
func (cs *consumer) countSent(n, bytes uint64) {
	d := &cs.Delivered
	d.Messages += n
	d.Bytes += bytes
	kind := stats.Deliver
	if cs.NoAck {
		kind = stats.DeliverNoAck
	}
	ch := cs.ch
	ch.count(kind, n)
	ch.count(stats.BytesOut, bytes)
	if cs.run.Redelivered {
		d.Redelivered += n
		ch.count(stats.Redeliver, n)
	}
}

// countGot counts the answer to a basic.get.
func (ch *channel) countGot(q *broker.Queue, noAck, redelivered bool, bytes uint64) {
	kind := stats.Get
	if noAck {
		kind = stats.GetNoAck
	}
	ch.count(kind, 1)
	ch.count(stats.BytesOut, bytes)
	if redelivered {
		ch.count(stats.Redeliver, 1)
	}
	q.CountGot(kind, redelivered, bytes)
}

// countConfirmed counts confirms on a channel; those of the virtual host follow
// when all channels of the connection have been looked at.
func (ch *channel) countConfirmed(n uint64) {
	ch.counters()[stats.Confirm] += n
	ch.conn.confirmed += n
}

// countAcked counts acknowledgements on a channel; those of the virtual host
// follow when they are settled.
func (ch *channel) countAcked(n uint64) {
	ch.counters()[stats.Ack] += n
	ch.conn.acked += n
}
