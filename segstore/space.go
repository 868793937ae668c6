package segstore

import (
	"fmt"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// A full disk fences nothing. The write that found no space waits, with it the
// flusher, and meanwhile consumers go on: what they settle frees segments, and
// those are removed here. Then the same write is done again, whole.
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
	if s.noSpace.CompareAndSwap(false, true) {
		s.o.Logger.Error("segstore: the disk is full: publishing waits until there is space; nothing that was confirmed is lost", "error", err)
		s.o.OnCommit()
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

// spaceIsBack ends what waitForSpace began.
func (s *Store) spaceIsBack() {
	if s.noSpace.CompareAndSwap(true, false) {
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
			s.spaceIsBack()
			return nil
		} else if !disk.IsNoSpace(err) {
			return err
		}
	}
}

// reclaim removes the segments that were settled since the cycle began, and
// reports whether there was one. The last segment of a log stays: it may be the
// one that waits.
func (s *Store) reclaim(w *crew) (freed bool) {
	s.gate.mu.Lock() // no transaction is half done
	defer s.gate.mu.Unlock()
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		logs = append(logs, l)
	}
	s.mu.Unlock()
	for _, l := range logs {
		var dead []*segment
		l.mu.Lock()
		if (l.reap || l.journaled.reaped) && l.filing == w.behind && !l.journaled.reopening && !l.deleted && !l.txSettlePending() {
			kept := l.segments[:0:0]
			for i, seg := range l.segments {
				if i < len(l.segments)-1 && seg.sealed && !seg.footerDirty && (seg.base == seg.next || l.isSettled(seg.base, seg.next)) {
					seg.removed = true
					dead = append(dead, seg)
				} else {
					kept = append(kept, seg)
				}
			}
			l.segments = kept
		}
		l.mu.Unlock()
		for _, seg := range dead {
			freed = s.removeSegment(l, seg) || freed
		}
	}
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
