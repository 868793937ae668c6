package schedule

import (
	"errors"
	"log/slog"
	"math"
	"sync"

	"github.com/basaltmq/basaltmq/segstore"
)

// Options say what a Schedule works on.
type Options struct {
	Store    *segstore.Store
	Messages *segstore.Log
	Index    *segstore.Log
	// Due says when a message is due, in Unix ms.
	Due func(rec *segstore.Record, t segstore.Template) int64
	// Wake is called, from any goroutine, when Take or Maintain is worth trying
	// again after Reading.
	Wake   func()
	Logger *slog.Logger

	// Smaller in tests: freshMax and blockEntries.
	fresh, block int
}

// Never is when nothing is due.
const Never = math.MaxInt64

// Schedule gives out messages when they are due. See the package comment.
type Schedule struct {
	o Options

	mu    sync.Mutex
	fresh entryHeap
	bytes uint64 // of the fresh messages, about
	added uint64 // all messages below have been added

	// The one goroutine's.
	runs    []*run
	nextRun uint64
	covered uint64
	taken   []Entry // in order, from takenAt on
	takenAt int
	popped  uint64 // entries that were ever taken
	done    uint64 // and those that are done
	spent   []spentBlock
	merging *merge
	reader  *segstore.Reader
	writing *segstore.Batch
	scratch []byte
	damaged bool // the index must be made again
}

// spentBlock is a block all of whose entries have been taken. It is settled when
// as many as had been taken by then are done.
type spentBlock struct{ offset, popped uint64 }

// Add notes a message that has been appended, in the order of offsets, each
// once; bytes are those of its record.
func (s *Schedule) Add(e Entry, bytes uint64) {
	s.mu.Lock()
	s.add(e, bytes)
	s.added = max(s.added, e.Offset+1)
	s.mu.Unlock()
}

func (s *Schedule) add(e Entry, bytes uint64) {
	s.fresh.push(e)
	s.bytes += bytes
}

// Full says that Maintain has something to do for what was added.
func (s *Schedule) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full()
}

func (s *Schedule) full() bool { return len(s.fresh) >= s.o.fresh || s.bytes >= freshBytesMax }

// First returns when the next message is due, or a little earlier; Never
// without one.
func (s *Schedule) First() int64 {
	if s.takenAt < len(s.taken) {
		return s.taken[s.takenAt].Due
	}
	first := int64(Never)
	s.mu.Lock()
	if len(s.fresh) > 0 {
		first = s.fresh[0].Due
	}
	s.mu.Unlock()
	for _, r := range s.runs {
		first = min(first, r.first().Due)
	}
	return first
}

// State is how far Take or Maintain got.
type State uint8

// Outcomes of Take and Maintain.
const (
	Idle    State = iota // there is no more to do
	Reading              // from disk: Wake will be called
	Failed               // the index cannot be read now; try again later
	Busy                 // there is more to do
	Waiting              // for messages to become durable; come back in a moment
)

// Take takes what is due, up to TakenMax; Taken has it, in order.
func (s *Schedule) Take(now int64) State {
	if s.takenAt > 0 {
		n := copy(s.taken, s.taken[s.takenAt:])
		s.taken, s.takenAt = s.taken[:n], 0
	}
	if s.damaged {
		if err := s.makeAgain(); err != nil {
			return s.failed(err)
		}
	}
	defer s.settleSpent(nil)
	for len(s.taken) < TakenMax {
		r, e := s.least()
		if e.Due > now {
			break
		}
		if r == nil {
			s.mu.Lock()
			if len(s.fresh) == 0 || s.fresh[0] != e { // an earlier one came meanwhile
				s.mu.Unlock()
				continue
			}
			s.fresh.pop()
			s.mu.Unlock()
		} else {
			if state := s.load(r); state != Idle {
				return state
			}
			if r.entries[0] != e {
				continue // now it is known what the head is
			}
			s.popRun(r)
		}
		if s.live(e.Offset) {
			s.taken = append(s.taken, e)
			s.popped++
		}
	}
	s.closeReader()
	return Idle
}

// least returns the first of all heads and its run; nil: it is fresh.
func (s *Schedule) least() (from *run, e Entry) {
	e = Entry{Due: Never, Offset: math.MaxUint64}
	s.mu.Lock()
	if len(s.fresh) > 0 {
		e = s.fresh[0]
	}
	s.mu.Unlock()
	for _, r := range s.runs {
		if first := r.first(); first.before(e) {
			from, e = r, first
		}
	}
	return from, e
}

// live says whether a message is still to be released.
func (s *Schedule) live(offset uint64) bool {
	first, n := s.o.Messages.NextUnsettled(offset, 1)
	return n == 1 && first == offset
}

// popRun passes the head of a run, which is loaded.
func (s *Schedule) popRun(r *run) {
	r.entries = r.entries[1:]
	if len(r.entries) > 0 {
		return
	}
	// The entry just passed is counted by the caller, if at all.
	s.spent = append(s.spent, spentBlock{r.blocks[r.head].offset, s.popped + 1})
	r.head++
	r.loaded = false
	if r.head == len(r.blocks) {
		s.dropRun(r)
	}
}

func (s *Schedule) dropRun(r *run) {
	for i, other := range s.runs {
		if other == r {
			s.runs = append(s.runs[:i], s.runs[i+1:]...)
			return
		}
	}
}

// Taken is what was taken and is not done yet.
func (s *Schedule) Taken() []Entry { return s.taken[s.takenAt:] }

// Done says that the first n of Taken have been released, and their messages
// settled in tx.
func (s *Schedule) Done(tx *segstore.Tx, n int) {
	s.takenAt += n
	s.done += uint64(n)
	s.settleSpent(tx)
	if s.takenAt == len(s.taken) {
		s.taken, s.takenAt = s.taken[:0], 0
		if cap(s.taken) > blockEntries {
			s.taken = nil
		}
	}
}

// settleSpent settles blocks whose messages are all done. Without a transaction
// only those of messages that an earlier one settled.
func (s *Schedule) settleSpent(tx *segstore.Tx) {
	n := 0
	for n < len(s.spent) && (s.spent[n].popped <= s.done || s.takenAt == len(s.taken)) {
		s.settle(tx, s.spent[n].offset, 1)
		n++
	}
	s.spent = append(s.spent[:0], s.spent[n:]...)
}

// settle settles blocks of the index.
func (s *Schedule) settle(tx *segstore.Tx, first, count uint64) {
	s.o.Index.Settle(first, count)
	if tx != nil {
		tx.Settled(s.o.Index, first, count)
	}
}

// putBack makes what is taken fresh again. A merge may have it, too.
func (s *Schedule) putBack() {
	s.abortMerge()
	s.mu.Lock()
	for _, e := range s.Taken() {
		s.fresh.push(e)
	}
	s.mu.Unlock()
	s.taken, s.takenAt = s.taken[:0], 0
	s.done = s.popped
}

// Close writes what a start would have to look for, if it is much, and gives the
// buffers back.
func (s *Schedule) Close() {
	s.mu.Lock()
	much := len(s.fresh) >= closeEntries || s.bytes >= closeBytes
	s.mu.Unlock()
	if much && !s.damaged && s.takenAt == len(s.taken) {
		s.write(s.writable())
	}
	s.Release()
}

// Release gives the buffers back: the logs are gone.
func (s *Schedule) Release() {
	s.closeReader()
	s.merging = nil
	if s.writing != nil {
		s.writing.Release()
		s.writing = nil
	}
}

func (s *Schedule) closeReader() {
	if s.reader != nil {
		s.reader.Close()
	}
}

func (s *Schedule) failed(err error) State {
	if !errors.Is(err, segstore.ErrDeleted) && !errors.Is(err, segstore.ErrClosed) {
		s.o.Logger.Error("the schedule of an exchange's delayed messages cannot be read: they are late", "log", s.o.Index.ID(), "err", err)
	}
	return Failed
}
