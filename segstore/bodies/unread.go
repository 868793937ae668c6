package bodies

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// A directory of names that cannot be listed when the store is opened (a bad disk,
// wrong permissions, a file in its place) is unread: which bodies are there is not
// known. It is one queue's, and must keep nobody else from starting.
//
//   - Nothing in it is touched until it was read: no name is made or removed, nothing
//     is put aside, but for Quarantine and RemoveDir, which end it as a whole.
//   - Who wants a name there is given none, and no error, so that the other queues of a
//     message get theirs. Its queue must refuse the record (Lacks): it is closed.
//   - Reread lists it, and then it is one like all. Only bodies whose ids are given out
//     after that can be in it and be new; Lacks tells the others that came too early.

// ErrUnread is wrapped by errors of a directory that could not be listed.
var ErrUnread = errors.New("bodies: the directory of large bodies cannot be listed")

// unread says why a directory was not listed, or since which body it is.
type unread struct {
	why   error  // nil: it was read again
	since uint64 // ids from here on have been given out since then
}

// Unread says why the queue's directory could not be listed; nil if it was, or does
// not exist.
func (s *Store) Unread(dir Dir) error {
	if s.unreadDirs.Load() == 0 {
		return nil
	}
	s.unreadMu.Lock()
	defer s.unreadMu.Unlock()
	if u := s.unread[dir]; u.why != nil {
		return fmt.Errorf("%w: %w", ErrUnread, u.why)
	}
	return nil
}

// Lacks says that the body may have no name in dir although its Finish, Link or
// LinkSoon succeeded, because the directory was unread then.
func (s *Store) Lacks(dir Dir, ref Ref) error {
	if s.unreadDirs.Load() == 0 {
		return nil
	}
	s.unreadMu.Lock()
	defer s.unreadMu.Unlock()
	switch u, ok := s.unread[dir]; {
	case !ok:
		return nil
	case u.why != nil:
		return fmt.Errorf("%w: %w", ErrUnread, u.why)
	case int64(ref.ID-u.since) < 0: // ids count up from anywhere
		return errors.New("bodies: the directory of large bodies has just been read again: what came before that has to be sent again")
	}
	return nil
}

// setUnread notes what could not be listed. Only Open.
func (s *Store) setUnread(dir Dir, why error) {
	if s.unread == nil {
		s.unread = map[Dir]unread{}
	}
	s.unread[dir] = unread{why: why}
	s.unreadDirs.Store(int32(len(s.unread)))
}

// forgetUnread ends it, with the directory.
func (s *Store) forgetUnread(dir Dir) (was bool) {
	if s.unreadDirs.Load() == 0 {
		return false
	}
	s.unreadMu.Lock()
	defer s.unreadMu.Unlock()
	u := s.unread[dir]
	delete(s.unread, dir)
	s.unreadDirs.Store(int32(len(s.unread)))
	return u.why != nil
}

// Reread lists a directory again that could not be listed. An error wraps ErrUnread,
// and nothing has changed. Of a directory that was listed nothing is said. It waits
// for the disk.
func (s *Store) Reread(dir Dir) (left Left, err error) {
	left.Log = dir.Log
	if s.Unread(dir) == nil {
		return left, nil
	}
	left.IDs, err = s.listDir(dir)
	exists := err == nil
	if errors.Is(err, fs.ErrNotExist) { // who removed it had the choice
		err = nil
	}
	if err != nil {
		return left, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	s.unreadMu.Lock()
	defer s.unreadMu.Unlock()
	u, ok := s.unread[dir]
	if !ok || u.why == nil { // it is gone, or another was faster
		return Left{Log: dir.Log}, nil
	}
	if exists && s.dirs[dir] == nil {
		s.dirs[dir] = new(directory)
	}
	s.unread[dir] = unread{since: s.nextID.Load()}
	s.logger.Info("the large bodies of a queue, which could not be listed, were listed again", "directory", dir.path(), "bodies", len(left.IDs))
	return left, nil
}

// readable leaves directories out that are unread.
func (s *Store) readable(dirs []Dir) []Dir {
	if s.unreadDirs.Load() == 0 {
		return dirs
	}
	return slices.DeleteFunc(slices.Clone(dirs), func(dir Dir) bool { return s.Unread(dir) != nil })
}
