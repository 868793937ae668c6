package broker

import "github.com/basaltmq/basaltmq/engine/stats"

// This file is how messages leave the ready ones and come back: to consumers and
// basic.get, settled, or returned.

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

// Take gives c ready messages, up to limit: its share where several consumers take
// turns (deal.go), else consecutive ones. The count is 0 when there is nothing for
// it now: it stays in the ring and will be woken. more says that c may Take again
// at once. now is in Unix milliseconds.
func (q *Queue) Take(c *Consumer, limit uint64, now int64) (run Run, more bool) {
	q.mu.Lock()
	q.heed(c)
	if q.deleted {
		q.mu.Unlock()
		return Run{}, false
	}
	c.blocked = false
	if c.expelled {
		q.readmit(c)
	}
	if q.ringLen > 1 || c.share.Count > 0 {
		return q.takeShare(c, limit, now)
	}
	c.room = limit
	if limit == 0 || !q.alone(c) {
		q.mu.Unlock()
		return Run{}, false
	}
	run, relieved := q.takeAlone(c, limit, now)
	more = q.grantToken() != nil
	q.mu.Unlock()
	relieve(relieved)
	return run, more
}

// alone says that c is the only one that can take, of its priority and above.
func (q *Queue) alone(c *Consumer) bool { return q.ringLen == 1 && q.ring == c }

// takeAlone is Take for such a consumer; the caller holds mu, and passes the token
// on.
func (q *Queue) takeAlone(c *Consumer, limit uint64, now int64) (run Run, relieved []Publisher) {
	q.woken = nil
	from := q.top()
	run = from.take(min(limit, q.quantum()))
	c.room = limit - run.Count
	from.clock(&run)
	return run, from.took(run.Count, now)
}

// took notes that messages were taken, and returns who may publish again.
func (q *Queue) took(count uint64, now int64) []Publisher {
	q.needPace().took(count, now)
	return q.relieved(now)
}

func (q *Queue) take(limit uint64) Run {
	run := Run{Queue: q}
	if q.returned.Len() > 0 {
		run.Redelivered = true
		if q.unsent != nil {
			limit, run.Redelivered = q.takeUnsent(limit)
		}
		run.First, run.Count = q.returned.PopFront(limit)
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

// takeUnsent bounds a take from returned: only some of it was delivered before.
func (q *Queue) takeUnsent(limit uint64) (bounded uint64, redelivered bool) {
	head, first := q.returned.spans[0], q.unsent.spans[0]
	if redelivered = first.first > head.first; redelivered {
		return min(limit, first.first-head.first), true
	}
	_, bounded = q.unsent.PopFront(min(limit, head.end-head.first))
	if q.unsent.Len() == 0 {
		q.unsent = nil
	}
	return bounded, false
}

// headReturned says whether what is at the head has been delivered before.
func (q *Queue) headReturned() bool {
	return q.returned.Len() > 0 && (q.unsent == nil || q.unsent.spans[0].first > q.returned.spans[0].first)
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

// Return gives back what was taken but never sent: it is ready as before.
func (q *Queue) Return(run Run) {
	var w wakes
	q.mu.Lock()
	if q.deleted {
		q.unacked -= run.Count
	} else {
		q.unsend(run)
		q.grant(nil, &w)
		q.attend()
	}
	q.mu.Unlock()
	w.tell(nil)
}

// Requeue returns delivered offsets to their original positions, all at once,
// flagged as redelivered from now on. A queue with a delivery limit counts that.
func (q *Queue) Requeue(runs ...Run) { q.requeue(true, runs...) }

func (q *Queue) requeue(delivered bool, runs ...Run) {
	var w wakes
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
	if !q.deleted {
		q.grant(nil, &w)
		q.attend()
	}
	q.mu.Unlock()
	w.tell(nil)
}
