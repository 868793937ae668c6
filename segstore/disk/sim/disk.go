package sim

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// ErrPowerCut is the cause of every failure after a crash point or after
// PowerCut or Kill was called, on the old Disk and on Files of it.
var ErrPowerCut = errors.New("sim: the power is cut")

// Order says when and in what order Ops take effect.
type Order uint8

const (
	Ordered  Order = iota // in Submit, in the order submitted
	Shuffled              // in random order, by a goroutine of the Disk
	Manual                // in random order, one by one when Step is called
)

// Options of a new Disk; the zero value is usable.
type Options struct {
	Seed        uint64
	Order       Order
	BudgetBytes int64 // capacity in bytes, whole 4 KiB blocks of it; 0 is unlimited
	SectorBytes int64 // 512 or 4096: the unit a power cut tears at; 0 draws one per cut
}

// Disk is a simulated disk.Disk.
type Disk struct {
	options Options

	mutex     sync.Mutex
	idle      sync.Cond // the queue is empty and no Done is running
	random    *rand.Rand
	root      *node
	nameOps   []*nameOp // unsynced, in order
	usedPages int64
	queue     []*task
	running   int  // Done calls not yet returned
	worker    bool // the Disk's goroutine runs
	closed    bool
	changes   int64 // operations so far that change or sync something
	crashAt   int64 // the number of the one that crashes, 0 for none
	crashed   chan struct{}
	rules     []*Injection
	stats     Stats
	log       []logEntry
	logged    int64
}

var _ disk.Disk = (*Disk)(nil)

// New returns an empty Disk. It panics on an unknown sector size.
func New(o Options) *Disk {
	if o.SectorBytes != 0 && o.SectorBytes != 512 && o.SectorBytes != pageBytes {
		panic("sim: SectorBytes must be 0, 512 or 4096")
	}
	d := &Disk{
		options: o,
		random:  rand.New(rand.NewPCG(o.Seed, 0x62a5a17)),
		root:    newDirectory(),
		crashed: make(chan struct{}),
	}
	d.idle.L = &d.mutex
	return d
}

// Name implements disk.Disk.
func (d *Disk) Name() string { return "sim" }

func (d *Disk) coin() bool { return d.random.IntN(2) == 0 }

func (d *Disk) isCrashed() bool {
	select {
	case <-d.crashed:
		return true
	default:
		return false
	}
}

// alive refuses calls to a Disk that crashed or was closed.
func (d *Disk) alive() error {
	switch {
	case d.isCrashed():
		return ErrPowerCut
	case d.closed:
		return fs.ErrClosed
	}
	return nil
}

// look runs a call that changes nothing.
func (d *Disk) look(call Call, name string, do func() error) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	err := d.alive()
	if err == nil {
		err = d.faultError(call, name)
	}
	if err == nil {
		err = do()
	}
	d.note(logEntry{call: call, path: name, err: err})
	return err
}

// alter does one change of names or SyncDir: unless a fault or the crash point
// says otherwise. At the crash point it may have happened.
func (d *Disk) alter(call Call, from, to string, do func()) error {
	err := d.alive() // again for each step of a call of many
	switch {
	case err != nil:
	case d.countChange():
		if d.coin() {
			do()
		}
		d.crash()
		err = ErrPowerCut
	default:
		if err = d.faultError(call, from, to); err == nil {
			do()
		}
	}
	d.note(logEntry{call: call, path: from, to: to, err: err})
	return err
}

// countChange counts an operation and reports whether it is the one to crash.
func (d *Disk) countChange() bool {
	d.changes++
	return d.changes == d.crashAt
}

func pathError(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: operation, Path: name, Err: err}
}

// Open implements disk.Disk. A directory can't be opened.
func (d *Disk) Open(name string, flag disk.Flag) (disk.File, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	n, err := d.open(name, flag)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n.handles++
	return &file{disk: d, node: n, name: name, writable: flag != disk.ReadOnly}, nil
}

func (d *Disk) open(name string, flag disk.Flag) (*node, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if flag > disk.CreateNew {
		return nil, fs.ErrInvalid
	}
	n, err := d.find(name)
	switch {
	case err == nil && flag == disk.CreateNew:
		return nil, syscall.EEXIST
	case err == nil && n.isDir():
		return nil, syscall.EISDIR
	case err == nil:
		err = d.faultError(CallOpen, name)
		d.note(logEntry{call: CallOpen, path: name, err: err})
		return n, err
	case err != syscall.ENOENT || flag == disk.ReadOnly || flag == disk.ReadWrite:
		return nil, err
	}
	at, err := d.locate(name)
	if err != nil {
		return nil, err
	}
	n = newFile()
	return n, d.alter(CallCreate, name, "", func() { d.add(at, n) })
}

// add gives n its first name.
func (d *Disk) add(at place, n *node) {
	d.doNames(&nameOp{changes: []entryChange{{at.directory(), at.name, n}}, touched: [2]*node{n}})
}

// MkdirAll implements disk.Disk; each directory is an operation of its own.
func (d *Disk) MkdirAll(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return pathError("mkdir", name, d.mkdirAll(name))
}

func (d *Disk) mkdirAll(name string) error {
	if err := d.alive(); err != nil {
		return err
	}
	names, err := split(name)
	if err != nil {
		return err
	}
	for i := range names {
		made := path.Join(names[:i+1]...)
		at, err := d.locate(made)
		if err != nil {
			return err
		}
		if at.node() == nil {
			err = d.alter(CallMkdir, made, "", func() { d.add(at, newDirectory()) })
		} else if !at.node().isDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove implements disk.Disk.
func (d *Disk) Remove(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return pathError("remove", name, d.remove(name, false))
}

// RemoveAll implements disk.Disk; each file and directory is an operation of
// its own, in the order of names, children first.
func (d *Disk) RemoveAll(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	err := d.remove(name, true)
	if err == syscall.ENOENT {
		err = nil
	}
	return pathError("remove", name, err)
}

func (d *Disk) remove(name string, children bool) error {
	if err := d.alive(); err != nil {
		return err
	}
	at, err := d.locate(name)
	if err != nil {
		return err
	}
	n := at.node()
	if n == nil {
		return syscall.ENOENT
	}
	if children {
		for _, child := range slices.Sorted(maps.Keys(n.entries)) {
			if err := d.remove(path.Join(name, child), true); err != nil {
				return err
			}
		}
	}
	op := &nameOp{changes: []entryChange{{at.directory(), at.name, nil}}, touched: [2]*node{n}}
	if n.isDir() {
		if len(n.entries) > 0 {
			return syscall.ENOTEMPTY
		}
		op.emptied = n
	}
	return d.alter(CallRemove, name, "", func() { d.doNames(op) })
}

// Rename implements disk.Disk. As os.Rename it replaces files, not directories.
func (d *Disk) Rename(from, to string) error { return d.link("rename", from, to, d.rename) }

func (d *Disk) rename(from, to string, source, target place) error {
	n, old := source.node(), target.node()
	switch {
	case old != nil && old.isDir():
		return syscall.EEXIST
	case old != nil && n.isDir():
		return syscall.ENOTDIR
	case n == old:
		return nil // two names of one file: POSIX leaves both
	case slices.Contains(target.above, n):
		return syscall.EINVAL // into itself
	}
	return d.alter(CallRename, from, to, func() {
		d.doNames(&nameOp{
			changes: []entryChange{{source.directory(), source.name, nil}, {target.directory(), target.name, n}},
			touched: [2]*node{n, old},
			into:    newAbove(source, target),
		})
	})
}

// newAbove is the directories that get a node into their tree by a rename or
// link: those above the new name but not above the old one.
func newAbove(source, target place) []*node {
	return slices.DeleteFunc(slices.Clone(target.above), func(n *node) bool { return slices.Contains(source.above, n) })
}

// Link implements disk.Disk.
func (d *Disk) Link(from, to string) error { return d.link("link", from, to, d.hardLink) }

func (d *Disk) hardLink(from, to string, source, target place) error {
	switch {
	case source.node().isDir():
		return syscall.EPERM
	case target.node() != nil:
		return syscall.EEXIST
	}
	return d.alter(CallLink, from, to, func() {
		d.doNames(&nameOp{
			changes: []entryChange{{target.directory(), target.name, source.node()}},
			touched: [2]*node{source.node()},
			into:    newAbove(source, target),
		})
	})
}

func (d *Disk) link(operation, from, to string, do func(from, to string, source, target place) error) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	err := d.alive()
	var source, target place
	if err == nil {
		source, err = d.locate(from)
	}
	if err == nil {
		target, err = d.locate(to)
	}
	if err == nil && source.node() == nil {
		err = syscall.ENOENT
	}
	if err == nil {
		err = do(from, to, source, target)
	}
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: operation, Old: from, New: to, Err: err}
}

// ReadDir implements disk.Disk.
func (d *Disk) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = d.look(CallReadDir, name, func() error {
		n, err := d.findDirectory(name)
		if err != nil {
			return err
		}
		for _, child := range slices.Sorted(maps.Keys(n.entries)) {
			list = append(list, newEntry(child, n.entries[child]))
		}
		return nil
	})
	return list, pathError("readdir", name, err)
}

func (d *Disk) findDirectory(name string) (*node, error) {
	n, err := d.find(name)
	if err == nil && !n.isDir() {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// SyncDir implements disk.Disk. After a failed one the operations it should
// have covered stay unsynced.
func (d *Disk) SyncDir(name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	err := d.alive()
	var directory *node
	if err == nil {
		directory, err = d.findDirectory(name)
	}
	if err == nil {
		err = d.alter(CallSyncDir, name, "", func() { d.syncNames(directory) })
	}
	return pathError("sync", name, err)
}
