package segstore

import (
	"fmt"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// crew does waves. There are two: the flusher's, and the filer's (filer.go).
type crew struct {
	jobs        []job
	n           int // of them are in use
	io          ioGroup
	staged      []*arena.Buf // hold bytes of writes queued in io
	stagedBytes int
	behind      bool  // it is the filer's
	hurried     bool  // a write that finds no space fails at once
	waiting     bool  // one found none, and none has found some since
	spaceTries  int   // since Close began
	firstErr    error // of all its jobs
}

// wave does one wave of logs; the first of a round has its group too.
func (s *Store) wave(logs []*Log, p pass, r *round) {
	w := &s.flusher.crew
	w.begin(len(logs))
	for _, l := range logs {
		l.mu.Lock()
		w.plan(l, p)
		l.mu.Unlock()
	}
	s.carryOut(w, p, r)
}

// begin makes room for a wave of so many logs.
func (w *crew) begin(logs int) {
	if cap(w.jobs) < logs {
		w.jobs = make([]job, logs)
	}
	w.jobs = w.jobs[:cap(w.jobs)]
	w.n = 0
}

// plan adds the log's job to the wave, if there is something to do. Called with
// the log's mutex held.
func (w *crew) plan(l *Log, p pass) {
	if l.plan(&w.jobs[w.n], p) {
		w.n++
	}
}

// carryOut does the jobs of a wave.
func (s *Store) carryOut(w *crew, p pass, r *round) {
	jobs := w.jobs[:w.n]
	for i := range jobs {
		s.stage(w, &jobs[i])
		if w.behind && w.stagedBytes > stagedBytesMax {
			w.runStaged(s)
		}
	}
	if r != nil {
		s.stageGroup(r, p)
		if s.journal.pending && r.wantSync && w.io.joinSync() {
			s.journal.joined = true
			s.journal.syncs.Add(1)
		}
	}
	w.runStaged(s)
	if r != nil {
		s.groupWritten(r)
	}
	s.syncJobs(w, jobs, r)
	s.sealJobs(w, jobs)
	for i := range jobs {
		s.concludeJob(w, &jobs[i])
	}
	s.removeDead(jobs)
	for i := range jobs {
		jobs[i].reset(nil)
	}
}

func (s *Store) concludeJob(w *crew, j *job) {
	for _, h := range j.handles {
		s.files.release(h)
	}
	if j.acksFile != nil {
		_ = j.acksFile.Close() // only after a failure
	}
	if j.remove {
		return
	}
	l := j.log
	l.mu.Lock()
	fenced := j.err != nil && (l.err == nil || l.err == ErrClosed)
	l.conclude(j)
	l.mu.Unlock()
	for i := range j.extents {
		j.extents[i].buf.Release()
	}
	if fenced {
		s.tellFenced(l, j.err)
	}
	if w.firstErr == nil {
		w.firstErr = j.err
	}
}

func (s *Store) tellFenced(l *Log, err error) {
	s.fencedLogs.Add(1)
	s.o.Logger.Error("segstore: the log is fenced: it takes no more records until it is opened again; check the disk, then use basaltmqctl restart_queue, or restart the broker",
		"log", l.id, "error", err)
}

// fenceLog fences a log whose files failed outside of a job.
func (s *Store) fenceLog(l *Log, err error) {
	l.mu.Lock()
	fresh := !l.deleted && (l.err == nil || l.err == ErrClosed)
	if fresh {
		l.fence(err)
		l.err = err
	}
	l.mu.Unlock()
	if fresh {
		s.tellFenced(l, err)
	}
}

// fail records the first error of a job.
func (j *job) fail(err error) {
	if j.err == nil && err != nil {
		j.err = fmt.Errorf("segstore: %w", err)
	}
}

// open acquires a file of the job's log until the end of the wave.
func (s *Store) open(w *crew, j *job, base uint64, name string, flag disk.Flag) disk.File {
	h, err := s.files.acquire(fileKey{j.log.id, base}, j.log.path(name), flag)
	if disk.IsNoSpace(err) { // not even for a name
		err = s.withSpace(w, func() (err error) {
			h, err = s.files.acquire(fileKey{j.log.id, base}, j.log.path(name), flag)
			return err
		})
	}
	if err != nil {
		j.fail(err)
		return nil
	}
	j.handles = append(j.handles, h)
	return h.file
}
