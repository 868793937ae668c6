package broker

// Pausing. A paused queue takes messages and gives none to its consumers, nor to
// basic.get: these wait as at an empty queue. Its consumers stay, outside of all
// rings, so that nobody who delivers has to ask whether a queue is paused. What
// they were given before may still be on its way to them. Limits and times to
// live act as they do without consumers; operators may still look at messages,
// and take, move or purge them (Pull).
//
// That a durable queue is paused is part of its definition and survives a
// restart. Priority queues are paused with all their levels.

// States of queues, in the words of the management API.
const (
	StateRunning = "running"
	StatePaused  = "paused"
	StateClosed  = "closed" // takes no messages: a log of it is fenced; see restart.go
)

// State is the state of the queue.
func (q *Queue) State() string {
	if q.Failure() != nil {
		return StateClosed
	}
	if q.Paused() {
		return StatePaused
	}
	return StateRunning
}

// Paused says whether the queue is paused.
func (q *Queue) Paused() bool {
	if q.crowd == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.paused
}

// PauseQueue pauses a queue, or lets it go on. It returns the sequence number of
// the definition record to wait for, 0 for none. Errors: 404 when the queue has
// just been deleted.
func (vh *VHost) PauseQueue(q *Queue, paused bool) (seq uint64, err error) {
	vh.mu.Lock()
	if vh.queues[q.Name] != q {
		vh.mu.Unlock()
		return 0, vh.noQueue(q.Name)
	}
	changed, wake := q.setPaused(paused)
	if q.Durable && q.Owner == nil {
		seq = vh.broker.pendingSeq()
		if changed {
			seq = vh.broker.record(queueRecord(recQueueDeclare, vh, q))
		}
	}
	vh.mu.Unlock()
	for _, c := range wake {
		c.Owner.Wake()
	}
	return seq, nil
}

// setPaused returns whom to wake after unlocking.
func (q *Queue) setPaused(paused bool) (changed bool, wake []*Consumer) {
	q.mu.Lock()
	if q.deleted || q.paused == paused {
		q.mu.Unlock()
		return false, nil
	}
	q.paused = paused
	switch {
	case paused:
		for _, c := range q.consumers {
			if c.inRing {
				q.part(c)
			}
		}
		q.attend()
	case q.stream != nil:
		wake = append(wake, q.consumers...)
	default:
		for _, c := range q.consumers {
			if c.able && (!q.single || q.active == c) {
				q.join(c)
			}
		}
		if next := q.grantToken(); next != nil {
			wake = append(wake, next)
		}
	}
	relieved := q.relieved(q.lastTaken())
	q.mu.Unlock()
	tell(nil, relieved)
	return true, wake
}

// Failure says why the queue is closed, nil if it is not.
func (q *Queue) Failure() error {
	if q.crowd == nil || q.levels == nil {
		return q.log.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failure()
}

// failure is Failure for who holds mu.
func (q *Queue) failure() (err error) {
	q.each(func(l *Queue) {
		if err == nil {
			err = l.log.Err()
		}
	})
	return err
}
