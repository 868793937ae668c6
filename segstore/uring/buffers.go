//go:build uring && linux

package uring

import (
	"fmt"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// BufferGroup is a set of equal buffers lent to the kernel for multishot
// receives ("provided buffer ring"). The owning ring's thread uses it.
//
//	entry i of the shared array, 16 bytes
//	0  address  8  of the buffer
//	8  length   4
//	12 id       2
//	14 reserved 2  in entry 0: the tail, how many buffers were ever provided
type BufferGroup struct {
	ring      *Ring
	id        uint16
	entries   []giouring.BufAndRing // over mapping
	mapping   []byte
	memory    []byte
	bufBytes  int
	tail      uint16
	published uint16
}

// BuffersMax is the most buffers of one group.
const BuffersMax = 1 << 15

// RegisterBuffers lends memory, cut into buffers of bufBytes, as group. The
// number of buffers must be a power of two up to BuffersMax. memory is off-heap
// and stays valid until Unregister returned and no receive uses the group.
func (r *Ring) RegisterBuffers(group uint16, memory []byte, bufBytes int) (*BufferGroup, error) {
	if bufBytes <= 0 || len(memory)%bufBytes != 0 {
		return nil, fmt.Errorf("uring: %d bytes can't be cut into buffers of %d", len(memory), bufBytes)
	}
	count := len(memory) / bufBytes
	if count < 1 || count > BuffersMax || count&(count-1) != 0 {
		return nil, fmt.Errorf("uring: a group of %d buffers; it must be a power of two up to %d", count, BuffersMax)
	}
	mapping, err := unix.Mmap(-1, 0, count*bufferEntryBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("uring: mapping a buffer ring: %w", err)
	}
	g := &BufferGroup{ring: r, id: group, mapping: mapping, entries: bufferEntries(mapping), memory: memory, bufBytes: bufBytes}
	registration := giouring.BufReg{RingAddr: addressOfBytes(mapping), RingEntries: uint32(count), Bgid: group}
	if _, err := r.inner.RegisterBufferRing(&registration, 0); err != nil {
		_ = unix.Munmap(mapping)
		return nil, fmt.Errorf("uring: registering buffer group %d: %w", group, err)
	}
	for id := range count {
		g.Recycle(uint16(id))
	}
	g.Publish()
	return g, nil
}

// Buffer is the memory of one buffer. It is the caller's from the completion
// that named it until Recycle.
func (g *BufferGroup) Buffer(id uint16) []byte {
	start := int(id) * g.bufBytes
	return g.memory[start : start+g.bufBytes : start+g.bufBytes]
}

// Recycle gives a buffer back; the kernel sees it after Publish.
func (g *BufferGroup) Recycle(id uint16) {
	entry := &g.entries[int(g.tail)&(len(g.entries)-1)]
	// Not a whole entry: the last two bytes of entry 0 are the tail.
	entry.Addr = addressOfBytes(g.Buffer(id))
	entry.Len = uint32(g.bufBytes)
	entry.Bid = id
	g.tail++
}

// Publish makes recycled buffers available. Call it once per batch.
func (g *BufferGroup) Publish() {
	if g.tail != g.published {
		g.published = g.tail
		storeTail(&g.entries[0], g.tail)
	}
}

// Unregister takes the group back. Receives that use it must have ended.
func (g *BufferGroup) Unregister() error {
	if g.mapping == nil {
		return nil
	}
	if _, err := g.ring.inner.UnregisterBufferRing(int(g.id)); err != nil {
		return fmt.Errorf("uring: unregistering buffer group %d: %w", g.id, err)
	}
	mapping := g.mapping
	g.mapping, g.entries = nil, nil
	if err := unix.Munmap(mapping); err != nil {
		return fmt.Errorf("uring: unmapping buffer group %d: %w", g.id, err)
	}
	return nil
}
