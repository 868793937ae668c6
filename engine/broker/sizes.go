package broker

// sizeTable knows the body sizes of a queue's records by offset, for queues
// whose bytes are limited: what is taken out of the middle and what comes back
// must be accounted exactly. Offsets come in chunks; a chunk of equal sizes,
// which is what most publishers send, costs a few words, any other four bytes
// for each record.
type sizeTable struct {
	base   uint64 // offset of the first chunk, a multiple of sizeChunkRecords
	chunks []sizeChunk
}

const sizeChunkRecords = 512

type sizeChunk struct {
	count   uint32   // records set from the chunk's beginning on, while uniform
	uniform uint32   // their size
	each    []uint32 // not nil: the sizes, which differ
	sum     uint64
}

func newSizeTable(base uint64) *sizeTable {
	return &sizeTable{base: base - base%sizeChunkRecords}
}

// set notes the size of a record, once; it must not lie below base.
func (t *sizeTable) set(offset, size uint64) {
	i := int((offset - t.base) / sizeChunkRecords)
	for i >= len(t.chunks) {
		t.chunks = append(t.chunks, sizeChunk{})
	}
	c, at := &t.chunks[i], uint32(offset%sizeChunkRecords)
	if c.each == nil {
		if c.count == 0 && at == 0 {
			c.uniform = uint32(size)
		}
		if at == c.count && uint32(size) == c.uniform {
			c.count++
			c.sum += size
			return
		}
		c.each = make([]uint32, sizeChunkRecords)
		for j := range c.count {
			c.each[j] = c.uniform
		}
	}
	c.sum += size - uint64(c.each[at])
	c.each[at] = uint32(size)
}

// sum adds the sizes of count offsets from first on; unknown ones count 0.
func (t *sizeTable) sum(first, count uint64) (bytes uint64) {
	end := first + count
	first = max(first, t.base)
	for first < end {
		i := (first - t.base) / sizeChunkRecords
		if i >= uint64(len(t.chunks)) {
			break
		}
		next := min(t.base+(i+1)*sizeChunkRecords, end)
		bytes += t.chunks[i].part(uint32(first%sizeChunkRecords), uint32(next-first))
		first = next
	}
	return bytes
}

func (c *sizeChunk) part(at, count uint32) (bytes uint64) {
	switch {
	case count == sizeChunkRecords:
		return c.sum
	case c.each == nil:
		if at >= c.count {
			return 0
		}
		return uint64(min(count, c.count-at)) * uint64(c.uniform)
	}
	for _, size := range c.each[at : at+count] {
		bytes += uint64(size)
	}
	return bytes
}

// trim forgets chunks wholly below low.
func (t *sizeTable) trim(low uint64) {
	if low < t.base+sizeChunkRecords {
		return
	}
	n := min(int((low-t.base)/sizeChunkRecords), len(t.chunks))
	if n > 0 && n < len(t.chunks) && n < 16 {
		return // move them only now and then
	}
	t.chunks = append(t.chunks[:0], t.chunks[n:]...)
	t.base = low - low%sizeChunkRecords
	if len(t.chunks) == 0 {
		t.chunks = nil
	}
}
