package segstore

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// The flusher is one goroutine per store. It sleeps until a log is listed:
// dirty logs are visited at the next flush tick, urgent ones at once (somebody
// wants durability, or more than 1 MiB of full chunks is unwritten), slow ones
// at the next sync tick (unsynced bytes, segments to seal, an emptied log's
// last file). Nothing ticks for a log that is on no list.
//
// A cycle takes the lists and goes through the logs in waves of at most
// tuning.waveLogs, which bounds the files in use. A wave:
//
//  1. plan: under each log's mutex, choose extents (runs of batches that are not
//     wholly settled and old enough, wanted durable, or many), give them their
//     segment and position, and decide what goes to the settled file, which
//     files need a sync, which segments are dead.
//  2. stage: without locks, create directories and files, open what is needed,
//     compute the checksums, queue the writes.
//  3. write: all writes of all logs in one submission; wait.
//  4. sync: directories of new files, then all files that need it in one
//     submission; wait. WantDurable calls made meanwhile ride the next cycle.
//  5. seal: segments that are full and whose batches are synced get index and
//     trailer; the next sync covers those.
//  6. conclude: under each log's mutex, publish what was read back as durable,
//     evict chunks, list the log again if something is left. A failure in any
//     step fences the log (invariant 8).
//  7. remove dead segments and deleted logs.
//
// Then OnCommit, if any Durable moved. Between two waves of a long cycle the
// urgent logs get a wave of their own, so that a confirm does not wait for the
// second of ten thousand idle-time syncs.
//
// The journal of a later issue takes the place of 2 to 4 for the jobs that want
// durability: it gets their extents and settled records as entries of one
// write and one sync, and the segments are written at checkpoints. plan and
// conclude stay as they are.
//
// Why it holds together: extents of a log are chosen in offset order and only
// by this goroutine, so the position in a segment grows with the offset. A
// batch passed over as settled is never written later, so segments have holes
// but no overlaps. Durable is only raised in conclude, to a value that plan
// fixed before the writes.
//
// Tried and dropped: one write per batch (the system call costs more than the
// bytes), writing the trailer with the last batches (after power loss a valid
// trailer may then stand behind batches that never arrived).
type flusher struct {
	lastTick, lastSync time.Time
	logs, between      []*Log
	jobs               []job
	io                 ioGroup
	moved              bool
	rootUnsynced       bool // directories were made in logs/ since its last sync
	trashed            uint64
	firstErr           error // of the final pass
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
		wait, p := s.nextPass()
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-s.stop:
				return
			case <-s.kick:
			case <-timer.C:
			}
			continue
		}
		select {
		case <-s.stop:
			return
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
	dirty = dirty || len(s.parked) > 0 && s.short()
	s.mu.Unlock()
	wait = time.Hour
	if dirty {
		wait = min(wait, s.o.FlushInterval-now.Sub(f.lastTick))
		p.tick = wait <= 0
	}
	if slow {
		rest := s.o.SyncInterval - now.Sub(f.lastSync)
		wait = min(wait, rest)
		p.sync = rest <= 0
	}
	if urgent || p.tick || p.sync {
		wait = 0
	}
	if p.tick {
		f.lastTick = now
	}
	if p.sync {
		f.lastSync = now
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
	s.mu.Lock()
	logs := s.takeList(f.logs[:0], &s.urgent, listUrgent)
	if p.tick {
		logs = s.takeList(logs, &s.dirty, listDirty)
	}
	if p.tick && p.short {
		logs = s.takeList(logs, &s.parked, listParked)
	}
	if p.sync {
		logs = s.takeList(logs, &s.slow, listSlow)
	}
	untake(logs)
	if p.final {
		logs = slices.AppendSeq(logs[:0], maps.Values(s.logs))
	}
	s.mu.Unlock()
	f.logs = logs
	for rest := logs; ; {
		n := min(len(rest), s.tune.waveLogs)
		s.wave(rest[:n], p)
		s.report()
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		s.urgentWave()
	}
	clear(f.logs)
}

// urgentWave lets who waits for durability go between two waves of a long
// cycle.
func (s *Store) urgentWave() {
	f := &s.flusher
	s.mu.Lock()
	f.between = s.takeList(f.between[:0], &s.urgent, listUrgent)
	untake(f.between)
	s.mu.Unlock()
	for rest := f.between; len(rest) > 0; {
		n := min(len(rest), s.tune.waveLogs)
		s.wave(rest[:n], pass{})
		s.report()
		rest = rest[n:]
	}
	clear(f.between)
}

// report calls OnCommit if somebody may wait for what a wave did.
func (s *Store) report() {
	moved := s.flusher.moved
	s.flusher.moved = false
	if s.pressured.Load() && s.unwritten.Load() <= s.o.TailBytesLow {
		s.pressured.Store(false)
		moved = true
	}
	if moved {
		s.o.OnCommit()
	}
}

func (s *Store) wave(logs []*Log, p pass) {
	f := &s.flusher
	if cap(f.jobs) < len(logs) {
		f.jobs = make([]job, len(logs))
	}
	busyJobs := 0
	for _, l := range logs {
		j := &f.jobs[:cap(f.jobs)][busyJobs]
		l.mu.Lock()
		busy, moved := l.plan(j, p)
		l.mu.Unlock()
		f.moved = f.moved || moved
		if busy {
			busyJobs++
		}
	}
	if busyJobs == 0 {
		return
	}
	jobs := f.jobs[:busyJobs]
	for i := range jobs {
		s.stage(&jobs[i])
	}
	f.io.run(s)
	s.syncJobs(jobs)
	s.sealJobs(jobs)
	for i := range jobs {
		s.concludeJob(&jobs[i])
	}
	s.removeDead(jobs)
	for i := range jobs {
		jobs[i].reset(nil)
	}
}

func (s *Store) concludeJob(j *job) {
	for _, h := range j.handles {
		s.files.release(h)
	}
	if j.remove {
		s.flusher.moved = true // its Durable moved when it was deleted
		return
	}
	l := j.log
	l.mu.Lock()
	fenced := j.err != nil && (l.err == nil || l.err == ErrClosed)
	if l.conclude(j) {
		s.flusher.moved = true
	}
	l.mu.Unlock()
	for i := range j.extents {
		j.extents[i].buf.Release()
	}
	if fenced {
		s.fencedLogs.Add(1)
		s.o.Logger.Error("segstore: the log is fenced: it takes no more records until the broker is restarted; check the disk",
			"log", l.id, "error", j.err)
	}
	if s.flusher.firstErr == nil {
		s.flusher.firstErr = j.err
	}
}

// fail records the first error of a job.
func (j *job) fail(err error) {
	if j.err == nil && err != nil {
		j.err = fmt.Errorf("segstore: %w", err)
	}
}

// open acquires a file of the job's log until the end of the wave.
func (s *Store) open(j *job, base uint64, name string, flag disk.Flag) disk.File {
	h, err := s.files.acquire(fileKey{j.log.id, base}, j.log.path(name), flag)
	if err != nil {
		j.fail(err)
		return nil
	}
	j.handles = append(j.handles, h)
	return h.file
}
