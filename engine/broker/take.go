package broker

import "github.com/basaltmq/basaltmq/engine/stats"

// This file is how messages leave the ready ones and come back: to consumers and
// basic.get, settled, or returned.

// tell does, after unlocking, what was decided under the lock.
func tell(wake *Consumer, relieved []Publisher) {
	if wake != nil {
		wake.Owner.Wake()
	}
	for _, p := range relieved {
		p.Relieved()
	}
}

func (q *Queue) ready() uint64 {
	n := q.returned.Len() + q.end - q.cursor
	if q.upkeep != nil {
		if q.stream != nil {
			return q.log.Unsettled()
		}
		n -= q.upkeep.holes.Len()
	}
	return n
}

// Take gives c up to limit consecutive ready offsets, if it is c's turn. The
// count is 0 when there is nothing for it now: it stays in the ring and will
// be woken. more says that c may Take again at once. now is in Unix
// milliseconds.
func (q *Queue) Take(c *Consumer, limit uint64, now int64) (run Run, more bool) {
	q.mu.Lock()
	q.heed(c)
	c.room = limit
	if q.deleted || !c.inRing || limit == 0 || q.woken != c && (q.ringLen > 1 || c.Priority != q.ring.Priority) {
		q.mu.Unlock()
		return Run{}, false
	}
	from := q.top()
	run = from.take(min(limit, q.quantum(q.total())))
	c.room -= run.Count
	from.clock(&run)
	from.needPace().took(run.Count, now)
	q.ring = c.next
	q.woken = nil
	wake, relieved := q.grantToken(), from.relieved(now)
	q.mu.Unlock()
	if wake == c {
		wake, more = nil, true
	}
	tell(wake, relieved)
	return run, more
}

func (q *Queue) take(limit uint64) Run {
	run := Run{Queue: q}
	if q.returned.Len() > 0 {
		run.First, run.Count = q.returned.PopFront(limit)
		run.Redelivered = true
	} else if n := q.fresh(limit); n > 0 {
		run.First, run.Count = q.cursor, n
		q.cursor += n
		q.log.SetCursor(q.cursor)
	}
	q.unacked += run.Count
	if q.upkeep != nil {
		q.upkeep.left(run.First, run.Count)
	}
	return run
}

// fresh is how many may be taken from the cursor on, at most limit.
func (q *Queue) fresh(limit uint64) uint64 {
	if q.upkeep != nil {
		return q.upkeep.fresh(q, limit)
	}
	return min(limit, q.end-q.cursor)
}

// Get takes one message for basic.get; remaining counts those still ready.
// A paused queue gives none.
func (q *Queue) Get() (run Run, remaining uint64) { return q.pull(1, false) }

// Pull takes up to limit consecutive messages for an operator, of a paused queue
// too.
func (q *Queue) Pull(limit uint64) (run Run, remaining uint64) { return q.pull(limit, true) }

func (q *Queue) pull(limit uint64, operator bool) (run Run, remaining uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.paused && !operator {
		return Run{}, 0
	}
	run = q.top().take(limit)
	q.touch()
	q.attend()
	return run, q.total()
}

// Settle ends the delivery of taken offsets: acked, dropped, or sent without
// the need of an ack.
func (q *Queue) Settle(first, count uint64) { q.Acked(first, count, 0) }

// Acked is Settle for offsets of which so many were acknowledged.
func (q *Queue) Acked(first, count, acked uint64) {
	if ids := q.SettleKeeping(first, count, acked); ids != nil {
		q.RemoveBodies(ids)
	}
}

// SettleKeeping is Acked, but leaves the external bodies of the messages for
// the caller to remove (RemoveBodies): a transaction that acknowledges them may
// still be undone by a crash.
func (q *Queue) SettleKeeping(first, count, acked uint64) (ids []uint64) {
	q.mu.Lock()
	if acked > 0 {
		q.counted().Counts[stats.Ack] += acked
	}
	q.unacked -= count
	deleted := q.deleted
	if q.upkeep != nil && !deleted {
		q.upkeep.settled(q, first, count)
	}
	if q.external != nil && !deleted {
		ids = q.settle(first, count)
		q.mu.Unlock()
		return ids
	}
	q.mu.Unlock()
	if !deleted {
		q.log.Settle(first, count)
	}
	return nil
}

// Return gives back what was taken but never sent. If nothing after it has been
// taken it becomes ready as before, else it counts as redelivered.
func (q *Queue) Return(run Run) {
	q.mu.Lock()
	if !q.deleted && !run.Redelivered && run.First+run.Count == q.cursor {
		q.cursor = run.First
		q.log.SetCursor(q.cursor)
		q.unacked -= run.Count
		if q.upkeep != nil {
			q.upkeep.entered(run.First, run.Count)
		}
		wake := q.grantToken()
		q.attend()
		q.mu.Unlock()
		if wake != nil {
			wake.Owner.Wake()
		}
		return
	}
	q.mu.Unlock()
	q.requeue(false, run)
}

// Requeue returns delivered offsets to their original positions, all at once,
// flagged as redelivered from now on. A queue with a delivery limit counts that.
func (q *Queue) Requeue(runs ...Run) { q.requeue(true, runs...) }

func (q *Queue) requeue(delivered bool, runs ...Run) {
	q.mu.Lock()
	e := q.upkeep
	for _, r := range runs {
		q.unacked -= r.Count
		switch {
		case q.deleted:
		case e != nil && delivered && e.set.deliveryLimit != unlimited:
			q.comeBack(r.First, r.Count)
		default:
			q.returned.Add(r.First, r.Count)
			if e != nil {
				e.entered(r.First, r.Count)
			}
		}
	}
	if q.deleted {
		q.mu.Unlock()
		return
	}
	wake := q.grantToken()
	q.attend()
	q.mu.Unlock()
	if wake != nil {
		wake.Owner.Wake()
	}
}
