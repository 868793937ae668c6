package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// quarantineSuffix marks what could not be read; such names are left alone.
const quarantineSuffix = ".quarantine"

// Quarantine moves the directory of a log that nobody knows to quarantine/.
// The log must not be open.
func (s *Store) Quarantine(id uint64) error {
	s.mu.Lock()
	l := s.logs[id]
	s.mu.Unlock()
	if l == nil {
		return s.moveAside(id)
	}
	if !l.claim() {
		return fmt.Errorf("segstore: log %d is open", id)
	}
	err := errors.New("segstore: the store is closed")
	s.onFlusher(func() { err = s.quarantineLog(l) })
	return err
}

// moveAside moves the directory of log id to quarantine/.
func (s *Store) moveAside(id uint64) error {
	from := fmt.Sprintf("%s/%016x", logsDir, id)
	err := s.disk.MkdirAll(quarantineDir)
	var taken []fs.DirEntry
	if err == nil {
		taken, err = s.disk.ReadDir(quarantineDir)
	}
	// The same number can be set aside more than once within a second: after a
	// crash the journal brings back a log whose deletion it had not recorded yet.
	to := quarantineDir + "/" + freeName(taken, fmt.Sprintf("%016x-%d", id, s.tune.now().Unix()), ".")
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

// quarantineLog writes what the journal has of the log to its directory, moves
// that aside, and forgets the log. The flusher's.
func (s *Store) quarantineLog(l *Log) error {
	l.mu.Lock()
	l.journaled.segmentTo = l.handled()
	l.journaled.acks = l.encodeSettled(s.tune.now().UnixMilli(), l.handled())
	l.mu.Unlock()
	s.wave([]*Log{l}, pass{final: true}, nil)
	l.mu.Lock()
	err := l.err
	strays := slices.ContainsFunc(l.chunks, func(c *chunk) bool { return c.stray })
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case strays:
		s.o.Logger.Warn("segstore: some records of the log stay in the journal", "log", l.id)
	}
	if err := s.moveAside(l.id); err != nil {
		return err
	}
	for _, seg := range l.segments {
		s.files.forget(fileKey{l.id, seg.base})
	}
	s.files.forget(fileKey{l.id, settledKey})
	s.flusher.forgotten = append(s.flusher.forgotten, l.id)
	_ = l.Delete() // nothing is left of it but memory
	l.mu.Lock()
	l.gone, l.segments, l.acks = true, nil, nil
	l.mu.Unlock()
	s.forgetLog(l)
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
	return freeName(entries, name+quarantineSuffix, "")
}

// freeName is name if no entry has it, otherwise name with a number after it.
func freeName(entries []fs.DirEntry, name, separator string) string {
	free := name
	for n := 2; slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == free }); n++ {
		free = fmt.Sprintf("%s%s%d", name, separator, n)
	}
	return free
}
