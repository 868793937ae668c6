package broker

import (
	"math"
	"time"
)

// How long messages wait. A queue times one message at a time: the first of a
// batch, from when it is appended until a consumer takes it. That costs two looks
// at the clock for each run of deliveries at most, and nothing per message.

// timed is the message whose time is taken. Guarded by crowd.mu.
type timed struct {
	in     *Queue // the level that it is in; nil: none is
	offset uint64
	since  time.Duration // after epoch
}

// epoch is what times are counted from: what is between two of them is all that
// matters.
var epoch = time.Now()

// time begins to time the message at offset, unless another is being timed.
func (q *Queue) time(offset uint64) {
	if t := &q.counted().timed; t.in == nil {
		*t = timed{q, offset, time.Since(epoch)}
	}
}

// clock tells a run that was just taken from q how long the timed message waited.
func (q *Queue) clock(run *Run) {
	if q.counts == nil || q.counts.timed.in != q {
		return
	}
	t := &q.counts.timed
	if t.offset-run.First < run.Count && !run.Redelivered {
		waited := (time.Since(epoch) - t.since) / time.Microsecond
		run.Waited = uint32(min(max(waited, 1), math.MaxUint32))
	}
	if t.offset < q.cursor {
		*t = timed{} // taken, or gone in another way
	}
}
