package broker

import (
	"errors"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Restarting. A failed write or sync fences a log: the queue is closed (StateClosed),
// and what needs the log's file is refused. When the disk works again an operator has
// the queue restarted: the store makes the log's doubtful files anew and lifts the
// fence (segstore.Log.Reopen). Everything in memory holds on while it is closed and
// after it:
//
//   - Ready messages are delivered all the time, in their order.
//   - Consumers stay, and are not cancelled. What they hold unacknowledged they still
//     hold: it is theirs to acknowledge, and comes back redelivered if they go.
//   - Publishers were told by nacks. Nacked messages may be in the queue all the same
//     (as after any nack); those that are when it is restarted are durable then.
//
// A restart that fails leaves the queue closed and loses nothing. The logs beside a
// queue's own (delivery counts, tracked offsets, values seen) are opened again with
// it; what they missed is written to them.

// RestartQueue opens the logs of a queue that a failed write has closed, and makes
// messages ready whose bodies could not be read (Shelve). It waits for the disk. Errors: 404 when the queue has just been deleted, 406 when none of
// them is closed and there are no such messages, 541 with the reason and what to do.
func (vh *VHost) RestartQueue(q *Queue) error {
	vh.mu.RLock()
	there := vh.queues[q.Name] == q
	vh.mu.RUnlock()
	if !there {
		return vh.noQueue(q.Name)
	}
	read, err := q.readAgain(func() error { return q.adopt(vh.broker.cleanStop) })
	if err != nil {
		return stillClosed("queue", q.Name, vh.Name, err)
	}
	vh.mu.RLock()
	var logs []*segstore.Log
	family := q.family()
	for _, l := range family {
		logs = append(logs, l.log, l.sides().countsLog, l.sides().dedupLog)
	}
	dedupLog := q.sides().dedupLog
	vh.mu.RUnlock()
	opened, err := vh.broker.reopen(logs)
	unshelved := false
	for _, l := range family {
		l.resume(opened)
		unshelved = l.unshelve() || unshelved
	}
	if unshelved {
		vh.broker.logger.Warn("messages whose bodies could not be read are ready again", "queue", q.Name, "vhost", vh.Name)
	}
	switch {
	case len(opened) > 0 || err != nil:
	case unshelved:
		return nil
	default:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' is not closed", q.Name, vh.Name)
	}
	q.resumeDedup(dedupLog)
	if err != nil {
		return stillClosed("queue", q.Name, vh.Name, err)
	}
	if read {
		vh.broker.logger.Warn("a queue that could not be read was restarted", "queue", q.Name, "vhost", vh.Name, "messages", q.Counts().Ready)
		return nil
	}
	vh.broker.logger.Warn("a queue that was closed by a failed write was restarted", "queue", q.Name, "vhost", vh.Name)
	return nil
}

// RestartExchange does the same for the logs of what an exchange keeps: delayed
// messages and when they are due, a history, values seen.
func (vh *VHost) RestartExchange(e *Exchange) error {
	vh.mu.RLock()
	if vh.exchanges[e.Name] != e {
		vh.mu.RUnlock()
		return vh.noExchange(e.Name)
	}
	hidden, dedup := e.hidden(), e.dedup
	vh.mu.RUnlock()
	if err := e.readAgain(hidden, dedup); err != nil {
		return stillClosed("exchange", e.Name, vh.Name, err)
	}
	var logs []*segstore.Log
	for _, q := range hidden {
		logs = append(logs, q.log, q.hidden.scheduleLog)
	}
	if dedup != nil {
		logs = append(logs, dedup.log)
	}
	opened, err := vh.broker.reopen(logs)
	if len(opened) == 0 && err == nil {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "exchange '%s' in vhost '%s' keeps nothing that is closed", e.Name, vh.Name)
	}
	for _, q := range hidden {
		q.resume(opened)
	}
	if dedup != nil {
		dedup.resume()
	}
	if err != nil {
		return stillClosed("exchange", e.Name, vh.Name, err)
	}
	vh.broker.logger.Warn("what an exchange keeps was closed and was restarted", "exchange", e.Name, "vhost", vh.Name)
	return nil
}

// readAgain reads what could not be read of what an exchange keeps.
func (e *Exchange) readAgain(hidden []*Queue, dedup *Deduplicator) (err error) {
	for _, q := range hidden {
		adopt := func() error { q.adoptHistory(); return nil }
		if q.delayed() {
			adopt = q.adoptDelayed
		}
		_, again := q.readAgain(adopt)
		err = errors.Join(err, again)
	}
	if dedup != nil {
		_, again := dedup.readAgain()
		err = errors.Join(err, again)
	}
	return err
}

// reopen opens those of the logs, some of which may be nil, that are fenced. It
// goes on after an error.
func (b *Broker) reopen(logs []*segstore.Log) (opened []*segstore.Log, err error) {
	for _, log := range logs {
		if log == nil || log.Err() == nil {
			continue
		}
		switch e := log.Reopen(); {
		case e == nil:
			opened = append(opened, log)
		case !errors.Is(e, segstore.ErrNotFenced) && !errors.Is(e, segstore.ErrDeleted):
			err = errors.Join(err, e)
		}
	}
	return opened, err
}

// stillClosed says why, and what helps.
func stillClosed(kind, name, vhost string, err error) error {
	remedy := "nothing of it is lost; mend the disk, and try again"
	switch {
	case errors.Is(err, segstore.ErrJournalFailed):
		remedy = "the journal of all queues failed; check the disk, and restart the broker, which reads again what is there"
	case errors.Is(err, segstore.ErrReopening), errors.Is(err, segstore.ErrReopenBusy):
		remedy = "try again in a moment"
	case errors.Is(err, segstore.ErrClosed):
		remedy = "the broker is stopping"
	} // before the reason, because a text has an end
	return amqp.Errorf(amqp.CodeInternalError, 0, "%s '%s' in vhost '%s' stays closed: %s (%v)", kind, name, vhost, remedy, err)
}

// resume has go on what waited for the logs that were opened.
func (q *Queue) resume(opened []*segstore.Log) {
	if len(opened) == 0 {
		return
	}
	q.VHost.mu.RLock()
	counts := q.sides().countsLog
	q.VHost.mu.RUnlock()
	missed := false
	for _, log := range opened {
		missed = missed || log == counts
	}
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		return
	}
	if e := q.upkeep; e != nil {
		switch {
		case missed && q.stream != nil:
			q.stream.tracked.rewrite()
		case missed:
			e.counts.rewrite()
		}
		q.VHost.broker.keeper.arm(q, 0)
	}
	wake := q.grantToken()
	q.attend()
	q.mu.Unlock()
	tell(wake, nil)
}

// rewrite has all counts written again, at the end of their log.
func (c *counts) rewrite() {
	c.changed = c.changed[:0]
	for offset := range c.of {
		c.changed = append(c.changed, offset)
	}
}

// rewrite has all offsets written again.
func (t *trackedOffsets) rewrite() {
	for tag, o := range t.of {
		if !o.dirty {
			o.dirty = true
			t.dirty = append(t.dirty, tag)
		}
	}
}

// resumeDedup has the values written that the queue has seen without its log.
func (q *Queue) resumeDedup(log *segstore.Log) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.upkeep == nil || q.upkeep.dedup == nil || log == nil || log.Err() != nil || q.failure() != nil {
		return
	}
	d := q.upkeep.dedup
	marks := d.mark()
	q.each(func(l *Queue) { marks = append(marks, dedupMark{l.ID, l.log.Next()}) })
	q.reportDedup(d.resume(q.VHost.broker.store, log, marks, q.VHost.broker.keeper.now()))
}

// resume is resumeDedup for an exchange. Where the messages went whose values have
// no record is not known any more, so these are forgotten with the broker.
func (x *Deduplicator) resume() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dedup == nil || x.log == nil || x.log.Err() != nil {
		return
	}
	if err := x.dedup.resume(x.broker.store, x.log, nil, x.broker.keeper.now()); err != nil {
		x.broker.logger.Error("values for deduplication are forgotten with the next restart", "exchange", x.exchange, "vhost", x.vhost, "err", err)
	}
}

// resume goes on with a log that was fenced. Values that were added since have no
// record in it: they get one, or without marks only a place, so that the offsets of
// those that follow are right.
func (d *dedup) resume(store *segstore.Store, log *segstore.Log, marks []dedupMark, now int64) error {
	if d.log != nil {
		return nil // nobody has noticed
	}
	low, next := log.Low(), log.Next()
	if first := min(d.base, next); first > low {
		log.Settle(low, first-low)
	}
	d.base = min(d.base, next) // if all of them are forgotten offsets go on behind
	b := store.NewBatch()
	defer b.Release()
	for at := int(next - d.base); at < len(d.order)-d.head; {
		b.Reset(now)
		t := b.Template(nil, nil, nil)
		for ; at < len(d.order)-d.head && b.Size() < segstore.BatchBytesTarget; at++ {
			if marks == nil {
				b.Add(t, nil)
				continue
			}
			b.Add(t, d.order[d.head+at].record(nil, marks))
		}
		if _, err := log.Append(b); err != nil {
			return err
		}
	}
	d.log = log
	return nil
}
