package segstore

import (
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// stage opens the files of a job and queues its writes.
func (s *Store) stage(j *job) {
	f, l := &s.flusher, j.log
	for i := range j.extents {
		e := &j.extents[i]
		flag := disk.ReadWrite
		if !e.segment.created {
			flag = disk.CreateNew
			s.files.forget(fileKey{l.id, e.segment.base})
			if e.segment == l.segments[0] && (l.acks == nil || !l.acks.exists) { // the log's first file
				j.fail(s.disk.MkdirAll(l.dir()))
				f.rootUnsynced = f.rootUnsynced || !l.transient
			}
		}
		file := s.open(j, e.segment.base, segmentName(e.segment.base), flag)
		if j.err != nil {
			return
		}
		if !e.segment.created {
			e.segment.created = true
			f.io.add(j, disk.Write, file, 0, encodeSegmentHeader(l.id, e.segment.base, s.tune.now().UnixMilli()))
		}
		for rest := e.data; len(rest) > 0; {
			n := batchLength(rest)
			sealBatch(rest[:n:n])
			rest = rest[n:]
		}
		f.io.add(j, disk.Write, file, e.pos, e.data)
	}
	switch {
	case len(j.acks) == 0:
	case j.rewrite:
		j.fail(s.rewriteSettled(l, j.acks))
	default:
		if file := s.open(j, settledKey, settledName, disk.Create); file != nil {
			f.io.add(j, disk.Write, file, j.acksPos, j.acks)
			l.acks.exists = true
		}
	}
}

// rewriteSettled replaces the settled file: the new one is durable before it
// takes the name.
func (s *Store) rewriteSettled(l *Log, data []byte) error {
	temp := l.path(settledTempName)
	file, err := s.disk.Open(temp, disk.CreateNew)
	if err != nil {
		return err
	}
	err = disk.Run(s.disk, &disk.Op{Kind: disk.Write, File: file, Buf: data})
	if err == nil {
		s.writes.Add(1)
		s.writtenBytes.Add(uint64(len(data)))
		s.syncs.Add(1)
		err = disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: file})
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	s.files.forget(fileKey{l.id, settledKey})
	return s.disk.Rename(temp, l.path(settledName))
}

// syncJobs makes durable what the jobs ask for.
func (s *Store) syncJobs(jobs []job) {
	f := &s.flusher
	rootErr := error(nil)
	asked := false
	for i := range jobs {
		asked = asked || jobs[i].sync || jobs[i].ackSync
	}
	if !asked {
		return
	}
	if f.rootUnsynced {
		rootErr = s.disk.SyncDir(logsDir)
		f.rootUnsynced = rootErr != nil
	}
	s.syncDirs(jobs)
	for i := range jobs {
		j := &jobs[i]
		if j.sync || j.ackSync {
			j.fail(rootErr)
		}
		if j.err == nil {
			s.stageSyncs(j)
		}
	}
	f.io.run(s)
	for i := range jobs {
		jobs[i].noteSynced()
	}
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
		if j := &jobs[i]; j.err == nil && (j.sync || j.ackSync) && j.newEntries() {
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

func (s *Store) stageSyncs(j *job) {
	l := j.log
	if j.sync {
		for i := len(l.segments) - 1; i >= 0; i-- {
			seg := l.segments[i]
			if seg.sealed && !seg.footerDirty {
				break
			}
			if seg.unsynced || j.footers && seg.footerDirty {
				if file := s.open(j, seg.base, segmentName(seg.base), disk.ReadWrite); file != nil {
					s.flusher.io.add(j, disk.Sync, file, 0, nil)
				}
			}
		}
	}
	if j.ackSync && l.acks.exists {
		if file := s.open(j, settledKey, settledName, disk.ReadWrite); file != nil {
			s.flusher.io.add(j, disk.Sync, file, 0, nil)
		}
	}
}

func (j *job) noteSynced() {
	if j.err != nil {
		return
	}
	if j.sync {
		for _, seg := range j.log.segments {
			seg.unsynced = false
			seg.footerDirty = seg.footerDirty && !j.footers
		}
	}
	if j.ackSync {
		j.log.acks.unsynced = false
	}
}

// sealJobs writes index and trailer of the segments that are ready for it, which
// means that their batches are synced (invariant 9).
func (s *Store) sealJobs(jobs []job) {
	f := &s.flusher
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
			if file := s.open(j, seg.base, segmentName(seg.base), disk.ReadWrite); file != nil {
				j.log.mu.Lock()
				footer := seg.encodeFooter()
				j.log.mu.Unlock()
				f.io.add(j, disk.Write, file, seg.end, footer)
				j.sealing = append(j.sealing, seg)
			}
		}
	}
	f.io.run(s)
	for i := range jobs {
		j := &jobs[i]
		if j.err != nil {
			continue
		}
		j.log.mu.Lock()
		for _, seg := range j.sealing {
			seg.sealed, seg.footerDirty = true, !j.log.transient
			seg.index, seg.holes = nil, nil
		}
		j.log.mu.Unlock()
	}
}
