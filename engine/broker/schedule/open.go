package schedule

import (
	"errors"
	"maps"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// Open finds the schedule of what is in the messages' log. Nobody uses the logs
// yet. It waits for the disk.
func Open(o Options) (*Schedule, error) {
	if o.fresh == 0 {
		o.fresh, o.block = freshMax, blockEntries
	}
	s := &Schedule{o: o, added: o.Messages.Next()}
	whole, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	if !whole {
		if o.Index.Unsettled() > 0 || s.covered > 0 {
			o.Logger.Warn("a schedule of delayed messages does not agree with them: it is made again", "log", o.Index.ID(), "messages", o.Messages.Unsettled())
		}
		s.discard()
	}
	if err := s.find(s.covered, o.Messages.Next()); err != nil {
		return nil, err
	}
	s.closeReader()
	return s, nil
}

// readIndex finds the runs; whole says that they have what they should
// (invariant 4).
func (s *Schedule) readIndex() (whole bool, err error) {
	runs := map[uint64]*found{}
	whole = true
	var buf []Entry
	r := s.o.Index.NewReader()
	defer r.Close()
	err = scan(s.o.Index, r, s.o.Index.Low(), s.o.Index.Next(), func(rec *segstore.Record) {
		h, entries, ok := decodeBlock(rec.Body, buf[:0])
		buf = entries
		if !ok {
			whole = false
			return
		}
		f := runs[h.run]
		if f == nil {
			f = &found{run: run{number: h.run, level: h.level}, next: h.sequence}
			runs[h.run] = f
		}
		whole = whole && !f.last && h.sequence == f.next && h.level == f.level
		f.next, f.last, f.covered = h.sequence+1, h.last, h.covered
		f.blocks = append(f.blocks, block{rec.Offset, entries[0].Due})
		for _, e := range entries {
			if e.Offset >= s.added {
				whole = false
			} else if s.live(e.Offset) {
				f.live++
			}
		}
	})
	if err != nil {
		return false, err
	}
	live := uint64(0)
	for _, number := range slices.Sorted(maps.Keys(runs)) {
		f := runs[number]
		s.nextRun = max(s.nextRun, number)
		if !f.last { // what a crash left of a merge
			for _, b := range f.blocks {
				s.settle(nil, b.offset, 1)
			}
			continue
		}
		live += f.live
		s.covered = max(s.covered, f.covered)
		s.runs = append(s.runs, &f.run)
	}
	return whole && live == unsettled(s.o.Messages, s.covered), nil
}

// found is a run while it is read.
type found struct {
	run
	next    uint64 // block
	last    bool
	covered uint64
	live    uint64
}

// unsettled counts the unsettled messages below end.
func unsettled(log *segstore.Log, end uint64) (count uint64) {
	for at := log.Low(); at < end; {
		first, n := log.NextUnsettled(at, end-at)
		if n == 0 || first >= end {
			break
		}
		n = min(n, end-first)
		count += n
		at = first + n
	}
	return count
}

// discard forgets all runs.
func (s *Schedule) discard() {
	tx := s.o.Store.Begin()
	low, next := s.o.Index.Low(), s.o.Index.Next()
	s.settle(tx, low, next-low)
	tx.End()
	s.runs, s.merging, s.spent, s.covered = nil, nil, nil, 0
}

// makeAgain finds all times again, after damage.
func (s *Schedule) makeAgain() error {
	covered := s.covered
	s.putBack()
	s.discard()
	s.mu.Lock()
	s.fresh = slices.DeleteFunc(s.fresh, func(e Entry) bool { return e.Offset < covered })
	s.fresh.remake()
	s.mu.Unlock()
	if err := s.find(0, covered); err != nil {
		s.covered = covered
		return err
	}
	s.damaged = false
	return nil
}

// find makes messages fresh, by what they say of themselves.
func (s *Schedule) find(from, to uint64) error {
	r := s.o.Messages.NewReader()
	defer r.Close()
	return scan(s.o.Messages, r, max(from, s.o.Messages.Low()), to, func(rec *segstore.Record) {
		due := max(s.o.Due(rec, r.Template(rec.Template)), 0)
		s.mu.Lock()
		s.add(Entry{due, rec.Offset}, uint64(len(rec.Body)))
		full := s.full()
		s.mu.Unlock()
		if full {
			s.write(s.writable())
		}
	})
}

// scan calls visit for the unsettled records of [from, to) that can be read. It
// waits for the disk.
func scan(log *segstore.Log, r *segstore.Reader, from, to uint64, visit func(rec *segstore.Record)) error {
	woken := make(chan struct{}, 1)
	var rec segstore.Record
	for at := from; at < to; {
		first, n := log.NextUnsettled(at, to-at)
		if n == 0 || first >= to {
			return nil
		}
		at, n = first, min(n, to-first)
		err := r.Seek(at, func() { woken <- struct{}{} })
		if errors.Is(err, segstore.ErrNotResident) {
			<-woken
			continue
		}
		var missing segstore.ErrMissing
		if errors.As(err, &missing) {
			at = missing.Next
			continue
		}
		if err != nil {
			return err
		}
		for n > 0 && r.Next(&rec) {
			visit(&rec)
			at, n = at+1, n-1
		}
	}
	return nil
}
