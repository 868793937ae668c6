package segstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// quarantineSuffix marks what could not be read; such names are left alone.
const quarantineSuffix = ".quarantine"

// Quarantine moves the directory of a log that nobody knows to quarantine/.
// The log must not be open. On a full disk (disk.IsNoSpace says so of the
// error) the log stays where it is, and may be set aside another time.
func (s *Store) Quarantine(id uint64) error {
	s.mu.Lock()
	l := s.logs[id]
	s.mu.Unlock()
	if l == nil {
		return s.moveAside(id)
	}
	if !l.claim(nil) {
		return fmt.Errorf("segstore: log %d is open", id)
	}
	err := l.Unread() // what the journal has of it can't go to its files
	if err == nil {
		err = s.onFlusher(func() error { return s.quarantineLog(l) })
	}
	if err != nil {
		l.mu.Lock()
		l.journaled.unclaimed = true
		l.mu.Unlock()
	}
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
// that aside, and forgets the log. The flusher's. If it fails, the log is as it was.
func (s *Store) quarantineLog(l *Log) error {
	if !s.filer.wait() { // it may have the log's files in hand
		return errNoSpace
	}
	o := orphan{store: s, log: l}
	err := o.save()
	if err == nil {
		err = s.moveAside(l.id)
	}
	if err != nil {
		o.undo()
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

// orphan is a log on its way to the quarantine. Its files are written without
// the flusher's waves, which wait for space, and fence a log that fails.
type orphan struct {
	store *Store
	log   *Log
	made  []madeFile
}

// madeFile is a file that was written to, and its size before; -1: it was not
// there.
type madeFile struct {
	name string
	size int64
}

// straySuffix ends the name of a file with batches that have no place in a
// segment, because later ones are on disk already. Its form is a segment's.
const straySuffix = ".stray"

// save writes and syncs what only the journal has.
func (o *orphan) save() error {
	s, l := o.store, o.log
	l.mu.Lock()
	settled := l.encodeSettled(s.tune.now().UnixMilli(), l.handled())
	var tail, strays []byte
	for _, c := range l.chunks {
		for pos := c.flushed; pos < c.saved; {
			n := batchLength(c.data[pos:])
			batch := c.data[pos : pos+n]
			switch {
			case l.isSettled(batchBase(batch), batchEnd(batch)):
			case c.stray:
				strays = append(strays, batch...)
			default:
				tail = append(tail, batch...)
			}
			pos += n
		}
	}
	l.mu.Unlock()
	err := s.disk.MkdirAll(l.dir())
	if err == nil && len(tail) > 0 {
		name, pos := segmentName(batchBase(tail)), int64(0)
		if n := len(l.segments); n > 0 && l.segments[n-1].base == batchBase(tail) { // an empty one
			pos = l.segments[n-1].end
		}
		err = o.write(name, pos, tail)
	}
	if err == nil && len(strays) > 0 {
		err = o.write(fmt.Sprintf("%020d%s", batchBase(strays), straySuffix), 0, strays)
	}
	for i := 0; i < len(l.segments) && err == nil; i++ {
		if seg := l.segments[i]; seg.unsynced && seg.created {
			err = o.sync(segmentName(seg.base), disk.ReadWrite, nil, 0)
		}
	}
	if err == nil {
		o.made = append(o.made, madeFile{settledTempName, -1})
		err = o.sync(settledTempName, disk.Create, settled, 0)
	}
	if err == nil {
		err = s.disk.Rename(l.path(settledTempName), l.path(settledName))
	}
	if err == nil {
		l.mu.Lock()
		l.acks = &settledFile{exists: true}
		l.mu.Unlock()
		err = s.disk.SyncDir(l.dir())
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	return nil
}

// write writes batches to the end of a segment, at pos, or to a new file, if
// pos is 0.
func (o *orphan) write(name string, pos int64, batches []byte) error {
	if pos > 0 {
		o.made = append(o.made, madeFile{name, pos})
		return o.sync(name, disk.ReadWrite, batches, pos)
	}
	head := encodeSegmentHeader(o.log.segmentVersion(), o.log.id, batchBase(batches), o.store.tune.now().UnixMilli())
	o.made = append(o.made, madeFile{name, -1})
	return o.sync(name, disk.Create, append(head, batches...), 0)
}

// sync writes data to a file of the log, and syncs it.
func (o *orphan) sync(name string, flag disk.Flag, data []byte, pos int64) error {
	d := o.store.disk
	file, err := d.Open(o.log.path(name), flag)
	if err != nil {
		return err
	}
	ops := []*disk.Op{{Kind: disk.Truncate, File: file, Pos: pos}, {Kind: disk.Write, File: file, Pos: pos, Buf: data}, {Kind: disk.Sync, File: file}}
	if len(data) == 0 {
		ops = ops[2:]
	}
	for _, op := range ops {
		if err == nil {
			err = disk.Run(d, op)
		}
	}
	return errors.Join(err, file.Close())
}

// undo takes back what save wrote, but for the settled file: that says nothing
// that the journal does not say.
func (o *orphan) undo() {
	d := o.store.disk
	for _, f := range o.made {
		path := o.log.path(f.name)
		var err error
		if f.size < 0 {
			err = d.Remove(path)
		} else {
			var file disk.File
			if file, err = d.Open(path, disk.ReadWrite); err == nil {
				err = errors.Join(disk.Run(d, &disk.Op{Kind: disk.Truncate, File: file, Pos: f.size}), file.Close())
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.store.o.Logger.Error("segstore: a copy of records that the journal has could not be removed", "file", path, "error", err)
		}
	}
}

// setAside renames a file that cannot be used to a free .quarantine name
// (invariant 11). On a full disk it may stay where it is.
func (s *Store) setAside(dir, name string, level slog.Level, why error) (moved bool, err error) {
	entries, err := s.disk.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("segstore: %w", err)
	}
	to := freeQuarantineName(entries, name)
	err = s.disk.Rename(path.Join(dir, name), path.Join(dir, to))
	if disk.IsNoSpace(err) {
		s.o.Logger.Log(context.Background(), level, "segstore: unreadable file not set aside, because the disk is full; the next start tries again", "file", path.Join(dir, name), "error", why)
		return false, nil
	}
	if err == nil {
		err = s.disk.SyncDir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("segstore: %w", err)
	}
	s.o.Logger.Log(context.Background(), level, "segstore: unreadable file set aside", "file", path.Join(dir, name), "as", to, "error", why)
	return true, nil
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
