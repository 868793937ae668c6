package segstore

import (
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// puncher makes holes, on a goroutine that ends when there is nothing to do.
type puncher struct {
	mu          sync.Mutex // leaf: taken after any other
	queue       []*punch
	running     int // and queued
	closed      atomic.Bool
	unsupported atomic.Bool // by the file system
	group       sync.WaitGroup
}

// punchOpsMax bounds the operations that are with the disk at once.
const punchOpsMax = 32

func (w *puncher) room() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running < punchesMax
}

// submitPunch queues p; false when the store is closed.
func (s *Store) submitPunch(p *punch) bool {
	w := &s.puncher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return false
	}
	w.queue = append(w.queue, p)
	if w.running++; w.running == 1 {
		w.group.Go(s.punchLoop)
	}
	return true
}

func (s *Store) punchLoop() {
	w := &s.puncher
	for more := true; more; {
		w.mu.Lock()
		p := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		w.mu.Unlock()
		done := false
		if !w.closed.Load() {
			done = s.runPunch(p)
		}
		s.endPunch(p, done)
		w.mu.Lock()
		w.running--
		more = w.running > 0
		w.mu.Unlock()
	}
}

// stopPuncher waits for the operations under way; no more follow.
func (s *Store) stopPuncher() {
	w := &s.puncher
	w.mu.Lock()
	w.closed.Store(true)
	w.mu.Unlock()
	w.group.Wait()
}

// runPunch makes the holes of p; true if there is no use in doing it again.
func (s *Store) runPunch(p *punch) (done bool) {
	l, seg := p.log, p.segment
	h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
	if err != nil {
		return false // removed meanwhile
	}
	defer s.files.release(h)
	if err := s.mapHoles(l, seg, h.file); err != nil {
		return s.punchFailed(p, err)
	}
	marks, err := s.survey(p, h.file)
	if err != nil {
		return s.punchFailed(p, err)
	}
	if len(marks) == 0 {
		return true
	}
	holes := make([]hole, len(marks))
	for i, m := range marks {
		holes[i] = m.hole
	}
	before, ok := p.holdPunches(holes)
	if !ok {
		return false
	}
	if err := s.writeMarks(p, h.file, marks, before); err != nil {
		if !disk.IsNoSpace(err) {
			s.punchFailed(p, err)
		}
		l.mu.Lock()
		seg.punched = before // batches and marks are there, both whole
		l.mu.Unlock()
		return true
	}
	if err := s.punchBlocks(p, h.file, holes, before); err != nil {
		return s.punchFailed(p, err)
	}
	return true
}

// punchFailed reports why holes could not be made. The space stays in use.
func (s *Store) punchFailed(p *punch, err error) (done bool) {
	switch {
	case errors.Is(err, errPunchStopped):
		return false
	case errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENODEV):
		if !s.puncher.unsupported.Swap(true) {
			s.o.Logger.Warn("segstore: the file system cannot punch holes into files: the space of settled messages comes back only with whole segments; ext4, XFS, Btrfs and tmpfs can",
				"error", err)
		}
	default:
		s.o.Logger.Warn("segstore: the space of settled messages in a segment could not be given back",
			"file", p.log.path(segmentName(p.segment.base)), "error", err)
	}
	return true
}

// errPunchStopped: the store closes, or the log may not be written to any more.
var errPunchStopped = errors.New("segstore: punching was stopped")

// each does one operation for each item that make gives one for, some at a
// time, as long as the log may be written to.
func (s *Store) each(p *punch, n int, operation func(i int) *disk.Op) error {
	var ops []*disk.Op
	for i := range n {
		if op := operation(i); op != nil {
			ops = append(ops, op)
		}
		if len(ops) == punchOpsMax || i == n-1 {
			if err := s.runOps(p, ops...); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	return nil
}

func (s *Store) runOps(p *punch, ops ...*disk.Op) error {
	p.log.mu.Lock()
	ok := p.writable()
	p.log.mu.Unlock()
	if !ok || s.puncher.closed.Load() {
		return errPunchStopped
	}
	return disk.Run(s.disk, ops...)
}

// writeMarks makes the marks durable that are not there yet. One of an earlier
// life is written again: its sync may have failed.
func (s *Store) writeMarks(p *punch, file disk.File, marks []holeMark, before []hole) error {
	err := s.each(p, len(marks), func(i int) *disk.Op {
		m := &marks[i]
		if old, ok := holeAt(before, m.pos); ok && old.sure && old.pos == m.pos && old.end == m.end {
			return nil
		}
		s.writes.Add(1)
		s.writtenBytes.Add(holeBytes)
		return &disk.Op{Kind: disk.Write, File: file, Pos: m.pos, Buf: encodeHole(m.base, m.next, m.timestamp, m.end-m.pos)}
	})
	if err != nil {
		return err
	}
	return s.syncPunch(p, file)
}

// punchBlocks gives the blocks of the holes back, but for those of older holes
// that have been, and makes that durable.
func (s *Store) punchBlocks(p *punch, file disk.File, holes, before []hole) error {
	for _, h := range holes {
		pieces := h.pieces(before)
		err := s.each(p, len(pieces), func(i int) *disk.Op {
			return &disk.Op{Kind: disk.Punch, File: file, Pos: pieces[i].pos, Len: pieces[i].end - pieces[i].pos}
		})
		if err != nil {
			return err
		}
		s.punches.Add(1)
		for _, piece := range pieces {
			s.punchedBytes.Add(uint64(piece.end - piece.pos))
		}
	}
	if err := s.syncPunch(p, file); err != nil {
		return err
	}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	after := slices.Clone(p.segment.punched)
	for i := range after {
		if slices.ContainsFunc(holes, func(h hole) bool { return h.pos == after[i].pos }) {
			after[i].sure = true
		}
	}
	p.segment.punched = after
	return nil
}

func (s *Store) syncPunch(p *punch, file disk.File) error {
	if p.log.transient {
		return nil
	}
	s.syncs.Add(1)
	return s.runOps(p, &disk.Op{Kind: disk.Sync, File: file})
}

// pieces is what of the blocks of h are not those of the sure ones of older
// holes.
func (h hole) pieces(older []hole) (pieces []hole) {
	from, to := h.blocks()
	for _, old := range holesIn(older, h.pos, h.end) {
		oldFrom, oldTo := old.blocks()
		if !old.sure || oldFrom >= oldTo {
			continue
		}
		if oldFrom > from {
			pieces = append(pieces, hole{pos: from, end: oldFrom})
		}
		from = oldTo
	}
	if from < to {
		pieces = append(pieces, hole{pos: from, end: to})
	}
	return pieces
}

// beforeHole is the distance from pos to the end of the mark of the next hole
// known in the segment, 0 if there is none.
func (s *Store) beforeHole(l *Log, seg *segment, pos int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(seg.punched), func(i int) bool { return seg.punched[i].pos > pos })
	if i == len(seg.punched) {
		return 0
	}
	return seg.punched[i].pos + holeBytes - pos
}

// inHole returns the hole that pos of a segment lies in, if there is one,
// looking for holes in the file if that was not done.
func (s *Store) inHole(l *Log, seg *segment, file disk.File, pos int64) (hole, bool, error) {
	for {
		l.mu.Lock()
		h, inside := holeAt(seg.punched, pos)
		mapped := seg.mapped
		l.mu.Unlock()
		if inside || mapped {
			return h, inside, nil
		}
		if err := s.mapHoles(l, seg, file); err != nil {
			return hole{}, false, err
		}
	}
}

// mapHoles finds the holes that an earlier life made in a sealed segment: it
// walks from batch to batch and over the holes, so that no old bytes inside one
// are taken for a mark.
func (s *Store) mapHoles(l *Log, seg *segment, file disk.File) error {
	l.mu.Lock()
	mapped := seg.mapped
	sc := scanner{store: s, file: file, limit: seg.size, block: s.tune.blockBytes}
	next := seg.next
	l.mu.Unlock()
	if mapped {
		return nil
	}
	defer sc.release()
	var found []hole
	expected := seg.base
	for pos := int64(segmentHeaderBytes); pos < sc.limit; {
		batch, err := sc.batch(pos)
		if err == nil && (batchBase(batch) < expected || endOf(batch) > next) {
			err = errBatch
		}
		if isBatchError(err) {
			at, more, err := sc.resync(pos, expected, next)
			if err != nil {
				return err
			}
			if !more {
				break
			}
			pos = at
			continue
		}
		if err != nil {
			return err
		}
		end := pos + int64(batchLength(batch))
		if isHole(batch) {
			found = append(found, hole{pos: pos, end: end})
		}
		pos, expected = end, endOf(batch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !seg.mapped {
		seg.punched, seg.mapped = found, true
	}
	return nil
}
