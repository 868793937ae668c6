package broker

import (
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Run is a series of evenly spaced offsets taken from a queue.
type Run struct {
	Queue       *Queue // that it goes back to: a level, if that of a priority queue
	First       uint64
	Count       uint64
	Stride      uint64 // from one offset to the next; 0 stands for 1
	Redelivered bool
	// Waited says how long the message that the queue timed has been in it, in
	// microseconds; 0: it is not among these. See latency.go.
	Waited uint32
}

// Queue is a classic queue. What publishing touches is at the beginning, up to the
// first three fields of own: two lines of the cache, wherever the allocator puts it.
type Queue struct {
	// The consumers, and the lock of most of what is below; see crowd.go.
	*crowd
	log    *segstore.Log
	end    uint64 // the log's next offset
	cursor uint64
	pace   *pace   // nil: never used; see pace.go
	upkeep *upkeep // nil: a plain queue; see upkeep.go
	// settings are those of upkeep, for those who don't hold mu; nil without.
	settings   atomic.Pointer[settings]
	hidden     *hidden // nil: not hidden; never changes; see history.go, delayed.go
	Durable    bool
	AutoDelete bool
	deleted    bool // guarded by mu
	own        crowd

	crashed  uint64 // offsets below were there when the broker last ended without a clean stop
	returned rangeSet
	unacked  uint64
	external *externalBodies // nil: no record has an external body; see bodies.go
	stream   *stream         // nil: not a stream; never changes; see stream.go
	side     *sideLogs       // nil: none; see sidelogs.go

	Name      string
	VHost     *VHost
	Arguments amqp.Table
	// Owner is the connection an exclusive queue belongs to; nil otherwise.
	Owner   any
	ID      uint64
	applied atomic.Pointer[applied] // policies; nil: none

	// bound counts this queue's bindings by source exchange. Guarded by VHost.mu.
	bound map[*Exchange]int
}

// newQueue makes a queue without a log.
func newQueue(vh *VHost, d *QueueDeclare, id uint64) *Queue {
	q := &Queue{
		Name: d.Name, VHost: vh, Durable: d.Durable, AutoDelete: d.AutoDelete, ID: id,
		Arguments: append(amqp.Table(nil), d.Arguments...),
	}
	q.crowd = &q.own
	if v, ok := d.Arguments.Lookup("x-single-active-consumer"); ok && queueType(d.Arguments) != "stream" {
		q.single, _ = v.Bool()
	}
	q.raise()
	return q
}

// Deleted says that the queue is gone.
func (q *Queue) Deleted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deleted
}

// Log returns the queue's log.
func (q *Queue) Log() *segstore.Log { return q.log }

// Exclusive says whether the queue belongs to a connection.
func (q *Queue) Exclusive() bool { return q.Owner != nil }

// recover places the cursor after reopening the log: what may have been
// delivered before is ready again, flagged redelivered. After a clean stop the
// log's cursor tells what that is. After any other, the last that was written
// of it may be older than what consumers got, so it is everything.
func (q *Queue) recover(clean bool) {
	if q.stream != nil {
		q.recoverStream(clean)
		return
	}
	q.end = q.log.Next()
	q.cursor = min(max(q.log.Cursor(), q.log.Low()), q.end)
	if !clean {
		q.cursor, q.crashed = q.end, q.end
	}
	q.log.SetCursor(q.cursor)
	// Settled offsets behind the cursor are dead letters that were never ready,
	// or damaged records.
	for from := q.cursor; from < q.end; {
		first, count := q.log.NextUnsettled(from, q.end-from)
		if count == 0 {
			first = q.end
		}
		if first > from {
			q.needUpkeep().holes.Add(from, first-from)
		}
		from = first + count
	}
	for from := q.log.Low(); from < q.cursor; {
		first, count := q.log.NextUnsettled(from, q.cursor-from)
		if count == 0 || first >= q.cursor {
			break
		}
		count = min(count, q.cursor-first)
		q.returned.Add(first, count)
		from = first + count
	}
}

// Publish appends a batch and returns the offset after its last record, and
// whether the queue's consumers are behind (see HoldBack). external names the
// bodies of those records that have theirs in a file; they are the queue's from
// now on. now is in Unix milliseconds. It fails when the queue's log is fenced;
// when the queue is at its limit and refuses some records the error is an
// *Overflow, and all others are in.
func (q *Queue) Publish(b *segstore.Batch, now int64, external ...BodyAt) (end uint64, behind bool, err error) {
	if len(external) > 0 {
		if err := q.lacksBody(external); err != nil {
			q.refuseBodies(external)
			return 0, false, err
		}
	}
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		if len(external) > 0 {
			q.VHost.broker.bodies.RemoveDir(q.BodyDir())
		}
		return 0, false, nil
	}
	q.needPace().used = now
	if q.upkeep != nil && !q.Hidden() {
		if q.stream != nil {
			end, err = q.publishStream(b, external)
			return end, false, err
		}
		return q.publishKept(b, now, external)
	}
	base, err := q.log.Append(b)
	if err != nil {
		q.mu.Unlock()
		if len(external) > 0 {
			q.refuseBodies(external)
		}
		return 0, false, err
	}
	q.end = base + uint64(b.Count())
	if len(external) > 0 {
		q.noteBodies(base, external)
	}
	q.pace.published(b, externalBytes(external))
	q.countPublished(uint64(b.Count()), BodyBytes(b, external))
	q.time(base)
	var dropped []uint64
	switch {
	case q.hidden == nil:
	case q.delayed():
		q.schedule(base, b)
	default:
		dropped = q.trim()
	}
	wake := q.grantToken()
	end, behind = q.end, q.behind(behindBytes, now)
	q.mu.Unlock()
	q.RemoveBodies(dropped)
	tell(wake, nil)
	return end, behind, nil
}

// Purge drops the ready messages and returns how many there were.
func (q *Queue) Purge() uint64 {
	var n uint64
	for _, l := range q.family() {
		q.mu.Lock()
		ready, ids := l.purge()
		relieved := l.relieved(l.lastTaken())
		q.mu.Unlock()
		l.RemoveBodies(ids)
		tell(nil, relieved)
		n += ready
	}
	return n
}

func (q *Queue) purge() (n uint64, ids []uint64) {
	if q.deleted || q.unread != nil {
		return 0, nil
	}
	n = q.ready()
	for q.returned.Len() > 0 {
		ids = append(ids, q.settle(q.returned.PopFront(takeMax))...)
	}
	if e := q.upkeep; e != nil {
		for e.holes.Len() > 0 { // dead letters, which stay
			first, count := e.holes.PopFront(e.holes.Len())
			ids = append(ids, q.settle(q.cursor, first-q.cursor)...)
			q.cursor = first + count
		}
		e.readyBytes = 0
	}
	if q.end > q.cursor {
		ids = append(ids, q.settle(q.cursor, q.end-q.cursor)...)
	}
	q.cursor = q.end
	q.log.SetCursor(q.cursor)
	return n, ids
}

// Counts is a snapshot of a queue's figures.
type Counts struct {
	Ready, Unacked uint64
	Consumers      int
}

// Counts returns current figures.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := Counts{Consumers: len(q.consumers)}
	q.each(func(l *Queue) {
		c.Ready += l.ready()
		c.Unacked += l.unacked
	})
	return c
}

// markDeleted empties the queue for good and returns the consumers to tell.
func (q *Queue) markDeleted() (ready uint64, consumers []*Consumer) {
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		return 0, nil
	}
	ready = q.total()
	consumers = q.dismiss()
	var relieved []Publisher
	q.each(func(l *Queue) {
		l.clear()
		relieved = append(relieved, l.relieved(l.lastTaken())...)
	})
	q.mu.Unlock()
	tell(nil, relieved)
	return ready, consumers
}

// clear is the end of a queue, or of a level; the caller holds mu.
func (q *Queue) clear() {
	q.deleted = true
	q.returned = rangeSet{}
	q.external = nil // their directory goes with the log's
	q.cursor = q.end
	if e := q.upkeep; e != nil {
		e.holes, e.sizes, e.dead, e.counts, e.doomed, e.dedup = rangeSet{}, nil, deadList{}, counts{}, nil, nil
		q.VHost.broker.keeper.arm(q, 0) // to close its readers
	}
	if s := q.stream; s != nil {
		s.waiting, s.active, s.large = nil, nil, nil
		s.tracked.init()
	}
}
