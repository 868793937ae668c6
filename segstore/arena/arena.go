package arena

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Size classes in bytes. Each divides slabBytes.
const (
	KiB       = 1 << 10
	slabBytes = 1024 * KiB
	// BufBytesMax is the largest size class; larger buffers are mapped singly.
	BufBytesMax = 256 * KiB
)

var classBytes = [...]int{4 * KiB, 16 * KiB, 64 * KiB, BufBytesMax}

const classLarge = len(classBytes)

// Buf is one off-heap buffer with a reference count.
type Buf struct {
	data  []byte
	refs  atomic.Int32
	class int8
	// fresh is true while no page of the buffer has been given out since the
	// last Trim dropped them. Guarded by the class lock.
	fresh bool
	// freedAt is the trim epoch in which the buffer became free.
	freedAt uint32
	pool    *Pool
}

// Bytes returns the whole buffer; its length is the size class, at least the
// size asked for.
func (b *Buf) Bytes() []byte { return b.data }

// Len returns the capacity in bytes.
func (b *Buf) Len() int { return len(b.data) }

// Retain adds a reference.
func (b *Buf) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("arena: Retain on a released buffer")
	}
}

// Release drops a reference; the last one returns the buffer to its pool.
func (b *Buf) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("arena: buffer released more often than retained")
	}
	b.pool.put(b)
}

// Stats are the pool's figures in bytes.
type Stats struct {
	Mapped   int64 // address space held
	InUse    int64 // handed out now
	Resident int64 // handed out, or free with pages still present (upper bound)
}

// Pool is a set of free lists. The zero value is ready to use.
type Pool struct {
	classes  [len(classBytes)]class
	large    largeKept
	epoch    atomic.Uint32
	mapped   atomic.Int64
	inUse    atomic.Int64
	resident atomic.Int64
}

type class struct {
	mu   sync.Mutex
	free []*Buf
}

// Get returns a buffer of at least size bytes holding one reference. The
// contents are arbitrary. It panics when the kernel refuses memory: a broker
// that cannot map 1 MiB cannot go on, and the text says so.
func (p *Pool) Get(size int) *Buf {
	for i, c := range classBytes {
		if size <= c {
			return p.getClass(i)
		}
	}
	return p.getLarge(size)
}

func (p *Pool) getClass(i int) *Buf {
	c := &p.classes[i]
	c.mu.Lock()
	if len(c.free) == 0 {
		p.refill(i)
	}
	b := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	if b.fresh {
		b.fresh = false
		p.resident.Add(int64(len(b.data)))
	}
	c.mu.Unlock()
	b.refs.Store(1)
	p.inUse.Add(int64(len(b.data)))
	return b
}

func (p *Pool) refill(i int) {
	slab := mmap(slabBytes)
	p.mapped.Add(slabBytes)
	size := classBytes[i]
	bufs := make([]Buf, slabBytes/size)
	for j := len(bufs) - 1; j >= 0; j-- {
		bufs[j] = Buf{data: slab[j*size : (j+1)*size : (j+1)*size], class: int8(i), fresh: true, pool: p}
		p.classes[i].free = append(p.classes[i].free, &bufs[j])
	}
}

func (p *Pool) put(b *Buf) {
	size := int64(len(b.data))
	p.inUse.Add(-size)
	if int(b.class) == classLarge {
		p.putLarge(b)
		return
	}
	c := &p.classes[b.class]
	b.freedAt = p.epoch.Load()
	c.mu.Lock()
	c.free = append(c.free, b)
	c.mu.Unlock()
}

// Trim returns to the kernel the pages of buffers that have been free since
// before the previous Trim. Call it every few seconds; it costs nothing when
// nothing is idle.
func (p *Pool) Trim() {
	p.trim(2)
}

// TrimAll returns the pages of all free buffers, for a process that has nothing
// to do.
func (p *Pool) TrimAll() {
	p.trim(0)
}

// trimBatch is how many buffers are taken out of their list at a time: giving
// pages back takes the kernel long, and others must get buffers meanwhile.
const trimBatch = 32

// trim returns the pages of buffers that have been free for so many epochs. They
// go back to the bottom of the list, where buffers are taken from last.
func (p *Pool) trim(epochs uint32) {
	epoch := p.epoch.Add(1)
	p.trimLarge(epoch, epochs)
	var idle [trimBatch]*Buf
	for i := range p.classes {
		c := &p.classes[i]
		for {
			n := c.takeIdle(idle[:], epoch, epochs)
			for _, b := range idle[:n] {
				if err := unix.Madvise(b.data, unix.MADV_DONTNEED); err != nil {
					b.freedAt = epoch // the pages stay: harmless, tried again another time
					continue
				}
				b.fresh = true
				p.resident.Add(-int64(len(b.data)))
			}
			if n > 0 {
				c.mu.Lock()
				c.free = slices.Insert(c.free, 0, idle[:n]...)
				c.mu.Unlock()
			}
			if n < len(idle) {
				break
			}
		}
	}
}

// takeIdle takes buffers that have been free for so many epochs out of the list.
func (c *class) takeIdle(idle []*Buf, epoch, epochs uint32) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = slices.DeleteFunc(c.free, func(b *Buf) bool {
		take := n < len(idle) && !b.fresh && b.freedAt != epoch && epoch-b.freedAt >= epochs
		if take {
			idle[n] = b
			n++
		}
		return take
	})
	return n
}

// Stats returns current figures.
func (p *Pool) Stats() Stats {
	return Stats{Mapped: p.mapped.Load(), InUse: p.inUse.Load(), Resident: p.resident.Load()}
}

func mmap(size int) []byte {
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(fmt.Sprintf("arena: mmap of %d bytes: %v: the machine or its cgroup is out of memory, or vm.max_map_count is reached", size, err))
	}
	// Huge pages would make 4 KiB buffers cost 2 MiB of resident memory.
	_ = unix.Madvise(data, unix.MADV_NOHUGEPAGE)
	return data
}
