package segstore

import (
	"slices"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// job is what one wave does for one log: decided under the log's mutex by
// plan, carried out without it, concluded under it.
type job struct {
	log     *Log
	extents []extent
	bytes   int64      // of all extents
	handled uint64     // with the extents written, all below is written or settled
	acks    []byte     // for the settled file, at acksPos
	acksPos int64      //
	rewrite bool       // acks is a whole new file
	sync    bool       // sync the unsynced segments
	ackSync bool       // and the settled file
	footers bool       // and the footers
	dead    []*segment // wholly settled: remove
	sealing []*segment // get their footer in this wave
	remove  bool       // the log was deleted
	err     error
	handles []*handle
}

// extent is a run of batches in one chunk that goes to one place of a segment.
type extent struct {
	segment *segment
	pos     int64
	buf     *arena.Buf // retained
	data    []byte
}

// reset empties the job for another log, keeping its slices.
func (j *job) reset(l *Log) {
	clear(j.extents)
	clear(j.dead)
	clear(j.sealing)
	clear(j.handles)
	*j = job{log: l, extents: j.extents[:0], acks: j.acks[:0], dead: j.dead[:0], sealing: j.sealing[:0], handles: j.handles[:0]}
}

// pass says what kind of visit a cycle is.
type pass struct {
	tick  bool // a flush interval has passed since the previous tick
	sync  bool // a sync interval has passed
	short bool // memory is getting short: transient logs are written too
	final bool // Close: everything goes out
}

// plan decides what to write, sync and remove for the log. busy is false when
// there is nothing to do on the disk; moved tells that Durable moved or that
// somebody waits in vain. Called with the log's mutex held.
func (l *Log) plan(j *job, p pass) (busy, moved bool) {
	j.reset(l)
	switch {
	case l.deleted:
		j.remove, l.gone = !l.gone, true
		return j.remove, false
	case l.err != nil && l.err != ErrClosed: // while closing, what was appended goes out
		return false, true
	}
	before := l.aged
	if p.tick {
		l.aged = l.next.Load()
		if before == l.aged {
			l.releaseQuietTail()
		}
	}
	l.choose(j, l.eligible(p, before))
	l.inFlight = j.bytes
	j.handled = l.handled()
	if n := len(l.segments); p.final && n > 0 && l.segments[n-1].end >= l.store.tune.sealBytes {
		l.segments[n-1].full = true // the next start reads its trailer instead of all of it
	}
	l.planReap(j, p)
	l.planSettled(j, p)
	l.planSync(j, p)
	busy = len(j.extents) > 0 || len(j.acks) > 0 || j.sync || j.ackSync || len(j.dead) > 0 || l.sealable()
	if !busy {
		l.evict()
		moved = l.promote(j)
		l.relist()
	}
	return busy, moved
}

// releaseQuietTail gives up the open chunk when all of it is settled; called
// when nothing was appended between two ticks.
func (l *Log) releaseQuietTail() {
	if l.tailOpen && l.tailSettled() {
		l.closeTail()
		l.class = 0
	}
}

func (l *Log) tailSettled() bool {
	c := l.chunks[len(l.chunks)-1]
	return l.isSettled(c.base, c.next)
}

// eligible is the offset below which unsettled batches are to be written now.
func (l *Log) eligible(p pass, agedBefore uint64) uint64 {
	bound := uint64(0)
	if l.unwritten > l.store.tune.fullBytes && l.fullUnwritten() > l.store.tune.fullBytes {
		bound = l.next.Load()
		if l.tailOpen {
			bound = l.chunks[len(l.chunks)-1].base
		}
	}
	switch {
	case l.transient && (!p.tick || !p.short):
		return bound
	case p.final:
		return l.next.Load()
	case p.tick:
		bound = max(bound, agedBefore)
	}
	if l.want > l.durable.Load() && !l.transient {
		bound = max(bound, l.want)
	}
	return bound
}

// choose assigns a place on disk to every unsettled batch below bound that has
// none, and passes over the settled ones for good (invariant 7).
func (l *Log) choose(j *job, bound uint64) {
	i := len(l.chunks)
	for i > 0 && l.chunks[i-1].flushed < l.chunks[i-1].used {
		i--
	}
	skipped := int64(0)
	for ; i < len(l.chunks) && l.chunks[i].flushedNext < bound; i++ {
		c := l.chunks[i]
		var run *extent // the extent that the next batch continues
		for c.flushed < c.used && c.flushedNext < bound {
			batch := c.data[c.flushed:]
			length := batchLength(batch)
			batch = batch[:length]
			end := c.flushedNext + batchCount(batch)
			if l.isSettled(c.flushedNext, end) {
				skipped += int64(length)
				run = nil
			} else {
				seg := l.openSegment(c.flushedNext, int64(length))
				if run == nil || run.segment != seg {
					c.buf.Retain()
					j.extents = append(j.extents, extent{segment: seg, pos: seg.end, buf: c.buf, data: c.data[c.flushed:c.flushed]})
					run = &j.extents[len(j.extents)-1]
				}
				run.data = run.data[:len(run.data)+length]
				seg.note(batch, l.store.tune.indexBytes)
				seg.unsynced = true
				j.bytes += int64(length)
			}
			c.flushed += length
			c.flushedNext = end
		}
	}
	if skipped > 0 {
		l.store.skippedBytes.Add(uint64(skipped))
		l.writtenOff(skipped)
	}
}

// openSegment returns the segment that takes a batch of length bytes at offset.
func (l *Log) openSegment(offset uint64, length int64) *segment {
	if n := len(l.segments); n > 0 {
		s := l.segments[n-1]
		if !s.full && (s.end+length <= l.store.o.SegmentBytes || s.end == segmentHeaderBytes) {
			return s
		}
		s.full = true
	}
	s := &segment{base: offset, next: offset, size: segmentHeaderBytes, end: segmentHeaderBytes}
	l.segments = append(l.segments, s)
	return s
}

// planReap takes the wholly settled segments out of the log. The last one
// stays until a whole sync interval has passed without an append: it carries
// the log's next offset, and a queue that is emptied and filled all the time
// would create a file for every message.
func (l *Log) planReap(j *job, p pass) {
	if n := len(l.segments); n > 0 && p.sync && l.unsettled() == 0 && len(j.extents) == 0 {
		if l.quiet == l.next.Load() {
			l.kill(j, n-1)
		}
		l.quiet = l.next.Load()
	}
	if !l.reap {
		return
	}
	l.reap = false
	for i := len(l.segments) - 2; i >= 0; i-- {
		if s := l.segments[i]; s.base == s.next || l.isSettled(s.base, s.next) {
			l.kill(j, i)
		}
	}
}

func (l *Log) kill(j *job, i int) {
	l.segments[i].removed = true
	j.dead = append(j.dead, l.segments[i])
	l.segments = slices.Delete(l.segments, i, i+1)
	if len(l.segments) == 0 {
		j.ackSync = !l.transient // it is all that remembers Next (invariant 10)
		l.changed = true
	}
}

// planSettled decides what the settled file gets.
func (l *Log) planSettled(j *job, p pass) {
	if l.acks == nil && len(l.segments) > 0 && !l.transient {
		l.acks = new(settledFile)
	}
	// Without segments there is nothing to protect but Next, see kill.
	if l.acks == nil || len(l.segments) == 0 && !j.ackSync && !p.final {
		l.pending.advance(l.low.Load())
		l.cutPending(j.handled)
		return
	}
	if !l.changed || !p.tick && !p.final && !j.ackSync {
		return
	}
	a := l.acks
	j.acks = l.takeSettled(j.acks, j.handled)
	if len(j.acks) == 0 {
		return
	}
	createdMs := l.store.tune.now().UnixMilli()
	switch {
	case !a.exists:
		j.acks = append(encodeSettledHeader(l.id, createdMs), j.acks...)
		a.size, a.limit = 0, l.store.tune.settledBytes
	case a.size+int64(len(j.acks)) > a.limit, l.settled.empty() && a.size > l.store.tune.settledBytes:
		j.acks = l.encodeSettled(createdMs, j.handled)
		j.rewrite = true
		a.size, a.limit = 0, max(l.store.tune.settledBytes, 2*int64(len(j.acks)))
		a.entrySynced = false
	}
	j.acksPos = a.size
	a.size += int64(len(j.acks))
	a.unsynced = true
}

// planSync decides whether files have to be synced.
func (l *Log) planSync(j *job, p pass) {
	if l.transient {
		j.ackSync = false
		return
	}
	wanted := l.want > l.durable.Load() && !l.store.o.DurabilityOS
	j.footers = p.sync || p.final
	j.sync = (wanted || j.footers) && l.unsynced() || j.footers && l.footersDirty()
	if a := l.acks; a != nil && a.unsynced && (p.sync || p.final) {
		j.ackSync = true
	}
	if l.acks == nil || !l.acks.unsynced {
		j.ackSync = false
	}
}

// unsynced reports whether a segment has something that is not on stable
// storage.
func (l *Log) unsynced() bool {
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		if s.sealed {
			return false // it was synced before it was sealed, and those before it too
		}
		if s.unsynced || !s.entrySynced {
			return true
		}
	}
	return false
}

// sealable reports whether a segment waits for nothing but its footer.
func (l *Log) sealable() bool {
	for i := len(l.segments) - 1; i >= 0 && !l.segments[i].sealed; i-- {
		if s := l.segments[i]; s.full && s.created && (!s.unsynced || l.transient) {
			return true
		}
	}
	return false
}

// footersDirty reports whether a sealed segment's footer needs a sync.
func (l *Log) footersDirty() bool {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if s := l.segments[i]; s.sealed {
			return s.footerDirty
		}
	}
	return false
}

// promote raises Durable to what is known to be durable now.
func (l *Log) promote(j *job) (moved bool) {
	if l.transient {
		return false
	}
	durable := l.low.Load()
	if l.store.o.DurabilityOS || !l.unsynced() {
		durable = max(durable, j.handled)
	}
	if durable <= l.durable.Load() {
		return false
	}
	l.durable.Store(durable)
	return true
}

// relist puts the log on the lists of what it still needs.
func (l *Log) relist() {
	left := len(l.chunks) > 0 && l.chunks[len(l.chunks)-1].flushed < l.chunks[len(l.chunks)-1].used
	settledTail := l.tailOpen && l.tailSettled()
	switch {
	case left && l.transient && !settledTail:
		l.list(listParked)
	case left || settledTail:
		l.list(listDirty)
	}
	slow := len(l.segments) > 0 && (l.unsettled() == 0 || !l.transient && (l.unsynced() || l.footersDirty()))
	for i := len(l.segments) - 1; i >= 0 && !slow && !l.segments[i].sealed; i-- {
		slow = l.segments[i].full
	}
	if slow || !l.transient && l.acks != nil && l.acks.unsynced {
		l.list(listSlow)
	}
}

// conclude takes note of what the wave did. Called with the log's mutex held.
func (l *Log) conclude(j *job) (moved bool) {
	l.inFlight = 0
	l.writtenOff(j.bytes)
	if l.deleted {
		return true
	}
	if j.err != nil {
		l.fence(j.err)
		l.err = j.err
		return true
	}
	for _, e := range j.extents {
		e.segment.size = e.segment.end
	}
	l.evict()
	moved = l.promote(j)
	l.relist()
	return moved
}

// evict releases written chunks, but for the first few where the consumers
// read. Behind a gap of evicted ones the consumers are not: they read from
// disk, and keeping more would only cost memory. Nothing of the log is being
// written when it is called, so what is flushed is on disk (invariant 6).
func (l *Log) evict() {
	s := l.store
	front, kept, expected := true, int64(0), l.low.Load()
	for i := 0; i < len(l.chunks); {
		c := l.chunks[i]
		front = front && (c.base <= expected || l.isSettled(expected, c.base))
		expected = c.next
		if c.flushed < c.used {
			i++
			continue
		}
		size := int64(len(c.data))
		kept += size
		if front && kept <= s.tune.frontBytes && (c.kept || s.keptBytes.Load()+size <= s.tune.keptBytes) {
			if !c.kept {
				c.kept = true
				l.keptBytes += size
				s.keptBytes.Add(size)
			}
			i++
			continue
		}
		l.dropChunk(i)
	}
}
