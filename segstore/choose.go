package segstore

// choose assigns a place in a segment to every unsettled batch below bound that
// has none, and passes over the settled ones for good (invariant 7).
func (l *Log) choose(j *job, bound uint64) {
	o := &l.journaled
	skipped := int64(0)
	for i := l.firstUnflushed(); i < len(l.chunks) && l.chunks[i].flushedNext < bound; i++ {
		c := l.chunks[i]
		if c.savedNext <= bound && l.chooseWhole(j, c) {
			continue
		}
		var run *extent // the extent that the next batch continues
		for c.flushed < c.saved && c.flushedNext < bound {
			batch := c.data[c.flushed:]
			length := batchLength(batch)
			batch = batch[:length]
			end := c.flushedNext + batchCount(batch)
			if l.isSettled(c.flushedNext, end) {
				if c.flushedNext >= o.bareFrom && c.flushedNext < o.bypassTo {
					skipped += int64(length)
				}
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
				seg.unsyncedBytes += int64(length)
				seg.bare = seg.bare || c.flushedNext >= o.bareFrom && c.flushedNext < o.bypassTo
			}
			c.flushed += length
			l.moved = true
			c.flushedNext = end
		}
		l.noteHeld(c)
	}
	l.store.skippedBytes.Add(uint64(skipped))
}

// chooseWhole assigns places to all that is saved of a chunk at once, as choose
// would batch by batch: if none of it is settled, it fits into the last segment,
// and nothing is to be noted of each batch. Most logs that are spilled are like
// that, and the headers of their batches have left the processor's caches.
func (l *Log) chooseWhole(j *job, c *chunk) bool {
	length := int64(c.saved - c.flushed)
	if length == 0 || l.special != nil || !l.settled.empty() || l.low.Load() > c.flushedNext {
		return false
	}
	end, full := int64(segmentHeaderBytes), false
	if n := len(l.segments); n > 0 {
		end, full = l.segments[n-1].end, l.segments[n-1].full
	}
	if full || end+length > l.segmentBytes() {
		return false
	}
	o := &l.journaled
	seg := l.openSegment(c.flushedNext, length)
	c.buf.Retain()
	j.extents = append(j.extents, extent{segment: seg, pos: seg.end, buf: c.buf, data: c.data[c.flushed:c.saved]})
	seg.noteRun(c, l.store.tune.indexBytes)
	seg.unsynced = true
	seg.unsyncedBytes += length
	seg.bare = seg.bare || c.savedNext > o.bareFrom && c.flushedNext < o.bypassTo
	c.flushed, c.flushedNext = c.saved, c.savedNext
	l.moved = true
	l.noteHeld(c)
	return true
}

// openSegment returns the segment that takes a batch of length bytes at offset.
func (l *Log) openSegment(offset uint64, length int64) *segment {
	if n := len(l.segments); n > 0 {
		s := l.segments[n-1]
		if !s.full && (s.end+length <= l.segmentBytes() || s.end == segmentHeaderBytes) && !l.rolled(s, offset) {
			return s
		}
		s.full = true
	}
	s := &segment{base: offset, next: offset, sizeNext: offset, size: segmentHeaderBytes, end: segmentHeaderBytes, mapped: true}
	l.segments = append(l.segments, s)
	return s
}
