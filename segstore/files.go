package segstore

import (
	"sync"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// fileKey names a file of a log: its settled file, or the segment with a base
// offset.
type fileKey struct{ log, base uint64 }

// settledKey is the base of the settled file's key; no segment has it.
const settledKey = ^uint64(0)

// handle is an open file with a count of users.
type handle struct {
	file         disk.File
	key          fileKey
	users        int
	before, next *handle // neighbours in fileCache.idle while users is 0, else nil
	dropped      bool
}

// fileCache keeps at most limit files open, beyond those in use. Safe for
// concurrent use; it opens files under its lock, so never call acquire with a
// log's mutex held.
type fileCache struct {
	disk  disk.Disk
	limit int

	mu   sync.Mutex
	open map[fileKey]*handle
	idle handle // the ring of handles nobody uses: next is the least recently used
}

func (c *fileCache) init(d disk.Disk, limit int) {
	c.disk, c.limit, c.open = d, limit, map[fileKey]*handle{}
	c.idle.before, c.idle.next = &c.idle, &c.idle
}

// unlink takes an idle handle out of the ring.
func (h *handle) unlink() {
	h.before.next, h.next.before = h.next, h.before
	h.before, h.next = nil, nil
}

// use notes a user of the handle.
func (h *handle) use() {
	if h.next != nil {
		h.unlink()
	}
	h.users++
}

// reuse returns the file if it is open, else nil: for who would make its path
// in vain most of the time.
func (c *fileCache) reuse(key fileKey) *handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.open[key]
	if h != nil {
		h.use()
	}
	return h
}

// acquire returns the open file, opening it with flag if necessary.
func (c *fileCache) acquire(key fileKey, path string, flag disk.Flag) (*handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.open[key]
	if h == nil {
		c.evict(c.limit - 1)
		f, err := c.disk.Open(path, flag)
		if err != nil {
			return nil, err
		}
		h = &handle{file: f, key: key}
		c.open[key] = h
	}
	h.use()
	return h, nil
}

func (c *fileCache) release(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.users--
	if h.users > 0 {
		return
	}
	if h.dropped {
		_ = h.file.Close() // an error says nothing about synced data
		return
	}
	h.before, h.next = c.idle.before, &c.idle
	h.before.next, h.next.before = h, h
	c.evict(c.limit)
}

// evict closes idle files until at most keep are open.
func (c *fileCache) evict(keep int) {
	for len(c.open) > keep && c.idle.next != &c.idle {
		h := c.idle.next
		h.unlink()
		delete(c.open, h.key)
		_ = h.file.Close()
	}
}

// forget closes the file as soon as nobody uses it; the next acquire opens the
// path anew. For files that were removed or replaced.
func (c *fileCache) forget(key fileKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.open[key]
	if h == nil {
		return
	}
	delete(c.open, key)
	h.dropped = true
	if h.users == 0 {
		h.unlink()
		_ = h.file.Close()
	}
}

// forgetLog forgets all files of a log.
func (c *fileCache) forgetLog(id uint64) {
	c.mu.Lock()
	var keys []fileKey
	for key := range c.open {
		if key.log == id {
			keys = append(keys, key)
		}
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.forget(key)
	}
}

func (c *fileCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// closeAll closes what is idle; nothing is in use any more.
func (c *fileCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(0)
}
