package segstore

import (
	"encoding/binary"
	"slices"
)

// A retained log keeps its records until its owner drops them from the front, by
// settling whole segments; readers stand anywhere, most of them at the end. What
// differs from other logs:
//
//   - The chunks that stay resident after they were written are the newest, not
//     the oldest (evict).
//   - Its segments have a size of their own, and Segments describes them, so that
//     the owner can choose which to settle; Sealed tells it when to look.
//   - Readers may have seen records that a crash then takes away. So that no
//     offset ever means two records, opening it after a crash passes over Skip
//     offsets (see Log.Written for the other half of this).

// RetainedOptions make a log a retained one.
type RetainedOptions struct {
	// SegmentBytes is the size at which a segment is closed; 0: the store's.
	SegmentBytes int64
	// Sealed is called after a segment was closed for good, by a goroutine of the
	// store and with no lock held. It must not block.
	Sealed func()
	// Skip is a number of offsets to leave out.
	Skip uint64
}

// Segment describes a segment of a retained log.
type Segment struct {
	Base, Next uint64 // offsets [Base, Next)
	Bytes      int64
	FirstMs    int64 // time of its first batch, Unix milliseconds
	Sealed     bool
}

// Segments appends the log's segments to dst, oldest first.
func (l *Log) Segments(dst []Segment) []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if s.next > l.low.Load() {
			dst = append(dst, Segment{Base: s.base, Next: s.next, Bytes: s.end, FirstMs: s.firstMs, Sealed: s.sealed})
		}
	}
	return dst
}

// special is what few logs have: a queue may be one of many thousand idle ones.
type special struct {
	retained *RetainedOptions // nil: none
	rolls    []uint64         // a segment ends before each of these offsets
}

func (l *Log) needSpecial() *special {
	if l.special == nil {
		l.special = new(special)
	}
	return l.special
}

// retained returns the log's options; nil for most.
func (l *Log) retained() *RetainedOptions {
	if l.special == nil {
		return nil
	}
	return l.special.retained
}

// rolling reports whether a Roll is still to be done.
func (l *Log) rolling() bool { return l.special != nil && len(l.special.rolls) > 0 }

// retain applies the options to a log that nobody uses yet, or that Open found
// in the journal. Called with the log's mutex held.
func (l *Log) retain(o *RetainedOptions) {
	if o == nil {
		return
	}
	l.needSpecial().retained = o
	if o.Skip == 0 || l.journaled.unread { // then Reread does the rest
		return
	}
	from := l.next.Load()
	to := from + o.Skip
	l.closeTail()
	if l.low.Load() == from {
		l.low.Store(to)
	} else {
		l.settled.add(from, to)
	}
	l.next.Store(to)
	l.aged = to
	l.pending.add(from, to)
	l.changed, l.stale = true, true
	if l.acks == nil { // which may be all that remembers Next
		l.acks = new(settledFile)
	}
	l.list(listDirty)
}

// segmentBytes is the size at which a segment of the log is closed.
func (l *Log) segmentBytes() int64 {
	if o := l.retained(); o != nil && o.SegmentBytes > 0 {
		return o.SegmentBytes
	}
	return l.store.o.SegmentBytes
}

// Roll has the log begin a new segment with the next record, and write all
// before it to segments: its records stand for more bytes than the log can see.
func (l *Log) Roll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.next.Load()
	special := l.needSpecial()
	if n := len(special.rolls); n > 0 && special.rolls[n-1] == next || l.err != nil {
		return
	}
	special.rolls = append(special.rolls, next)
	l.list(listDirty)
}

// rolled reports whether a roll lies between the segment's first offset and
// offset, and forgets the rolls below.
func (l *Log) rolled(s *segment, offset uint64) bool {
	if !l.rolling() || l.special.rolls[0] > offset {
		return false
	}
	found := false
	for l.rolling() && l.special.rolls[0] <= offset {
		found = found || l.special.rolls[0] > s.base
		l.special.rolls = slices.Delete(l.special.rolls, 0, 1)
	}
	return found
}

// evictOldest releases written chunks, but for the newest few: most readers of a
// retained log are there.
func (l *Log) evictOldest() {
	s := l.store
	kept := int64(0)
	for i := len(l.chunks) - 1; i >= 0; i-- {
		c := l.chunks[i]
		if c.flushed < c.used {
			continue
		}
		size := int64(len(c.data))
		kept += size
		if kept <= s.tune.frontBytes && (c.kept || s.keptBytes.Load()+size <= s.keptMax()) {
			if !c.kept {
				c.kept = true
				l.keptBytes += size
				s.keptBytes.Add(size)
			}
			continue
		}
		l.dropChunk(i)
	}
}

// firstTime is the time of the batch at the start of a segment, whose first
// bytes are head; 0 if there is none.
func firstTime(head []byte, base uint64) int64 {
	if len(head) < segmentHeaderBytes+batchHeaderBytes {
		return 0
	}
	h := head[segmentHeaderBytes:]
	if binary.LittleEndian.Uint16(h) != batchMagic || batchBase(h) != base {
		return 0
	}
	return batchTimestamp(h)
}

// Find returns an offset from which on a reader finds all records that are not
// older than sinceMs, as long as time does not go backwards: the beginning of a
// segment. It may be below Low, never above Next.
func (l *Log) Find(sinceMs int64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.low.Load()
	for _, s := range l.segments {
		if s.firstMs >= sinceMs {
			break
		}
		at = max(at, s.base)
	}
	return at
}

// LastBatch is the offset of the first record of the last batch, as far as that
// is in memory; else the first of the last segment. With no record it is Next.
func (l *Log) LastBatch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsettled() == 0 {
		return l.next.Load()
	}
	low := l.low.Load()
	if n := len(l.chunks); n > 0 {
		c := l.chunks[n-1]
		at, pos := c.base, 0
		if m := len(c.marks); m > 0 {
			at, pos = c.base+uint64(c.marks[m-1].delta), int(c.marks[m-1].pos)
		}
		for {
			n := batchLength(c.data[pos:])
			if pos+n >= c.used {
				return max(at, low)
			}
			at, pos = at+batchCount(c.data[pos:]), pos+n
		}
	}
	if n := len(l.segments); n > 0 {
		return max(l.segments[n-1].base, low)
	}
	return low
}

// segmentVersion is the format of the log's new segments.
func (l *Log) segmentVersion() uint16 {
	if l.retained() != nil {
		return segmentVersionRetained
	}
	return segmentVersion
}
