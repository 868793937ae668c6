package broker

import (
	"context"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Facts are what operators ask about one queue beside its counts. All of it is at
// hand: nothing is read from the disk.
type Facts struct {
	State string
	// Bytes that ready and unacknowledged messages have, by their average size.
	ReadyBytes, UnackedBytes uint64
	// ResidentBytes are those of buffers that hold messages in memory; Resident
	// estimates how many of the messages those are.
	ResidentBytes, Resident uint64
	// MemoryBytes estimates what the queue takes of memory in all.
	MemoryBytes uint64
	// UsedAt is when somebody last published or took something, Unix ms; 0: not
	// since the broker was started.
	UsedAt int64
	// SingleActiveTag and ExclusiveTag are of consumers; empty: there is none such.
	SingleActiveTag, ExclusiveTag string
	// NextOffset is what the next message gets in the queue's log; messages below
	// LowOffset are gone.
	LowOffset, NextOffset uint64
	Levels                int // of priorities in use
}

// Estimates of what a queue, a consumer and a returned range take on the heap.
const (
	queueBytes    = 1100
	consumerBytes = 400
	spanBytes     = 16
)

// Facts returns the present ones.
func (q *Queue) Facts() Facts {
	f := Facts{State: q.State(), LowOffset: q.log.Low(), NextOffset: q.log.Next()}
	q.mu.Lock()
	defer q.mu.Unlock()
	f.MemoryBytes = uint64(len(q.consumers)) * consumerBytes
	q.each(func(l *Queue) {
		resident := l.log.ResidentBytes()
		f.Levels++
		f.ResidentBytes += resident
		f.MemoryBytes += queueBytes + spanBytes*uint64(cap(l.returned.spans)) + resident
		if l.pace != nil {
			f.UsedAt = max(f.UsedAt, l.pace.used)
		}
		ready, unacked := l.ready(), l.unacked
		if ready+unacked == 0 {
			return
		}
		each := l.recordBytes(ready + unacked)
		f.ReadyBytes += ready * each
		f.UnackedBytes += unacked * each
		f.Resident += min(resident/max(each, 1), ready+unacked)
	})
	switch {
	case q.stream != nil && q.stream.single && q.stream.active != nil:
		f.SingleActiveTag = q.stream.active.Tag
	case q.single && q.active != nil:
		f.SingleActiveTag = q.active.Tag
	}
	if len(q.consumers) == 1 && q.consumers[0].Exclusive {
		f.ExclusiveTag = q.consumers[0].Tag
	}
	return f
}

// recordBytes is the average size of n messages that are there. What is known of
// bodies in files is the average of recent messages.
func (q *Queue) recordBytes(n uint64) uint64 {
	if q.external != nil && q.pace != nil {
		return q.pace.recordBytes
	}
	return q.log.Bytes() / max(q.log.Unsettled(), n, 1)
}

// HeadTimestamp is the timestamp property of the message that would be taken next,
// in seconds; ok is false without a message or a property. It may read from the
// disk. Errors: the message cannot be read; the context's.
func (q *Queue) HeadTimestamp(ctx context.Context) (seconds uint64, ok bool, err error) {
	list, err := q.Peek(ctx, 0, 1, 0)
	if err != nil || len(list) == 0 {
		return 0, false, err
	}
	p, err := amqp.DecodeProperties(list[0].Properties)
	return p.Timestamp, err == nil && p.Flags&amqp.FlagTimestamp != 0, nil
}
