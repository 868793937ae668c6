package sim

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a file or a directory (an inode).
type node struct {
	// Directories.
	entries map[string]*node // what the process sees; nil for a file
	stable  map[string]*node // what survives a power cut for certain

	// Files.
	live    *content // what the process sees
	durable *content // what survives a power cut for certain
	pending []change // done to live but not yet to durable, in order
	links   int      // names in live directories
	handles int      // open Files and Ops in flight
}

func newDirectory() *node {
	return &node{entries: map[string]*node{}, stable: map[string]*node{}}
}

func newFile() *node { return &node{live: newContent(), durable: newContent()} }

func (n *node) isDir() bool { return n.entries != nil }

// record does a change to what the process sees and keeps it as unsynced.
func (n *node) record(ch change) {
	n.live.apply(ch)
	n.pending = append(n.pending, ch)
}

// entryChange is one name set to a node or, with node nil, taken away.
type entryChange struct {
	directory *node
	name      string
	node      *node
}

// nameOp is one operation on names that no SyncDir covered yet. It survives a
// power cut wholly or not at all.
type nameOp struct {
	changes []entryChange
	touched [2]*node // the node whose names change, and the one replaced
	into    []*node  // link, rename: the directories above the new name and not above the old
	emptied *node    // remove of a directory: that directory
}

// touches reports whether op changes an entry of directory.
func (op *nameOp) touches(directory *node) bool {
	return slices.ContainsFunc(op.changes, func(c entryChange) bool { return c.directory == directory })
}

// needs reports whether op can't survive without the earlier one (package
// comment, what never happens, 5).
func (op *nameOp) needs(earlier *nameOp) bool {
	for _, n := range op.touched {
		if n != nil && (n == earlier.touched[0] || n == earlier.touched[1]) {
			return true
		}
	}
	if op.emptied != nil && earlier.touches(op.emptied) || slices.Contains(op.into, earlier.touched[0]) {
		return true
	}
	for _, c := range op.changes {
		for _, e := range earlier.changes {
			if c.directory == e.directory && c.name == e.name {
				return true
			}
		}
	}
	return false
}

// syncNames makes durable what was done to directory, and what that needs.
func (d *Disk) syncNames(directory *node) {
	var synced, left []*nameOp
	for _, op := range slices.Backward(d.nameOps) {
		if op.touches(directory) || slices.ContainsFunc(synced, func(later *nameOp) bool { return later.needs(op) }) {
			synced = append(synced, op)
		} else {
			left = append(left, op)
		}
	}
	for _, op := range slices.Backward(synced) {
		for _, c := range op.changes {
			setEntry(c.directory.stable, c.name, c.node)
		}
	}
	slices.Reverse(left)
	d.nameOps = left
}

func setEntry(entries map[string]*node, name string, n *node) {
	if n == nil {
		delete(entries, name)
	} else {
		entries[name] = n
	}
}

// doNames applies op to what the process sees and keeps it as unsynced.
func (d *Disk) doNames(op *nameOp) {
	for _, c := range op.changes {
		old := c.directory.entries[c.name]
		if c.node != nil {
			c.node.links++
		}
		setEntry(c.directory.entries, c.name, c.node)
		if old != nil {
			old.links--
			d.forget(old)
		}
	}
	d.nameOps = append(d.nameOps, op)
}

// forget gives back the space of a file without names and users.
func (d *Disk) forget(n *node) {
	if !n.isDir() && n.links == 0 && n.handles == 0 {
		d.usedPages -= int64(len(n.live.pages))
	}
}

// split checks path (rule 5 of package disk) and returns its names, none for
// the root.
func split(name string) ([]string, error) {
	if name == "" || name == "." {
		return nil, nil
	}
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return nil, fs.ErrInvalid
	}
	return strings.Split(name, "/"), nil
}

// walk returns the nodes from the root down to names.
func (d *Disk) walk(names []string) ([]*node, error) {
	chain := []*node{d.root}
	for _, name := range names {
		last := chain[len(chain)-1]
		if !last.isDir() {
			return nil, syscall.ENOTDIR
		}
		next := last.entries[name]
		if next == nil {
			return nil, syscall.ENOENT
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// find returns the node of a path.
func (d *Disk) find(name string) (*node, error) {
	names, err := split(name)
	if err != nil {
		return nil, err
	}
	chain, err := d.walk(names)
	if err != nil {
		return nil, err
	}
	return chain[len(chain)-1], nil
}

// place is where a name is or would be: the directories above it, nearest
// last, and the name in the nearest.
type place struct {
	above []*node
	name  string
}

func (p place) directory() *node { return p.above[len(p.above)-1] }
func (p place) node() *node      { return p.directory().entries[p.name] }

// locate returns the place of a path that must not be the root.
func (d *Disk) locate(name string) (place, error) {
	names, err := split(name)
	if err != nil {
		return place{}, err
	}
	if len(names) == 0 {
		return place{}, fs.ErrInvalid
	}
	above, err := d.walk(names[:len(names)-1])
	if err != nil {
		return place{}, err
	}
	if !above[len(above)-1].isDir() {
		return place{}, syscall.ENOTDIR
	}
	return place{above: above, name: names[len(names)-1]}, nil
}

// entry is the fs.DirEntry and fs.FileInfo of a name.
type entry struct {
	name  string
	size  int64
	isDir bool
}

func newEntry(name string, n *node) entry {
	if n.isDir() {
		return entry{name: name, isDir: true}
	}
	return entry{name: name, size: n.live.size}
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.isDir }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) Size() int64                { return e.size }
func (e entry) ModTime() time.Time         { return time.Time{} } // the simulation has no clock
func (e entry) Sys() any                   { return nil }

func (e entry) Mode() fs.FileMode {
	if e.isDir {
		return fs.ModeDir | 0o750
	}
	return 0o640
}

// eachFile calls f for every file by path, in order.
func eachFile(directory *node, above string, f func(path string, n *node)) {
	for _, name := range slices.Sorted(maps.Keys(directory.entries)) {
		n := directory.entries[name]
		if n.isDir() {
			eachFile(n, path.Join(above, name), f)
		} else {
			f(path.Join(above, name), n)
		}
	}
}
