package bodies

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// link gives a file another name, in dir. The directory of a queue that is
// being deleted may vanish in between: it is made once more, so that the other
// queues are not concerned.
func (s *Store) link(name string, dir Dir, id uint64, durable bool) error {
	for again := true; ; again = false {
		err := s.makeDir(dir, durable)
		if err == nil {
			err = s.disk.Link(name, dir.name(id))
		}
		if errors.Is(err, fs.ErrNotExist) && again {
			s.forgetDir(dir)
			continue
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrNotExist) && s.isGone(name):
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return fmt.Errorf("bodies: %w", err)
	}
}

// isGone says that there is no such file: it is not a directory that is missing.
func (s *Store) isGone(name string) bool {
	file, err := s.disk.Open(name, disk.ReadOnly)
	if err == nil {
		_ = file.Close() // read only
	}
	return errors.Is(err, fs.ErrNotExist)
}

// Link gives a body that one queue has names in the directories of others, for
// another record: under an id of its own, so that each record ends its names
// alone. With durable the names survive a power cut when Link returns; that the
// body does, its first owner saw to. It waits for the disk. Errors:
// ErrDamaged, the body is gone; the disk's. Directories that are unread get no name (Lacks).
func (s *Store) Link(from Dir, ref Ref, to []Dir, durable bool) (Ref, error) {
	linked := ref
	linked.ID = s.nextID.Add(1) - 1
	to = s.readable(to)
	for i, dir := range to {
		sync := durable && !dir.Transient
		err := s.link(from.name(ref.ID), dir, linked.ID, sync)
		if err == nil && sync {
			err = s.disk.SyncDir(dir.path())
		}
		if err != nil {
			for _, dir := range to[:i+1] {
				s.Remove(dir, []uint64{linked.ID})
			}
			return Ref{}, err
		}
	}
	return linked, nil
}

// LinkSoon is Link for those who cannot wait: done is called from another
// goroutine. With durable the body's own bytes are made to survive, too.
func (s *Store) LinkSoon(from Dir, ref Ref, to []Dir, durable bool, done func(Ref, error)) {
	durable = durable && !s.noSync
	ok := s.work.add(func() {
		if durable {
			err := s.syncBody(from.name(ref.ID))
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if err != nil {
				done(Ref{}, fmt.Errorf("bodies: %w", err))
				return
			}
		}
		done(s.Link(from, ref, to, durable))
	})
	if !ok {
		done(Ref{}, errClosed)
	}
}

var errClosed = errors.New("bodies: the store is closed")

func (s *Store) syncBody(name string) error {
	file, err := s.disk.Open(name, disk.ReadOnly)
	if err != nil {
		return err
	}
	err = disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: file})
	return errors.Join(err, file.Close())
}
