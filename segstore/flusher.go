package segstore

import (
	"fmt"
	"path"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// The flusher is one goroutine per store. It sleeps until a log is listed:
// dirty logs are visited at the next flush tick, urgent ones at once (somebody
// wants durability, or more than 1 MiB of full chunks is unwritten), slow ones
// at the next sync tick (unsynced bytes, segments to seal, an emptied log's
// last file). Nothing ticks for a log that is on no list.
//
// A cycle is a round over the logs listed:
//
//  1. enter (enter.go): with the gate closed to transactions, under each log's
//     mutex, choose what becomes entries of the journal: runs of batches that are
//     not wholly settled and old enough or wanted durable, what was settled, what
//     a checkpoint carries. A log with a full chunk's worth of them by-passes the
//     journal: they go to its segment. Further reasons to touch a log's files
//     are memory (spill.go), a checkpoint, settled segments, and syncs.
//  2. group (commit.go): all entries become one group, written at once. More than
//     4 MiB of them are cut into several, unless a transaction is among them.
//  3. the logs with something to do to their files for which somebody may wait go
//     through waves of at most tuning.waveLogs, which bounds the files in use; the
//     first wave shares its submissions with the group. The others are the filer's
//     (filer.go), which does waves of its own when the group is done. A wave:
//     plan: under each log's mutex, give the batches their segment and position,
//     decide which files need a sync, which segments are dead;
//     stage: without locks, create directories and files, open what is needed,
//     compute the checksums, queue the writes;
//     write: everything in one submission; wait;
//     sync: the journal and all files that need it in one submission, then the
//     directories with new names; wait;
//     seal: segments that are full and whose batches are synced get index and
//     trailer; the next sync covers those;
//     conclude: under each log's mutex, or fence the log (invariant 8);
//     remove dead segments and deleted logs.
//  4. finish, after the first wave for everybody and after each later one for
//     its logs: publish what is durable now, evict chunks, list the log again
//     if something is left.
//
// Then OnCommit, if any Durable moved. WantDurable calls made meanwhile ride the
// next cycle. Between two waves of a long cycle the urgent logs get a round of
// their own, so that a confirm does not wait for the second of ten thousand
// idle-time syncs.
//
// Why it holds together: batches of a log are chosen in offset order and only
// by this goroutine, so the position in a segment grows with the offset, and so
// it does in the journal but for what is carried. A batch passed over as
// settled is never written later, so segments have holes but no overlaps.
// Durable is raised in finish and by the filer, to what was chosen before the
// writes, when the round of the log's last entry is synced and no segment has bare
// bytes, which are unsynced ones that the journal does not have.
//
// Tried and dropped: one write per batch (the system call costs more than the
// bytes), writing the trailer with the last batches (after power loss a valid
// trailer may then stand behind batches that never arrived), and syncing
// segments instead of a journal (two syncs and a write for each queue that a
// confirm touches: 100 queues confirmed a few hundred messages a second), and
// visiting the files of every log that has some in every round (a thousand logs
// made five waves, each with a group and a sync, where one was enough), gathering the
// next round while the group is on its way (a thousand logs confirmed 5 % less on two
// cores, which have no time left for it, and the hand-over costs what it saves), waiting
// for more logs before a round (a fifth fewer bytes written, but 11 to 28 % fewer
// confirms), another priority for the filer's thread (nothing).
type flusher struct {
	lastTick, lastSync, lastStep time.Time

	rounds        uint64        // numbers given
	syncedRound   atomic.Uint64 // entries of rounds up to it are on stable storage
	writtenRound  atomic.Uint64 // and up to it in the page cache
	main, between round
	crew
	journalJob job // owns the journal's operations
	moved      bool
	trashed    uint64
	forgotten  []uint64 // logs whose entries mean nothing any more
}

const (
	logsDir       = "logs"
	transientDir  = "transient"
	trashDir      = "trash"
	quarantineDir = "quarantine"
)

// dir is the log's directory.
func (l *Log) dir() string {
	if l.transient {
		return fmt.Sprintf("%s/%016x", transientDir, l.id)
	}
	return fmt.Sprintf("%s/%016x", logsDir, l.id)
}

func (l *Log) path(name string) string { return path.Join(l.dir(), name) }

// runFlusher is the flusher's goroutine.
func (s *Store) runFlusher() {
	defer close(s.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if s.filer.moved.Load() {
			s.report()
		}
		wait, p := s.nextPass()
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-s.stop:
				return
			case <-s.kick:
			case call := <-s.calls:
				call(nil)
			case <-timer.C:
			}
			continue
		}
		select {
		case <-s.stop:
			return
		case call := <-s.calls:
			call(nil)
			s.cycle(p)
		default:
			s.cycle(p)
		}
	}
}

// nextPass says how long to sleep, or if that is 0 what to do now.
func (s *Store) nextPass() (wait time.Duration, p pass) {
	f := &s.flusher
	now := s.tune.now()
	s.mu.Lock()
	urgent, dirty, slow := len(s.urgent) > 0, len(s.dirty) > 0, len(s.slow) > 0
	dirty = dirty || len(s.parked) > 0 && s.short() || len(s.holders) > 0 && s.overHeld()
	s.mu.Unlock()
	urgent = urgent || s.gate.waiting() || len(f.forgotten) > 0
	wait = time.Hour
	if dirty {
		wait = min(wait, s.o.FlushInterval-now.Sub(f.lastTick))
		p.tick = wait <= 0
	}
	if s.journal.checkpoint.running && s.journal.err == nil {
		rest := s.o.FlushInterval - now.Sub(f.lastStep)
		if len(s.journal.metaDone) > 0 || s.journalBehind.Load() && len(s.journal.checkpoint.visited) > 0 && s.filer.idle() {
			rest = 0
		}
		wait = min(wait, rest)
		p.step = rest <= 0
	}
	if slow || s.journal.err == nil && s.journal.w.Unsynced() {
		rest := s.o.SyncInterval - now.Sub(f.lastSync)
		wait = min(wait, rest)
		p.sync = rest <= 0
	}
	if urgent || p.tick || p.sync || p.step {
		wait = 0
	}
	if p.tick {
		f.lastTick = now
	}
	if p.sync {
		f.lastSync = now
	}
	if p.step {
		f.lastStep = now
	}
	return wait, p
}

// short says that unwritten bytes are so many that transient logs have to be
// written too, well before Pressured.
func (s *Store) short() bool { return s.unwritten.Load() > s.o.TailBytesLow/2 }

// cycle visits the listed logs. Called by the flusher's goroutine only.
func (s *Store) cycle(p pass) {
	f := &s.flusher
	s.cycles.Add(1)
	p.short = s.short()
	s.awaitFiler()
	s.turnJournal(&p)
	r, idle := &f.main, s.filer.idle()
	s.beginRound(r, p, func(logs []*Log) []*Log {
		if p.tick {
			logs = s.takeList(logs, &s.dirty, listDirty)
		}
		if p.tick && p.short {
			logs = s.takeList(logs, &s.parked, listParked)
		}
		if p.sync {
			logs = s.takeList(logs, &s.slow, listSlow)
		}
		if p.final {
			for _, l := range s.logs {
				logs = takeOne(logs, l)
			}
		}
		if p.tick && idle {
			logs = s.takeSpills(logs)
		}
		if p.step || p.all {
			logs = s.takeStep(logs, p)
		}
		return logs
	})
	s.runRound(r, p)
	s.endStep(r)
	s.report()
}

// beginRound closes the gate, takes the urgent logs and those that take adds,
// and lets them enter.
func (s *Store) beginRound(r *round, p pass, take func([]*Log) []*Log) {
	f := &s.flusher
	f.rounds++
	r.reset(f.rounds)
	r.ackBytes, r.steps = s.tune.ackBytes, s.tune.stepLogs
	s.gate.mu.Lock()
	s.mu.Lock()
	logs := s.takeList(r.logs, &s.urgent, listUrgent)
	logs = take(logs)
	untake(logs)
	s.mu.Unlock()
	r.logs = logs
	s.gate.enter(s, r)
	for _, l := range logs {
		l.mu.Lock()
		visit, moved := l.enter(r, p)
		l.mu.Unlock()
		switch visit {
		case visitNow:
			r.segments = append(r.segments, l)
		case visitLater:
			r.later = append(r.later, l)
		}
		f.moved = f.moved || moved
	}
	s.gate.mu.Unlock()
	for _, id := range f.forgotten {
		r.entries = append(r.entries, entry{Entry: journal.Entry{Kind: journal.Deleted, ID: id}})
	}
	f.forgotten = f.forgotten[:0]
	s.endCheckpoint(r)
}

// takeOne adds the log unless it is taken already. Called with s.mu held.
func takeOne(logs []*Log, l *Log) []*Log {
	if l.lists.Load()&listTaken == 0 {
		l.lists.Or(listTaken)
		logs = append(logs, l)
	}
	return logs
}

// runRound writes the round's group and goes through the waves.
func (s *Store) runRound(r *round, p pass) {
	rest := r.segments
	for first := true; first || len(rest) > 0; first = false {
		n := min(len(rest), s.tune.waveLogs)
		if first {
			s.wave(rest[:n], p, r)
			s.finish(r.logs)
			s.giveToFiler(r.later)
		} else {
			s.wave(rest[:n], p, nil)
			s.finish(rest[:n])
		}
		s.report()
		if rest = rest[n:]; len(rest) > 0 && r == &s.flusher.main {
			b := &s.flusher.between
			s.beginRound(b, pass{}, func(logs []*Log) []*Log { return logs })
			s.runRound(b, pass{})
		}
	}
}

func (s *Store) finish(logs []*Log) {
	for _, l := range logs {
		l.mu.Lock()
		moved := l.finish()
		l.mu.Unlock()
		s.flusher.moved = s.flusher.moved || moved
	}
}

// report calls OnCommit if somebody may wait for what a wave did.
func (s *Store) report() {
	moved := s.filer.moved.Swap(false) || s.flusher.moved
	s.flusher.moved = false
	if s.pressured.Load() && s.unwritten.Load() <= s.o.TailBytesLow {
		s.pressured.Store(false)
		moved = true
	}
	if moved {
		s.commits.Add(1)
		s.o.OnCommit()
	}
}
