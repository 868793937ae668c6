package broker

import (
	"slices"
	"sync"

	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Limits of how many messages one Take may give to a lone consumer.
const (
	takeMax = 4096
	// takeLevelMax is for the only consumer of a priority queue: what it has taken
	// is not overtaken any more.
	takeLevelMax = 256
)

// ConsumerOwner is told about its consumers' queues. It is called without
// locks, from any goroutine, and must only note the fact and post to its loop.
type ConsumerOwner interface {
	// Wake says that messages are ready and it is this consumer's turn to Take.
	Wake()
	// Cancelled says that the queue is gone.
	Cancelled()
}

// Consumer is a subscription to one queue.
type Consumer struct {
	Queue     *Queue
	Owner     ConsumerOwner
	Tag       string
	NoAck     bool
	Exclusive bool
	Priority  int64 // of x-priority; higher ones are served first
	// Wary says that others may use up the credit that it takes with: then it is
	// dealt nothing that it has not asked for. Set on its owner's loop before Take.
	Wary bool
	// Stream is there for consumers of streams only; see AttachStream.
	Stream *StreamConsumer
	// Delivered is the owner's to count up, on its loop; the queue takes it over
	// (and zeroes it) in Take, Leave, Detach, TakeStream, Acknowledged and Heed.
	Delivered stats.Delivered

	// Guarded by Queue.mu.
	attached   bool
	able       bool      // it has entered, and may be in a ring
	next, prev *Consumer // ring of consumers that can take messages
	inRing     bool
	room       uint64 // how much more it can take, as of its last Take
	wary       bool   // as of its last Take
	stalled    bool   // nobody waits for it to fetch its share
	share      Run    // dealt to it, and not fetched yet; see deal.go
}

// crowd is a queue's consumers. Those that can take messages are in rings, one
// for each priority: only the ring of the highest priority is served. A
// consumer leaves its ring when it runs out of credit or its socket fills up;
// with the last one of a ring the next lower one gets its turn, as in RabbitMQ.
//
// With a single active consumer nobody but the active one gets into a ring.
// It stays active until it goes, whatever priority others have; then the
// oldest one of the highest priority follows. While the queue is paused nobody is.
type crowd struct {
	mu        sync.Mutex
	ring      *Consumer    // the highest ring's next to take; nil when nobody can
	counts    *queueCounts // nil: never used; see counters.go
	consumers []*Consumer  // in the order in which they came
	ringLen   int
	woken     *Consumer   // holder of the token, a member of that ring
	lower     []ring      // the other rings, highest first
	active    *Consumer   // that one; nil without consumers
	levels    *levels     // of a priority queue; nil: a plain one
	single    bool        // one consumer at a time is active
	paused    bool        // nobody is in a ring; see pause.go
	awaited   int32       // shares that have to be fetched before there is another token
	unread    *unreadable // what is stored of the queue is not known; nil if it is; see unread.go
}

type ring struct {
	next *Consumer
	len  int
}

// link puts c behind the others of a ring.
func (r *ring) link(c *Consumer) {
	if r.len++; r.next == nil {
		c.next, c.prev = c, c
		r.next = c
		return
	}
	last := r.next.prev
	c.next, c.prev = r.next, last
	last.next, r.next.prev = c, c
}

// unlink takes c out of a ring.
func (r *ring) unlink(c *Consumer) {
	if r.len--; r.len == 0 {
		r.next = nil
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if r.next == c {
			r.next = c.next
		}
	}
	c.next, c.prev = nil, nil
}

// join puts c into the ring of its priority. Who holds the token and is not of
// the highest priority any more has lost it.
func (w *crowd) join(c *Consumer) {
	c.inRing = true
	top := ring{w.ring, w.ringLen}
	switch {
	case w.ring == nil || c.Priority == w.ring.Priority:
		top.link(c)
	case c.Priority > w.ring.Priority:
		w.lower = slices.Insert(w.lower, 0, top)
		w.woken = nil
		top = ring{}
		top.link(c)
	default:
		i, found := w.findLower(c.Priority)
		if !found {
			w.lower = slices.Insert(w.lower, i, ring{})
		}
		w.lower[i].link(c)
		return
	}
	w.ring, w.ringLen = top.next, top.len
}

// findLower finds the place of a priority among the lower rings.
func (w *crowd) findLower(priority int64) (int, bool) {
	for i, r := range w.lower {
		if p := r.next.Priority; p <= priority {
			return i, p == priority
		}
	}
	return len(w.lower), false
}

// part takes c out of its ring.
func (w *crowd) part(c *Consumer) {
	c.inRing = false
	if w.woken == c {
		w.woken = nil
	}
	if c.Priority != w.ring.Priority {
		i, _ := w.findLower(c.Priority)
		if w.lower[i].unlink(c); w.lower[i].len == 0 {
			w.lower = slices.Delete(w.lower, i, i+1)
		}
		return
	}
	top := ring{w.ring, w.ringLen}
	top.unlink(c)
	if top.len == 0 && len(w.lower) > 0 {
		top = w.lower[0]
		w.lower = slices.Delete(w.lower, 0, 1)
	}
	w.ring, w.ringLen = top.next, top.len
}

// dismiss empties the crowd and returns who was in it.
func (w *crowd) dismiss() []*Consumer {
	gone := w.consumers
	for _, c := range gone {
		c.attached, c.able, c.inRing = false, false, false
		c.next, c.prev = nil, nil
		if c.share.Count > 0 {
			c.share.Queue.unacked -= c.share.Count
		}
		c.share, c.stalled = Run{}, false
	}
	w.consumers, w.ring, w.ringLen, w.woken, w.lower, w.active, w.awaited = nil, nil, 0, nil, nil, nil, 0
	return gone
}

// successor is who becomes active next: among those of the highest priority
// the one that has been there longest.
func (w *crowd) successor() (next *Consumer) {
	for _, c := range w.consumers {
		if next == nil || c.Priority > next.Priority {
			next = c
		}
	}
	return next
}

// roomOf is how many messages the consumers of a ring can take.
func roomOf(first *Consumer) (n uint64) {
	for c := first; ; {
		if c.room >= 1<<32 {
			return 1 << 62
		}
		n += c.room
		if c = c.next; c == first {
			return n
		}
	}
}

// room is how many messages the consumers in the rings can take.
func (w *crowd) room() (n uint64) {
	if w.ring == nil {
		return 0
	}
	n = roomOf(w.ring)
	for _, r := range w.lower {
		n = min(n+roomOf(r.next), 1<<62)
	}
	return n
}

// grantToken gives the token to the consumer whose turn it is, if it is free
// and there is something to take; the caller wakes it after unlocking.
func (q *Queue) grantToken() *Consumer {
	if q.ring == nil || q.woken != nil || q.awaited > 0 || q.total() == 0 {
		return nil
	}
	q.woken = q.ring
	return q.woken
}

// quantum bounds what a lone consumer takes at once.
func (q *Queue) quantum() uint64 {
	if q.levels != nil {
		return takeLevelMax
	}
	return takeMax
}

// Enter says that c has credit and room for messages. It returns true when
// there is something to take and it is c's turn.
func (q *Queue) Enter(c *Consumer) bool {
	q.mu.Lock()
	if q.deleted || !c.attached || c.able {
		mine := q.woken == c
		q.mu.Unlock()
		return mine
	}
	c.able = true
	if q.paused || q.single && q.active != c {
		q.mu.Unlock()
		return false
	}
	q.join(c)
	wake := q.grantToken()
	q.mu.Unlock()
	if wake != nil && wake != c {
		wake.Owner.Wake()
	}
	return wake == c
}

// Leave takes c, which has no credit, out of its ring; what it has been dealt and
// has not fetched goes to others, and the token passes on.
func (q *Queue) Leave(c *Consumer) {
	q.mu.Lock()
	q.heed(c)
	q.unshare(c)
	q.leave(c)
}

// leave is the end of Leave; the caller holds mu, which it releases.
func (q *Queue) leave(c *Consumer) {
	c.able = false
	if c.inRing {
		q.part(c)
	}
	q.attend()
	wake, relieved := q.grantToken(), q.relieved(q.lastTaken())
	q.mu.Unlock()
	tell(wake, relieved)
}

// Stall says that c cannot Take for now. One whose connection cannot send (blocked)
// leaves its ring, but keeps its share, as it does what it has taken. One that
// waits for the disk stays among others that take turns, who wait for it: they
// will want the same blocks; alone it leaves, too. The result says whether it has left.
func (q *Queue) Stall(c *Consumer, blocked bool) (left bool) {
	q.mu.Lock()
	q.heed(c)
	if !blocked && c.inRing && q.ringLen > 1 && c.Priority == q.ring.Priority {
		q.mu.Unlock()
		return false
	}
	q.dontAwait(c)
	q.leave(c)
	return true
}

// DeliverableNow says whether some consumer would get a message published now
// at once (the immediate flag of basic.publish).
func (q *Queue) DeliverableNow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream != nil {
		return len(q.consumers) > 0 && !q.paused
	}
	return !q.deleted && q.ring != nil && q.total() == 0
}

// Attach adds a consumer; it takes nothing before Enter. Errors: 403 when an
// exclusive consumer is in the way, or one is wanted where a single one is
// active; 404 when the queue has just been deleted; 541 when it cannot be read.
func (q *Queue) Attach(c *Consumer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return q.VHost.noQueue(q.Name)
	}
	if q.unread != nil {
		return q.cannotBeRead()
	}
	if c.Exclusive && q.single || len(q.consumers) > 0 && (c.Exclusive || q.consumers[0].Exclusive) {
		return amqp.Errorf(amqp.CodeAccessRefused, 0, "queue '%s' in vhost '%s' in exclusive use", q.Name, q.VHost.Name)
	}
	q.consumers = append(q.consumers, c)
	if q.single && q.active == nil {
		q.active = c
	}
	c.attached = true
	return nil
}

// Detach removes a consumer; an auto-delete queue goes with its last one.
// What the consumer had taken is not touched: its channel settles or requeues.
func (q *Queue) Detach(c *Consumer) {
	q.mu.Lock()
	if !c.attached {
		q.mu.Unlock()
		return
	}
	q.heed(c)
	q.unshare(c)
	c.attached, c.able = false, false
	if c.inRing {
		q.part(c)
	}
	i := slices.Index(q.consumers, c)
	q.consumers = slices.Delete(q.consumers, i, i+1)
	if q.active == c {
		if q.active = q.successor(); q.active != nil && q.active.able && !q.paused {
			q.join(q.active)
		}
	}
	q.attend()
	wake := q.grantToken()
	last := len(q.consumers) == 0
	if last {
		q.touch()
	}
	if q.stream != nil {
		wake = q.detachStream(c)
	}
	relieved := q.relieved(q.lastTaken())
	q.mu.Unlock()
	tell(wake, relieved)
	if last && q.AutoDelete {
		q.VHost.deleteUnused(q)
	}
}

// Active says whether c is served when it can take: true but for those that
// wait for their turn to be the single active consumer.
func (q *Queue) Active(c *Consumer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return c.attached && (!q.single || q.active == c)
}
