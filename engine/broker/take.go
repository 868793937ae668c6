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

// Take gives c up to limit ready messages: the share that it has been dealt, or
// what it gets if it is c's turn. The count is 0 when there is nothing for it now:
// it stays in the ring and will be woken. more says that c may Take again at once.
// now is in Unix milliseconds.
func (q *Queue) Take(c *Consumer, limit uint64, now int64) (run Run, more bool) {
	var dealt wakes
	q.mu.Lock()
	q.heed(c)
	c.wary = c.Wary
	switch {
	case q.deleted:
	case c.share.Count > 0:
		run = q.fetch(c, limit)
	default:
		c.room = limit
		if !c.inRing || limit == 0 || q.woken != c && (q.ringLen > 1 || c.Priority != q.ring.Priority) {
			break
		}
		if from := q.top(); q.ringLen == 1 {
			run = from.take(min(limit, q.quantum()))
			from.clock(&run)
			q.ring = c.next
		} else if run = from.take(q.dealable(from)); run.Count > 0 {
			from.clock(&run)
			run = q.deal(run, &dealt)
		}
		c.room -= run.Count
		q.woken = nil
	}
	var relieved []Publisher
	if from := run.Queue; run.Count > 0 {
		from.needPace().took(run.Count, now)
		relieved = from.relieved(now)
	}
	wake := q.grantToken()
	more = q.woken == c
	q.mu.Unlock()
	if wake == c {
		wake = nil
	}
	dealt.tell()
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

// Settle ends the delivery of consecutive offsets that were taken.
func (q *Queue) Settle(first, count uint64) { q.SettleRun(Run{First: first, Count: count}, 0) }

// SettleRun ends the delivery of taken messages: acked, dropped, or sent without
// the need of an ack. So many of them were acknowledged.
func (q *Queue) SettleRun(run Run, acked uint64) {
	if ids := q.SettleKeeping(run, acked); ids != nil {
		q.RemoveBodies(ids)
	}
}

// SettleKeeping is SettleRun, but leaves the external bodies of the messages for
// the caller to remove (RemoveBodies): a transaction that acknowledges them may
// still be undone by a crash.
func (q *Queue) SettleKeeping(run Run, acked uint64) (ids []uint64) {
	q.mu.Lock()
	if acked > 0 {
		q.counted().Counts[stats.Ack] += acked
	}
	q.unacked -= run.Count
	deleted := q.deleted
	if q.upkeep != nil && !deleted {
		run.Each(func(first, count uint64) { q.upkeep.settled(q, first, count) })
	}
	if q.external != nil && !deleted {
		run.Each(func(first, count uint64) { ids = append(ids, q.settle(first, count)...) })
		q.mu.Unlock()
		return ids
	}
	q.mu.Unlock()
	switch {
	case deleted:
	case run.Stride > 1:
		q.log.SettleEvery(run.First, run.Stride, run.Count)
	default:
		q.log.Settle(run.First, run.Count)
	}
	return nil
}

// Return gives back what was taken but never sent. If nothing after it has been
// taken it becomes ready as before, else it counts as redelivered.
func (q *Queue) Return(run Run) {
	q.mu.Lock()
	if q.deleted {
		q.unacked -= run.Count
		q.mu.Unlock()
		return
	}
	run.Queue = q
	q.unsend(run)
	wake := q.grantToken()
	q.attend()
	q.mu.Unlock()
	tell(wake, nil)
}

// unsend is Return for who holds mu and goes on to grantToken and attend.
func (q *Queue) unsend(run Run) {
	l := run.Queue
	l.unacked -= run.Count
	if !run.Redelivered && (run.Stride <= 1 || run.Count == 1) && run.First+run.Count == l.cursor {
		l.cursor = run.First
		l.log.SetCursor(l.cursor)
		if l.upkeep != nil {
			l.upkeep.entered(run.First, run.Count)
		}
		return
	}
	run.Each(func(first, count uint64) {
		l.returned.Add(first, count)
		if l.upkeep != nil {
			l.upkeep.entered(first, count)
		}
	})
}

// Requeue returns delivered offsets to their original positions, all at once,
// flagged as redelivered from now on. A queue with a delivery limit counts that.
func (q *Queue) Requeue(runs ...Run) { q.requeue(true, runs...) }

func (q *Queue) requeue(delivered bool, runs ...Run) {
	q.mu.Lock()
	e := q.upkeep
	for _, r := range runs {
		q.unacked -= r.Count
		r.Each(func(first, count uint64) {
			switch {
			case q.deleted:
			case e != nil && delivered && e.set.deliveryLimit != unlimited:
				q.comeBack(first, count)
			default:
				q.returned.Add(first, count)
				if e != nil {
					e.entered(first, count)
				}
			}
		})
	}
	if q.deleted {
		q.mu.Unlock()
		return
	}
	wake := q.grantToken()
	q.attend()
	q.mu.Unlock()
	tell(wake, nil)
}
