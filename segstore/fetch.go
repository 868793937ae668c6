package segstore

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Reading behind the tail. A Reader that finds its offset neither in a resident
// chunk nor in a block of the log's cache starts a fetch and is told
// ErrNotResident. A worker goroutine opens the file, finds the position through
// the index, reads a block of whole batches, verifies them once, puts the block
// into the cache and hands it to the readers that wait. The hand-over (a
// reference in Reader.ready) is what guarantees progress: with more readers
// than cached blocks, each would otherwise find its block evicted again.

const (
	// blockBytesSmall is the read size while the blocks of all logs together
	// exceed tuning.keptBytes; nothing is cached or read ahead then.
	blockBytesSmall = 16 * arena.KiB
)

// block is a run of verified batches of one segment, or a hole. A hole can be
// cached because it stays one: it ends with what was readable of the segment when it
// was found, or before the first resident chunk or readable segment after that.
type block struct {
	store    *Store
	refs     atomic.Int32
	buf      *arena.Buf // nil: no record in [from, to)
	data     []byte     // whole batches
	from, to uint64     // offsets it answers for
	segment  *segment
	end      int64 // position in the segment after the block
}

func (b *block) retain() { b.refs.Add(1) }

func (b *block) release() {
	if b.refs.Add(-1) == 0 && b.buf != nil {
		b.store.blockBytes.Add(-int64(b.buf.Len()))
		b.store.residentBytes.Add(-int64(b.buf.Len()))
		b.buf.Release()
	}
}

// backReads is what a log keeps while somebody reads behind its tail. Guarded
// by the log's mutex.
type backReads struct {
	blocks  []*block // most recently used first
	fetches []*fetch
	indexed []*segment // sealed segments with a loaded index, oldest first
	readers int
}

// fetch is one read on its way.
type fetch struct {
	log     *Log
	segment *segment
	offset  uint64 // must be in the block
	pos     int64  // where to start, 0 if the index has to tell
	query   *Query // what the one reader that waits wants
	waiters []waiter
}

type waiter struct {
	reader *Reader
	wake   func()
}

// fetcher runs fetches on up to tuning.workersMax goroutines, which end when
// there is nothing to do.
type fetcher struct {
	mu      sync.Mutex // leaf: taken after any other
	queue   []*fetch
	workers int
	closed  bool
	group   sync.WaitGroup
}

// submitFetch queues f; false when the store is closed.
func (s *Store) submitFetch(f *fetch) bool {
	w := &s.fetcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, f)
	if w.workers < s.tune.workersMax {
		w.workers++
		w.group.Go(s.fetchLoop)
	}
	return true
}

func (s *Store) fetchLoop() {
	w := &s.fetcher
	for {
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.workers--
			w.queue = nil
			w.mu.Unlock()
			return
		}
		f := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		w.mu.Unlock()
		s.runFetch(f)
	}
}

// stopFetcher waits for the fetches under way; none starts after it.
func (s *Store) stopFetcher() {
	w := &s.fetcher
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}

// finish hands the outcome to the readers that wait and returns their wakes.
func (f *fetch) finish(b *block, err error) (wakes []func()) {
	for _, w := range f.waiters {
		w.reader.pending = nil
		w.reader.failed = err
		if b != nil {
			if w.reader.ready != nil {
				w.reader.ready.release()
			}
			b.retain()
			w.reader.ready = b
		}
		if w.wake != nil {
			wakes = append(wakes, w.wake)
		}
	}
	f.waiters = nil
	return wakes
}

// runFetch loads the block of f and gives it to cache and waiters.
func (s *Store) runFetch(f *fetch) {
	l := f.log
	b, err := s.load(f)
	if err != nil && err != errReplaced {
		s.o.Logger.Error("segstore: reading behind the tail failed", "log", l.id, "offset", f.offset, "error", err)
	}
	l.mu.Lock()
	var wakes []func()
	if back := l.back; back != nil && slices.Contains(back.fetches, f) {
		back.fetches = slices.DeleteFunc(back.fetches, func(other *fetch) bool { return other == f })
		if err == nil {
			if b.buf == nil && b.to >= f.segment.sizeNext {
				_, above := l.chunkAt(b.to)
				b.to = max(b.to, l.existing(b.to, above))
			}
			if back.readers > 0 && (f.query == nil || b.buf != nil) {
				s.cacheBlock(back, b)
			}
		}
		wakes = f.finish(b, err)
		if back.readers == 0 && len(back.fetches) == 0 {
			back.drop()
			l.back = nil
		}
	}
	l.mu.Unlock()
	if b != nil {
		b.release()
	}
	for _, wake := range wakes {
		wake()
	}
}

func (s *Store) cacheBlock(back *backReads, b *block) {
	if s.blockBytes.Load() > s.tune.keptBytes {
		return
	}
	b.retain()
	back.blocks = slices.Insert(back.blocks, 0, b)
	if last := len(back.blocks) - 1; last >= s.tune.blocksPerLog {
		back.blocks[last].release()
		back.blocks = slices.Delete(back.blocks, last, last+1)
	}
}
