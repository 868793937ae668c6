package segstore

import (
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// journaled is what the flusher remembers of a log's part in the journal.
// Guarded by the log's mutex.
type journaled struct {
	round      uint64 // of the last entry
	segmentTo  uint64 // batches below go to a segment in this round, 0 for none
	bareFrom   uint64 // of these, [bareFrom, bypassTo) are not in the journal
	bypassTo   uint64
	txFirst    uint64 // offsets of transactions [txFirst, txEnd) that wait for their group
	txEnd      uint64
	txRound    uint64  // the round of that group, 0 while there is none
	files      uint8   // bit i: file i has entries that only count there; see filesKept
	checkpoint bool    // visited for the checkpoint in this round
	postponed  bool    // which is left for another one
	syncAll    bool    // the checkpoint wants the segments synced
	rewrite    bool    // the settled file is to be written
	tickSync   bool    // the round came with a sync tick
	reaped     bool    // segments were found dead in this round
	unclaimed  bool    // found in the journal by Open, not opened since
	reopening  bool    // the log's files are those of a call of Reopen
	swapping   bool    // which gives new files their names: reads behind the tail wait
	unread     bool    // what is stored of the log is not known, see unread.go
	acks       *[]byte // it; nil: none
	txSettle   uint64  // round of the last settling by a transaction, or txWaiting; 0 when synced
}

// filesKept stands in journaled.files for files that were put aside for the log.
const filesKept = 1 << 2

// txWaiting is the txSettle of a log whose transaction has not entered a round.
const txWaiting = ^uint64(0)

// entry is one entry of a round's group, with the buffer its bytes are in.
type entry struct {
	journal.Entry
	buf *arena.Buf // retained, or nil
}

// round is the work of one cycle, or of the urgent logs between two waves.
type round struct {
	number   uint64
	logs     []*Log
	segments []*Log // those that have something to do with files
	later    []*Log // those whose files are the filer's business
	entries  []entry
	ackBytes int64 // left for settled entries that nobody waits for
	steps    int   // left for logs that a checkpoint writes out
	wantSync bool  // somebody waits for the journal to be durable
	mustSync bool  // whatever level of durability confirms have
	atomic   bool  // all entries must be in one group
	done     bool  // the group ends the checkpoint
	metaTo   uint64
	ticketTo uint64
}

func (r *round) reset(number uint64) {
	clear(r.logs)
	clear(r.segments)
	clear(r.later)
	clear(r.entries)
	*r = round{number: number, logs: r.logs[:0], segments: r.segments[:0], later: r.later[:0], entries: r.entries[:0]}
}

// add puts an entry of the log into the round.
func (l *Log) add(r *round, e journal.Entry, buf *arena.Buf) {
	if buf != nil {
		buf.Retain()
	}
	r.entries = append(r.entries, entry{e, buf})
	j := &l.journaled
	j.round = r.number
	s := l.store
	if bit := uint8(1) << s.journal.w.Current(); j.files&bit == 0 && e.Kind != journal.Deleted {
		j.files |= bit
		s.journal.logs[s.journal.w.Current()] = append(s.journal.logs[s.journal.w.Current()], l)
	}
}

// owns reports whether anything on disk names the log.
func (l *Log) owns() bool {
	return l.acks != nil || len(l.segments) > 0 || l.journaled.files != 0
}

// visit says whether a round has something to do to a log's files.
type visit uint8

const (
	visitNone  visit = iota
	visitNow         // in a wave of the round
	visitLater       // by the filer: nobody waits for it
)

// enter decides what of the log goes into the journal in this round, and what
// to its segments. It reports whether the log has to be looked at by plan, and
// whether somebody waits in vain. Called with the log's mutex held.
func (l *Log) enter(r *round, p pass) (v visit, moved bool) {
	j := &l.journaled
	switch {
	case l.deleted:
		return l.enterDeleted(r), true
	case l.err != nil && l.err != ErrClosed: // while closing, what was appended goes out
		if j.checkpoint {
			j.checkpoint = false
			if l.journaled.reopening {
				l.postpone()
			} // else the old file is kept for it
		}
		if !l.transient && l.store.journal.err == nil && j.txEnd > l.handled() {
			l.chooseEntries(r, j.txEnd) // a transaction that was complete before
			l.noteTransactions(r)
		}
		return visitNone, true
	case j.bypassTo != 0: // between two waves: its turn comes
		if !l.transient && j.txEnd > l.handled() {
			l.chooseEntries(r, j.txEnd) // the other logs of a transaction are in this round
			l.noteTransactions(r)
		}
		l.list(listUrgent) // for what came since
		return visitNow, false
	}
	before := l.aged
	if p.tick {
		l.aged = l.next.Load()
		if before == l.aged {
			l.releaseQuietTail()
		}
	}
	bound := l.eligible(p, before)
	if l.filing {
		l.enterBeside(r, p, bound)
		return visitNone, false
	}
	j.tickSync = p.sync
	if l.transient {
		l.bypass(bound)
		l.enterReap(p)
		l.enterPunch(r, p)
		return l.fileWork(p), false
	}
	if j.checkpoint {
		j.checkpoint = false
		l.enterCheckpoint(r)
	}
	if l.spill || l.rolling() {
		l.spill = false
		j.segmentTo = max(j.segmentTo, l.flushLimit())
	}
	l.spreadSave(r, p, bound)
	l.enterSettled(r, p)
	l.enterReap(p)
	l.enterPunch(r, p)
	l.noteWanted(r)
	v = l.fileWork(p)
	l.filing = v == visitLater
	return v, false
}

// noteWanted has the round's group synced, if somebody waits for what the
// journal has of the log.
func (l *Log) noteWanted(r *round) {
	if l.want.Load() > l.durable.Load() && l.journaled.round > l.store.flusher.syncedRound.Load() {
		r.wantSync = true
	}
}

// enterDeleted tells the journal, and has the files removed.
func (l *Log) enterDeleted(r *round) visit {
	if !l.transient && l.journaled.files != 0 && !l.gone {
		l.add(r, journal.Entry{Kind: journal.Deleted, ID: l.id}, nil)
		l.journaled.files, r.wantSync = 0, true
	}
	if l.filing || l.gone {
		return visitNone // the filer lists it again
	}
	return visitNow
}

// enterBeside is enter while the filer has the log's files: all goes to the
// journal, and nothing is decided about files.
func (l *Log) enterBeside(r *round, p pass, bound uint64) {
	j := &l.journaled
	if j.checkpoint {
		j.checkpoint = false
		l.postpone()
	}
	if j.txEnd > l.handled() {
		bound = max(bound, j.txEnd)
	}
	l.chooseEntries(r, bound)
	l.noteTransactions(r)
	l.enterSettled(r, p)
	l.noteWanted(r)
	l.missed = l.missed || l.spill || l.rolling() || l.want.Load() > l.durable.Load() && l.bare()
}

// fileWork reports whether plan will find something to do to the log's files,
// or may, and when. A thousand logs that only have entries for the journal must
// not become five waves, between which the journal is synced.
func (l *Log) fileWork(p pass) visit {
	j := &l.journaled
	bare := l.bare()
	switch {
	case j.segmentTo > 0, j.syncAll, j.reaped, j.acks != nil, p.final:
	case len(l.segments) == 0:
		return visitNone
	case p.sync, bare && l.want.Load() > l.durable.Load(), l.sealable():
	default:
		return visitNone
	}
	if l.transient || p.final || bare || j.bypassTo > 0 || l.store.NoSpace() {
		return visitNow
	}
	return visitLater
}

// spreadSave sends the unsaved batches below bound to the journal, or to the
// segment when they are many. Transactions always go to the journal.
func (l *Log) spreadSave(r *round, p pass, bound uint64) {
	j := &l.journaled
	handled := l.handled()
	straight := bound
	if j.txEnd > handled {
		straight, bound = min(bound, j.txFirst), max(bound, j.txEnd)
	}
	bytes := l.unsavedBelow(straight)
	if bytes > 0 && (p.final || bytes >= l.store.tune.bypassBytes) && !l.isSettled(handled, straight) {
		l.bypass(straight)
		l.store.journal.bypassed.Add(uint64(bytes))
	}
	l.chooseEntries(r, bound)
	l.noteTransactions(r)
	if p.final {
		j.segmentTo = max(j.segmentTo, l.flushLimit())
	}
}

// noteTransactions marks the transactions that entered the round.
func (l *Log) noteTransactions(r *round) {
	if j := &l.journaled; j.txEnd != 0 && j.txRound == 0 && l.handled() >= j.txEnd {
		j.txRound, r.wantSync, r.atomic = r.number, true, true
	}
}

// flushLimit is the offset below which saved batches may go to a segment: not
// those of a transaction whose group is not on stable storage, as a part of it
// could survive a power cut there without the rest, whatever level of
// durability confirms have.
func (l *Log) flushLimit() uint64 {
	j := &l.journaled
	if j.txEnd != 0 && j.txRound != 0 && j.txRound <= l.store.flusher.syncedRound.Load() {
		j.txFirst, j.txEnd, j.txRound = 0, 0, 0
	}
	if j.txEnd != 0 {
		return min(l.handled(), j.txFirst)
	}
	return l.handled()
}

// bypass marks the unsaved batches below bound for the segment.
func (l *Log) bypass(bound uint64) {
	j := &l.journaled
	from := l.handled()
	if bound <= from || l.firstUnsaved() == len(l.chunks) {
		return
	}
	for i := l.firstUnsaved(); i < len(l.chunks) && l.chunks[i].savedNext < bound; i++ {
		c := l.chunks[i]
		if c.next <= bound {
			l.inFlight += int64(c.used - c.saved)
			c.saved, c.savedNext = c.used, c.next
			continue
		}
		for c.saved < c.used && c.savedNext < bound {
			n := batchLength(c.data[c.saved:])
			c.savedNext += batchCount(c.data[c.saved:])
			c.saved += n
			l.inFlight += int64(n)
		}
	}
	j.bareFrom, j.bypassTo = from, l.handled()
	j.segmentTo = j.bypassTo
}

// chooseEntries makes entries of the unsaved, unsettled batches below bound.
// Neighbours in a chunk share one.
func (l *Log) chooseEntries(r *round, bound uint64) {
	skipped := int64(0)
	for i := l.firstUnsaved(); i < len(l.chunks) && l.chunks[i].savedNext < bound; i++ {
		c := l.chunks[i]
		from := c.saved
		flush := func() {
			if c.saved > from {
				l.add(r, journal.Entry{Kind: journal.Batch, ID: l.id, Data: c.data[from:c.saved]}, c.buf)
				l.inFlight += int64(c.saved - from)
			}
		}
		if c.next <= bound && l.settled.empty() && l.low.Load() <= c.savedNext { // nothing of it is settled
			c.saved, c.savedNext = c.used, c.next
		}
		for c.saved < c.used && c.savedNext < bound {
			n := batchLength(c.data[c.saved:])
			end := c.savedNext + batchCount(c.data[c.saved:])
			settled := l.isSettled(c.savedNext, end)
			if settled {
				flush()
				skipped += int64(n)
				from = c.saved + n
			}
			c.saved += n
			c.savedNext = end
		}
		flush()
		l.noteHeld(c)
	}
	if skipped > 0 {
		l.store.skippedBytes.Add(uint64(skipped))
		l.writtenOff(skipped)
	}
}

// Sizes of entries.
const (
	rangeEntryBytes = journal.EntryHeaderBytes + 16
	lowEntryBytes   = journal.EntryHeaderBytes + 8
)

// enterSettled tells the journal what was settled, as far as it concerns
// offsets that something on disk names.
func (l *Log) enterSettled(r *round, p pass) {
	low, handled := l.low.Load(), l.handled()
	l.pending.advance(low)
	switch {
	case !l.owns() && l.journaled.segmentTo == 0:
		l.cutPending(handled)
		return
	case !l.changed || !p.tick && !p.final && l.journaled.round != r.number && l.journaled.segmentTo == 0:
		return
	case r.ackBytes <= 0 && !p.sync && !p.final && l.journaled.round != r.number && l.journaled.segmentTo == 0:
		return // relist puts it on the list of the next tick
	}
	if low != l.logged.low {
		l.add(r, journal.Entry{Kind: journal.Low, ID: l.id, First: low}, nil)
		l.logged.low = low
		r.ackBytes -= lowEntryBytes
	}
	l.pending.each(func(iv interval) bool {
		if iv.first < handled {
			l.add(r, journal.Entry{Kind: journal.Range, ID: l.id, First: iv.first, End: min(iv.end, handled)}, nil)
			r.ackBytes -= rangeEntryBytes
		}
		return iv.end < handled
	})
	l.cutPending(handled)
	if l.cursor != l.logged.cursor {
		l.add(r, journal.Entry{Kind: journal.Cursor, ID: l.id, First: l.cursor}, nil)
		l.logged.cursor = l.cursor
		r.ackBytes -= lowEntryBytes
	}
	l.changed = !l.pending.empty()
}
