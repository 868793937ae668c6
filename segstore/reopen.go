package segstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Reopen brings a fenced log back while the store runs, once its disk works again.
// What a start would have to find out is known here: memory holds all that is
// unsettled and has not been written, and what was settled. So nothing of the log's
// state in memory is given up: its offsets, readers, and whatever its owner derived
// from them stay valid. What is doubtful is on the disk, and that is made anew:
//
//  1. begin, between two rounds of the flusher: the chunks and the settled offsets
//     are noted, at a moment when all transactions with a part in the log are
//     synced. From then on the log's files belong to the reopening (Log.filing), as
//     they do to the filer at other times, so checkpoints wait for it.
//  2. write (remake.go), on the caller's goroutine: sealed segments are checked, as
//     at a start by header and trailer. Others, and those with strays, are replaced:
//     what is unsettled goes, from memory or from what of the old file has a good
//     checksum, into a new file under another name. That is synced, and so is a new
//     settled file. A file with a failed write or sync is never written to again
//     (invariant 8): its pages may count as clean and be gone at the next power cut.
//  3. swap: the new files take their names, the directory is synced. Reads behind
//     the tail wait meanwhile: positions in old and new files differ.
//  4. install: the log gets the new segments; the fence is lifted if all of that
//     succeeded. So a write and a sync have succeeded, and all that was in the log
//     at step 1 is durable, whether its publisher was told so or not.
//
// A crash anywhere leaves old and new files in some mixture. New ones have no less than
// old ones, but for what the settled file, which is in place first, says is settled;
// the journal's entries are skipped as those of any segment. If a step fails the log
// stays fenced, and Reopen may be tried again: it begins anew with what is there then.
//
// The journal itself is not mended: its failure fences all durable logs, and what
// its file has is known only when it is read again.

// Errors of Reopen.
var (
	// ErrNotFenced: the log takes records, there is nothing to do.
	ErrNotFenced = errors.New("segstore: the log is not fenced")
	// ErrReopening: somebody else is at it.
	ErrReopening = errors.New("segstore: the log is being opened again already")
	// ErrJournalFailed: only a start reads the journal again.
	ErrJournalFailed = errors.New("segstore: the journal failed, and only a new start reads it again")
	// ErrReopenBusy: transactions kept coming.
	ErrReopenBusy = errors.New("segstore: transactions with a part in the log do not come to an end; try again")
)

// errReplaced is what a read of a segment gets whose file may be another one now.
var errReplaced = errors.New("segstore: the segment was replaced and its file could not be looked at since; open the log again")

// reopenTriesMax bounds the rounds that begin waits for transactions.
const reopenTriesMax = 20

// reopening is one call of Reopen.
type reopening struct {
	store *Store
	log   *Log
	remaker
	swapped bool // names may have changed
}

// Reopen lifts the fence of the log when all of it is on stable storage, in files
// that were not there before or were checked. It waits for the disk: for goroutines
// that may block. On an error the log is as it was, and it may be called again.
func (l *Log) Reopen() error {
	s := l.store
	r := &reopening{store: s, log: l}
	r.remaker.store, r.remaker.log = s, l
	if err := s.onFlusher(r.begin); err != nil {
		return err
	}
	defer s.reopens.Done()
	err := r.write()
	if err == nil {
		err = r.swap()
	}
	r.release()
	if err = r.install(err); err != nil {
		r.tidy()
		return err
	}
	s.filer.moved.Store(true)
	s.wake()
	s.o.Logger.Info("segstore: a fenced log is open again: all that is unsettled was written and synced",
		"log", l.id, "records", l.Unsettled())
	return nil
}

// begin notes what the log has. The flusher's goroutine, between rounds.
func (r *reopening) begin() error {
	s, l := r.store, r.log
	if !s.filer.wait() { // it may have the log's files in hand
		return errNoSpace
	}
	for range reopenTriesMax {
		s.gate.mu.Lock()
		l.mu.Lock()
		err := l.reopenable()
		busy := err == nil && l.txPending()
		if err == nil && !busy {
			r.snapshot()
			s.reopens.Add(1)
		}
		l.mu.Unlock()
		s.gate.mu.Unlock()
		if !busy {
			return err
		}
		s.cycle(pass{sync: true})
	}
	return ErrReopenBusy
}

// reopenable says why Reopen makes no sense. Called with the log's mutex held.
func (l *Log) reopenable() error {
	switch failed := l.store.journal.failed.Load(); {
	case l.deleted:
		return ErrDeleted
	case l.err == nil:
		return ErrNotFenced
	case l.err == ErrClosed:
		return ErrClosed
	case l.journaled.unread:
		return l.err
	case failed != nil && !l.transient:
		return fmt.Errorf("%w: %w", ErrJournalFailed, *failed)
	case l.filing:
		return ErrReopening
	}
	return nil
}

// txPending reports whether a transaction with a part in the log is not synced.
func (l *Log) txPending() bool {
	j := &l.journaled
	return l.txSettlePending() || j.txEnd != 0 && (j.txRound == 0 || j.txRound > l.store.flusher.syncedRound.Load())
}

// snapshot is step 1. All of the tail counts as written from here on: what a
// transaction appends to a log that it found fenced too late goes into new chunks.
func (r *reopening) snapshot() {
	l := r.log
	l.filing, l.journaled.reopening = true, true
	l.closeTail()
	r.low, r.next = l.low.Load(), l.next.Load()
	l.settled.each(func(iv interval) bool {
		r.settled.add(iv.first, iv.end)
		return true
	})
	for _, c := range l.chunks {
		c.buf.Retain()
		r.tail = append(r.tail, piece{buf: c.buf, data: c.data[:c.used:c.used], base: c.base, next: c.next, stray: c.stray})
		c.saved, c.savedNext, c.flushed, c.flushedNext = c.used, c.next, c.used, c.next
		l.noteHeld(c)
	}
	r.old = slices.Clone(l.segments)
	if l.rolling() {
		r.rolls = slices.Clone(l.special.rolls)
	}
	r.limit, r.version = l.segmentBytes(), l.segmentVersion()
	r.acks = l.encodeSettled(r.store.tune.now().UnixMilli(), r.next)
}

// swap is step 3.
func (r *reopening) swap() error {
	l := r.log
	l.mu.Lock()
	if l.deleted {
		l.mu.Unlock()
		return ErrDeleted
	}
	for _, p := range r.parts {
		if p.old != nil && p.old != p.fresh {
			p.old.replaced = true
		}
	}
	l.journaled.swapping = true
	wakes := l.dropReads()
	l.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	r.swapped = true
	return r.rename()
}

// install is step 4: it gives the log back, with the fence lifted if err is nil.
func (r *reopening) install(err error) error {
	s, l := r.store, r.log
	l.mu.Lock()
	l.filing, l.journaled.reopening, l.journaled.swapping = false, false, false
	if r.swapped {
		l.segments = r.segments()
	}
	if l.acks == nil && !l.transient {
		l.acks = new(settledFile) // there is a directory
	}
	wakes := l.dropReads()
	failed := s.journal.failed.Load()
	switch {
	case l.deleted:
		err = ErrDeleted
		l.list(listUrgent)
	case err == nil && failed != nil && !l.transient: // from here on fenceJournal sees the log
		err = fmt.Errorf("%w: %w", ErrJournalFailed, *failed)
	case err == nil:
		l.revive(r.next)
	}
	l.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
	return err
}

// revive lifts the fence: everything below next is in segments and synced. Called
// with the log's mutex held.
func (l *Log) revive(next uint64) {
	s, j := l.store, &l.journaled
	l.err = nil
	s.fencedLogs.Add(-1)
	j.segmentTo, j.bareFrom, j.bypassTo, j.acks = 0, 0, 0, nil
	j.syncAll, j.rewrite, j.reaped = false, false, false
	if !l.transient {
		l.acks = &settledFile{exists: true, entrySynced: true}
	}
	l.unwritten = l.inFlight
	for _, c := range l.chunks {
		if c.base < next {
			c.stray = false
		}
		l.unwritten += int64(c.used - c.saved)
	}
	s.unwritten.Add(l.unwritten) // see fence
	l.durable.Store(max(l.durable.Load(), next))
	if l.rolling() {
		l.special.rolls = slices.DeleteFunc(l.special.rolls, func(at uint64) bool { return at <= next })
	}
	l.logged.low, l.logged.cursor = 0, 0 // the journal may have lost a file since
	l.changed, l.stale, l.moved, l.reap = true, true, true, len(l.segments) > 0
	l.spill, l.missed = false, false
	if k := &l.punch; k.next != nil {
		k.next.segment.punching = false
		k.next = nil
	}
	l.punch.from, l.punch.wanted = 0, len(l.segments) > 0
	if l.want.Load() > next {
		l.list(listUrgent)
	}
	l.list(listDirty)
	l.settleDown()
}

// dropReads gives up all reads behind the tail, and has their readers seek again.
// Called with the log's mutex held; the callbacks are to be called without.
func (l *Log) dropReads() (wakes []func()) {
	back := l.back
	if back == nil {
		return nil
	}
	back.drop()
	for _, f := range back.fetches {
		wakes = append(wakes, f.finish(nil, nil)...)
	}
	back.fetches = nil
	if back.readers == 0 {
		l.back = nil
	}
	return wakes
}

// park lets a reader wait until new files have their names.
func (l *Log) park(r *Reader, offset uint64, wake func()) {
	f := &fetch{log: l, offset: offset, waiters: []waiter{{r, wake}}}
	l.back.fetches = append(l.back.fetches, f)
	r.pending = f
}

// piece is a chunk as it was at the snapshot.
type piece struct {
	buf        *arena.Buf // retained
	data       []byte     // whole batches
	base, next uint64
	stray      bool
}

// release gives up the chunks.
func (r *reopening) release() {
	for i := range r.tail {
		r.tail[i].buf.Release()
	}
	r.tail = nil
	if r.buf != nil {
		r.buf.Release()
		r.buf = nil
	}
}
