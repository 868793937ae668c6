package sim

import "maps"

const (
	// pageBytes is the unit of allocation, as the block of ext4 and XFS.
	pageBytes = 4096
	// fileBytesMax is the size limit of one file (ext4 with 4 KiB blocks).
	fileBytesMax = 1 << 44
)

// page is one block of a file. Contents share pages: only the owner writes in
// place, everyone else copies first. A page without an owner never changes.
type page struct {
	owner *content
	data  [pageBytes]byte
}

// content is the bytes of a file: allocated pages, zeros elsewhere.
type content struct {
	size  int64
	pages map[int64]*page // by pos / pageBytes
}

func newContent() *content { return &content{pages: map[int64]*page{}} }

// clone shares all pages with the copy.
func (c *content) clone() *content {
	for _, p := range c.pages {
		if p.owner != nil { // no store to a page another Disk may be reading
			p.owner = nil
		}
	}
	return &content{size: c.size, pages: maps.Clone(c.pages)}
}

// own returns the page at index for writing, allocating it if it is a hole.
func (c *content) own(index int64) *page {
	p := c.pages[index]
	if p != nil && p.owner == c {
		return p
	}
	owned := &page{owner: c}
	if p != nil {
		owned.data = p.data
	}
	c.pages[index] = owned
	return owned
}

// write puts data at pos, allocating at most newPagesMax pages, and returns how
// many bytes fitted; the size grows to their end.
func (c *content) write(pos int64, data []byte, newPagesMax int64) (n int) {
	for n < len(data) {
		index, at := (pos+int64(n))/pageBytes, (pos+int64(n))%pageBytes
		if c.pages[index] == nil {
			if newPagesMax == 0 {
				break
			}
			newPagesMax--
		}
		n += copy(c.own(index).data[at:], data[n:])
	}
	if n > 0 {
		c.size = max(c.size, pos+int64(n))
	}
	return n
}

// read fills buf from pos up to the end of the file.
func (c *content) read(pos int64, buf []byte) (n int) {
	if pos >= c.size {
		return 0
	}
	buf = buf[:min(int64(len(buf)), c.size-pos)]
	for n < len(buf) {
		index, at := (pos+int64(n))/pageBytes, (pos+int64(n))%pageBytes
		part := buf[n:min(len(buf), n+int(pageBytes-at))]
		if p := c.pages[index]; p != nil {
			copy(part, p.data[at:])
		} else {
			clear(part)
		}
		n += len(part)
	}
	return n
}

// truncate cuts or extends; what is extended reads as zeros.
func (c *content) truncate(size int64) {
	if size < c.size {
		c.free(size, fileBytesMax)
	}
	c.size = size
}

// free zeroes [from, to) and gives back the pages wholly inside.
func (c *content) free(from, to int64) {
	for index := range c.pages {
		start, end := max(from, index*pageBytes), min(to, (index+1)*pageBytes)
		switch {
		case start >= end:
		case end-start == pageBytes:
			delete(c.pages, index)
		default:
			p := c.own(index)
			clear(p.data[start-index*pageBytes : end-index*pageBytes])
		}
	}
}

// copySector makes the sector at pos equal to that of from; the size stays.
func (c *content) copySector(from *content, pos, sectorBytes int64) {
	index, at := pos/pageBytes, pos%pageBytes
	source := from.pages[index]
	if source == nil && c.pages[index] == nil {
		return
	}
	target := c.own(index).data[at : at+sectorBytes]
	if source == nil {
		clear(target)
		return
	}
	copy(target, source.data[at:])
}

// bytes is the whole file.
func (c *content) bytes() []byte {
	all := make([]byte, c.size)
	c.read(0, all)
	return all
}

// changeKind says what a change did to a file.
type changeKind uint8

const (
	wroteData changeKind = iota
	truncated
	punched
)

// change is one thing done to a file since its last sync.
type change struct {
	kind changeKind
	pos  int64  // wroteData, punched: first byte; truncated: the new size
	end  int64  // punched: one past the last byte
	data []byte // wroteData
}

// apply does to c what the change says, without a limit of space.
func (c *content) apply(ch change) {
	switch ch.kind {
	case wroteData:
		c.write(ch.pos, ch.data, fileBytesMax)
	case truncated:
		c.truncate(ch.pos)
	case punched:
		c.free(ch.pos, ch.end)
	}
}
