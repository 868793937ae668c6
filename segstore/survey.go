package segstore

import (
	"errors"
	"sort"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// holeMark is a hole that is to be made, and what its mark says.
type holeMark struct {
	hole
	base, next uint64
	timestamp  int64
}

// surveyor walks a sealed segment to find the runs of batches that are settled
// as a whole.
type surveyor struct {
	scanner
	segment segment // the fields of a sealed one
	settled []interval
	old     []hole
	index   []indexEntry
	entry   int      // of index: the first at or after the position
	run     holeMark // the run that ends at the position; none if end is 0
	found   []holeMark
	least   int64 // bytes that a hole must free
}

// survey returns the holes worth making for p, which are none of those there are
// and durable already.
func (s *Store) survey(p *punch, file disk.File) ([]holeMark, error) {
	l, seg := p.log, p.segment
	l.mu.Lock()
	v := surveyor{
		scanner: scanner{store: s, file: file, limit: seg.size, block: s.tune.blockBytes},
		segment: segment{base: seg.base, next: seg.next, size: seg.size, indexPos: seg.indexPos,
			indexCount: seg.indexCount, holeCount: seg.holeCount, indexSum: seg.indexSum},
		settled: p.settled, old: seg.punched, least: min(2*allocBytes, s.runBytesMin()),
	}
	l.mu.Unlock()
	v.least -= v.least % allocBytes
	defer v.release()
	var err error
	if v.index, _, err = s.readIndex(&v.segment, file); err != nil {
		if errors.Is(err, errIndex) {
			return nil, nil // reported to the reader who needs it
		}
		return nil, err
	}
	if err := v.walk(); err != nil {
		return nil, err
	}
	v.close()
	return v.found, nil
}

// walk goes from batch to batch, or where the index allows it from one of its
// entries to the next.
func (v *surveyor) walk() error {
	expected := v.segment.base
	for pos := int64(segmentHeaderBytes); pos < v.limit; {
		if v.store.puncher.closed.Load() {
			return errPunchStopped
		}
		for v.entry < len(v.index) && v.index[v.entry].pos < pos {
			v.entry++
		}
		if end, next, ok := v.step(pos); ok {
			pos, expected = end, next
			continue
		}
		batch, err := v.batch(pos)
		if err == nil && (batchBase(batch) < expected || endOf(batch) > v.segment.next) {
			err = errBatch
		}
		switch {
		case isBatchError(err): // damage: it stays, with all up to where the index knows more
			v.close()
			pos = v.after(pos)
			continue
		case err != nil:
			return err
		}
		end := pos + int64(batchLength(batch))
		if isHole(batch) || v.isSettled(batchBase(batch), batchEnd(batch)) {
			v.extend(pos, end, batchBase(batch), endOf(batch), batchTimestamp(batch))
		} else {
			v.close()
		}
		pos, expected = end, endOf(batch)
	}
	return nil
}

// step passes over the batches from an index entry at pos to the next one
// without reading them, if they are all settled, or none of them.
func (v *surveyor) step(pos int64) (end int64, next uint64, ok bool) {
	if v.entry == len(v.index) || v.index[v.entry].pos != pos {
		return 0, 0, false
	}
	e := v.index[v.entry]
	end, next = v.limit, v.segment.next
	if v.entry+1 < len(v.index) {
		end, next = v.index[v.entry+1].pos, v.index[v.entry+1].offset
	}
	if e.offset >= next || end <= pos {
		return 0, 0, false
	}
	if h, inside := holeAt(v.old, pos); inside && h.end > end {
		return 0, 0, false
	}
	if h, inside := holeAt(v.old, end); inside && h.pos < end {
		return 0, 0, false
	}
	switch {
	case v.isSettled(e.offset, next):
		if v.run.end == 0 && !holdsMark(pos) {
			return 0, 0, false // a later batch may
		}
		v.extend(pos, end, e.offset, next, e.timestamp)
		return end, next, true
	case !v.touches(e.offset, next) && len(holesIn(v.old, pos, end)) == 0:
		v.close()
		return end, next, true
	}
	return 0, 0, false
}

// after is the first position behind pos that the index names and no hole
// holds.
func (v *surveyor) after(pos int64) int64 {
	for v.entry < len(v.index) {
		at := v.index[v.entry].pos
		if _, inside := holeAt(v.old, at); at > pos && !inside {
			return at
		}
		v.entry++
	}
	return v.limit
}

// extend adds [pos, end), which is settled, to the run.
func (v *surveyor) extend(pos, end int64, base, next uint64, timestamp int64) {
	if v.run.end != 0 && end-v.run.pos > holeLengthMax {
		v.close()
	}
	switch {
	case v.run.end != 0:
		v.run.end, v.run.next = end, next
	case holdsMark(pos) && end-pos <= holeLengthMax:
		v.run = holeMark{hole{pos: pos, end: end}, base, next, timestamp}
	}
}

// close ends the run, and keeps it if it is worth it.
func (v *surveyor) close() {
	run := v.run
	v.run = holeMark{}
	if run.end == 0 {
		return
	}
	gain := int64(0)
	for _, piece := range run.pieces(v.old) {
		gain += piece.end - piece.pos
	}
	if gain >= v.least {
		v.found = append(v.found, run)
	}
}

// isSettled says that all of [first, end) is settled.
func (v *surveyor) isSettled(first, end uint64) bool {
	iv, ok := v.at(first)
	return ok && iv.first <= first && iv.end >= end
}

// touches says that some of [first, end) is settled.
func (v *surveyor) touches(first, end uint64) bool {
	iv, ok := v.at(first)
	return ok && iv.first < end
}

// at returns the first settled range that ends after offset.
func (v *surveyor) at(offset uint64) (interval, bool) {
	i := sort.Search(len(v.settled), func(i int) bool { return v.settled[i].end > offset })
	if i == len(v.settled) {
		return interval{}, false
	}
	return v.settled[i], true
}
