package schedule

import "slices"

// writable is the offset below which messages may be in the index (invariant 2).
func (s *Schedule) writable() uint64 {
	durable := s.o.Messages.Durable()
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(durable, s.added)
}

// Maintain does a step of what keeps memory bounded: it writes what is fresh, or
// merges runs. To be called when nothing is due.
func (s *Schedule) Maintain() State {
	if s.damaged {
		if err := s.makeAgain(); err != nil {
			return s.failed(err)
		}
	}
	if state := s.writeFull(); state != Idle {
		return state
	}
	state := s.mergeStep()
	if state == Idle {
		s.closeReader()
		if s.writing != nil {
			s.writing.Release()
		}
	}
	return state
}

// writeFull writes what is fresh, if that is much.
func (s *Schedule) writeFull() State {
	s.mu.Lock()
	full, much := s.full(), len(s.fresh) >= 4*s.o.fresh
	s.mu.Unlock()
	if !full {
		return Idle
	}
	if len(s.Taken()) > 0 {
		if !much {
			return Idle // its turn comes when that is done
		}
		s.putBack()
	}
	upTo, ready := s.writable(), 0
	s.mu.Lock()
	for _, e := range s.fresh {
		if e.Offset < upTo {
			ready++
		}
	}
	enough := ready >= (len(s.fresh)+1)/2
	s.mu.Unlock()
	if !enough {
		s.o.Messages.WantDurable()
		return Waiting
	}
	return s.write(upTo)
}

// merge is the making of one run out of fanIn others.
type merge struct {
	inputs  []*run
	cursors []cursor
	out     *writer
}

// cursor is a merge's place in a run.
type cursor struct {
	block  int // of the run, loaded if entries are left
	left   []Entry
	buf    []Entry
	opened bool
}

// follow goes to the head of a run, past what has been taken.
func (c *cursor) follow(r *run) {
	c.block, c.opened = r.head, r.loaded
	if r.loaded {
		c.left = slices.Clone(r.entries)
	}
}

// mergeStep merges a few thousand entries, if there is something to merge.
func (s *Schedule) mergeStep() State {
	if s.merging == nil && !s.beginMerge() {
		return Idle
	}
	m := s.merging
	for range mergeEntries {
		c, state := s.leastOf(m)
		if state != Idle {
			s.flushMerge()
			return state
		}
		if c == nil {
			return s.endMerge()
		}
		e := c.left[0]
		if c.left = c.left[1:]; len(c.left) == 0 {
			c.block++
			c.opened = false
		}
		if s.live(e.Offset) {
			m.out.add(e)
		}
		if m.out.full() {
			if state := s.flushMerge(); state != Idle {
				return state
			}
		}
	}
	if state := s.flushMerge(); state != Idle {
		return state
	}
	return Busy
}

// beginMerge looks for runs to merge; small ones first.
func (s *Schedule) beginMerge() bool {
	count := map[uint64]int{}
	level, some := uint64(0), false
	for _, r := range s.runs {
		if count[r.level]++; count[r.level] == fanIn && (!some || r.level < level) {
			level, some = r.level, true
		}
	}
	if !some {
		return false
	}
	m := &merge{out: s.newWriter(level+1, s.covered)}
	for _, r := range s.runs {
		if r.level == level && len(m.inputs) < fanIn {
			m.inputs = append(m.inputs, r)
			m.cursors = append(m.cursors, cursor{})
			m.cursors[len(m.cursors)-1].follow(r)
		}
	}
	s.merging = m
	return true
}

// leastOf returns the cursor at the least entry; nil at the end.
func (s *Schedule) leastOf(m *merge) (least *cursor, state State) {
	for i := range m.cursors {
		c, r := &m.cursors[i], m.inputs[i]
		if c.block < r.head { // taken meanwhile
			c.follow(r)
		}
		if c.block == len(r.blocks) {
			continue
		}
		if !c.opened {
			entries, state := s.read(r.blocks[c.block].offset, c.buf[:0])
			if state != Idle {
				return nil, state
			}
			c.opened, c.left, c.buf = true, entries, entries
		}
		if least == nil || c.left[0].before(least.left[0]) {
			least = c
		}
	}
	return least, Idle
}

// flushMerge appends what is merged so far; until its last block is there it
// counts for nothing.
func (s *Schedule) flushMerge() State {
	if err := s.merging.out.flush(nil); err != nil {
		s.abortMerge()
		return s.failed(err)
	}
	return Idle
}

// abortMerge gives up what has been merged so far.
func (s *Schedule) abortMerge() {
	if s.merging == nil {
		return
	}
	for _, b := range s.merging.out.run.blocks {
		s.settle(nil, b.offset, 1)
	}
	s.merging = nil
}

// endMerge puts the new run in the place of the others. Not while there are
// entries that were taken from them.
func (s *Schedule) endMerge() State {
	if len(s.Taken()) > 0 {
		if state := s.flushMerge(); state != Idle {
			return state
		}
		return Idle
	}
	m := s.merging
	s.merging = nil
	tx := s.o.Store.Begin()
	defer tx.End()
	s.settleSpent(tx)
	if err := m.out.finish(tx); err != nil {
		return s.failed(err)
	}
	for _, r := range m.inputs {
		for _, b := range r.blocks[r.head:] {
			s.settle(tx, b.offset, 1)
		}
		s.dropRun(r)
	}
	return Busy
}
