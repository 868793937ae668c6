package broker

import (
	"maps"
	"slices"
	"sync"

	"github.com/basaltmq/basaltmq/engine/stats"
)

// Counters. A queue's are guarded by its lock and shared by the levels of a
// family; an exchange's are atomics; a virtual host has an array for each loop.
// All are made when first used.

// queueCounts are what a family of queues counts and times. What publishing touches
// is at the beginning, see usage.
type queueCounts struct {
	timed timed
	stats.Counts
}

// vhostCounts are what is counted in a virtual host.
type vhostCounts struct {
	churn stats.Churn
	mu    sync.Mutex
	loops []*loopCounts
}

// loopCounts keep the counters of one loop off the cache lines of the others'.
type loopCounts struct {
	stats.Loop
	_ [64]byte
}

// LoopCounts returns the counters that loop number n counts by in this virtual
// host.
func (vh *VHost) LoopCounts(n int) *stats.Loop {
	c := vh.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.loops) <= n {
		c.loops = append(c.loops, nil)
	}
	if c.loops[n] == nil {
		c.loops[n] = new(loopCounts)
	}
	return &c.loops[n].Loop
}

// Used says whether anybody has ever connected.
func (vh *VHost) Used() bool {
	c := vh.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.loops) > 0
}

// Churn returns the counters of what comes and goes.
func (vh *VHost) Churn() *stats.Churn { return &vh.counts.churn }

// MessageCounts returns the virtual host's counters. Any goroutine.
func (vh *VHost) MessageCounts() (n stats.Counts) {
	vh.counts.addTo(&n)
	return n
}

func (c *vhostCounts) addTo(n *stats.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.loops {
		if l != nil {
			l.AddTo(n)
		}
	}
}

// octets are what went over the sockets of the virtual host's connections.
func (c *vhostCounts) octets() (in, out uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.loops {
		if l != nil {
			in += l.OctetsIn.Load()
			out += l.OctetsOut.Load()
		}
	}
	return in, out
}

// totals keep what deleted virtual hosts have counted.
type totals struct {
	mu     sync.Mutex
	gone   []*VHost // their connections may still count
	counts stats.Counts
	churn  [stats.Events]uint64
}

func (t *totals) retire(vh *VHost) {
	t.mu.Lock()
	t.gone = append(t.gone, vh)
	t.mu.Unlock()
}

// Totals returns the counters of all virtual hosts there have been since the
// start. Any goroutine.
func (b *Broker) Totals() (counts stats.Counts, churn [stats.Events]uint64) {
	t := &b.totals
	b.mu.RLock()
	defer b.mu.RUnlock() // so that none is deleted in between, and missing
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.gone[:0]
	for _, vh := range t.gone {
		if vh.Connections() > 0 {
			vh.counts.addTo(&counts)
			vh.counts.churn.AddTo(&churn)
			kept = append(kept, vh)
			continue
		}
		vh.counts.addTo(&t.counts)
		vh.counts.churn.AddTo(&t.churn)
	}
	clear(t.gone[len(kept):])
	t.gone = kept
	counts.Add(&t.counts)
	for i := range churn {
		churn[i] += t.churn[i]
	}
	for _, vh := range b.vhosts {
		vh.counts.addTo(&counts)
		vh.counts.churn.AddTo(&churn)
	}
	return counts, churn
}

// EachDeath visits the reasons for which messages leave their queue without being
// consumed, as RabbitMQ names them, with their number since the start, whether a
// dead letter exchange took them or not. Rejected ones count only where it did.
func (b *Broker) EachDeath(visit func(reason string, n uint64)) {
	for why, name := range reasonNames {
		visit(name, b.deaths[why].Load())
	}
}

// ExchangeCount is the number of exchanges.
func (vh *VHost) ExchangeCount() int {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return len(vh.exchanges)
}

// MessageCounts returns the exchange's counters. Any goroutine.
func (e *Exchange) MessageCounts() (n stats.Counts) {
	if c := e.counts.Load(); c != nil {
		c.AddTo(&n)
	}
	return n
}

// CountPublished counts messages published to e by clients: how many copies of
// them went into queues, and how many bytes their bodies had. Any goroutine.
func (e *Exchange) CountPublished(messages, copies, bytes uint64) {
	unroutable := uint64(0)
	if copies == 0 {
		unroutable = messages
	}
	e.CountRouted(messages, copies, unroutable, bytes)
}

// CountRouted is CountPublished for messages of which so many went into no queue.
func (e *Exchange) CountRouted(messages, copies, unroutable, bytes uint64) {
	c := e.counters()
	c.In.Add(messages)
	c.Bytes.Add(bytes)
	if copies > 0 {
		c.Out.Add(copies)
	}
	if unroutable > 0 {
		c.Unroutable.Add(unroutable)
	}
}

func (e *Exchange) counters() *stats.Exchange {
	c := e.counts.Load()
	if c == nil {
		c = new(stats.Exchange)
		if !e.counts.CompareAndSwap(nil, c) {
			c = e.counts.Load()
		}
	}
	return c
}

// MessageCounts returns the queue's counters. Any goroutine.
func (q *Queue) MessageCounts() (n stats.Counts) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts != nil {
		n = q.counts.Counts
	}
	return n
}

// counted are the family's counters; the caller holds mu.
func (w *crowd) counted() *queueCounts {
	if w.counts == nil {
		w.counts = new(queueCounts)
	}
	return w.counts
}

// countPublished counts what went into the queue; the caller holds mu.
func (q *Queue) countPublished(messages, bytes uint64) {
	c := q.counted()
	c.Counts[stats.Publish] += messages
	c.Counts[stats.BytesIn] += bytes
}

// heed takes over what c has sent since the last time; the caller holds mu.
func (q *Queue) heed(c *Consumer) {
	if c.Delivered == (stats.Delivered{}) {
		return
	}
	n, d := &q.counted().Counts, &c.Delivered
	kind := stats.Deliver
	if c.NoAck {
		kind = stats.DeliverNoAck
	}
	n[kind] += d.Messages
	n[stats.BytesOut] += d.Bytes
	n[stats.Redeliver] += d.Redelivered
	n[stats.Ack] += d.Acked
	*d = stats.Delivered{}
}

// Heed has the queue count what c has sent. It is for consumers that stop taking
// without a word to the queue.
func (q *Queue) Heed(c *Consumer) {
	q.mu.Lock()
	q.heed(c)
	q.mu.Unlock()
}

// CountGot counts the outcome of a basic.get: a kind, and the body's bytes.
func (q *Queue) CountGot(k stats.Kind, redelivered bool, bytes uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.counted().Counts
	c[k]++
	c[stats.BytesOut] += bytes
	if redelivered {
		c[stats.Redeliver]++
	}
}

// Sample returns everything that is sampled of the queue. Any goroutine.
func (q *Queue) Sample() (p stats.Point, consumers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts != nil {
		p.Counts = q.counts.Counts
	}
	q.each(func(l *Queue) {
		p.Ready += l.ready()
		p.Unacked += l.unacked
	})
	return p, len(q.consumers)
}

// Sample returns everything that is sampled of the virtual host, but for the
// numbers of messages. Any goroutine.
func (vh *VHost) Sample() (p stats.Point) {
	vh.counts.addTo(&p.Counts)
	vh.counts.churn.AddTo(&p.Events)
	p.OctetsIn, p.OctetsOut = vh.counts.octets()
	return p
}

// Lengths adds the numbers of messages in all queues to p.
func (vh *VHost) Lengths(p *stats.Point) {
	for _, q := range vh.Queues() {
		c := q.Counts()
		p.Ready += c.Ready
		p.Unacked += c.Unacked
	}
}

// EachVHost visits all virtual hosts, in no order.
func (b *Broker) EachVHost(visit func(vh *VHost)) {
	b.mu.RLock()
	all := slices.Collect(maps.Values(b.vhosts))
	b.mu.RUnlock()
	for _, vh := range all {
		visit(vh)
	}
}
