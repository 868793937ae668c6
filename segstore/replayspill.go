package segstore

import (
	"github.com/basaltmq/basaltmq/segstore/arena"
)

// What the journal alone has is kept in memory after Open as before the stop,
// within the same bound, and beyond it written to segments. But a start would take
// long if it made a segment for each of ten thousand quiet queues. So a log begins
// with a piece of a buffer that it shares with others, which is enough for a few
// small messages; logs that hold more are written first; and the others only when
// what they hold is several times the bound. The flusher does the rest, slowly.

// pieceBytes is the size of such a piece.
const pieceBytes = 512

// quietHeldFactor times HeldBytes is what logs with little may hold while
// replaying.
const quietHeldFactor = 4

// newChunk returns a chunk for a batch of size bytes of the log.
func (rp *replay) newChunk(l *Log, size int) *chunk {
	s := rp.store
	if size > pieceBytes || len(l.chunks) > 0 {
		return s.newChunk(max(size, chunkClassBytes[l.class]))
	}
	if rp.slab == nil || rp.used+pieceBytes > rp.slab.Len() {
		rp.releaseSlab()
		rp.slab, rp.used = s.arena.Get(arena.BufBytesMax), 0
	}
	piece := rp.slab.Bytes()[rp.used : rp.used+pieceBytes : rp.used+pieceBytes]
	rp.used += pieceBytes
	rp.slab.Retain()
	return s.chunkOf(rp.slab, piece)
}

func (rp *replay) releaseSlab() {
	if rp.slab != nil {
		rp.slab.Release()
		rp.slab = nil
	}
}

// noteHoles adds the holes that the segment gets when the chunks go there.
func (r *replayed) noteHoles() {
	l, at := r.log, uint64(0)
	if n := len(l.segments); n > 0 {
		at = l.segments[n-1].next
	}
	for i := l.firstUnflushed(); i < len(l.chunks); i++ {
		if c := l.chunks[i]; c.base > at {
			r.holes.add(at, c.base)
		}
		at = max(at, l.chunks[i].next)
	}
}

// spill writes what was restored so far to the segments. If the disk is full all
// the same (a quota that Free does not know of), it fences logs rather than wait:
// consumers can read those, and make space.
func (rp *replay) spill() {
	s := rp.store
	if free, err := s.disk.Free(); err == nil && free < 2*s.heldBytes.Load() {
		rp.bound = 2 * s.heldBytes.Load() // better too much memory than no broker
		return
	}
	rp.spillAbove(int64(chunkClassBytes[0]))
	if s.heldBytes.Load() > quietHeldFactor*s.o.HeldBytes {
		rp.spillAbove(0)
	}
	held := s.heldBytes.Load()
	rp.bound = max(s.o.HeldBytes, held+held/4)
}

// spillAbove writes the logs that hold more than so many bytes.
func (rp *replay) spillAbove(least int64) {
	s := rp.store
	var logs []*Log
	for _, r := range rp.logs {
		if l := r.log; l.heldBytes.Load() > least {
			l.mu.Lock()
			r.noteHoles()
			l.journaled.segmentTo = l.handled()
			l.mu.Unlock()
			logs = append(logs, l)
		}
	}
	s.flusher.hurried = true
	defer func() { s.flusher.hurried = false }()
	for len(logs) > 0 {
		n := min(len(logs), s.tune.waveLogs)
		s.wave(logs[:n], pass{}, nil)
		s.finish(logs[:n])
		logs = logs[n:]
	}
}
