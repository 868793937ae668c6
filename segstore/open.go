package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
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
		kick: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.files.init(o.Disk, o.tune.filesMax)
	for _, dir := range []string{transientDir, trashDir} {
		if err := s.disk.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("segstore: %w", err)
		}
	}
	if err := s.disk.MkdirAll(logsDir); err != nil {
		return nil, fmt.Errorf("segstore: %w", err)
	}
	if err := s.disk.SyncDir("."); err != nil {
		return nil, fmt.Errorf("segstore: %w", err)
	}
	now := s.tune.now()
	s.flusher.lastTick, s.flusher.lastSync = now, now
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
	s.stopFetcher()
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range logs { // what is appended from here on is refused
		l.mu.Lock()
		l.fence(ErrClosed)
		l.mu.Unlock()
	}
	if flush {
		s.cycle(pass{tick: true, sync: true, final: true})
		s.cycle(pass{tick: true, sync: true, final: true}) // syncs the footers that the first one wrote
	}
	for _, l := range logs {
		l.mu.Lock()
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
	return s.flusher.firstErr
}

// LogOptions configure a log.
type LogOptions struct {
	// Transient logs are written only when memory gets short, never synced, and
	// gone after a restart.
	Transient bool
}

// OpenLog opens the log with that id, reading what is on disk; if nothing is,
// the log is new and empty, and owns no file until something has to be written.
func (s *Store) OpenLog(id uint64, o LogOptions) (*Log, error) {
	l := &Log{store: s, id: id, transient: o.Transient}
	s.mu.Lock()
	_, have := s.logs[id]
	closed := s.closed
	if !have && !closed {
		s.logs[id] = l
	}
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case have:
		return nil, fmt.Errorf("segstore: log %d is open, or being deleted", id)
	case o.Transient:
		return l, nil
	}
	// The flusher may come by as soon as the log is listed.
	l.mu.Lock()
	err := s.recoverLog(l)
	l.mu.Unlock()
	if err != nil {
		s.forgetLog(l)
		return nil, err
	}
	return l, nil
}

func (s *Store) forgetLog(l *Log) {
	s.mu.Lock()
	if s.logs[l.id] == l {
		delete(s.logs, l.id)
	}
	s.mu.Unlock()
}

// quarantineSuffix marks what could not be read; such names are left alone.
const quarantineSuffix = ".quarantine"

// ListLogs returns the ids of the logs that own a directory, in ascending
// order. Names that are none are renamed to .quarantine.
func (s *Store) ListLogs() ([]uint64, error) {
	entries, err := s.disk.ReadDir(logsDir)
	if err != nil {
		return nil, fmt.Errorf("segstore: %w", err)
	}
	var ids []uint64
	for _, e := range entries {
		id, err := strconv.ParseUint(e.Name(), 16, 64)
		switch {
		case strings.Contains(e.Name(), quarantineSuffix):
		case err != nil || !e.IsDir() || fmt.Sprintf("%016x", id) != e.Name():
			if err := s.setAside(logsDir, e.Name(), errors.New("not the directory of a log")); err != nil {
				return nil, err
			}
		default:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Quarantine moves the directory of a log that nobody knows to quarantine/.
// The log must not be open.
func (s *Store) Quarantine(id uint64) error {
	s.mu.Lock()
	_, open := s.logs[id]
	s.mu.Unlock()
	if open {
		return fmt.Errorf("segstore: log %d is open", id)
	}
	from := fmt.Sprintf("%s/%016x", logsDir, id)
	to := fmt.Sprintf("%s/%016x-%d", quarantineDir, id, s.tune.now().Unix())
	err := s.disk.MkdirAll(quarantineDir)
	if err == nil {
		err = s.disk.Rename(from, to)
	}
	for _, dir := range []string{quarantineDir, logsDir, "."} {
		if err == nil {
			err = s.disk.SyncDir(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	s.o.Logger.Warn("segstore: set aside a log that belongs to no queue", "directory", to)
	return nil
}

// setAside renames a file that cannot be used to a free .quarantine name
// (invariant 11).
func (s *Store) setAside(dir, name string, why error) error {
	entries, err := s.disk.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	to := freeQuarantineName(entries, name)
	if err := s.disk.Rename(path.Join(dir, name), path.Join(dir, to)); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	if err := s.disk.SyncDir(dir); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	s.o.Logger.Error("segstore: unreadable file set aside", "file", path.Join(dir, name), "as", to, "error", why)
	return nil
}

func freeQuarantineName(entries []fs.DirEntry, name string) string {
	to := name + quarantineSuffix
	for n := 2; slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == to }); n++ {
		to = fmt.Sprintf("%s%s%d", name, quarantineSuffix, n)
	}
	return to
}

// removeDead removes the files of dead segments and the directories of deleted
// logs. A failure costs disk space, no records, so it is only reported.
func (s *Store) removeDead(jobs []job) {
	deleted := false
	for i := range jobs {
		j := &jobs[i]
		if j.remove {
			deleted = s.trash(j.log) || deleted
		}
		if j.err != nil {
			continue
		}
		for _, seg := range j.dead {
			s.files.forget(fileKey{j.log.id, seg.base})
			if !seg.created {
				continue
			}
			if err := s.disk.Remove(j.log.path(segmentName(seg.base))); err != nil {
				s.o.Logger.Error("segstore: a segment without records could not be removed", "error", err)
			}
		}
	}
	if !deleted {
		return
	}
	err := s.disk.SyncDir(logsDir)
	if err == nil {
		err = s.disk.RemoveAll(trashDir)
	}
	if err != nil {
		s.o.Logger.Error("segstore: deleted logs could not be removed; the next start tries again", "error", err)
	}
}

// trash renames the directory of a deleted log into trash/, from where it is
// removed. It reports whether there was one.
func (s *Store) trash(l *Log) bool {
	defer s.forgetLog(l)
	if len(l.segments) == 0 && l.acks == nil {
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
