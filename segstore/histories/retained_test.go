package histories

import (
	"math/rand/v2"
)

// retainedSkip is how many offsets a retained log passes over after a kill: more
// than were lost is not wanted here, only that they are left out.
const retainedSkip = 300

// doRetained does for a retained log what its owner, a stream, does: segments
// begin where it says, and the oldest go as a whole. It says whether the operation
// was one of those that are not for such logs.
func (w *world) doRetained(o op, l *liveLog, rng *rand.Rand) bool {
	switch o.kind {
	case opScatter:
		l.log.Roll()
	case opStuck, opSettleInOrder, opSettleAny, opSettleRandom, opPurge:
		w.retire(l, rng)
	default:
		return false
	}
	return true
}

// retire settles some of the oldest segments, never the last one.
func (w *world) retire(l *liveLog, rng *rand.Rand) {
	segments := l.log.Segments(nil)
	low := l.model.Low()
	last := uint64(0)
	for i, s := range segments {
		if s.Base > s.Next || s.Next <= low || s.Base < last || s.Next > l.model.Next() || s.Bytes <= 0 {
			fail("log %d: segment %d of %+v, low %d, next %d", l.model.ID, i, segments, low, l.model.Next())
		}
		last = s.Next
	}
	if len(segments) < 2 {
		return
	}
	end := segments[rng.IntN(len(segments)-1)].Next
	w.settle(l, low, end-low)
	for _, s := range l.log.Segments(nil) {
		if s.Base < end {
			fail("log %d: segment %+v is listed, all below %d is settled", l.model.ID, s, end)
		}
	}
}
