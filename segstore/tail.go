package segstore

import (
	"sort"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// chunkClassBytes are the sizes an open chunk takes as a log gets busier.
var chunkClassBytes = [...]int{4 * arena.KiB, 16 * arena.KiB, 64 * arena.KiB, arena.BufBytesMax}

// markEveryBytes is the distance of a chunk's marks: a lookup walks at most
// this many bytes of batch headers.
const markEveryBytes = 16 * arena.KiB

// mark is a batch start inside a chunk.
type mark struct {
	pos   uint32 // byte position in the chunk
	delta uint32 // base offset of the batch minus that of the chunk
}

// chunk is a piece of a log's tail: whole batches with contiguous offsets in
// one arena buffer. Guarded by the log's mutex, except that data[:used] is
// immutable once published (invariant 4).
type chunk struct {
	// What an append touches, and the flusher of an append, is in one line of the cache.
	data        []byte
	used        int    // bytes of data that hold batches
	next        uint64 // offsets [base, next)
	base        uint64
	saved       int    // bytes below are in the journal or a segment, on their way there, or skipped as settled
	markAt      int    // the batch that starts at or after this position gets a mark
	savedNext   uint64 // the offset at saved
	buf         *arena.Buf
	flushed     int    // as saved, for segments alone; never above it
	flushedNext uint64 // the offset at flushed
	marks       []mark
	kept        bool // wholly in a segment, stays resident for the consumers
	held        bool // counted in Log.heldBytes: some of it is in the journal only
	stray       bool // the segments hold later offsets, so it cannot go there any more
}

// newChunk returns an empty chunk with room for size bytes.
func (s *Store) newChunk(size int) *chunk {
	buf := s.arena.Get(size)
	return s.chunkOf(buf, buf.Bytes())
}

// chunkOf makes a chunk of data, a part of buf or all of it, and takes over a
// reference. No two chunks of a log may share a buffer: readers tell chunks by it.
func (s *Store) chunkOf(buf *arena.Buf, data []byte) *chunk {
	s.chunkMu.Lock()
	var c *chunk
	if n := len(s.chunkFree); n > 0 {
		c, s.chunkFree = s.chunkFree[n-1], s.chunkFree[:n-1]
	}
	s.chunkMu.Unlock()
	if c == nil {
		c = new(chunk)
	}
	c.buf, c.data = buf, data
	s.residentBytes.Add(int64(len(c.data)))
	return c
}

// chunkFreeMax bounds the recycled chunk headers, 144 bytes each: a wave of the
// filer releases many at a time, and as many are needed again before the next.
const chunkFreeMax = 2048

func (s *Store) freeChunk(c *chunk) {
	s.residentBytes.Add(-int64(len(c.data)))
	c.buf.Release()
	*c = chunk{marks: c.marks[:0]}
	s.chunkMu.Lock()
	if len(s.chunkFree) < chunkFreeMax {
		s.chunkFree = append(s.chunkFree, c)
	}
	s.chunkMu.Unlock()
}

// note records a batch of size bytes and count records that was just put at
// the end of the chunk.
func (c *chunk) note(size int, count uint64) {
	if c.used >= c.markAt {
		if c.used > 0 {
			c.marks = append(c.marks, mark{pos: uint32(c.used), delta: uint32(c.next - c.base)})
		}
		c.markAt = c.used + markEveryBytes
	}
	c.used += size
	c.next += count
}

// posBefore returns the position of a batch at or before the one that holds
// offset.
func (c *chunk) posBefore(offset uint64) int {
	delta := offset - c.base
	i := sort.Search(len(c.marks), func(i int) bool { return uint64(c.marks[i].delta) > delta })
	if i == 0 {
		return 0
	}
	return int(c.marks[i-1].pos)
}

// startAt returns the position of the first batch that starts at or after pos, or
// the end of the last one.
func (c *chunk) startAt(pos int) (at int) {
	if i := sort.Search(len(c.marks), func(i int) bool { return int(c.marks[i].pos) > pos }); i > 0 {
		at = int(c.marks[i-1].pos)
	}
	for at < pos {
		at += batchLength(c.data[at:])
	}
	return at
}

// openTail returns the chunk that takes the next size bytes, opening one if
// needed. base is the offset the bytes begin with.
func (l *Log) openTail(size int, base uint64) *chunk {
	if c := l.tail; c != nil {
		if c.used+size <= len(c.data) {
			return c
		}
		l.closeTail()
		l.class = min(l.class+1, uint8(len(chunkClassBytes)-1))
	}
	c := l.store.newChunk(max(size, l.store.chunkBytes(l.class)))
	l.link(c, base)
	l.setTail(c)
	return c
}

// openTailsBytes is what the open chunks of all logs may take together, if the
// smallest ones need no more: with a thousand busy logs, large ones would be
// memory that is mostly empty.
const openTailsBytes = 12 << 20

// chunkBytes is the size of a new chunk for a log of that class.
func (s *Store) chunkBytes(class uint8) int {
	share := openTailsBytes / (int(s.openTails.Load()) + 1)
	for class > 0 && chunkClassBytes[class] > share {
		class--
	}
	return chunkClassBytes[class]
}

// setTail makes c, the last of chunks, the one that takes appends; nil: none does.
func (l *Log) setTail(c *chunk) {
	if (l.tail == nil) != (c == nil) {
		if c != nil {
			l.store.openTails.Add(1)
		} else {
			l.store.openTails.Add(-1)
		}
	}
	l.tail = c
}

// link puts an empty chunk at the end of the tail.
func (l *Log) link(c *chunk, base uint64) {
	c.base, c.next, c.savedNext, c.flushedNext = base, base, base, base
	l.chunks = append(l.chunks, c)
}

// closeTail makes the open chunk a full one, which may go as soon as it is
// settled.
func (l *Log) closeTail() {
	if l.tail == nil {
		return
	}
	l.setTail(nil)
	last := len(l.chunks) - 1
	if c := l.chunks[last]; l.isSettled(c.base, c.next) {
		l.dropChunk(last)
	}
}

// dropChunk releases chunk i; what was not written of it never will be.
func (l *Log) dropChunk(i int) {
	c := l.chunks[i]
	if c == l.tail {
		l.setTail(nil)
	}
	n := copy(l.chunks[i:], l.chunks[i+1:])
	l.chunks[i+n] = nil
	l.chunks = l.chunks[:i+n]
	if left := int64(c.used - c.saved); left > 0 {
		l.store.skippedBytes.Add(uint64(left))
		l.writtenOff(left)
	}
	if c.kept {
		l.keptBytes -= int64(len(c.data))
		l.store.keptBytes.Add(-int64(len(c.data)))
	}
	l.unhold(c)
	l.store.freeChunk(c)
}

// noteHeld keeps the account of chunks that the journal alone has.
func (l *Log) noteHeld(c *chunk) {
	if c.flushed >= c.saved {
		l.unhold(c)
		return
	}
	if !c.held {
		c.held = true
		l.heldBytes.Add(int64(len(c.data)))
		l.store.heldBytes.Add(int64(len(c.data)))
		l.list(listHeld)
	}
}

func (l *Log) unhold(c *chunk) {
	if c.held {
		c.held = false
		l.heldBytes.Add(-int64(len(c.data)))
		l.store.heldBytes.Add(-int64(len(c.data)))
	}
}

// writtenOff takes bytes out of the account of unwritten ones.
func (l *Log) writtenOff(bytes int64) {
	l.unwritten -= bytes
	if l.err == nil {
		l.store.unwritten.Add(-bytes)
	}
}

// dropSettled releases the chunks inside the settled range [first, end).
func (l *Log) dropSettled(first, end uint64) {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].base >= first })
	for i < len(l.chunks) && l.chunks[i].next <= end {
		if l.chunks[i] == l.tail {
			return
		}
		l.dropChunk(i)
	}
}

// chunkAt returns the resident chunk that holds offset, nil if there is none,
// and the base of the first resident chunk above offset (or Next).
func (l *Log) chunkAt(offset uint64) (*chunk, uint64) {
	if n := len(l.chunks); n > 0 && l.chunks[n-1].base <= offset && offset < l.chunks[n-1].next {
		return l.chunks[n-1], 0
	}
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].next > offset })
	if i == len(l.chunks) {
		return nil, l.next.Load()
	}
	if c := l.chunks[i]; c.base <= offset {
		return c, 0
	}
	return nil, l.chunks[i].base
}

// handled is the offset below which everything is in the journal or a segment,
// on its way there, or settled.
func (l *Log) handled() uint64 {
	i := l.firstUnsaved()
	if i == len(l.chunks) {
		return l.next.Load()
	}
	return l.chunks[i].savedNext
}

// firstUnsaved is the index of the first chunk with bytes that are neither in
// the journal nor in a segment.
func (l *Log) firstUnsaved() int {
	i := len(l.chunks)
	for i > 0 && l.chunks[i-1].saved < l.chunks[i-1].used {
		i--
	}
	return i
}

// firstUnflushed is the same for segments alone.
func (l *Log) firstUnflushed() int {
	i := len(l.chunks)
	for i > 0 && l.chunks[i-1].flushed < l.chunks[i-1].used && !l.chunks[i-1].stray {
		i--
	}
	return i
}

// unsavedBelow is the number of unsaved bytes of batches that begin below
// bound.
func (l *Log) unsavedBelow(bound uint64) (bytes int64) {
	for i := l.firstUnsaved(); i < len(l.chunks) && l.chunks[i].savedNext < bound; i++ {
		c := l.chunks[i]
		if c.next <= bound {
			bytes += int64(c.used - c.saved)
			continue
		}
		for pos, at := c.saved, c.savedNext; pos < c.used && at < bound; {
			n := batchLength(c.data[pos:])
			at += batchCount(c.data[pos:])
			pos += n
			bytes += int64(n)
		}
	}
	return bytes
}
