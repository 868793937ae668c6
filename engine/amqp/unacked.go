package amqp

import (
	"sort"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// unackedRun is a series of deliveries with consecutive tags and evenly spaced
// offsets.
type unackedRun struct {
	tag uint64 // first delivery tag
	spaced
	deadline int64 // when it must have been acknowledged, ms; 0: never
	since    int64 // when it was delivered, seconds
	queue    *broker.Queue
	consumer *consumer // nil: by basic.get
}

func (r *unackedRun) end() uint64 { return r.tag + r.count }

// taken is the run as the queue knows it.
func (r *unackedRun) taken() broker.Run { return r.run(r.queue) }

// spaced is a series of offsets of one queue.
type spaced struct {
	offset uint64 // the first
	count  uint64
	stride uint64 // from one to the next
}

func (s *spaced) run(q *broker.Queue) broker.Run {
	return broker.Run{Queue: q, First: s.offset, Count: s.count, Stride: s.stride}
}

// at is the i-th offset.
func (s *spaced) at(i uint64) uint64 { return s.offset + i*s.stride }

// extend adds o, if it goes on where s ends, in the same steps.
func (s *spaced) extend(o *spaced) bool {
	if o.offset <= s.offset {
		return false
	}
	stride := s.stride
	if s.count == 1 {
		stride = o.offset - s.offset
	}
	if o.offset != s.offset+s.count*stride || o.count > 1 && o.stride != stride {
		return false
	}
	s.stride = stride
	s.count += o.count
	return true
}

// unackedList is a channel's unacknowledged deliveries, ordered by tag. Acks
// mostly come for the oldest, so the front is cheap to move.
type unackedList struct {
	runs []unackedRun
	head int
}

func (l *unackedList) live() []unackedRun { return l.runs[l.head:] }

func (l *unackedList) empty() bool { return l.head == len(l.runs) }

// add appends deliveries whose tags are above all others.
func (l *unackedList) add(r unackedRun) {
	if n := len(l.runs); n > l.head {
		last := &l.runs[n-1]
		if last.end() == r.tag && last.consumer == r.consumer && last.queue == r.queue && last.deadline == r.deadline && last.since == r.since && last.extend(&r.spaced) {
			return
		}
	}
	if l.head > 32 && l.head > len(l.runs)/2 {
		n := copy(l.runs, l.runs[l.head:])
		clear(l.runs[n:])
		l.runs, l.head = l.runs[:n], 0
	}
	l.runs = append(l.runs, r)
}

// find returns the index in runs of the run that holds tag, or -1.
func (l *unackedList) find(tag uint64) int {
	if l.empty() {
		return -1
	}
	if first := &l.runs[l.head]; tag < first.end() {
		if tag < first.tag {
			return -1
		}
		return l.head
	}
	live := l.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].end() > tag })
	if i == len(live) || live[i].tag > tag {
		return -1
	}
	return l.head + i
}

// take removes tag, or with multiple everything up to it, and passes the runs
// removed to f in order. Tag 0 with multiple means all (specification of
// basic.ack). It reports whether the tag was there.
func (l *unackedList) take(tag uint64, multiple bool, f func(unackedRun)) bool {
	if tag == 0 && multiple {
		for _, r := range l.live() {
			f(r)
		}
		l.clear()
		return true
	}
	i := l.find(tag)
	if i < 0 {
		return false
	}
	if multiple {
		for j := l.head; j < i; j++ {
			f(l.runs[j])
			l.runs[j] = unackedRun{}
		}
		l.head = i
		r := &l.runs[i]
		l.takeFront(r, tag+1-r.tag, f)
		return true
	}
	r := &l.runs[i]
	if tag == r.tag && (i == l.head || r.count > 1) {
		l.takeFront(r, 1, f)
		return true
	}
	at := tag - r.tag
	part := *r
	part.tag, part.offset, part.count = tag, r.at(at), 1
	switch {
	case r.count == 1:
		l.remove(i)
	case at == r.count-1:
		r.count--
	default:
		rest := *r
		rest.tag, rest.offset, rest.count = tag+1, r.at(at+1), r.count-at-1
		r.count = at
		l.insert(i+1, rest)
	}
	f(part)
	return true
}

// takeFront removes the first n of run r, which is the head if all of it goes.
func (l *unackedList) takeFront(r *unackedRun, n uint64, f func(unackedRun)) {
	part := *r
	part.count = n
	r.tag, r.offset, r.count = r.tag+n, r.at(n), r.count-n
	if r.count == 0 {
		*r = unackedRun{}
		l.head++
		if l.head == len(l.runs) {
			l.clear()
		}
	}
	f(part)
}

func (l *unackedList) remove(i int) {
	copy(l.runs[i:], l.runs[i+1:])
	last := len(l.runs) - 1
	l.runs[last] = unackedRun{}
	l.runs = l.runs[:last]
}

func (l *unackedList) insert(i int, r unackedRun) {
	l.runs = append(l.runs, unackedRun{})
	copy(l.runs[i+1:], l.runs[i:])
	l.runs[i] = r
}

// putBack inserts runs that were removed before (a rolled back transaction).
func (l *unackedList) putBack(r unackedRun) {
	live := l.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].tag > r.tag })
	l.insert(l.head+i, r)
}

func (l *unackedList) clear() {
	if cap(l.runs) > 1024 {
		l.runs = nil
	} else {
		clear(l.runs)
		l.runs = l.runs[:0]
	}
	l.head = 0
}

// settle ends a delivery for good. Those of a queue whose offsets go on evenly are
// gathered, so that a thousand acks in one buffer cost one lock. acked of them were
// acknowledged, the others rejected.
func (c *conn) settle(r unackedRun, acked uint64) {
	if c.settleQueue == r.queue && c.settling.extend(&r.spaced) {
		c.settleAcked += acked
		return
	}
	c.flushSettled()
	c.settleQueue, c.settling, c.settleAcked = r.queue, r.spaced, acked
}

func (c *conn) flushSettled() {
	if len(c.ackedStreams) > 0 {
		c.flushAcked()
	}
	if c.acked > 0 {
		c.count(stats.Ack, c.acked)
		c.acked = 0
	}
	if q := c.settleQueue; q != nil {
		run := c.settling.run(q)
		if tx := c.shard.tx; tx == nil {
			q.SettleRun(run, c.settleAcked)
		} else {
			c.shard.doom(q, q.SettleKeeping(run, c.settleAcked))
			run.Each(func(first, count uint64) { tx.Settled(q.Log(), first, count) })
		}
		c.settleQueue = nil
	}
}

// released gives a consumer its credit back.
func (ch *channel) released(r unackedRun) {
	if cs := r.consumer; cs != nil {
		cs.unacked -= r.count
		ch.outstanding -= r.count
		if ch.globalLimit > 0 {
			for _, other := range ch.consumers {
				other.reconsider()
			}
			return
		}
		cs.reconsider()
	}
}

// requeueAll returns everything unacknowledged to its queues.
func (ch *channel) requeueAll() {
	ch.unacked.take(0, true, func(r unackedRun) {
		if r.queue.IsStream() {
			ch.released(r) // a stream keeps its messages
			return
		}
		ch.back = append(ch.back, r)
	})
	ch.giveBack()
}

// giveBack returns what has been gathered in back. Each queue gets its part at
// once: nobody may take the second of two messages before the first is there.
func (ch *channel) giveBack() {
	back := ch.back
	switch len(back) {
	case 0:
		return
	case 1:
		ch.back = back[:0]
		r := back[0]
		ch.conn.flushSettled()
		r.queue.Requeue(r.taken())
		ch.released(r)
		return
	}
	ch.back = nil
	ch.conn.flushSettled()
	byQueue := map[*broker.Queue][]broker.Run{}
	for _, r := range back {
		byQueue[r.queue] = append(byQueue[r.queue], r.taken())
	}
	for _, r := range back {
		if runs := byQueue[r.queue]; runs != nil {
			r.queue.Requeue(runs...)
			delete(byQueue, r.queue)
		}
	}
	for _, r := range back {
		ch.released(r)
	}
}
