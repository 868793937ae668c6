package segstore

import (
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// A checkpoint makes one file of the journal superfluous while the other one is
// written. It begins when the current file is full, and goes on in steps, one
// per flush interval, so that confirms hardly notice:
//
//  1. Each log with entries in the old file enters a round with its checkpoint
//     flag set. What the journal alone has of it is carried over as entries of
//     the current file if it is tiny (the rule with ten thousand quiet queues),
//     otherwise written to its segment; unsynced segments are synced; what is
//     settled is carried over, or the settled file is written if that is long.
//  2. The owner of the meta records is asked to put them elsewhere.
//  3. When all of that succeeded, a Done entry goes into the current file, with
//     a sync. From then on the old file may be overwritten.
//
// A log that was fenced has entries in the old file that nothing else has: the
// file is put aside for it (journal.Keep) and the next Open reads it.
//
// If the current file fills up before step 3, publishers feel pressure, and the
// next round does all that is left of step 1 at once; the file grows meanwhile.
// It also grows beyond its size when more than half of that is carried over, as
// strays after a power cut may be: see journal.Full.
type checkpoint struct {
	running    bool
	file       int
	generation uint64
	todo       []*Log
	visited    []*Log // in this round
	keep       []uint64
	meta       metaWork
	metaRetry  time.Time     // not before
	metaPause  time.Duration // doubled with each refusal
}

type metaWork uint8

const (
	metaNone    metaWork = iota
	metaNeeded           // not asked yet, or refused
	metaRunning          // see journalState.metaWork
)

// startCheckpoint begins the checkpoint of file, which is not the current one.
func (s *Store) startCheckpoint(file int, generation uint64) {
	js := &s.journal
	js.checkpoint = checkpoint{running: true, file: file, generation: generation, todo: js.logs[file]}
	js.logs[file] = nil
	if js.meta[file] {
		js.checkpoint.meta = metaNeeded
		js.meta[file] = false
	}
}

// turnJournal changes to the other file when the current one is full.
func (s *Store) turnJournal(p *pass) {
	js := &s.journal
	if js.err != nil {
		return
	}
	c := &js.checkpoint
	behind := false
	if js.w.Full() && !p.final {
		if c.running {
			behind = true
			p.all, p.step = true, true
		} else if s.syncJournal(); js.err == nil {
			old, generation := js.w.Current(), js.w.Generation()
			js.w.Switch()
			s.startCheckpoint(old, generation)
		}
	}
	if s.journalBehind.Swap(behind) && !behind {
		s.flusher.moved = true
	}
	if c.running && (p.step || p.all) {
		s.askForMeta()
	}
}

// takeStep adds some of the logs that the checkpoint still has to visit.
// Called with s.mu held.
func (s *Store) takeStep(logs []*Log, p pass) []*Log {
	c := &s.journal.checkpoint
	if !c.running || s.journal.err != nil {
		return logs
	}
	n := min(len(c.todo), 8*s.tune.stepLogs)
	if p.all {
		n = len(c.todo)
		s.flusher.main.steps = n
	}
	for _, l := range c.todo[:n] {
		l.journaled.checkpoint = true
		logs = takeOne(logs, l)
		c.visited = append(c.visited, l)
	}
	rest := copy(c.todo, c.todo[n:])
	clear(c.todo[rest:])
	c.todo = c.todo[:rest]
	return logs
}

// enterCheckpoint makes what the old file has of the log durable elsewhere.
// Called with the log's mutex held.
func (l *Log) enterCheckpoint(r *round) {
	s, j := l.store, &l.journaled
	c := &s.journal.checkpoint
	any, _, _ := l.unsynced()
	tail := l.tailHeld()
	spill := tail > s.tune.carryBytes && l.flushLimit() == l.handled()
	long := l.settled.intervals() > s.tune.carryRanges && !l.txSettlePending() // else the file would tell half of it
	if (any || spill || long) && r.steps <= 0 {
		l.postpone()
		return
	}
	if any || spill || long {
		r.steps--
	}
	j.syncAll = any || spill
	if spill {
		j.segmentTo = max(j.segmentTo, l.flushLimit())
	}
	from, carried := len(r.entries), false
	for _, k := range l.chunks {
		if k.stray || !spill {
			carried = l.carry(r, k) || carried
		}
	}
	switch {
	case long:
		j.rewrite = true
	case carried, spill, len(l.segments) > 0, l.acks != nil, j.files != 1<<c.file:
		l.carrySettled(r)
	default: // nothing on disk will name the log
		l.logged.low, l.logged.cursor = 0, 0
		l.changed = true
	}
	for i := from; i < len(r.entries); i++ {
		s.journal.w.Carried(int64(r.entries[i].Bytes()))
	}
}

// postpone leaves a log for another step. Called with the log's mutex held.
func (l *Log) postpone() { l.journaled.postponed = true }

// tailHeld is the number of bytes that only the journal has and that can go to
// a segment.
func (l *Log) tailHeld() (bytes int64) {
	for i := l.firstUnflushed(); i < len(l.chunks); i++ {
		bytes += int64(l.chunks[i].saved - l.chunks[i].flushed)
	}
	return bytes
}

// carry makes entries of what only the journal has of a chunk.
func (l *Log) carry(r *round, c *chunk) (carried bool) {
	from := c.flushed
	add := func(to int) {
		if to > from {
			l.add(r, journal.Entry{Kind: journal.Batch, ID: l.id, Data: c.data[from:to]}, c.buf)
			carried = true
		}
	}
	for pos := from; pos < c.saved; {
		batch := c.data[pos:]
		n := batchLength(batch)
		if l.isSettled(batchBase(batch), batchEnd(batch)) {
			add(pos)
			from = pos + n
		}
		pos += n
	}
	if c.flushed < c.saved {
		add(c.saved)
	}
	return carried
}

// carrySettled makes entries of all that is settled of what the disk names.
func (l *Log) carrySettled(r *round) {
	handled := l.handled()
	low := l.low.Load()
	l.add(r, journal.Entry{Kind: journal.Low, ID: l.id, First: low}, nil)
	l.settled.each(func(iv interval) bool {
		if iv.first < handled {
			l.add(r, journal.Entry{Kind: journal.Range, ID: l.id, First: iv.first, End: min(iv.end, handled)}, nil)
		}
		return iv.end < handled
	})
	l.add(r, journal.Entry{Kind: journal.Cursor, ID: l.id, First: l.cursor}, nil)
	l.logged.low, l.logged.cursor = low, l.cursor
	l.pending.advance(low)
	l.cutPending(handled)
	l.changed = !l.pending.empty()
}

// endStep notes which logs of the round need the old file no more.
func (s *Store) endStep(r *round) {
	js := &s.journal
	c := &js.checkpoint
	rest := c.visited[:0]
	for _, l := range c.visited {
		l.mu.Lock()
		switch {
		case l.journaled.postponed:
			l.journaled.postponed = false
			c.todo = append(c.todo, l)
		case l.filing:
			rest = append(rest, l) // until that is done
		case l.deleted:
		case l.err != nil && l.err != ErrClosed:
			c.keep = append(c.keep, l.id)
			l.journaled.files = l.journaled.files&^(1<<c.file) | filesKept
		default:
			l.journaled.files &^= 1 << c.file
		}
		l.mu.Unlock()
	}
	clear(c.visited[len(rest):])
	c.visited = rest
	if r.done && js.err == nil {
		for _, id := range js.w.KeptLogs() {
			if !slices.Contains(c.keep, id) && s.keptIsSafe(id) {
				if err := js.w.DropKept(id); err != nil {
					s.o.Logger.Warn("segstore: a file of the journal that is not needed any more stays", "error", err)
				}
			}
		}
		*c = checkpoint{}
		js.checkpoints.Add(1)
		if s.journalBehind.Swap(false) {
			s.flusher.moved = true
		}
	}
}

// keptIsSafe says that a file kept for a log by an earlier life of the process
// is not needed any more: this life has recovered the log and finished a
// checkpoint of it.
func (s *Store) keptIsSafe(id uint64) bool {
	s.mu.Lock()
	l := s.logs[id]
	s.mu.Unlock()
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil || l.err == ErrClosed || l.deleted
}

// endCheckpoint lets the round's group end the checkpoint, if nothing is left.
func (s *Store) endCheckpoint(r *round) {
	js := &s.journal
	c := &js.checkpoint
	if !c.running || r != &s.flusher.main || js.err != nil || len(c.todo)+len(c.visited) > 0 || c.meta != metaNone {
		return
	}
	if len(c.keep) > 0 {
		s.syncJournal() // what was carried over, before the file goes
		if js.err != nil {
			return
		}
		if err := js.w.Keep(c.file, c.generation, c.keep); err != nil {
			s.o.Logger.Error("segstore: a file of the journal that fenced logs need could not be put aside", "error", err)
			return // the next round tries again
		}
		c.keep = nil
	}
	r.entries = append(r.entries, entry{Entry: journal.Entry{Kind: journal.Done, ID: c.generation}})
	r.done, r.mustSync = true, true
}

// askForMeta gets the meta records out of the old file.
func (s *Store) askForMeta() {
	js := &s.journal
	s.metaAnswered()
	if c := &js.checkpoint; c.meta != metaNeeded || s.tune.now().Before(c.metaRetry) {
		return
	}
	js.metaMu.Lock()
	ask := js.metaCheckpoint
	js.metaMu.Unlock()
	if ask == nil {
		return // nobody else has them: the old file stays
	}
	js.checkpoint.meta = metaRunning
	tell := js.checkpoint.metaPause == 0 // once
	js.metaWork.Go(func() {
		err := ask()
		if err != nil && tell {
			s.o.Logger.Error("segstore: the meta records of the journal could not be put elsewhere; trying again", "error", err)
		}
		js.metaDone <- err == nil
		s.wake()
	})
}

// metaAnswered notes what became of it.
func (s *Store) metaAnswered() {
	c := &s.journal.checkpoint
	select {
	case ok := <-s.journal.metaDone:
		c.meta = metaNone
		if !ok {
			c.metaPause = min(max(2*c.metaPause, s.o.FlushInterval), s.o.SyncInterval)
			c.meta, c.metaRetry = metaNeeded, s.tune.now().Add(c.metaPause)
		}
	default:
	}
}

// closeJournal marks the journal as clean, if nothing in it is needed: all
// logs are in their files. Strays are all that comes after the mark.
func (s *Store) closeJournal() {
	js, f := &s.journal, &s.flusher
	if js.meta[0] || js.meta[1] || js.checkpoint.meta != metaNone {
		js.metaMu.Lock()
		ask := js.metaCheckpoint
		js.metaMu.Unlock()
		if ask == nil || ask() != nil {
			return // the next Open replays everything
		}
	}
	f.rounds++
	r := &f.main
	r.reset(f.rounds)
	s.mu.Lock()
	for _, l := range s.logs {
		r.logs = append(r.logs, l)
	}
	s.mu.Unlock()
	r.entries = append(r.entries, entry{Entry: journal.Entry{Kind: journal.Done, ID: js.w.Generation()}})
	clean, needed := true, false
	for _, l := range r.logs {
		l.mu.Lock()
		any, _, _ := l.unsynced()
		if !l.transient && !l.deleted {
			clean = clean && l.err == ErrClosed && !any && l.tailHeld() == 0 && l.handled() == l.next.Load()
			needed = needed || l.journaled.files != 0
			carried := false
			for _, c := range l.chunks {
				if c.stray {
					carried = l.carry(r, c) || carried
				}
			}
			if carried {
				l.carrySettled(r)
			}
		}
		l.mu.Unlock()
	}
	if clean && (needed || js.w.Pos() > 0) {
		r.atomic, r.mustSync = true, true
		s.wave(nil, pass{}, r)
		for _, id := range js.w.KeptLogs() {
			if js.err == nil {
				_ = js.w.DropKept(id) // if it stays it is replayed, to no effect
			}
		}
		return
	}
	for i := range r.entries {
		if b := r.entries[i].buf; b != nil {
			b.Release()
		}
	}
}
