package bodies

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Errors callers decide on.
var (
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("bodies: the store is closed")
	// ErrDamaged: a body is not there, not as long as its record says, or not
	// what was written. Other errors of reading say nothing of it: it may be whole.
	ErrDamaged = errors.New("bodies: the body of a message is missing or damaged")
)

// Options configure a Store. Disk and Arena are required.
type Options struct {
	Disk   disk.Disk
	Arena  *arena.Pool
	Logger *slog.Logger // nil: silent
	NoSync bool         // durability level "os": nothing is synced
	// FirstID is the first body id; 0 means a random one. For tests.
	FirstID uint64
}

// Store is the set of bodies of one data directory.
type Store struct {
	disk   disk.Disk
	pool   *arena.Pool
	logger *slog.Logger
	noSync bool
	nextID atomic.Uint64
	work   workers
	writes sync.WaitGroup // on their way

	writing atomic.Int64 // bytes of buffers on their way to the disk
	reading atomic.Int64 // bytes of buffers of Outgoings

	left []Left

	dirMu   sync.Mutex
	spooled bool               // the spool directory exists
	dirs    map[Dir]*directory // those that exist

	unreadDirs atomic.Int32 // how many unread has
	unreadMu   sync.Mutex
	unread     map[Dir]unread // those that are, or were, unread

	suspectBodies atomic.Int32 // how many suspects has
	suspectMu     sync.Mutex
	suspects      map[bodyName]error
}

// directory is a directory of names that exists.
type directory struct{ synced atomic.Bool } // its entry in the parent is durable

// Left is a directory that an earlier run left.
type Left struct {
	Log uint64
	IDs []uint64 // ascending
	Err error    // why it cannot be listed, which closes its queue; then IDs are not known
}

// Open wipes what must not survive and lists what has.
func Open(o Options) (*Store, error) {
	s := &Store{disk: o.Disk, pool: o.Arena, logger: o.Logger, noSync: o.NoSync, dirs: map[Dir]*directory{}}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	first := o.FirstID
	if first == 0 {
		first = rand.Uint64()
	}
	s.nextID.Store(first)
	for _, dir := range []string{SpoolDir, TransientDir} {
		if err := s.disk.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("bodies: what is in this directory ends with the process, and cannot be removed: mend the disk or the permissions, or move it away: %w", err)
		}
	}
	if err := s.list(); err != nil {
		return nil, fmt.Errorf("bodies: the large bodies of all queues are in this directory: mend the disk or the permissions, or restore the data directory from a backup: %w", err)
	}
	return s, nil
}

// list fills left.
func (s *Store) list() error {
	entries, err := s.disk.ReadDir(DurableDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		log, ok := parseID(e.Name())
		if !ok {
			s.logger.Warn("not a directory of message bodies: left alone", "path", DurableDir+"/"+e.Name())
			continue
		}
		dir := Dir{Log: log}
		ids, err := s.listDir(dir)
		switch {
		case err != nil:
			s.setUnread(dir, err)
			s.left = append(s.left, Left{Log: log, Err: s.Unread(dir)})
			continue
		case ids == nil && e.IsDir():
			if err := s.disk.Remove(dir.path()); err == nil {
				continue
			}
			// Then it stays: it may be used, or there is something strange in it.
		}
		s.left = append(s.left, Left{Log: log, IDs: ids})
		s.dirs[dir] = new(directory) // its own entry may not be durable yet
	}
	return nil
}

// listDir lists the bodies in a directory; nil if there is nothing in it at all.
func (s *Store) listDir(dir Dir) (ids []uint64, err error) {
	names, err := s.disk.ReadDir(dir.path())
	if err != nil || len(names) == 0 {
		return nil, err
	}
	ids = make([]uint64, 0, len(names))
	for _, name := range names {
		if id, ok := parseID(name.Name()); ok && name.Type().IsRegular() {
			ids = append(ids, id)
		} else {
			s.logger.Warn("not a message body: left alone", "path", dir.path()+"/"+name.Name())
		}
	}
	return ids, nil
}

// Left returns the directories that Open found, and forgets them.
func (s *Store) Left() []Left {
	left := s.left
	s.left = nil
	return left
}

// Drain waits until all work so far, that of callbacks included, is done. For
// goroutines that may block, while nobody writes.
func (s *Store) Drain() {
	s.writes.Wait()
	s.work.drain()
}

// Close waits for the work under way. Incomings and Outgoings that are still
// there must not be used any more; what they leave is wiped by the next Open.
func (s *Store) Close() error {
	s.writes.Wait()
	s.work.close()
	return nil
}

// makeSpool makes the spool directory, once.
func (s *Store) makeSpool() error {
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	if s.spooled {
		return nil
	}
	err := s.disk.MkdirAll(SpoolDir)
	s.spooled = err == nil
	return err
}

// makeDir makes the directory of a queue, and if durable is set makes sure that
// it survives a power cut.
func (s *Store) makeDir(dir Dir, durable bool) error {
	s.dirMu.Lock()
	known := s.dirs[dir]
	if known == nil {
		if err := s.disk.MkdirAll(dir.path()); err != nil {
			s.dirMu.Unlock()
			return err
		}
		known = new(directory)
		s.dirs[dir] = known
	}
	s.dirMu.Unlock()
	if !durable || known.synced.Load() {
		return nil
	}
	for _, parent := range []string{".", dir.parent()} {
		if err := s.disk.SyncDir(parent); err != nil {
			return err
		}
	}
	known.synced.Store(true)
	return nil
}

// forgetDir makes the next makeDir make the directory again.
func (s *Store) forgetDir(dir Dir) {
	s.dirMu.Lock()
	delete(s.dirs, dir)
	s.dirMu.Unlock()
}

// Remove ends a queue's references to bodies, soon. ids is the Store's from now
// on. Names that are not there are no error.
func (s *Store) Remove(dir Dir, ids []uint64) {
	if len(ids) == 0 || s.Unread(dir) != nil {
		return
	}
	if s.suspectBodies.Load() > 0 {
		s.absolve(func(name bodyName) bool { return name.dir == dir && slices.Contains(ids, name.id) })
	}
	s.work.add(func() {
		for _, id := range ids {
			s.remove(dir.name(id))
		}
	})
}

func (s *Store) remove(name string) {
	if err := s.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("the body of a message cannot be removed; its space is lost until the next start finds it", "err", err)
	}
}

// RemoveDir ends all references of a queue, soon: it has been deleted.
func (s *Store) RemoveDir(dir Dir) {
	unread := s.forgetUnread(dir)
	s.Retry(dir)
	s.dirMu.Lock()
	known := s.dirs[dir] != nil
	s.dirMu.Unlock()
	if !known && !unread {
		return
	}
	s.work.add(func() {
		s.forgetDir(dir)
		if err := s.disk.RemoveAll(dir.path()); err != nil {
			s.logger.Error("the bodies of a deleted queue's messages cannot be removed; the next start puts them aside", "err", err)
		}
	})
}

// Quarantine puts a directory that belongs to no queue aside.
func (s *Store) Quarantine(log uint64) error {
	dir := Dir{Log: log}
	s.forgetDir(dir)
	s.forgetUnread(dir)
	return s.putAside(dir.path(), fmt.Sprintf("bodies-%016x", log))
}

// SetAside puts a damaged body of a queue aside, soon: it will not be found
// again under its reference.
func (s *Store) SetAside(dir Dir, id uint64) {
	s.work.add(func() {
		err := s.putAside(dir.name(id), fmt.Sprintf("body-%016x-%016x", dir.Log, id))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.logger.Error("a damaged message body cannot be put aside", "err", err)
		}
	})
}

func (s *Store) putAside(from, name string) error {
	if err := s.disk.MkdirAll(quarantineDir); err != nil {
		return err
	}
	entries, err := s.disk.ReadDir(quarantineDir)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, e := range entries {
		taken[e.Name()] = true
	}
	to := name
	for n := 2; taken[to]; n++ {
		to = fmt.Sprintf("%s.%d", name, n)
	}
	return s.disk.Rename(from, quarantineDir+"/"+to)
}
