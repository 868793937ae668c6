package segstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// load reads the block that holds f.offset. It blocks.
func (s *Store) load(f *fetch) (*block, error) {
	l, seg := f.log, f.segment
	h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if seg.replaced {
			return nil, errReplaced
		}
		if seg.removed || l.deleted { // nobody needs it any more
			return s.newBlock(&block{from: f.offset, to: seg.next, segment: seg}), nil
		}
		return nil, fmt.Errorf("segstore: %w", err)
	}
	defer s.files.release(h)
	l.mu.Lock()
	if seg.replaced { // perhaps the file is another one now
		l.mu.Unlock()
		return nil, errReplaced
	}
	sc := scanner{store: s, file: h.file, limit: seg.size, block: s.tune.blockBytes}
	next := seg.sizeNext
	l.mu.Unlock()
	if s.blockBytes.Load() > s.tune.keptBytes {
		sc.block = min(sc.block, blockBytesSmall)
	}
	defer sc.release()
	pos := f.pos
	if pos == 0 {
		var wanted uint64
		if pos, wanted, err = s.findPos(l, seg, h.file, f); err != nil {
			return nil, err
		}
		if wanted > f.offset {
			return s.newBlock(&block{from: f.offset, to: wanted, segment: seg}), nil
		}
	}
	expected, wanted := seg.base, seg.base
	if pos == f.pos {
		wanted = f.offset // what is before it has been read
	}
	for pos < sc.limit {
		if gap := s.beforeHole(l, seg, pos); gap > 0 {
			sc.block = int(min(int64(sc.block), max(gap, allocBytes))) // behind it are zeros
		}
		batch, err := sc.batch(pos)
		if err == nil && (batchBase(batch) < expected || endOf(batch) > next) {
			err = fmt.Errorf("%w: offset %d is out of order", errBatch, batchBase(batch))
		}
		switch {
		case err == nil && !isHole(batch) && endOf(batch) > f.offset:
			return sc.takeBlock(f, pos, next), nil
		case err == nil:
			pos += int64(batchLength(batch))
			expected, wanted = endOf(batch), endOf(batch)
			continue
		case !isBatchError(err):
			return nil, fmt.Errorf("segstore: %w", err)
		}
		why := err
		hole, inside, err := s.inHole(l, seg, h.file, pos)
		if err != nil {
			return nil, fmt.Errorf("segstore: %w", err)
		}
		if inside { // the index knows nothing of holes
			pos = hole.end
			continue
		}
		at, found, err := sc.resync(pos, expected, next)
		if err != nil {
			return nil, fmt.Errorf("segstore: %w", err)
		}
		lost := interval{wanted, next}
		if found {
			good, err := sc.batch(at)
			if err != nil {
				return nil, fmt.Errorf("segstore: %w", err)
			}
			lost.end = batchBase(good)
		}
		s.corrupt(l, seg, pos, lost, why)
		if !found {
			break
		}
		pos = at
	}
	return s.newBlock(&block{from: f.offset, to: max(next, f.offset+1), segment: seg}), nil
}

// newBlock completes a block with its one reference.
func (s *Store) newBlock(b *block) *block {
	b.store = s
	b.refs.Store(1)
	if b.buf != nil {
		s.blockBytes.Add(int64(b.buf.Len()))
		s.residentBytes.Add(int64(b.buf.Len()))
	}
	return b
}

// takeBlock makes a block of the good batches in the buffer from pos on, where
// there is one that ends after f.offset.
func (s *scanner) takeBlock(f *fetch, pos int64, next uint64) *block {
	w := s.buf.Bytes()[pos-s.start : s.n]
	first := batchBase(w)
	if first > f.offset {
		return s.store.newBlock(&block{from: f.offset, to: first, segment: f.segment})
	}
	n, expected := 0, first
	for n < len(w) {
		length, err := checkBatch(w[n:])
		if err != nil || batchBase(w[n:]) < expected || batchEnd(w[n:]) > next {
			break
		}
		expected = batchEnd(w[n:])
		n += length
	}
	b := &block{buf: s.buf, data: w[:n:n], from: first, to: expected, segment: f.segment, end: pos + int64(n)}
	s.buf = nil
	return s.store.newBlock(b)
}

// findPos looks the offset of f up in the index of the segment, loading that if
// needed. wanted is the first offset from there that the query of f may want.
func (s *Store) findPos(l *Log, seg *segment, file disk.File, f *fetch) (pos int64, wanted uint64, err error) {
	l.mu.Lock()
	if seg.index != nil || !seg.sealed {
		defer l.mu.Unlock()
		return lookup(seg.index, f.offset), f.wanted(seg, seg.sizeNext), nil
	}
	footer := segment{base: seg.base, next: seg.next, sizeNext: seg.sizeNext, indexPos: seg.indexPos,
		indexCount: seg.indexCount, holeCount: seg.holeCount, indexSum: seg.indexSum, filterBytes: seg.filterBytes}
	l.mu.Unlock()
	index, _, err := s.readIndex(&footer, file)
	if errors.Is(err, errIndex) {
		s.corrupt(l, seg, footer.indexPos, interval{}, err)
		return segmentHeaderBytes, f.offset, nil // slower, but all there
	}
	if err != nil {
		return 0, 0, fmt.Errorf("segstore: %w", err)
	}
	footer.index = index
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil && seg.index == nil {
		seg.index, seg.filters = index, footer.filters
		l.back.indexed = append(l.back.indexed, seg)
		if len(l.back.indexed) > s.tune.indexesPerLog {
			l.back.indexed[0].index, l.back.indexed[0].filters = nil, nil
			l.back.indexed = slices.Delete(l.back.indexed, 0, 1)
		}
	}
	return lookup(index, f.offset), f.wanted(&footer, footer.sizeNext), nil
}

// wanted is the first offset that the query of f, if it has one, may want by the
// index of seg.
func (f *fetch) wanted(seg *segment, end uint64) uint64 {
	if f.query == nil || len(seg.index) == 0 {
		return f.offset
	}
	return nextWanted(f.query, seg.index, seg.filters, seg.filterBytes, f.offset, end)
}

// readIndex reads and parses the index of a sealed segment.
func (s *Store) readIndex(seg *segment, file disk.File) ([]indexEntry, []interval, error) {
	size := int(indexBytes(seg.indexCount, seg.holeCount, seg.filterBytes))
	buf := s.arena.Get(size)
	defer buf.Release()
	op := disk.Op{Kind: disk.Read, File: file, Pos: seg.indexPos, Buf: buf.Bytes()[:size]}
	if err := disk.Run(s.disk, &op); err != nil {
		return nil, nil, err
	}
	return seg.decodeIndex(op.Buf[:op.N])
}

// corrupt reports bad bytes at pos, or the index there, once. They are no loss if all that they may
// have held is settled, as it is where a crash left an unfinished write.
func (s *Store) corrupt(l *Log, seg *segment, pos int64, lost interval, err error) {
	l.mu.Lock()
	known := slices.Contains(seg.bad, pos)
	if !known {
		seg.bad = append(seg.bad, pos)
	}
	settled := lost.first < lost.end && l.isSettled(lost.first, lost.end)
	l.mu.Unlock()
	switch {
	case known:
	case errors.Is(err, errIndex):
		s.corruptBatches.Add(1)
		s.o.Logger.Error("segstore: the index of a segment is damaged: reading it is slow, but no record is lost by it; check the disk",
			"file", l.path(segmentName(seg.base)), "pos", pos)
	case settled:
		s.o.Logger.Warn("segstore: unreadable bytes in a segment: all that they may have held is settled",
			"file", l.path(segmentName(seg.base)), "pos", pos, "error", err)
	default:
		s.corruptBatches.Add(1)
		s.o.Logger.Error("segstore: corrupt batch: its records are lost",
			"file", l.path(segmentName(seg.base)), "pos", pos, "error", err)
	}
}
