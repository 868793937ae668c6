package broker

import "github.com/basaltmq/basaltmq/segstore"

// sideLogs are the logs that some queues have besides that of their messages, as
// far as the definitions name them, and what else few queues have there. Guarded
// by VHost.mu, and so is the pointer to it.
type sideLogs struct {
	hadExpirations bool          // messages had expirations of their own
	countsID       uint64        // the log of delivery counts, 0: none
	countsLog      *segstore.Log // see counts.go
	dedupID        uint64        // the log of values seen, 0: none
	dedupLog       *segstore.Log // see dedup.go
}

// sides returns a copy for reading.
func (q *Queue) sides() sideLogs {
	if q.side == nil {
		return sideLogs{}
	}
	return *q.side
}

// needSides returns what is to be changed.
func (q *Queue) needSides() *sideLogs {
	if q.side == nil {
		q.side = new(sideLogs)
	}
	return q.side
}
