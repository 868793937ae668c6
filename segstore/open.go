package segstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Open prepares the directory tree of o.Disk and starts the flusher. What a
// previous run left of transient and deleted logs is removed.
func Open(o Options) (*Store, error) {
	if o.Disk == nil || o.Arena == nil {
		return nil, errors.New("segstore: Options need a Disk and an Arena")
	}
	o.setDefaults()
	s := &Store{
		o: o, tune: o.tune, disk: o.Disk, arena: o.Arena,
		logs: map[uint64]*Log{},
		kick: make(chan struct{}, 1), calls: make(chan func(error)), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.files.init(o.Disk, o.tune.filesMax)
	s.filer.init()
	for _, dir := range []string{transientDir, trashDir} {
		if err := s.disk.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("segstore: %w", err)
		}
	}
	if err := s.disk.MkdirAll(logsDir); err != nil {
		return nil, fmt.Errorf("segstore: %w", err)
	}
	for _, dir := range []string{".", logsDir} { // directories of a life that was killed may not be durable
		if err := s.disk.SyncDir(dir); err != nil {
			return nil, fmt.Errorf("segstore: %w", err)
		}
	}
	err := s.findHighestID()
	if err == nil {
		err = s.replayJournal()
	}
	if err != nil {
		s.abandon()
		return nil, err
	}
	now := s.tune.now()
	s.flusher.lastTick, s.flusher.lastSync, s.flusher.lastStep = now, now, now
	if s.tune.manual {
		close(s.stopped)
	} else {
		go s.runFlusher()
	}
	return s, nil
}

// Close writes and syncs what is unsettled, and stops. A second call does
// nothing.
func (s *Store) Close() error { return s.shutdown(true) }

// Crash stops without writing anything, as kill -9 would. For tests.
func (s *Store) Crash() { _ = s.shutdown(false) }

func (s *Store) shutdown(flush bool) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.stopped
	s.stopFiler()
	s.reopens.Wait()
	s.stopFetcher()
	s.stopPuncher()
	s.gate.mu.Lock()
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	var fenced error
	for _, l := range logs { // what is appended from here on is refused
		l.mu.Lock()
		l.fence(ErrClosed)
		if l.err != ErrClosed && !l.deleted {
			fenced = l.err // its files are not as this stop would have them
		}
		l.mu.Unlock()
	}
	s.gate.mu.Unlock()
	if s.fencedLogs.Load() == 0 && s.journal.err == nil { // those that were are open again, or deleted
		s.flusher.firstErr, s.filer.firstErr = nil, nil
	}
	if flush {
		s.flushAll()
	}
	s.abandon()
	return cmp.Or(s.flusher.firstErr, s.filer.firstErr, fenced)
}

// flushAll writes everything to segments and settled files, and marks the
// journal as clean.
func (s *Store) flushAll() {
	js := &s.journal
	for range 3 { // the second syncs the footers that the first wrote, and what transactions held back
		if js.err == nil {
			s.cycle(pass{tick: true, sync: true, final: true})
		}
	}
	s.journal.metaWork.Wait()
	if js.err == nil {
		s.closeJournal()
	}
}

// abandon gives up memory and files.
func (s *Store) abandon() {
	s.journal.metaWork.Wait()
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range logs {
		l.mu.Lock()
		l.fence(ErrClosed)
		for len(l.chunks) > 0 {
			l.dropChunk(len(l.chunks) - 1)
		}
		wakes := l.dropBlocks(ErrClosed)
		l.mu.Unlock()
		for _, wake := range wakes {
			wake()
		}
	}
	s.files.closeAll()
	if s.journal.w != nil {
		s.journal.w.Close()
	}
}

// LogOptions configure a log.
type LogOptions struct {
	// Transient logs are written only when memory gets short, never synced, and
	// gone after a restart.
	Transient bool
	// Retained makes it a retained log; see retained.go.
	Retained *RetainedOptions
}

// OpenLog opens the log with that id, reading what is on disk; if nothing is,
// the log is new and empty, and owns no file until something has to be written.
// If it cannot be read, the log is fenced (see unread.go): Unread says why.
func (s *Store) OpenLog(id uint64, o LogOptions) (*Log, error) {
	if err := s.journal.failed.Load(); err != nil && !o.Transient {
		return nil, *err
	}
	l := &Log{store: s, id: id, transient: o.Transient}
	s.mu.Lock()
	found := s.logs[id]
	closed := s.closed
	unseen := id > s.idMax
	s.idMax = max(s.idMax, id)
	if found == nil && !closed {
		s.logs[id] = l
	}
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case found != nil:
		if !o.Transient && found.claim(o.Retained) {
			return found, nil
		}
		return nil, fmt.Errorf("segstore: log %d is open, or being deleted", id)
	case o.Transient:
		return l, nil
	}
	// The flusher may come by as soon as the log is listed.
	l.mu.Lock()
	if unseen {
		s.assemble(l, new(recovery))
	} else if err := s.recoverLog(l); err != nil {
		l.setUnread(err)
	}
	l.retain(o.Retained)
	l.mu.Unlock()
	return l, nil
}

// claim opens a log that Open found in the journal.
func (l *Log) claim(retained *RetainedOptions) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.journaled.unclaimed && !l.deleted
	if was {
		l.retain(retained)
	}
	l.journaled.unclaimed = false
	return was
}

func (s *Store) forgetLog(l *Log) {
	s.mu.Lock()
	if s.logs[l.id] == l {
		delete(s.logs, l.id)
	}
	s.mu.Unlock()
}

// findHighestID notes the highest id that a directory of a log has: a log with
// a higher one is new, and there is nothing to look for.
func (s *Store) findHighestID() error {
	entries, err := s.disk.ReadDir(logsDir)
	if err != nil {
		return fmt.Errorf("segstore: all logs are in this directory: mend the disk or the permissions, or restore the data directory from a backup: %w", err)
	}
	for _, e := range entries {
		if id, ok := parseLogDir(e.Name()); ok {
			s.idMax = max(s.idMax, id)
		}
	}
	return nil
}

func parseLogDir(name string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(name, 16, 64)
	return id, err == nil && fmt.Sprintf("%016x", id) == name
}

// ListLogs returns the ids of the logs that own a directory, or records in the
// journal that nobody has opened yet, in ascending order. Names that are none are renamed to .quarantine.
func (s *Store) ListLogs() ([]uint64, error) {
	entries, err := s.disk.ReadDir(logsDir)
	if err != nil {
		return nil, fmt.Errorf("segstore: %w", err)
	}
	var ids []uint64
	for _, e := range entries {
		id, ok := parseLogDir(e.Name())
		switch {
		case strings.Contains(e.Name(), quarantineSuffix):
		case !ok: // a log's name with something else under it is a log that cannot be read
			if _, err := s.setAside(logsDir, e.Name(), slog.LevelError, errors.New("not the directory of a log")); err != nil {
				s.o.Logger.Error("segstore: what is not the directory of a log stays", "name", e.Name(), "error", err)
			}
		default:
			ids = append(ids, id)
		}
	}
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range logs {
		l.mu.Lock()
		if l.journaled.unclaimed && (l.unsettled() > 0 || l.journaled.unread) {
			ids = append(ids, l.id)
		}
		l.mu.Unlock()
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// onFlusher lets the flusher's goroutine do something between two cycles. While
// the flusher waits for space it does not: it returns errNoSpace.
func (s *Store) onFlusher(do func() error) error {
	if s.tune.manual {
		return do()
	}
	done := make(chan error, 1)
	call := func(err error) {
		if err == nil {
			err = do()
		}
		done <- err
	}
	select {
	case s.calls <- call:
		return <-done
	case <-s.stop:
		return ErrClosed
	}
}

// removeDead removes the files of dead segments and the directories of deleted
// logs. A failure costs disk space, no records, so it is only reported.
func (s *Store) removeDead(jobs []job) {
	var deleted []*Log
	for i := range jobs {
		j := &jobs[i]
		if j.remove {
			if s.trash(j.log) {
				deleted = append(deleted, j.log)
			} else {
				s.forgetLog(j.log)
			}
		}
		if j.err != nil {
			continue
		}
		for _, seg := range j.dead {
			s.removeSegment(j.log, seg)
		}
	}
	if len(deleted) == 0 {
		return
	}
	err := s.disk.SyncDir(logsDir)
	if err == nil {
		err = s.disk.RemoveAll(trashDir)
	}
	if err != nil {
		s.o.Logger.Error("segstore: deleted logs could not be removed; the next start tries again", "error", err)
	}
	// Only now may the number be given again: the old directory can't come back.
	for _, l := range deleted {
		s.forgetLog(l)
	}
}

// trash renames the directory of a deleted log into trash/, from where it is
// removed. It reports whether there was one.
func (s *Store) trash(l *Log) bool {
	if s.journal.w != nil {
		if err := s.journal.w.DropKept(l.id); err != nil {
			s.o.Logger.Warn("segstore: a file of the journal that is not needed any more stays", "error", err)
		}
	}
	if len(l.segments) == 0 && l.acks == nil && !l.journaled.unread {
		return false
	}
	for _, seg := range l.segments {
		s.files.forget(fileKey{l.id, seg.base})
	}
	s.files.forget(fileKey{l.id, settledKey})
	s.flusher.trashed++
	err := s.disk.MkdirAll(trashDir)
	if err == nil {
		err = s.disk.Rename(l.dir(), fmt.Sprintf("%s/%016x-%d", trashDir, l.id, s.flusher.trashed))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Logger.Error("segstore: a deleted log's directory stays: it is set aside at the next start", "log", l.id, "error", err)
	}
	return err == nil
}
