package segstore

import "slices"

// enterReap decides which segments are dead, being wholly settled, and whether
// the settled file is written. It is done when the log enters, and not in plan, so
// that a transaction can't come in between; and not while a transaction that
// settled something of the log waits to be durable: after a crash it would be
// done in part. The last segment stays until a whole sync interval has passed
// without an append: it carries the log's next offset, and a queue that is
// emptied and filled all the time would create a file for every message.
func (l *Log) enterReap(p pass) {
	o := &l.journaled
	if l.txSettlePending() {
		return
	}
	if n := len(l.segments); n > 0 && p.sync && l.unsettled() == 0 && o.segmentTo == 0 {
		if l.quiet == l.next.Load() {
			l.segments[n-1].dead, o.reaped = true, true
			o.rewrite = n == 1 && !l.transient // the settled file is all that remembers Next (invariant 10)
		}
		l.quiet = l.next.Load()
	}
	if l.reap {
		l.reap = false
		for i := 0; i < len(l.segments)-1; i++ {
			if s := l.segments[i]; s.base == s.next || l.isSettled(s.base, s.next) {
				s.dead, o.reaped = true, true
			}
		}
	}
	if n := len(l.segments); n > 1 && l.segments[n-1].dead && l.segments[n-2].dead {
		o.rewrite = !l.transient
	}
	if o.rewrite || p.final && l.stale && (l.acks != nil || len(l.segments) > 0 || o.segmentTo > 0) {
		acks := l.encodeSettled(l.store.tune.now().UnixMilli(), l.handled())
		o.acks = &acks
		l.stale = l.changed
	}
	o.rewrite = false
}

// txSettlePending reports whether a transaction that settled offsets of the log
// is not durable yet.
func (l *Log) txSettlePending() bool {
	o := &l.journaled
	if o.txSettle != 0 && o.txSettle != txWaiting && o.txSettle <= l.store.flusher.syncedRound.Load() {
		o.txSettle = 0
	}
	return o.txSettle != 0
}

// takeDead takes the dead segments out of the log.
func (l *Log) takeDead(j *job) {
	l.journaled.reaped = false
	for i := len(l.segments) - 1; i >= 0; i-- {
		if s := l.segments[i]; s.dead {
			s.removed = true
			j.dead = append(j.dead, s)
			l.segments = slices.Delete(l.segments, i, i+1)
		}
	}
}
