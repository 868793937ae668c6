package schedule

import (
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// run is a sorted series of entries in the index.
type run struct {
	number, level uint64
	blocks        []block // those before head are spent
	head          int

	// The block at head, when it is loaded.
	loaded  bool
	entries []Entry
	buf     []Entry
}

type block struct {
	offset uint64 // in the index
	due    int64  // of its first entry
}

// first is the run's head; before the block is loaded, one that is not later.
func (r *run) first() Entry {
	if r.loaded {
		return r.entries[0]
	}
	return Entry{Due: r.blocks[r.head].due}
}

// load reads the block at the head of a run.
func (s *Schedule) load(r *run) State {
	if r.loaded {
		return Idle
	}
	entries, state := s.read(r.blocks[r.head].offset, r.buf[:0])
	if state == Idle {
		r.loaded, r.entries, r.buf = true, entries, entries
	}
	return state
}

// read decodes a block.
func (s *Schedule) read(offset uint64, dst []Entry) ([]Entry, State) {
	if s.reader == nil {
		s.reader = s.o.Index.NewReader()
	}
	err := s.reader.Seek(offset, s.o.Wake)
	if errors.Is(err, segstore.ErrNotResident) {
		return dst, Reading
	}
	var missing segstore.ErrMissing
	if err != nil && !errors.As(err, &missing) {
		return dst, s.failed(err)
	}
	var rec segstore.Record
	if err == nil && s.reader.Next(&rec) {
		if _, entries, ok := decodeBlock(rec.Body, dst); ok {
			return entries, Idle
		}
	}
	s.damaged = true
	s.o.Logger.Error("a block of a schedule of delayed messages is damaged: it is made again from the messages", "log", s.o.Index.ID(), "offset", offset)
	return dst, Busy
}

// writer writes a run.
type writer struct {
	s       *Schedule
	run     *run
	covered uint64
	block   []Entry // to come
	dues    []int64 // of the encoded blocks
}

func (s *Schedule) newWriter(level, covered uint64) *writer {
	s.nextRun++
	return &writer{s: s, run: &run{number: s.nextRun, level: level}, covered: covered}
}

// add appends an entry. The last block stays in memory until finish.
func (w *writer) add(e Entry) {
	if len(w.block) == w.s.o.block {
		w.encode(false)
	}
	w.block = append(w.block, e)
}

func (w *writer) encode(last bool) {
	s := w.s
	if s.writing == nil {
		s.writing = s.o.Store.NewBatch()
	}
	b := s.writing
	if len(w.dues) == 0 {
		b.Reset(0)
	}
	h := header{last: last, run: w.run.number, level: w.run.level, sequence: uint64(len(w.run.blocks) + len(w.dues)), covered: w.covered}
	s.scratch = appendBlock(s.scratch[:0], h, w.block)
	b.Add(b.Template(nil, nil, nil), s.scratch)
	w.dues = append(w.dues, w.block[0].Due)
	w.block = w.block[:0]
}

// full says that the batch has its size.
func (w *writer) full() bool {
	return len(w.dues) > 0 && w.s.writing.Size() >= segstore.BatchBytesTarget-blockBytesMax
}

// flush appends the blocks so far.
func (w *writer) flush(tx *segstore.Tx) error {
	if len(w.dues) == 0 {
		return nil
	}
	base, err := w.s.o.Index.Append(w.s.writing)
	if err != nil {
		return err
	}
	if tx != nil {
		tx.Appended(w.s.o.Index, base, base+uint64(len(w.dues)))
	}
	for i, due := range w.dues {
		w.run.blocks = append(w.run.blocks, block{base + uint64(i), due})
	}
	w.dues = w.dues[:0]
	return nil
}

// finish makes the run whole. One without entries leaves nothing.
func (w *writer) finish(tx *segstore.Tx) error {
	if len(w.block) == 0 {
		return nil
	}
	w.encode(true)
	if err := w.flush(tx); err != nil {
		return err
	}
	w.run.blocks = slices.Clip(w.run.blocks)
	w.s.runs = append(w.s.runs, w.run)
	return nil
}

// write makes a run of the fresh entries below upTo.
func (s *Schedule) write(upTo uint64) State {
	s.mu.Lock()
	var old []Entry
	for _, e := range s.fresh {
		if e.Offset < upTo {
			old = append(old, e)
		}
	}
	s.mu.Unlock()
	if len(old) == 0 {
		return Idle
	}
	slices.SortFunc(old, compare)
	tx := s.o.Store.Begin()
	w := s.newWriter(0, max(s.covered, upTo))
	var err error
	for _, e := range old {
		w.add(e)
		if w.full() && err == nil {
			err = w.flush(tx)
		}
	}
	if err == nil {
		err = w.finish(tx)
	}
	if err == nil {
		s.settleSpent(tx)
	}
	tx.End()
	if err != nil { // the index is fenced, or gone: what is fresh stays
		return s.failed(err)
	}
	s.covered = w.covered
	s.mu.Lock()
	s.fresh = slices.Clone(slices.DeleteFunc(s.fresh, func(e Entry) bool { return e.Offset < upTo }))
	s.fresh.remake()
	s.bytes = 0
	s.mu.Unlock()
	return Idle
}
