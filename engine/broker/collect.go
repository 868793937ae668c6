package broker

import (
	"context"
	"errors"

	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Verdict says what becomes of messages that were collected.
type Verdict uint8

const (
	PutBack Verdict = iota // to their places, flagged redelivered
	Requeue                // the same, and a delivery limit counts it
	Ack                    // they are consumed
	Reject                 // they are dead letters, or gone
)

// CollectMax is how many messages one Collect takes at most.
const CollectMax = 10_000

// Collect takes up to count ready messages, of a paused queue too, copies them
// with up to bodyBytes of their bodies, and does with all of them what the
// verdict says. It stops early when the copies have got large. Messages that have
// expired are none. On an error everything is back in its place. Errors: 540 for
// streams; a message cannot be read; the context's.
func (q *Queue) Collect(ctx context.Context, count, bodyBytes uint64, verdict Verdict) (list []Message, err error) {
	if q.stream != nil {
		return nil, q.streamLacks("basic.get")
	}
	if err := q.Unread(); err != nil {
		return nil, err
	}
	r := newWaitingReader(ctx)
	defer r.close()
	var taken []Run
	defer func() {
		if err != nil {
			q.giveBack(taken, false)
			list = nil
			return
		}
		q.conclusion(taken, verdict)
	}()
	bytes := uint64(0)
	kind := stats.Get
	if verdict == Ack {
		kind = stats.GetNoAck
	}
	defer func() { q.countCollected(kind, list) }()
	for count = min(count, CollectMax); uint64(len(list)) < count && bytes < messagesBytesMax; {
		run, remaining := q.Pull(1)
		if run.Count == 0 {
			break
		}
		m, ok, err := q.examine(r, run, min(bodyBytes, messagesBytesMax))
		switch {
		case err != nil:
			taken = append(taken, run)
			return nil, err
		case ok:
			m.Remaining = remaining
			taken = append(taken, run)
			list = append(list, m)
			bytes += uint64(len(m.Body) + len(m.Properties))
		}
	}
	return list, nil
}

// countCollected counts what an operator got, as basic.get is counted.
func (q *Queue) countCollected(kind stats.Kind, list []Message) {
	counts := q.VHost.LoopCounts(0) // anybody may count by it
	if len(list) == 0 {
		q.CountGot(stats.GetEmpty, false, 0)
		counts.Add(stats.GetEmpty, 1)
	}
	for i := range list {
		q.CountGot(kind, list[i].Redelivered, list[i].Size)
		counts.Add(kind, 1)
		counts.Add(stats.BytesOut, list[i].Size)
		if list[i].Redelivered {
			counts.Add(stats.Redeliver, 1)
		}
	}
}

// examine reads a message that has been taken; ok is false when there was none, or
// none any more, which has been dealt with.
func (q *Queue) examine(r *waitingReader, run Run, bodyBytes uint64) (m Message, ok bool, err error) {
	from := run.Queue
	m, err = r.read(from, run.First, bodyBytes)
	switch _, absent := missing(err); {
	case absent:
		from.Settle(run.First, 1)
		return m, false, nil
	case errors.Is(err, segstore.ErrDeleted):
		return m, false, nil
	case err != nil:
		return m, false, q.unreadable(run.First, err)
	}
	m.Redelivered = run.Redelivered
	if m.external {
		from.FoundBody(run.First, m.bodyID) // before it is settled
	}
	if (from.Kept() || Expiration(m.Properties) != NoDeadline) &&
		from.Deadline(m.Timestamp, m.Properties, run.Redelivered) <= q.VHost.broker.keeper.now() {
		from.Expire(run.First, 1)
		return m, false, nil
	}
	m.Properties = from.WithCount(m.Properties, run.First, run.Redelivered)
	return m, true, nil
}

// conclusion ends what was taken.
func (q *Queue) conclusion(taken []Run, verdict Verdict) {
	switch verdict {
	case PutBack, Requeue:
		q.giveBack(taken, verdict == Requeue)
		return
	}
	for _, run := range taken {
		if verdict == Reject && run.Queue.DeadLetters() {
			run.Queue.Reject(run.First, run.Count)
		} else {
			run.Queue.Settle(run.First, run.Count)
		}
	}
}

// giveBack returns runs to their levels, those of each all at once.
func (q *Queue) giveBack(taken []Run, delivered bool) {
	for len(taken) > 0 {
		level := taken[0].Queue
		var mine, rest []Run
		for _, run := range taken {
			if run.Queue == level {
				mine = append(mine, run)
			} else {
				rest = append(rest, run)
			}
		}
		level.requeue(delivered, mine...)
		taken = rest
	}
}

// streamLacks is the error for what streams do not do.
func (q *Queue) streamLacks(what string) error {
	return amqp.Errorf(amqp.CodeNotImplemented, 0, "%s not supported by stream queues queue '%s' in vhost '%s'", what, q.Name, q.VHost.Name)
}

// PurgeSome drops up to n ready messages from the head and returns how many there
// were. Errors: 540 for streams.
func (q *Queue) PurgeSome(n uint64) (purged uint64, err error) {
	if q.stream != nil {
		return 0, q.streamLacks("queue.purge")
	}
	if err := q.Unread(); err != nil {
		return 0, err
	}
	for purged < n {
		q.mu.Lock()
		if q.deleted {
			q.mu.Unlock()
			break
		}
		l := q.top()
		run := l.popHead(min(n-purged, takeMax))
		var ids []uint64
		if run.Count > 0 {
			ids = l.settle(run.First, run.Count)
		}
		q.attend()
		relieved := l.relieved(l.lastTaken())
		q.mu.Unlock()
		l.RemoveBodies(ids)
		tell(nil, relieved)
		if run.Count == 0 {
			break
		}
		purged += run.Count
	}
	return purged, nil
}
