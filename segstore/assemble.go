package segstore

import (
	"errors"
	"fmt"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// assemble sets the log's offsets from what was found on disk, and in the
// journal, whose batches are in the chunks already.
func (s *Store) assemble(l *Log, rec *recovery) {
	ranges, low := &rec.settled.ranges, rec.settled.low
	next := max(rec.next, rec.settled.end, rec.settled.low)
	if n := len(l.chunks); n > 0 {
		next = max(next, l.chunks[n-1].next)
	}
	rec.holes.each(func(iv interval) bool {
		l.settleGap(ranges, iv)
		return true
	})
	at := uint64(0)
	for _, seg := range l.segments {
		l.settleGap(ranges, interval{at, seg.base})
		at, next = seg.next, max(next, seg.next)
	}
	l.settleGap(ranges, interval{at, next})
	named := max(rec.settled.end, at)
	if n := len(l.chunks); n > 0 {
		named = max(named, l.chunks[n-1].next)
	}
	low = ranges.advance(min(low, next))
	l.settled = *ranges
	l.low.Store(low)
	l.next.Store(next)
	l.durable.Store(next)
	l.aged = next
	l.cursor = min(rec.settled.cursor, next)
	l.logged.low, l.logged.cursor = low, l.cursor
	l.stale = rec.stale
	if named < next { // only a file that was set aside does
		l.changed, l.stale, l.logged.low = true, true, 0
		l.pending.add(named, next)
		if l.acks == nil {
			l.acks = new(settledFile)
		}
	}
	for i, seg := range l.segments {
		if i+1 < len(l.segments) {
			seg.full = true
		}
		if seg.sealed {
			seg.gained, l.punch.wanted = rec.settled.gained[seg.base], true
		}
		l.noteSizes(uint64(seg.size-segmentHeaderBytes), seg.records)
		l.reap = l.reap || l.isSettled(seg.base, max(seg.next, seg.base+1))
	}
	if l.acks == nil && len(l.segments) > 0 {
		l.acks = new(settledFile)
	}
	s.reportBad(l, rec)
	if l.reap {
		l.list(listDirty)
	}
	l.relist()
}

// settleGap adds the offsets of a gap between batches on disk to set, but for
// those that chunks hold.
func (l *Log) settleGap(set *intervalSet, gap interval) {
	for _, c := range l.chunks {
		if c.next <= gap.first {
			continue
		}
		if c.base >= gap.end {
			break
		}
		if c.base > gap.first {
			set.add(gap.first, c.base)
		}
		gap.first = c.next
	}
	if gap.first < gap.end {
		set.add(gap.first, gap.end)
	}
}

// reportBad tells of the bytes that cost records. Where the journal has had
// all that they may have held, they are what a power cut leaves of writes that
// nobody had synced yet. So they are where bytes are missing after a crash: one
// sync covers all writes before it, so nothing of a write that did not arrive was
// promised. (A disk that forgets synced sectors looks the same.)
func (s *Store) reportBad(l *Log, rec *recovery) {
	for _, b := range rec.bad {
		name := l.path(segmentName(b.segment.base))
		at := b.lost.first
		for _, c := range l.chunks {
			if c.base <= at && at < c.next {
				at = c.next
			}
		}
		if b.cut != nil {
			s.reportCut(name, b, at >= b.lost.end)
			continue
		}
		b.segment.bad = append(b.segment.bad, b.pos) // known: readers need not report it
		if at >= b.lost.end {
			s.o.Logger.Warn("segstore: an unfinished write in a segment: the journal has its records",
				"file", name, "pos", b.pos, "bytes", b.size, "error", b.why)
			continue
		}
		if b.unwritten {
			s.o.Logger.Warn("segstore: an unfinished write in a segment, which a later one overtook before a crash: it was on no stable storage, so nothing that was promised is lost",
				"file", name, "pos", b.pos, "bytes", b.size, "offsets", b.lost.end-b.lost.first, "error", b.why)
			continue
		}
		s.corruptBatches.Add(1)
		s.o.Logger.Error("segstore: corrupt batch: its records are lost",
			"file", name, "pos", b.pos, "bytes", b.size, "error", b.why)
	}
}

// findHoles adds the offsets between the batches of a sealed segment to set:
// from the index, or if that doesn't tell from the data.
func (s *Store) findHoles(l *Log, seg *segment, set *intervalSet) error {
	h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	defer s.files.release(h)
	if seg.holeCount != holesUnlisted {
		_, holes, err := s.readIndex(seg, h.file)
		if err != nil && !errors.Is(err, errIndex) {
			return fmt.Errorf("segstore: %w", err)
		}
		for _, hole := range holes {
			set.add(hole.first, hole.end)
		}
		if err == nil {
			return nil
		}
	}
	sc := scanner{store: s, file: h.file, limit: seg.size, block: s.tune.blockBytes}
	defer sc.release()
	next := seg.base
	for pos := int64(segmentHeaderBytes); pos < seg.size; {
		batch, err := sc.batch(pos)
		if isBatchError(err) {
			return nil // found and reported when somebody reads there
		}
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		if base := batchBase(batch); base > next {
			set.add(next, base)
		}
		if isHole(batch) {
			set.add(batchBase(batch), endOf(batch))
		}
		next = endOf(batch)
		pos += int64(batchLength(batch))
	}
	return nil
}
