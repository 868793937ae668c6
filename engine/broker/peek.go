package broker

import (
	"context"
	"errors"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// PeekMax is how many messages one Peek or ReadStream copies at most.
const PeekMax = 10_000

// Peek copies up to count ready messages behind the first skip ones, in the order
// in which consumers would get them, with up to bodyBytes of their bodies. It
// takes nothing: order, redelivered flags, counts and consumers are as if nobody
// had looked. Messages that consumers take meanwhile may or may not be among
// them. It stops early when the copies have got large. Of a stream it shows what
// there is from the oldest message on.
func (q *Queue) Peek(ctx context.Context, skip, count, bodyBytes uint64) ([]Message, error) {
	if err := q.Unread(); err != nil {
		return nil, err
	}
	if q.stream != nil {
		first, end, _ := q.streamRange(offsetSpec{kind: offsetFirst})
		first += min(skip, end-first)
		return q.copyMessages(ctx, []Run{{Queue: q, First: first, Count: end - first}}, count, bodyBytes, 0)
	}
	return q.copyMessages(ctx, q.readyRuns(skip, min(count, PeekMax)), count, bodyBytes, 0)
}

// readyRuns lists ready offsets without taking them.
func (q *Queue) readyRuns(skip, count uint64) (runs []Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil
	}
	add := func(l *Queue, first, end uint64, redelivered bool) {
		passed := min(skip, end-first)
		skip -= passed
		first += passed
		if n := min(count, end-first); n > 0 {
			count -= n
			runs = append(runs, Run{Queue: l, First: first, Count: n, Redelivered: redelivered})
		}
	}
	q.each(func(l *Queue) {
		for _, s := range l.returned.spans {
			if count == 0 {
				return
			}
			add(l, s.first, s.end, true)
		}
		at := l.cursor
		if l.upkeep != nil {
			for _, hole := range l.upkeep.holes.spans {
				if count == 0 {
					return
				}
				add(l, at, max(hole.first, at), false)
				at = hole.end
			}
		}
		add(l, at, l.end, false)
	})
	return runs
}

// copyMessages copies up to count of the messages at these offsets, from the first
// on that came since a time (ms). Those that are gone are passed over.
func (q *Queue) copyMessages(ctx context.Context, runs []Run, count, bodyBytes uint64, since int64) (list []Message, err error) {
	r := newWaitingReader(ctx)
	defer r.close()
	count, bodyBytes = min(count, PeekMax), min(bodyBytes, messagesBytesMax)
	bytes := uint64(0)
	for _, run := range runs {
		for at, end := run.First, run.First+run.Count; at < end && uint64(len(list)) < count && bytes < messagesBytesMax; {
			m, err := r.read(run.Queue, at, bodyBytes)
			if next, absent := missing(err); absent {
				at = max(next, at+1)
				continue
			}
			if errors.Is(err, segstore.ErrDeleted) {
				return list, nil
			}
			if err != nil && run.Queue.isSettled(at) {
				at++ // somebody has just consumed it
				continue
			}
			if err != nil {
				return nil, q.unreadable(at, err)
			}
			if m.Timestamp < since {
				at++
				continue
			}
			since = 0 // from here on time may run as it likes
			m.Redelivered = run.Redelivered
			m.Properties = run.Queue.WithCount(m.Properties, at, run.Redelivered)
			list = append(list, m)
			bytes += uint64(len(m.Body) + len(m.Properties))
			at++
		}
	}
	return list, nil
}

// isSettled says that a message is gone.
func (q *Queue) isSettled(offset uint64) bool {
	first, count := q.log.NextUnsettled(offset, 1)
	return count == 0 || first != offset
}

// ReadStream copies up to count messages of a stream from an offset on, given as
// for x-stream-offset: a number, first, last, next, or an interval such as 2h.
// Errors: 406 when that is not understood, or the queue is no stream.
func (q *Queue) ReadStream(ctx context.Context, offset string, count, bodyBytes uint64) ([]Message, error) {
	if q.stream == nil {
		return nil, amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' is not a stream", q.Name, q.VHost.Name)
	}
	if err := q.Unread(); err != nil {
		return nil, err
	}
	spec, ok := parseOffsetText(offset)
	if !ok {
		return nil, q.badConsume("offset", "invalid_offset_arg")
	}
	first, end, since := q.streamRange(spec)
	list, err := q.copyMessages(ctx, []Run{{Queue: q, First: first, Count: end - first}}, count, bodyBytes, since)
	if err != nil || len(list) == 0 {
		return list, err
	}
	for i := range list {
		list[i].Remaining = end - list[i].Offset - 1
	}
	return list, nil
}

// streamRange is where a reader begins, with the first message since a time if that
// is how it was asked for, and the end of what may be given out.
func (q *Queue) streamRange(spec offsetSpec) (first, end uint64, since int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return 0, 0, 0
	}
	end = q.stream.visible(q)
	first, since = spec.resolve(q.log, q.end, q.VHost.broker.keeper.now())
	return min(max(first, q.log.Low()), end), end, since
}
