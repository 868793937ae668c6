package segstore

import (
	"slices"
	"sort"
)

// seekBack finds or fetches the block with offset for r. above is the first
// resident offset after it. The block comes with a reference. Called with the
// log's mutex held.
func (l *Log) seekBack(r *Reader, offset, above uint64, wake func()) (*block, error) {
	if l.deleted {
		return nil, ErrDeleted
	}
	if err := r.failed; err != nil {
		r.failed = nil
		return nil, err
	}
	if l.back == nil {
		l.back = new(backReads)
	}
	if !r.behind {
		r.behind = true
		l.back.readers++
	}
	if b := r.ready; b != nil {
		r.ready = nil
		if b.from <= offset && offset < b.to {
			l.readAhead(r, b)
			return b, nil
		}
		b.release()
	}
	for i, b := range l.back.blocks {
		if b.from <= offset && offset < b.to {
			copy(l.back.blocks[1:i+1], l.back.blocks[:i])
			l.back.blocks[0] = b
			b.retain()
			l.readAhead(r, b)
			return b, nil
		}
	}
	if l.journaled.swapping {
		l.park(r, offset, wake)
		return nil, ErrNotResident
	}
	seg := l.segmentAt(offset)
	if seg == nil {
		return nil, ErrMissing{Next: l.existing(offset, above)}
	}
	f := l.startFetch(seg, offset, 0, r.query)
	if f == nil {
		return nil, ErrClosed
	}
	f.waiters = append(f.waiters, waiter{r, wake})
	r.pending = f
	return nil, ErrNotResident
}

// segmentAt returns the segment whose range holds offset, or nil. What is still
// being written to it does not count: that is resident.
func (l *Log) segmentAt(offset uint64) *segment {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].sizeNext > offset })
	if i == len(l.segments) || l.segments[i].base > offset {
		return nil
	}
	return l.segments[i]
}

// existing is the first offset from offset on that may have a record: in a
// segment, or above, the first resident one.
func (l *Log) existing(offset, above uint64) uint64 {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].sizeNext > offset })
	if i == len(l.segments) {
		return above
	}
	return min(above, max(l.segments[i].base, offset))
}

// startFetch joins the fetch for offset or starts one; nil if the store closed.
// Consumers that take turns want neighbours: one that is likely to be in the block
// that is being read waits for that.
func (l *Log) startFetch(seg *segment, offset uint64, pos int64, query *Query) *fetch {
	near := l.store.recordsIn(seg, int64(l.store.tune.blockBytes)/2)
	for _, f := range l.back.fetches {
		if f.query != query || f.segment != seg {
			continue
		}
		if offset >= f.offset && offset-f.offset <= near || offset < f.offset && f.pos == 0 && f.offset-offset <= near/8 {
			return f
		}
	}
	f := &fetch{log: l, segment: seg, offset: offset, pos: pos, query: query}
	if !l.store.submitFetch(f) {
		return nil
	}
	l.back.fetches = append(l.back.fetches, f)
	return f
}

// recordsIn estimates how many offsets so many bytes of a segment hold.
func (s *Store) recordsIn(seg *segment, bytes int64) uint64 {
	if s.blockBytes.Load() > s.tune.keptBytes {
		bytes = min(bytes, blockBytesSmall/2)
	}
	return uint64(float64(bytes) * float64(seg.sizeNext-seg.base) / float64(max(seg.size-segmentHeaderBytes, 1)))
}

// readAhead fetches the block after b, which r enters, unless it may not want it.
func (l *Log) readAhead(r *Reader, b *block) {
	if b.buf == nil || r.query != nil || b.segment.replaced || l.store.blockBytes.Load() > l.store.tune.keptBytes {
		return
	}
	seg, offset, pos := b.segment, b.to, b.end
	if pos >= seg.size {
		i := slices.Index(l.segments, seg)
		if i < 0 || i+1 >= len(l.segments) {
			return
		}
		seg = l.segments[i+1]
		offset, pos = seg.base, segmentHeaderBytes
	}
	if pos >= seg.size || offset >= seg.sizeNext || l.isSettled(offset, offset+1) {
		return
	}
	if c, _ := l.chunkAt(offset); c != nil {
		return
	}
	for _, have := range l.back.blocks {
		if have.from <= offset && offset < have.to {
			return
		}
	}
	l.startFetch(seg, offset, pos, nil)
}

// cancel takes r off the fetch it waits for.
func (r *Reader) cancel() {
	if f := r.pending; f != nil {
		f.waiters = slices.DeleteFunc(f.waiters, func(w waiter) bool { return w.reader == r })
		r.pending = nil
	}
}

// leaveBack says that r reads from memory now, or not at all. The last one to
// leave takes the cache with it.
func (r *Reader) leaveBack() {
	r.failed = nil
	if r.ready != nil {
		r.ready.release()
		r.ready = nil
	}
	if !r.behind {
		return
	}
	r.behind = false
	back := r.log.back
	if back == nil {
		return // the log was deleted
	}
	if back.readers--; back.readers == 0 {
		back.drop()
		if len(back.fetches) == 0 {
			r.log.back = nil
		}
	}
}

// drop releases blocks and indexes.
func (back *backReads) drop() {
	for _, b := range back.blocks {
		b.release()
	}
	for _, seg := range back.indexed {
		seg.index, seg.filters = nil, nil
	}
	back.blocks, back.indexed = nil, nil
}

// dropBelow releases the blocks that nobody needs below the watermark.
func (back *backReads) dropBelow(low uint64) {
	back.blocks = slices.DeleteFunc(back.blocks, func(b *block) bool {
		if b.to > low {
			return false
		}
		b.release()
		return true
	})
}

// dropBlocks gives up all reads behind the tail; the callbacks returned are to
// be called without the log's mutex.
func (l *Log) dropBlocks(err error) (wakes []func()) {
	if l.back == nil {
		return nil
	}
	l.back.drop()
	for _, f := range l.back.fetches {
		wakes = append(wakes, f.finish(nil, err)...)
	}
	l.back = nil
	return wakes
}
