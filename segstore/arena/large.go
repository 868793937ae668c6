package arena

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// largeKeptBytes bounds what is kept of released large buffers. Who needs one
// needs the next soon (a group of the journal, a message of a megabyte), and on
// virtual machines faulting its pages in again costs more than filling them.
const largeKeptBytes = 2048 * KiB

// largeKept are the large buffers that wait for their next owner, the one
// released last at the end.
type largeKept struct {
	mu    sync.Mutex
	free  []*Buf
	bytes int
}

// take returns the smallest buffer of at least size bytes, but none more than
// twice as large as that; nil if there is none.
func (k *largeKept) take(size int) *Buf {
	k.mu.Lock()
	defer k.mu.Unlock()
	best := -1
	for i, b := range k.free {
		if len(b.data) >= size && len(b.data) <= 2*size && (best < 0 || len(b.data) <= len(k.free[best].data)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return k.remove(best)
}

func (k *largeKept) remove(i int) *Buf {
	b := k.free[i]
	n := copy(k.free[i:], k.free[i+1:])
	k.free[i+n] = nil
	k.free = k.free[:i+n]
	k.bytes -= len(b.data)
	return b
}

// add keeps a buffer, and returns what there is no room for: it, or an older one
// in each call until that is nil.
func (k *largeKept) add(b *Buf) (surplus *Buf) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b != nil {
		if len(b.data) > largeKeptBytes {
			return b
		}
		k.free = append(k.free, b)
		k.bytes += len(b.data)
	}
	if k.bytes > largeKeptBytes {
		return k.remove(0)
	}
	return nil
}

// takeIdle returns a buffer that has been free for so many epochs.
func (k *largeKept) takeIdle(epoch, epochs uint32) *Buf {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, b := range k.free {
		if epoch-b.freedAt >= epochs {
			return k.remove(i)
		}
	}
	return nil
}

func (p *Pool) getLarge(size int) *Buf {
	const unit = BufBytesMax
	size = (size + unit - 1) / unit * unit
	b := p.large.take(size)
	if b == nil {
		b = &Buf{data: mmap(size), class: int8(classLarge), pool: p}
		p.mapped.Add(int64(size))
		p.resident.Add(int64(size))
	}
	b.refs.Store(1)
	p.inUse.Add(int64(len(b.data)))
	return b
}

func (p *Pool) putLarge(b *Buf) {
	b.freedAt = p.epoch.Load()
	for surplus := p.large.add(b); surplus != nil; surplus = p.large.add(nil) {
		p.unmap(surplus)
	}
}

// unmap gives a large buffer back to the kernel.
func (p *Pool) unmap(b *Buf) {
	size := int64(len(b.data))
	p.mapped.Add(-size)
	p.resident.Add(-size)
	data := b.data
	b.data = nil
	if err := unix.Munmap(data); err != nil {
		panic(fmt.Sprintf("arena: munmap of %d bytes: %v", size, err))
	}
}

// trimLarge gives back the large buffers that have been free for so many epochs.
func (p *Pool) trimLarge(epoch, epochs uint32) {
	for b := p.large.takeIdle(epoch, epochs); b != nil; b = p.large.takeIdle(epoch, epochs) {
		p.unmap(b)
	}
}
