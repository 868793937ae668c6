package segstore

import (
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// stage opens the files of a job and queues its writes.
func (s *Store) stage(w *crew, j *job) {
	l := j.log
	for i := 0; i < len(j.extents); {
		e := &j.extents[i]
		flag := disk.ReadWrite
		if !e.segment.created {
			flag = disk.CreateNew
			s.files.forget(fileKey{l.id, e.segment.base})
			if e.segment == l.segments[0] && (l.acks == nil || !l.acks.exists) { // the log's first file
				s.makeDir(w, j)
			}
		}
		file := s.openSegmentFile(w, j, e.segment, flag)
		if j.err != nil {
			return
		}
		var header []byte
		if !e.segment.created {
			e.segment.created = true
			header = encodeSegmentHeader(l.segmentVersion(), l.id, e.segment.base, s.tune.now().UnixMilli())
		}
		i += w.stageWrite(s, j, file, header, j.extents[i:])
	}
	if len(j.acks) == 0 {
		return
	}
	if len(l.segments) == 0 && !l.acks.exists {
		s.makeDir(w, j)
	}
	if j.err == nil {
		j.fail(s.withSpace(w, func() (err error) {
			j.acksFile, err = s.disk.Open(l.path(settledTempName), disk.CreateNew)
			return err
		}))
	}
	if j.err == nil {
		w.io.add(j, disk.Write, j.acksFile, 0, j.acks)
	}
}

// openSegmentFile acquires a segment's file until the end of the wave. Nearly always
// it is open, and its path needs not be made.
func (s *Store) openSegmentFile(w *crew, j *job, seg *segment, flag disk.Flag) disk.File {
	h := s.files.reuse(fileKey{j.log.id, seg.base})
	if h == nil {
		return s.open(w, j, seg.base, segmentName(seg.base), flag)
	}
	j.handles = append(j.handles, h)
	return h.file
}

// gatheredBytesMax bounds what is copied together to be one write: a system call,
// and the work of the file system for it, cost more than copying so much.
const gatheredBytesMax = 64 * arena.KiB

// stagedBytesMax is how much of that memory a wave takes at a time.
const stagedBytesMax = 1 << 20

// stageWrite queues one write for the first of the extents and those that follow
// it in the file, behind the header of a new segment. It returns how many.
func (w *crew) stageWrite(s *Store, j *job, file disk.File, header []byte, extents []extent) (n int) {
	first := &extents[0]
	bytes := len(header)
	for n < len(extents) && extents[n].segment == first.segment {
		e := &extents[n]
		if n > 0 && (e.pos != extents[n-1].pos+int64(len(extents[n-1].data)) || bytes+len(e.data) > gatheredBytesMax) {
			break
		}
		if !w.behind { // the filer's batches have been in the journal
			e.seal()
		}
		bytes += len(e.data)
		n++
	}
	switch {
	case n == 1 && len(header) == 0:
		w.io.add(j, disk.Write, file, first.pos, first.data)
		return n
	case bytes > gatheredBytesMax:
		w.io.add(j, disk.Write, file, 0, header)
		w.io.add(j, disk.Write, file, first.pos, first.data)
		return n
	}
	buf := s.arena.Get(bytes)
	w.staged = append(w.staged, buf)
	w.stagedBytes += buf.Len()
	data := append(buf.Bytes()[:0], header...)
	for i := range n {
		data = append(data, extents[i].data...)
	}
	w.io.add(j, disk.Write, file, first.pos-int64(len(header)), data)
	return n
}

// runStaged carries out the writes queued so far.
func (w *crew) runStaged(s *Store) {
	w.io.run(s, w)
	for i, buf := range w.staged {
		buf.Release()
		w.staged[i] = nil
	}
	w.staged, w.stagedBytes = w.staged[:0], 0
}

// seal computes the checksums of the extent's batches.
func (e *extent) seal() {
	for rest := e.data; len(rest) > 0; {
		n := batchLength(rest)
		sealBatch(rest[:n:n])
		rest = rest[n:]
	}
}

// makeDir creates the directory of the job's log.
func (s *Store) makeDir(w *crew, j *job) {
	j.fail(s.withSpace(w, func() error { return s.disk.MkdirAll(j.log.dir()) }))
	if !j.log.transient {
		s.rootUnsynced.Store(true)
	}
}

// syncJobs makes durable what the jobs, and with r the journal, ask for: files,
// then names. A new settled file is synced before it takes its name.
func (s *Store) syncJobs(w *crew, jobs []job, r *round) {
	asked := false
	for i := range jobs {
		if j := &jobs[i]; j.sync && j.err == nil {
			asked = true
			s.stageSyncs(w, j)
		}
	}
	if r != nil {
		s.stageGroupSync(r)
	}
	w.io.run(s, w)
	if r != nil {
		s.groupSynced(r)
	}
	if !asked {
		return
	}
	for i := range jobs {
		if j := &jobs[i]; j.acksFile != nil {
			j.fail(j.acksFile.Close())
			j.acksFile = nil
			if j.err == nil {
				j.fail(s.withSpace(w, func() error { return s.disk.Rename(j.log.path(settledTempName), j.log.path(settledName)) }))
				j.log.acks.exists = true
			}
		}
	}
	if err := s.syncRoot(); err != nil {
		for i := range jobs {
			if jobs[i].sync {
				jobs[i].fail(err)
			}
		}
	}
	s.syncDirs(jobs)
	for i := range jobs {
		jobs[i].noteSynced()
	}
}

// syncRoot makes the names of logs' directories durable. Who finds nothing to do
// can rely on them: the other crew is not in the middle of it.
func (s *Store) syncRoot() error {
	s.rootMu.Lock()
	defer s.rootMu.Unlock()
	if !s.rootUnsynced.Swap(false) {
		return nil
	}
	err := s.disk.SyncDir(logsDir)
	if err != nil {
		s.rootUnsynced.Store(true)
	}
	return err
}

// newEntries reports whether the log's directory has names that may not be
// durable.
func (j *job) newEntries() bool {
	for i := len(j.log.segments) - 1; i >= 0 && !j.log.segments[i].sealed; i-- {
		if !j.log.segments[i].entrySynced {
			return true
		}
	}
	a := j.log.acks
	return a != nil && a.exists && !a.entrySynced
}

// syncDirs syncs the directories with new names, several at a time.
func (s *Store) syncDirs(jobs []job) {
	var todo []*job
	for i := range jobs {
		if j := &jobs[i]; j.err == nil && j.sync && j.newEntries() {
			todo = append(todo, j)
		}
	}
	var at atomic.Int64
	work := func() {
		for i := at.Add(1) - 1; i < int64(len(todo)); i = at.Add(1) - 1 {
			j := todo[i]
			s.syncs.Add(1)
			if err := s.disk.SyncDir(j.log.dir()); err != nil {
				j.fail(err)
				continue
			}
			for _, seg := range j.log.segments {
				seg.entrySynced = seg.entrySynced || seg.created
			}
			if a := j.log.acks; a != nil {
				a.entrySynced = a.entrySynced || a.exists
			}
		}
	}
	var group sync.WaitGroup
	for range min(7, len(todo)-1) {
		group.Go(work)
	}
	work()
	group.Wait()
}

func (s *Store) stageSyncs(w *crew, j *job) {
	l := j.log
	for i := len(l.segments) - 1; i >= 0; i-- {
		seg := l.segments[i]
		if seg.sealed && !seg.footerDirty {
			break
		}
		if seg.unsynced || j.footers && seg.footerDirty {
			if file := s.openSegmentFile(w, j, seg, disk.ReadWrite); file != nil {
				w.io.add(j, disk.Sync, file, 0, nil)
			}
		}
	}
	if j.acksFile != nil {
		w.io.add(j, disk.Sync, j.acksFile, 0, nil)
	}
}

func (j *job) noteSynced() {
	if j.err != nil || !j.sync {
		return
	}
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	for _, seg := range j.log.segments {
		seg.unsynced, seg.bare, seg.unsyncedBytes = false, false, 0
		seg.footerDirty = seg.footerDirty && !j.footers
	}
}

// sealJobs writes index and trailer of the segments that are ready for it, which
// means that their batches are synced (invariant 9).
func (s *Store) sealJobs(w *crew, jobs []job) {
	for i := range jobs {
		j := &jobs[i]
		for k := len(j.log.segments) - 1; k >= 0 && j.err == nil && !j.remove; k-- {
			seg := j.log.segments[k]
			if seg.sealed {
				break
			}
			if !seg.full || seg.unsynced && !j.log.transient {
				continue
			}
			if file := s.openSegmentFile(w, j, seg, disk.ReadWrite); file != nil {
				j.log.mu.Lock()
				footer := seg.encodeFooter()
				j.log.mu.Unlock()
				w.io.add(j, disk.Write, file, seg.end, footer)
				j.sealing = append(j.sealing, seg)
			}
		}
	}
	w.io.run(s, w)
	for i := range jobs {
		j := &jobs[i]
		if j.err != nil || len(j.sealing) == 0 {
			continue
		}
		j.log.mu.Lock()
		for _, seg := range j.sealing {
			seg.sealed, seg.footerDirty = true, !j.log.transient
			seg.index, seg.filters, seg.holes = nil, nil, nil
			j.log.punch.wanted = true
		}
		retained := j.log.retained()
		j.log.mu.Unlock()
		if retained != nil && retained.Sealed != nil {
			retained.Sealed()
		}
	}
}
