package broker

import (
	"github.com/basaltmq/basaltmq/segstore"
)

// reason says why a message leaves its queue other than by being consumed.
type reason uint8

const (
	rejected reason = iota
	expired
	maxLength
	deliveryLimit
)

var reasonNames = [...]string{"rejected", "expired", "maxlen", "delivery_limit"}

// upkeep is what a queue with limits, times to live or dead letters has beyond
// a plain one, for which Queue.upkeep is nil: that nil is all that plain queues
// pay. Once there, it stays. Guarded by Queue.mu but for what the keeper owns.
type upkeep struct {
	set *settings // never nil

	// Times to live; see expiry.go.
	expiring bool   // records may have expirations of their own
	noted    bool   // and the definitions say so
	looked   bool   // the keeper has looked at the record at head
	head     uint64 // and will come back
	used     int64  // last use in the sense of x-expires, ms

	// holes are offsets from the cursor on that are not ready: dead letters that
	// have never been ready (reject-publish-dlx).
	holes rangeSet

	// Bytes; see overflow.go. sizes is nil unless the queue's bytes are limited.
	sizes      *sizeTable
	readyBytes uint64
	sizeFrom   uint64 // offsets from here to sizeEnd are still to be read
	sizeEnd    uint64

	dead   deadList // on their way out; see deadletter.go
	counts counts   // see counts.go
	dedup  *dedup   // nil: the queue takes duplicates; see dedup.go

	// doomed are bodies of settled messages, for the keeper to remove.
	doomed []uint64

	// The keeper's alone.
	look watcher // at the head
	move mover   // of dead letters
	scan watcher // of sizes

	watch watch // guarded by keeper.mu
}

// watcher is a reader that the keeper opens when it needs one.
type watcher struct{ reader *segstore.Reader }

func (w *watcher) close() {
	if w.reader != nil {
		w.reader.Close()
		w.reader = nil
	}
}

// needUpkeep returns the queue's upkeep, making it; the caller holds mu.
func (q *Queue) needUpkeep() *upkeep {
	if q.upkeep == nil {
		q.upkeep = &upkeep{set: &plainSettings}
		q.settings.Store(&plainSettings)
	}
	return q.upkeep
}

// apply makes s the queue's settings; nil: those of a plain queue. What is in
// the queue is judged by them from now on.
func (q *Queue) apply(s *settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.applyLocked(s)
	q.each(func(l *Queue) {
		if l == q {
			return
		}
		l.applyLocked(s)
		if l.upkeep != nil && q.upkeep != nil {
			l.upkeep.dedup = q.upkeep.dedup // one memory for all
		}
	})
	q.attend()
}

func (q *Queue) applyLocked(s *settings) {
	if q.deleted || q.stream != nil || q.unread != nil || s == nil && q.upkeep == nil {
		return
	}
	if s == nil {
		s = &plainSettings
	}
	e := q.needUpkeep()
	e.set = s
	e.looked = false
	e.used = q.VHost.broker.keeper.now()
	q.settings.Store(s)
	switch {
	case s.maxBytes == unlimited:
		e.sizes, e.readyBytes, e.sizeEnd = nil, 0, 0
	case e.sizes == nil:
		e.sizes = newSizeTable(q.log.Low())
		e.sizeFrom, e.sizeEnd = q.log.Low(), q.end
	}
	if s.dedups && e.dedup == nil && !q.isLevel() {
		e.dedup = newDedup(s)
	}
	q.judgeCounts()
	q.VHost.broker.keeper.arm(q, 0)
}

// applyArguments applies what the queue's arguments and policies say.
func (q *Queue) applyArguments() {
	policy, operator := q.applied.Load().definitions()
	if q.stream != nil {
		q.effectiveStream(policy, operator)
		return
	}
	q.apply(effective(q.Arguments, policy, operator))
}

// Kept says whether the queue has an upkeep: who delivers from it looks at each
// message.
func (q *Queue) Kept() bool { return q.settings.Load() != nil }

// Limited says whether the queue may refuse publishes, and so wants to know
// how much its consumers have room for.
func (q *Queue) Limited() bool {
	s := q.settings.Load()
	return s != nil && s.rejects()
}

// attend does what a change of the ready messages asks for: drops what is over
// the limit, has the head looked at. While a consumer can take, nothing is over
// any limit: it goes to the consumer first, as it would in RabbitMQ. When no
// consumer can take any more, Leave comes here.
func (q *Queue) attend() {
	if q.upkeep == nil && q.levels == nil || q.deleted || q.ring != nil {
		return
	}
	if q.upkeep != nil {
		q.dropOverLimit()
	}
	q.each((*Queue).attendHead)
}

// attendHead has the head looked at.
func (q *Queue) attendHead() {
	e := q.upkeep
	if e == nil || !e.timed() || q.ready() == 0 {
		return
	}
	if head := q.headOffset(); !e.looked || head < e.head || e.expiring && head != e.head {
		q.VHost.broker.keeper.arm(q, 0)
	}
}

// headOffset is the offset that would be taken next; there must be one.
func (q *Queue) headOffset() uint64 {
	if q.returned.Len() > 0 {
		return q.returned.spans[0].first
	}
	if e := q.upkeep; e != nil {
		e.passHoles(q)
	}
	return q.cursor
}

// passHoles moves the cursor over holes.
func (e *upkeep) passHoles(q *Queue) {
	for e.holes.Len() > 0 && e.holes.spans[0].first == q.cursor {
		_, n := e.holes.PopFront(e.holes.Len())
		q.cursor += n
		q.log.SetCursor(q.cursor)
	}
}

// fresh bounds a take from the cursor, which it moves over holes.
func (e *upkeep) fresh(q *Queue, limit uint64) uint64 {
	e.passHoles(q)
	end := q.end
	if e.holes.Len() > 0 {
		end = e.holes.spans[0].first
	}
	return min(limit, end-q.cursor)
}

// left and entered account for offsets that are not ready any more, or are
// again.
func (e *upkeep) left(first, count uint64) {
	if e.sizes != nil {
		e.readyBytes -= e.sizes.sum(first, count)
	}
}

func (e *upkeep) entered(first, count uint64) {
	if e.sizes != nil {
		e.readyBytes += e.sizes.sum(first, count)
	}
}

// settled forgets what was kept of settled offsets.
func (e *upkeep) settled(q *Queue, first, count uint64) {
	e.counts.forget(first, count)
	if e.sizes != nil {
		e.sizes.trim(q.log.Low())
	}
}

// popHead takes up to limit consecutive offsets from the head, for the queue
// itself.
func (q *Queue) popHead(limit uint64) Run {
	run := q.take(limit)
	q.unacked -= run.Count
	return run
}

// dropHead ends up to n messages from the head.
func (q *Queue) dropHead(n uint64, why reason) {
	for n > 0 {
		run := q.popHead(n)
		if run.Count == 0 {
			return
		}
		q.bury(run.First, run.Count, why)
		n -= run.Count
	}
}

// bury ends offsets that are neither ready nor with a consumer: they become
// dead letters, if the queue has a place for those.
func (q *Queue) bury(first, count uint64, why reason) {
	e := q.upkeep
	q.VHost.broker.deaths[why].Add(count)
	if e.set.deadLetters {
		e.dead.add(first, count, why)
		q.VHost.broker.keeper.arm(q, 0)
		return
	}
	if ids := q.settle(first, count); len(ids) > 0 {
		e.doomed = append(e.doomed, ids...)
		q.VHost.broker.keeper.arm(q, 0)
	}
}

// Reject ends the delivery of taken offsets for good, without success.
func (q *Queue) Reject(first, count uint64) { q.conclude(first, count, rejected) }

// Expire is for who has taken messages and found that their time was over.
func (q *Queue) Expire(first, count uint64) { q.conclude(first, count, expired) }

func (q *Queue) conclude(first, count uint64, why reason) {
	q.mu.Lock()
	if q.upkeep == nil || q.deleted {
		q.mu.Unlock()
		q.Settle(first, count)
		return
	}
	q.unacked -= count
	q.bury(first, count, why)
	q.mu.Unlock()
}

// DeadLetters says whether rejected messages go somewhere.
func (q *Queue) DeadLetters() bool {
	s := q.settings.Load()
	return s != nil && s.deadLetters
}

// keeperSteps are what tend does for a queue, in this order: until sizes are
// known, nobody can tell what is over the limit and what has only expired; and
// what dies goes on its way at once.
var keeperSteps = [...]func(k *keeper, q *Queue, now int64) (again int64){
	(*keeper).removeUnused, (*keeper).readSizes, (*keeper).expire, (*keeper).moveDead, (*keeper).writeCounts,
}

// tend does for q what is due, and returns when to come back, in ms.
func (k *keeper) tend(q *Queue, now int64) (again int64) {
	q.mu.Lock()
	e := q.upkeep
	gone, unread, doomed := q.deleted, q.unread != nil, e.doomed
	e.doomed = nil
	q.mu.Unlock()
	if gone {
		e.look.close()
		e.scan.close()
		e.move.close()
		if q.delayed() && q.hidden.delays != nil {
			q.hidden.delays.Release()
		}
		return unlimited
	}
	if unread {
		return unlimited
	}
	if q.stream != nil {
		return k.tendStream(q, now)
	}
	q.RemoveBodies(doomed)
	if q.delayed() {
		return k.release(q, now)
	}
	again = unlimited
	for i, step := range keeperSteps {
		again = min(again, step(k, q, now))
		if k.watched != nil {
			k.watched(q, i)
		}
	}
	return again
}

// removeUnused deletes a queue that nobody has used for as long as x-expires
// says. Nothing of it becomes a dead letter.
func (k *keeper) removeUnused(q *Queue, now int64) (again int64) {
	unused := func() (at int64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.upkeep.set.expires == unlimited || len(q.consumers) > 0 || q.isLevel() {
			return unlimited
		}
		return later(q.upkeep.used, q.upkeep.set.expires)
	}
	at := unused()
	if at > now {
		return at
	}
	q.VHost.removeIf(q, func() bool { return unused() > now })
	return unlimited
}

// later is the first millisecond at which more than ms have passed since at.
func later(at, ms int64) int64 {
	if ms >= unlimited-at-1 {
		return unlimited
	}
	return at + ms + 1
}

// touch notes a use in the sense of x-expires; the caller holds mu.
func (q *Queue) touch() {
	if e := q.upkeep; e != nil && e.set.expires != unlimited {
		k := &q.VHost.broker.keeper
		e.used = k.now()
		k.arm(q, later(e.used, e.set.expires))
	}
}

// Touch says that the queue has been declared again.
func (q *Queue) Touch() {
	if q.Kept() {
		q.mu.Lock()
		q.touch()
		q.mu.Unlock()
	}
}

// ExpectExpirations says that messages with expirations of their own are about
// to be published: from now on somebody looks after the queue's head, also after a
// crash: that is recorded in the definitions before the first of them is appended.
// The first of all are to be appended in a transaction of the store (the result
// says so): then they are in the journal, together with that record or behind it,
// and not by themselves in a segment. It takes VHost.mu: not within a transaction.
func (q *Queue) ExpectExpirations() (first bool) {
	q.mu.Lock()
	if q.deleted || q.Hidden() || q.stream != nil { // what an exchange keeps does not expire, nor what is in a stream
		q.mu.Unlock()
		return false
	}
	e := q.expectExpirations()
	first = !e.noted && q.Durable && q.Owner == nil
	q.mu.Unlock()
	if !first {
		return false
	}
	q.VHost.noteExpirations(q.base())
	q.mu.Lock()
	e.noted = true // only now: nobody relies on it before it is recorded
	q.mu.Unlock()
	return true
}

func (q *Queue) expectExpirations() *upkeep {
	e := q.needUpkeep()
	if !e.expiring {
		e.expiring = true
		q.VHost.broker.keeper.arm(q, 0)
	}
	return e
}
