package segstore

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Log is one append-only sequence of records with dense offsets. All methods
// may be called from any goroutine.
//
// The fields stand in the order of how often they are touched: who publishes to a
// thousand logs in turn finds none of them in the cache, and the flusher writes to
// them on another core. An append and its confirm touch the first 128 bytes, two
// lines of the cache, and the first line of the chunk.
type Log struct {
	mu        sync.Mutex
	lists     atomic.Uint32 // which lists of the store name this log; set under Store.mu
	failed    atomic.Bool   // err may be set
	transient bool          // never changes
	class     uint8         // size class of the next chunk
	changed   bool          // low, pending or cursor moved since the journal was told
	stale     bool          // and since the settled file was written
	reap      bool          // a segment may be wholly settled
	filing    bool          // its files are the filer's, or a reopening's; set by the flusher, ended by those
	missed    bool          // there was something else to do to them meanwhile
	moved     bool          // chunks went to segments since the last look at what can be evicted

	// Written under mu, read by anyone.
	next    atomic.Uint64
	durable atomic.Uint64
	want    atomic.Uint64 // durability is wanted below

	tail  *chunk // the last of chunks, if it takes appends; else nil
	store *Store

	unwritten int64  // bytes appended and neither written nor skipped
	inFlight  int64  // the part of it that is being written
	sumBytes  uint64 // encoded bytes of sumRecord recent records
	sumRecord uint32
	spill     bool // its chunks are to be written to a segment: memory is short; the flusher's
	deleted   bool
	gone      bool     // and the flusher has seen it
	chunks    []*chunk // sorted by base
	low       atomic.Uint64

	err       error        // fenced, deleted or closed
	id        uint64       //
	heldBytes atomic.Int64 // bytes of chunks that are partly in the journal alone
	keptBytes int64        // bytes of chunks flagged kept
	aged      uint64       // Next as the previous flush tick saw it

	// Settled offsets: everything below low, and these.
	settled intervalSet
	pending intervalSet // settled above low, and neither the journal nor the settled file says so
	cursor  uint64
	logged  struct{ low, cursor uint64 } // as the journal says

	// Disk; see flusher.go.
	journaled journaled // what the flusher has to remember
	segments  []*segment
	acks      *settledFile // nil until the log owns one
	back      *backReads   // blocks and fetches behind the tail, nil when unused

	punch punching // see punch.go
	quiet uint64   // Next as the previous sync tick saw it, when all was settled

	special *special // nil for most; see retained.go
}

// ID is the number the log was opened with.
func (l *Log) ID() uint64 { return l.id }

// Next is the offset the next record will get.
func (l *Log) Next() uint64 { return l.next.Load() }

// Low is the watermark: all offsets below are settled.
func (l *Log) Low() uint64 { return l.low.Load() }

// Durable is the offset below which all records are on stable storage, or
// settled, or missing. A transient log promises nothing: there it is Next.
func (l *Log) Durable() uint64 {
	if l.transient {
		return l.next.Load()
	}
	return l.durable.Load()
}

// Err says why the log takes no more records, nil if it does. Asking a log that
// does costs no lock: who waits for confirms of a thousand logs asks all of them.
func (l *Log) Err() error {
	if !l.failed.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Append copies the batch to the tail and returns the offset of its first
// record. It never waits for the disk. It fails only when the log is fenced
// after a failed write, deleted or closed. The batch is not changed, so it can
// be appended to other logs. An empty batch is nothing.
func (l *Log) Append(b *Batch) (base uint64, err error) { return l.append(b, false) }

// append is Append. With force, a log that was fenced takes the batch too: it
// is part of a transaction that other logs have parts of.
func (l *Log) append(b *Batch, force bool) (base uint64, err error) {
	size := b.Size()
	if size > arena.BufBytesMax {
		return l.appendLarge(b, size, force)
	}
	l.mu.Lock()
	fenced := l.failed.Load() && l.err != nil
	if fenced && l.refuses(force) {
		defer l.mu.Unlock()
		return 0, l.err
	}
	base = l.next.Load()
	if size == 0 {
		l.mu.Unlock()
		return base, nil
	}
	c := l.openTail(size, base)
	dst := c.data[c.used : c.used+size]
	b.encode(dst)
	l.publish(c, dst, base, b)
	l.mu.Unlock()
	if !fenced { // else its bytes are on no account, see fence
		l.store.appended(size)
	}
	return base, nil
}

func (l *Log) refuses(force bool) bool {
	return l.err != nil && (!force || l.deleted || l.err == ErrClosed || l.journaled.unread)
}

// appendLarge gives the batch a chunk of its own, filled before the lock is
// taken: copying 128 MiB under it would stop every user of the log.
func (l *Log) appendLarge(b *Batch, size int, force bool) (uint64, error) {
	c := l.store.newChunk(size)
	b.encode(c.data[:size])
	l.mu.Lock()
	if l.refuses(force) {
		err := l.err
		l.mu.Unlock()
		l.store.freeChunk(c)
		return 0, err
	}
	l.closeTail()
	base := l.next.Load()
	l.link(c, base)
	l.publish(c, c.data[:size], base, b)
	fenced := l.err != nil
	l.mu.Unlock()
	if !fenced {
		l.store.appended(size)
	}
	return base, nil
}

// publish makes the encoded batch at the end of c part of the log, and asks for a
// group commit of it if b does.
func (l *Log) publish(c *chunk, encoded []byte, base uint64, b *Batch) {
	binary.LittleEndian.PutUint64(encoded[batchBasePos:], base)
	count := uint64(b.count)
	next := base + count
	c.note(len(encoded), count)
	l.next.Store(next)
	l.unwritten += int64(len(encoded))
	l.noteSizes(uint64(len(encoded)), count)
	if b.wanted && !l.transient {
		// The urgent visit relists the log if there is anything left for a tick.
		l.want.Store(next)
		l.list(listUrgent)
		return
	}
	l.list(listDirty)
	if l.unwritten-l.inFlight > l.store.tune.fullBytes && l.fullUnwritten() > l.store.tune.fullBytes {
		l.list(listUrgent)
	}
}

// noteSizes takes note of the encoded bytes of so many more records.
func (l *Log) noteSizes(bytes, records uint64) {
	bytes, records = bytes+l.sumBytes, records+uint64(l.sumRecord)
	for records > 1<<20 {
		bytes, records = bytes/2, records/2
	}
	l.sumBytes, l.sumRecord = bytes, uint32(records)
}

// fullUnwritten is the number of bytes in chunks that take no more and that
// nobody has begun to write.
func (l *Log) fullUnwritten() int64 {
	if c := l.tail; c != nil {
		return l.unwritten - l.inFlight - int64(c.used-c.saved)
	}
	return l.unwritten - l.inFlight
}

// WantDurable asks for a group commit of everything appended so far. Cheap,
// and next to nothing if the batch appended last asked for it;
// many calls make one commit. OnCommit tells when to look at Durable again.
func (l *Log) WantDurable() {
	if l.transient || l.want.Load() >= l.next.Load() && !l.failed.Load() {
		return
	}
	l.mu.Lock()
	next := l.next.Load()
	switch {
	case l.err != nil:
		l.list(listUrgent) // OnCommit will tell who waits in vain
	case l.want.Load() < next && l.durable.Load() < next:
		l.want.Store(next)
		l.list(listUrgent)
	}
	l.mu.Unlock()
}

// Settle marks count offsets from first on as done: they need not be stored
// nor delivered again. In any order; repeating it is harmless.
func (l *Log) Settle(first, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, next, low := first+count, l.next.Load(), l.low.Load()
	if end > next || end < first {
		end = next
	}
	first = max(first, low)
	if first >= end || l.deleted {
		return
	}
	if first == low {
		l.moveLow(end)
	} else {
		iv := l.settled.add(first, end)
		l.pending.add(first, end)
		l.dropSettled(iv.first, iv.end)
		l.reap = l.reap || len(l.segments) > 0
	}
	l.settledMore()
}

// settledMore notes that there is something to tell the disk.
func (l *Log) settledMore() {
	l.changed, l.stale = true, true
	l.punch.wanted = l.punch.wanted || len(l.segments) > 0 && (l.segments[0].sealed || l.segments[0].end >= l.store.tune.sealBytes)
	l.list(listDirty)
}

// moveLow raises the watermark to end and over what is settled above it.
func (l *Log) moveLow(end uint64) {
	low := end
	if !l.settled.empty() {
		low = l.settled.advance(end)
	}
	l.low.Store(low)
	for len(l.chunks) > 0 && l.chunks[0].next <= low {
		if len(l.chunks) == 1 && l.tail != nil {
			break
		}
		l.dropChunk(0)
	}
	if len(l.segments) > 0 && l.segments[0].next <= low {
		l.reap = true
	}
	if l.back != nil {
		l.back.dropBelow(low)
	}
}

// NextUnsettled returns the first run of unsettled offsets at or after from and
// below Next, of at most limit offsets; count is 0 when there is none.
func (l *Log) NextUnsettled(from, limit uint64) (first, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.next.Load()
	first = max(from, l.low.Load())
	if first >= end {
		return first, 0
	}
	if !l.settled.empty() {
		iv, ok := l.settled.after(first)
		if ok && iv.first <= first {
			first = iv.end
			iv, ok = l.settled.after(first)
		}
		if ok {
			end = min(end, iv.first)
		}
		if first >= end {
			return first, 0
		}
	}
	return first, min(limit, end-first)
}

// Unsettled is the number of unsettled records.
func (l *Log) Unsettled() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled()
}

// isSettled reports whether all of [first, end) is settled.
func (l *Log) isSettled(first, end uint64) bool {
	return end <= l.low.Load() || !l.settled.empty() && l.settled.containsRange(max(first, l.low.Load()), end)
}

func (l *Log) unsettled() uint64 { return l.next.Load() - l.low.Load() - l.settled.count }

// Bytes estimates the encoded size of the unsettled records from the average
// of recent ones.
func (l *Log) Bytes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sumRecord == 0 {
		return 0
	}
	return uint64(math.Round(float64(l.unsettled()) * float64(l.sumBytes) / float64(l.sumRecord)))
}

// ResidentBytes are those of the buffers that hold the log's tail.
func (l *Log) ResidentBytes() (bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.chunks {
		bytes += uint64(len(c.data))
	}
	return bytes
}

// SetCursor stores a hint that is kept with the settled offsets: records below
// it may have been delivered before.
func (l *Log) SetCursor(offset uint64) {
	l.mu.Lock()
	if offset = min(offset, l.next.Load()); offset != l.cursor && !l.deleted {
		l.cursor, l.changed, l.stale = offset, true, true
		if l.owns() {
			l.list(listDirty)
		}
	}
	l.mu.Unlock()
}

// Cursor returns the hint.
func (l *Log) Cursor() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}

// Delete drops the log: its memory at once, its directory soon, by the flusher.
// Readers keep the bytes they have pinned until they move or close.
func (l *Log) Delete() error {
	l.mu.Lock()
	if l.deleted {
		l.mu.Unlock()
		return ErrDeleted
	}
	l.deleted = true
	for len(l.chunks) > 0 {
		l.dropChunk(len(l.chunks) - 1)
	}
	l.settled, l.pending, l.changed = intervalSet{}, intervalSet{}, false
	l.low.Store(l.next.Load())
	l.durable.Store(l.next.Load())
	wakes := l.dropBlocks(ErrDeleted)
	if l.err != nil && l.err != ErrClosed {
		l.store.fencedLogs.Add(-1)
	}
	if l.journaled.unread {
		l.store.unreadLogs.Add(-1)
	}
	l.fence(ErrDeleted)
	l.list(listUrgent)
	l.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	return nil
}

// fence makes the log refuse appends (invariant 8). Its unwritten bytes leave the store's
// account, as nothing will ever write them.
func (l *Log) fence(err error) {
	if l.err == nil {
		l.store.unwritten.Add(-l.unwritten)
		l.err = err
		l.failed.Store(true)
		l.store.commits.Add(1)
	}
}
