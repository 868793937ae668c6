package broker

import (
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// This file is what a start and the definitions know of queues with an upkeep.

// noteExpirations records, once, that messages of q have expirations of their own.
func (vh *VHost) noteExpirations(q *Queue) {
	vh.mu.Lock()
	defer vh.mu.Unlock()
	if side := q.needSides(); !side.hadExpirations {
		side.hadExpirations = true
		if vh.queues[q.Name] == q {
			vh.broker.record(queueRecord(recQueueDeclare, vh, q))
		}
	}
}

// sizeOf is the size of a record's body, wherever it is.
func sizeOf(properties, body []byte) uint64 {
	if IsExternal(properties) {
		if ref, ok := bodies.DecodeRef(body); ok {
			return ref.Size
		}
	}
	return uint64(len(body))
}

// drop notes that the logs of a queue belong to nobody, while records are read.
func (b *Broker) drop(q *Queue) {
	side := q.sides()
	scheduleID, _ := q.schedules()
	for _, id := range []uint64{q.ID, side.countsID, side.dedupID, scheduleID} {
		if id != 0 {
			b.dropped[id] = true
		}
	}
	if q.levels != nil {
		for n := range levelIDs(q.Arguments) {
			b.dropped[q.ID+1+n] = true
		}
	}
}

// dropLogs is the same for an exchange.
func (b *Broker) dropLogs(e *Exchange) {
	if e.history != nil {
		b.drop(e.history)
	}
	if e.delayed != nil {
		b.drop(e.delayed)
	}
	if e.dedup != nil {
		b.dropped[e.dedup.id] = true
	}
}
