package segstore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// A log whose files cannot be read when it is opened (a bad disk, wrong
// permissions; not bytes that make no sense, which are put aside) is unread. It must
// not keep other logs from being opened, and must not become an empty one either:
//
//   - It is fenced from the beginning, for transactions too, and shows no offsets:
//     Next is 0, and there is nothing to settle. So nothing can give an offset twice
//     that its files or the journal name, and nobody adds an entry of it to the
//     journal, but of its deletion.
//   - Nothing is written to its files, and the directory goes nowhere unless the log
//     is deleted. (What a recovery did before it failed, it does at any start: it cuts
//     torn ends, with a copy. It sets segments aside as the very last.)
//   - The journal may have records that only it has, and settlings. For a checkpoint
//     the log is like any fenced one: the file is put aside for it (invariant 12),
//     and stays over any number of starts until the log is read and all of it is in
//     segments, or it is deleted. What Open found of it in kept files stays there. The
//     journal is not marked as done with by Close, which returns an error, so that the
//     next start is not taken for one after a clean stop.
//   - Reread does for it what Open does for all, from the directory and from the
//     journal's entries as Open found them. There are no newer ones. The log then is an
//     ordinary fenced one whose content is known: it can be read, and Reopen lifts the
//     fence, by writing all of it anew. Not before that are the kept files dropped
//     (keptIsSafe).
//
// If Reread fails halfway, the log is as it was. A crash at any moment leaves what
// the crash of a start leaves.

// ErrUnread is wrapped by Err of a log that could not be read when it was opened.
var ErrUnread = errors.New("segstore: the log cannot be read")

// errReread is Err of a log between Reread and Reopen.
var errReread = errors.New("segstore: the log was read again and is not open yet")

// Unread says why the log could not be read when it was opened; nil if it was.
func (l *Log) Unread() error {
	if !l.failed.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.journaled.unread {
		return nil
	}
	return l.err
}

// Withhold fences a log that its owner cannot use although it was read: another one
// that belongs to it was not. Reopen lifts the fence. Nothing happens to a log that is
// fenced already.
func (l *Log) Withhold(why error) (fenced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.fence(why)
	l.store.fencedLogs.Add(1)
	return true
}

// setUnread takes back what was found of the log so far. Called with the log's mutex
// held, before anybody uses the log.
func (l *Log) setUnread(why error) {
	s := l.store
	if inner := errors.Unwrap(why); inner != nil {
		why = inner // without the package's name, which ErrUnread has
	}
	l.forgetFound()
	l.journaled.unread = true
	l.next.Store(0)
	l.low.Store(0)
	l.durable.Store(0)
	if l.err == nil {
		l.fence(nil)
		s.fencedLogs.Add(1)
	}
	l.err = fmt.Errorf("%w: %w", ErrUnread, why)
	s.unreadLogs.Add(1)
	s.o.Logger.Error("segstore: a log cannot be read: it takes and gives no records until it is read again, and nothing of it is changed; mend the disk or the permissions, then use basaltmqctl restart_queue, or restart the broker",
		"log", l.id, "directory", l.dir(), "error", why)
}

// forgetFound gives up what was found of the log.
func (l *Log) forgetFound() {
	for len(l.chunks) > 0 {
		l.dropChunk(len(l.chunks) - 1)
	}
	l.store.files.forgetLog(l.id) // the operator may replace them
	l.segments, l.acks = nil, nil
	l.settled, l.pending, l.punch = intervalSet{}, intervalSet{}, punching{}
	l.cursor, l.logged.low, l.logged.cursor, l.aged = 0, 0, 0, 0
	l.sumBytes, l.sumRecord, l.class = 0, 0, 0
	l.changed, l.stale, l.reap = false, false, false
}

// Reread tries to read a log again that could not be read when it was opened. Then
// Unread is nil, all offsets are those that the log has, and it stays fenced until
// Reopen. It waits for the disk. On an error the log is as it was, and Reread may be
// called again. A log that was read is left alone.
func (l *Log) Reread() error {
	s := l.store
	var entries *journal.Entries
	begun := false
	err := s.onFlusher(func() (err error) {
		entries, begun, err = l.beginReread()
		return err
	})
	if !begun || err != nil {
		return err
	}
	defer s.reopens.Done()
	rp := &replay{store: s, bound: math.MaxInt64}
	found := &replayed{log: &Log{store: s, id: l.id}}
	found.log.lists.Store(math.MaxUint32) // nobody lists it
	err = cmp.Or(rp.reread(found, entries), entries.Close())
	rp.releaseSlab()
	return l.endReread(found.log, err)
}

// beginReread has the journal keep the log's entries for a while. The flusher's
// goroutine.
func (l *Log) beginReread() (entries *journal.Entries, begun bool, err error) {
	s := l.store
	l.mu.Lock()
	failed := s.journal.failed.Load()
	switch {
	case l.deleted:
		err = ErrDeleted
	case !l.journaled.unread:
	case l.filing:
		err = ErrReopening
	case failed != nil:
		err = fmt.Errorf("%w: %w", ErrJournalFailed, *failed)
	default:
		begun = true
	}
	if !begun {
		l.mu.Unlock()
		return nil, false, err
	}
	l.filing, l.journaled.reopening = true, true // checkpoints wait
	var files [2]bool
	for i := range files {
		c := &s.journal.checkpoint
		files[i] = l.journaled.files&(1<<i) != 0 || c.running && c.file == i && slices.Contains(c.keep, l.id)
	}
	l.mu.Unlock()
	if entries, err = s.journal.w.OpenEntries(l.id, files); err != nil {
		l.mu.Lock()
		l.filing, l.journaled.reopening = false, false
		l.mu.Unlock()
		return nil, false, fmt.Errorf("segstore: %w", err)
	}
	s.reopens.Add(1)
	return entries, true, nil
}

// reread reads directory and entries, in the order of replayJournal.
func (rp *replay) reread(r *replayed, entries *journal.Entries) error {
	s, l := rp.store, r.log
	err := entries.Replay(func(e *journal.Entry, ordinal uint64) error {
		return r.note(e, journal.FromKept, ordinal)
	})
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	if err := s.scanLog(l, &r.recovery); err != nil {
		return err
	}
	r.begin()
	err = entries.Replay(func(e *journal.Entry, ordinal uint64) error {
		if e.Kind != journal.Batch || ordinal < r.deleted {
			return nil
		}
		return rp.restoreAll(r, e.Data)
	})
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	s.assemble(l, &r.recovery) // Reopen writes again what might not be on the disk
	return nil
}

// endReread gives the log what was found.
func (l *Log) endReread(found *Log, err error) error {
	s := l.store
	if err != nil {
		found.forgetFound()
	}
	l.mu.Lock()
	l.filing, l.journaled.reopening = false, false
	defer s.wake()
	if err != nil || l.deleted {
		deleted := l.deleted
		if deleted {
			l.list(listUrgent)
		}
		l.mu.Unlock()
		if deleted {
			found.forgetFound()
			return ErrDeleted
		}
		return err
	}
	defer l.mu.Unlock()
	l.chunks, l.segments, l.acks = found.chunks, found.segments, found.acks
	l.heldBytes.Store(found.heldBytes.Load())
	l.settled, l.pending, l.punch = found.settled, found.pending, found.punch
	l.cursor, l.logged, l.aged = found.cursor, found.logged, found.aged
	l.sumBytes, l.sumRecord, l.class = found.sumBytes, found.sumRecord, found.class
	l.changed, l.stale, l.reap = found.changed, found.stale, found.reap
	l.next.Store(found.next.Load())
	l.low.Store(found.low.Load())
	l.durable.Store(found.durable.Load())
	l.journaled.unread, l.err = false, errReread
	s.unreadLogs.Add(-1)
	l.retain(l.retained())
	s.o.Logger.Info("segstore: a log that could not be read was read again", "log", l.id, "records", l.unsettled())
	return nil
}
