package segstore

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// A full disk fences nothing. The write that found no space waits, with it the
// flusher, and meanwhile consumers go on: what they settle frees segments, and
// those are removed here. Then the same write is done again, whole. Segments need
// not be sealed for that: what was filled and not synced yet may be all there is.
// Below the anchor nothing is needed to know which offsets were given.
//
// A start must not wait like that: consumers come only after it. What Open and
// Quarantine write, they give up when there is no space (flusher.hurried, and
// errNoSpace for calls that find the flusher waiting).

// errNoSpace is what a call to a waiting flusher gets.
var errNoSpace = fmt.Errorf("segstore: the flusher waits for space: %w", syscall.ENOSPC)

// spaceTriesAtClose bounds how often Close tries: nobody frees space any more.
const spaceTriesAtClose = 3

// waitForSpace waits a while and reports whether to try again.
func (s *Store) waitForSpace(w *crew, err error) bool {
	if w.hurried {
		return false
	}
	if !w.waiting {
		w.waiting = true
		if s.spaceWaiters.Add(1) == 1 {
			s.o.Logger.Error("segstore: the disk is full: publishing waits until there is space; nothing that was confirmed is lost", "error", err)
			s.o.OnCommit()
		}
	}
	calls := s.calls
	if w.behind {
		calls = nil // the flusher takes them
		s.filer.hinder()
	}
	select {
	case <-s.stop:
		w.spaceTries++
		return w.spaceTries < spaceTriesAtClose && s.reclaim(w)
	default:
	}
	if s.reclaim(w) {
		return true
	}
	timer := time.NewTimer(s.tune.spaceWait)
	defer timer.Stop()
	select {
	case <-s.stop:
		w.spaceTries++
		return w.spaceTries < spaceTriesAtClose
	case call := <-calls:
		call(errNoSpace)
		return true
	case <-timer.C:
		return true
	}
}

// spaceIsBack ends what waitForSpace began, when w was the last to wait. That
// the other crew finds space means nothing: the journal writes over its own.
func (s *Store) spaceIsBack(w *crew) {
	if !w.waiting {
		return
	}
	w.waiting = false
	if s.spaceWaiters.Add(-1) == 0 {
		s.o.Logger.Warn("segstore: there is space on the disk again")
		s.filer.moved.Store(true)
		s.wake()
	}
}

// withSpace does a call that changes names, again and again while it finds no
// space.
func (s *Store) withSpace(w *crew, do func() error) error {
	for {
		err := do()
		if err == nil || !disk.IsNoSpace(err) {
			return err
		}
		if !s.waitForSpace(w, err) {
			return err
		}
		if err = do(); err == nil {
			s.spaceIsBack(w)
			return nil
		} else if !disk.IsNoSpace(err) {
			return err
		}
	}
}

// reclaim removes the segments that were settled since the cycle began, and
// reports whether there was one. Segments from the anchor on stay: it is what
// remembers the log's offsets, until the journal does.
func (s *Store) reclaim(w *crew) (freed bool) {
	s.gate.mu.Lock() // no transaction is half done
	defer s.gate.mu.Unlock()
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		logs = append(logs, l)
	}
	s.mu.Unlock()
	// What this round has for the filer waits for the end of the wave, too.
	later := !w.behind && s.filer.idle()
	for _, l := range logs {
		l.mu.Lock()
		wanted := (l.reap || l.journaled.reaped) && (l.filing == w.behind || later) && !l.journaled.reopening && !l.deleted && !l.txSettlePending()
		var anchor *segment
		if wanted && slices.ContainsFunc(l.segments[:max(0, len(l.segments)-1)], l.over) {
			anchor = l.anchor(w)
		}
		l.mu.Unlock()
		if anchor == nil || !s.dropAnchor(l, anchor) {
			continue
		}
		var dead []*segment
		l.mu.Lock()
		kept := l.segments[:0:0]
		for _, seg := range l.segments {
			if seg.base < anchor.base && l.over(seg) {
				seg.removed = true
				dead = append(dead, seg)
			} else {
				kept = append(kept, seg)
			}
		}
		l.segments = kept
		l.mu.Unlock()
		for _, seg := range dead {
			freed = s.giveUp(l, seg) || freed
		}
	}
	for i := range w.jobs[:w.n] {
		freed = s.removeEarly(w, &w.jobs[i]) || freed
	}
	return freed
}

// over says that nothing in the segment is needed. Called with l.mu held.
func (l *Log) over(seg *segment) bool {
	return seg.base == seg.next || l.isSettled(seg.base, seg.next)
}

// anchor returns the last segment with a batch in its file, which a wave that waits
// may have written. Called with l.mu held.
func (l *Log) anchor(w *crew) *segment {
	wrote := uint64(0)
	for i := range w.jobs[:w.n] {
		if j := &w.jobs[i]; j.log == l {
			wrote = j.wrote
		}
	}
	for i := len(l.segments) - 1; i >= 0; i-- {
		if seg := l.segments[i]; seg.size > segmentHeaderBytes || seg.base+1 == wrote {
			return seg
		}
	}
	return nil
}

// noteWrites remembers the last segment of each job to which a batch was written,
// when other writes of the same submission have found no space.
func (g *ioGroup) noteWrites() {
	for i := range g.n {
		op, j := g.ops[i], g.owners[i]
		if op.Kind != disk.Write || op.Err != nil || op.Pos == 0 && len(op.Buf) <= segmentHeaderBytes {
			continue
		}
		for _, h := range j.handles {
			if h.file == op.File && h.key.base != settledKey {
				j.wrote = max(j.wrote, h.key.base+1)
			}
		}
	}
}

// dropAnchor puts a segment on stable storage, before those below it go: offsets
// must not be given again. A failure fences the log.
func (s *Store) dropAnchor(l *Log, seg *segment) bool {
	if l.transient || seg.sealed && !seg.footerDirty || s.o.DurabilityOS {
		return true
	}
	h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
	if err == nil {
		s.syncs.Add(1)
		err = disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: h.file})
		s.files.release(h)
	}
	if err == nil {
		err = cmp.Or(s.syncRoot(), s.disk.SyncDir(l.dir()))
	}
	if err != nil {
		s.fenceLog(l, fmt.Errorf("segstore: %w", err))
	}
	return err == nil
}

// giveUp removes the file of a segment that may have writes waiting. They need
// not be done, but hold the file, so that its name going frees nothing.
func (s *Store) giveUp(l *Log, seg *segment) bool {
	if h := s.files.reuse(fileKey{l.id, seg.base}); h != nil {
		if !seg.sealed {
			if err := disk.Run(s.disk, &disk.Op{Kind: disk.Truncate, File: h.file}); err != nil {
				s.o.Logger.Error("segstore: a segment without records could not be emptied", "error", err)
			}
		}
		s.files.release(h)
	}
	return s.removeSegment(l, seg)
}

// removeEarly removes the dead segments of a job whose wave waits, as far as they
// are below the anchor. Where a new settled file is on its way, that will be
// all that remembers the log's next offset (invariant 10): the last one stays.
func (s *Store) removeEarly(w *crew, j *job) (freed bool) {
	if j.err != nil || j.remove || len(j.dead) == 0 {
		return false
	}
	anchor := j.dead[0]
	if len(j.acks) == 0 {
		j.log.mu.Lock()
		anchor = j.log.anchor(w)
		j.log.mu.Unlock()
	}
	if anchor == nil || len(j.acks) > 0 && anchor.size <= segmentHeaderBytes || j.dead[len(j.dead)-1].base >= anchor.base || !s.dropAnchor(j.log, anchor) {
		return false
	}
	kept := j.dead[:0]
	for _, seg := range j.dead {
		if seg.base < anchor.base {
			freed = s.giveUp(j.log, seg) || freed
		} else {
			kept = append(kept, seg)
		}
	}
	clear(j.dead[len(kept):])
	j.dead = kept
	return freed
}

// removeSegment removes the file of a segment that the log has given up.
func (s *Store) removeSegment(l *Log, seg *segment) bool {
	s.files.forget(fileKey{l.id, seg.base})
	if !seg.created {
		return false
	}
	if err := s.disk.Remove(l.path(segmentName(seg.base))); err != nil {
		s.o.Logger.Error("segstore: a segment without records could not be removed", "error", err)
		return false
	}
	return true
}
