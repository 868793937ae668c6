package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// memDisk is a file system in memory that can fail, can be killed in the
// middle of a write, and can lose what was not synced.
type memDisk struct {
	mu    sync.Mutex
	root  *memNode
	fail  func(what, path string) error // called with mu held
	left  int                           // mutations until the process is killed, -1 never
	opens int                           // files open

	punched int64 // bytes of all punches
}

type memNode struct {
	dir      bool
	children map[string]*memNode
	synced   map[string]*memNode // the names that survive a power loss
	data     []byte
	stable   []byte     // the content at the last sync
	pending  []memWrite // and what was done to it since
}

type memWrite struct {
	truncate bool
	punch    int64 // bytes that become zeros, as far as the file goes
	pos      int64
	data     []byte
}

var errKilled = errors.New("memdisk: the process is dead")

func newMemDisk() *memDisk { return &memDisk{root: newMemDir(), left: -1} }

func newMemDir() *memNode {
	return &memNode{dir: true, children: map[string]*memNode{}, synced: map[string]*memNode{}}
}

type memFile struct {
	d      *memDisk
	path   string
	node   *memNode
	closed bool
}

func (f *memFile) Name() string { return f.path }
func (f *memFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.check("size", f.path); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}
func (f *memFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.d.opens--
	return nil
}

func (d *memDisk) find(p string) *memNode {
	n := d.root
	for _, part := range strings.Split(path.Clean(p), "/") {
		if part == "." {
			continue
		}
		if n == nil || !n.dir {
			return nil
		}
		n = n.children[part]
	}
	return n
}

// mutate says whether a change may happen: the process lives and no fault is
// injected.
func (d *memDisk) mutate(what, p string) error {
	if d.left == 0 {
		return errKilled
	}
	if d.left > 0 {
		d.left--
	}
	return d.check(what, p)
}

func (d *memDisk) check(what, p string) error {
	if d.fail != nil {
		if err := d.fail(what, p); err != nil {
			return fmt.Errorf("%s %s: %w", what, p, err)
		}
	}
	return nil
}

func notExist(what, p string) error {
	return &fs.PathError{Op: what, Path: p, Err: fs.ErrNotExist}
}

func (d *memDisk) Name() string { return "mem" }

func (d *memDisk) Open(p string, flag disk.Flag) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("open", p); err != nil {
		return nil, err
	}
	n := d.find(p)
	if n != nil && flag == disk.CreateNew {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrExist}
	}
	if n == nil {
		parent := d.find(path.Dir(p))
		if parent == nil || flag != disk.Create && flag != disk.CreateNew {
			return nil, notExist("open", p)
		}
		if err := d.mutate("create", p); err != nil {
			return nil, err
		}
		n = &memNode{}
		parent.children[path.Base(p)] = n
	}
	d.opens++
	return &memFile{d: d, path: p, node: n}, nil
}

func (d *memDisk) MkdirAll(p string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.root
	for _, part := range strings.Split(path.Clean(p), "/") {
		if n.children[part] == nil {
			if err := d.mutate("mkdir", p); err != nil {
				return err
			}
			n.children[part] = newMemDir()
		}
		n = n.children[part]
	}
	return nil
}

func (d *memDisk) Remove(p string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.find(p) == nil {
		return notExist("remove", p)
	}
	if err := d.mutate("remove", p); err != nil {
		return err
	}
	delete(d.find(path.Dir(p)).children, path.Base(p))
	return nil
}

func (d *memDisk) RemoveAll(p string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.find(p) == nil {
		return nil
	}
	if err := d.mutate("remove", p); err != nil {
		return err
	}
	delete(d.find(path.Dir(p)).children, path.Base(p))
	return nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(from)
	if n == nil {
		return notExist("rename", from)
	}
	if err := d.mutate("rename", to); err != nil {
		return err
	}
	delete(d.find(path.Dir(from)).children, path.Base(from))
	d.find(path.Dir(to)).children[path.Base(to)] = n
	return nil
}

func (d *memDisk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(from)
	if n == nil {
		return notExist("link", from)
	}
	if err := d.mutate("link", to); err != nil {
		return err
	}
	d.find(path.Dir(to)).children[path.Base(to)] = n
	return nil
}

type memEntry struct {
	name string
	node *memNode
}

func (e memEntry) Name() string { return e.name }
func (e memEntry) IsDir() bool  { return e.node.dir }
func (e memEntry) Type() fs.FileMode {
	if e.node.dir {
		return fs.ModeDir
	}
	return 0
}
func (e memEntry) Info() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

func (d *memDisk) ReadDir(p string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(p)
	if n == nil {
		return nil, notExist("readdir", p)
	}
	if err := d.check("readdir", p); err != nil {
		return nil, err
	}
	var out []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		out = append(out, memEntry{name, n.children[name]})
	}
	return out, nil
}

func (d *memDisk) SyncDir(p string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(p)
	if n == nil {
		return notExist("syncdir", p)
	}
	if err := d.mutate("syncdir", p); err != nil {
		return err
	}
	n.synced = maps.Clone(n.children)
	return nil
}

func (d *memDisk) Free() (int64, error) { return 1 << 40, nil }
func (d *memDisk) Close() error         { return nil }

func (d *memDisk) Submit(ops []*disk.Op) {
	for _, op := range ops {
		d.mu.Lock()
		op.N = 0
		op.Err = d.do(op)
		d.mu.Unlock()
		op.Done(op)
	}
}

func (d *memDisk) do(op *disk.Op) error {
	f := op.File.(*memFile)
	n := f.node
	if f.closed {
		return fs.ErrClosed
	}
	switch op.Kind {
	case disk.Read:
		if err := d.check("read", f.path); err != nil {
			return err
		}
		if op.Pos < int64(len(n.data)) {
			op.N = copy(op.Buf, n.data[op.Pos:])
		}
	case disk.Write:
		buf := op.Buf
		if d.left == 1 && tears(op.Pos, buf) {
			buf = buf[:len(buf)/2] // the kill comes in the middle of the write
		}
		if err := d.mutate("write", f.path); err != nil {
			return err
		}
		n.apply(memWrite{pos: op.Pos, data: slices.Clone(buf)})
		op.N = len(buf)
		if op.SyncAfter {
			return d.sync(f)
		}
	case disk.Truncate:
		if err := d.mutate("truncate", f.path); err != nil {
			return err
		}
		n.apply(memWrite{truncate: true, pos: op.Pos})
	case disk.Punch:
		if err := d.mutate("punch", f.path); err != nil {
			return err
		}
		n.apply(memWrite{punch: op.Len, pos: op.Pos})
		d.punched += op.Len
	case disk.Sync:
		return d.sync(f)
	}
	return nil
}

func (d *memDisk) sync(f *memFile) error {
	if err := d.mutate("sync", f.path); err != nil {
		return err
	}
	for _, w := range f.node.pending {
		f.node.stable = w.on(f.node.stable)
	}
	f.node.pending = f.node.pending[:0]
	return nil
}

func (n *memNode) apply(w memWrite) {
	n.data = w.on(n.data)
	n.pending = append(n.pending, w)
}

func (w memWrite) on(data []byte) []byte {
	end := w.pos + int64(len(w.data))
	if w.punch > 0 {
		clear(data[min(w.pos, int64(len(data))):min(w.pos+w.punch, int64(len(data)))])
		return data
	}
	switch have := int64(len(data)); {
	case w.truncate && end < have:
		data = data[:end:end]
	case end > have:
		data = append(data, make([]byte, end-have)...)
	}
	copy(data[w.pos:], w.data)
	return data
}

// revive lets a killed process's successor use the disk.
func (d *memDisk) revive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.fail, d.opens = -1, nil, 0
}

// content returns the bytes of a file, nil if there is none.
func (d *memDisk) content(p string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.find(p); n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// put replaces a file, making its directory.
func (d *memDisk) put(p string, data []byte) {
	if err := d.MkdirAll(path.Dir(p)); err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find(path.Dir(p)).children[path.Base(p)] = &memNode{data: slices.Clone(data), stable: slices.Clone(data)}
}

// names lists a directory.
func (d *memDisk) names(p string) []string {
	entries, _ := d.ReadDir(p)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
