package segstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// journalState is the store's side of the journal. The flusher's, unless said
// otherwise.
type journalState struct {
	w          *journal.Journal
	err        error     // a failed write or sync: nothing is written any more
	logs       [2][]*Log // logs with entries in each file
	meta       [2]bool   // meta records in each file
	checkpoint checkpoint
	pending    bool // a group is staged
	joined     bool // and its write syncs the file too

	failed atomic.Pointer[error] // err for OpenLog

	bytes, groups, syncs, checkpoints, bypassed atomic.Uint64
	replayed                                    uint64
	recovery                                    time.Duration

	metaMu         sync.Mutex
	metaCheckpoint func() error
	metaDurable    atomic.Uint64
	txDurable      atomic.Uint64
	metaDone       chan bool // capacity 1
	metaWork       sync.WaitGroup
}

// isSynced reports whether the entries of a round are where the durability
// level wants them.
func (s *Store) isSynced(round uint64) bool {
	f := &s.flusher
	if s.o.DurabilityOS {
		return round <= f.writtenRound.Load()
	}
	return round <= f.syncedRound.Load()
}

// stageGroup turns the entries of the round into groups: all but the last are
// written here, the last with the wave.
func (s *Store) stageGroup(r *round, p pass) {
	f, js := &s.flusher, &s.journal
	r.wantSync = r.wantSync && !s.o.DurabilityOS || r.mustSync || p.sync || p.final
	f.journalJob.reset(nil)
	rest := r.entries
	for len(rest) > 0 && js.err == nil {
		n, bytes := 0, 0
		for n < len(rest) && (n == 0 || r.atomic || bytes < int(s.tune.groupBytes)) {
			bytes += rest[n].Bytes()
			n++
		}
		js.w.Begin(bytes)
		for i := range rest[:n] {
			e := &rest[i]
			if e.Kind == journal.Batch {
				for batches := e.Data; len(batches) > 0; {
					length := batchLength(batches)
					sealBatch(batches[:length:length])
					batches = batches[length:]
				}
			}
			js.w.Add(&e.Entry)
		}
		var writes []journal.Write
		err := s.withSpace(&f.crew, func() (err error) {
			writes, err = js.w.End()
			return err
		})
		if err != nil {
			f.journalJob.fail(err)
			s.groupWritten(r)
			return
		}
		js.pending = true
		for _, w := range writes {
			f.io.addWrite(&f.journalJob, w.File, w.Pos, w.Buf, w.Ahead)
		}
		js.bytes.Add(uint64(len(writes[0].Buf)))
		js.groups.Add(1)
		s.histograms.GroupBytes.Observe(uint64(len(writes[0].Buf)))
		s.histograms.GroupEntries.Observe(uint64(n))
		if rest = rest[n:]; len(rest) > 0 {
			f.io.run(s, &f.crew)
			s.groupWritten(r)
		}
	}
}

// groupWritten takes note of the staged group's writes.
func (s *Store) groupWritten(r *round) {
	f, js := &s.flusher, &s.journal
	switch {
	case f.journalJob.err != nil:
		js.w.Fail()
		s.fenceJournal(f.journalJob.err)
	case js.pending:
		js.w.Written(!f.io.aheadFailed)
	}
	js.pending = false
	if js.joined && js.err == nil {
		js.w.Synced()
	}
	f.io.aheadFailed = false
	if js.err == nil {
		f.writtenRound.Store(r.number)
	}
}

// stageGroupSync queues the sync of the journal, if somebody wants it.
func (s *Store) stageGroupSync(r *round) {
	f, js := &s.flusher, &s.journal
	for i := range r.entries {
		if b := r.entries[i].buf; b != nil {
			b.Release()
			r.entries[i].buf = nil
		}
	}
	js.joined = false
	if r.wantSync && js.err == nil && js.w.Unsynced() {
		f.io.add(&f.journalJob, disk.Sync, js.w.File(), 0, nil)
		js.syncs.Add(1)
	} else {
		r.wantSync = r.wantSync && js.err == nil // there was nothing to sync
	}
}

func (s *Store) groupSynced(r *round) {
	f, js := &s.flusher, &s.journal
	switch {
	case f.journalJob.err != nil:
		s.fenceJournal(f.journalJob.err)
	case r.wantSync && js.err == nil:
		js.w.Synced()
		f.syncedRound.Store(r.number)
	}
	if js.err != nil || !s.isSynced(r.number) {
		return
	}
	if r.metaTo > 0 {
		js.metaDurable.Store(max(js.metaDurable.Load(), r.metaTo))
		f.moved = true
	}
	if r.ticketTo > js.txDurable.Load() {
		js.txDurable.Store(r.ticketTo)
		f.moved = true
	}
}

// fenceJournal is the end of all durable logs: what the journal's file holds is
// unknown until it is read again.
func (s *Store) fenceJournal(err error) {
	js := &s.journal
	if js.err != nil {
		return
	}
	js.err = fmt.Errorf("segstore: the journal failed: %w", err)
	js.failed.Store(&js.err)
	if s.flusher.firstErr == nil {
		s.flusher.firstErr = js.err
	}
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		if !l.transient {
			logs = append(logs, l)
		}
	}
	s.mu.Unlock()
	for _, l := range logs {
		l.mu.Lock()
		if l.err == nil || l.err == ErrClosed {
			l.fence(js.err)
			l.err = js.err
			s.fencedLogs.Add(1)
		}
		l.mu.Unlock()
	}
	s.flusher.moved = true
	s.o.Logger.Error("segstore: the journal is fenced: no durable queue takes records until the broker is restarted; check the disk",
		"file", js.w.Name(js.w.Current()), "error", err)
}

// syncJournal syncs the current file at once, before it is left.
func (s *Store) syncJournal() {
	js, f := &s.journal, &s.flusher
	if js.err != nil || !js.w.Unsynced() {
		return
	}
	s.syncs.Add(1)
	js.syncs.Add(1)
	if err := disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: js.w.File()}); err != nil {
		s.fenceJournal(err)
		return
	}
	js.w.Synced()
	f.syncedRound.Store(f.writtenRound.Load())
}
