package segstore

import (
	"encoding/binary"
	"math"
)

// Filters. A batch may carry a filter: a few bytes, the same number in all of a
// log, that stand for what its records are about. What the bits mean is the
// owner's affair (a Bloom filter, say); all that the store does with filters is
// to combine those of the batches that an index entry stands for, by OR. Who
// reads with a Query passes over batches, and over pieces of a segment without
// even reading them, when their filter says that nothing wanted is there.
//
// In a batch (flag 32) the filter stands behind the last record, and its last
// byte tells its length. In an index it is a table behind the holes:
//
//	for each entry: 1 byte flags (1: a batch without a filter is among them;
//	2: one with a filter of another length), then the filter
//
// Only segments of retained logs have any; they are version 2, whose trailer
// tells the length of the filters.

// FilterBytesMax bounds the filter of a batch.
const FilterBytesMax = math.MaxUint8

const (
	filterBare    = 1 << 0
	filterForeign = 1 << 1
)

// SetFilter gives the batch a filter, a copy of f; an empty one is none. Reset
// takes it away.
func (b *Batch) SetFilter(f []byte) {
	if len(f) > FilterBytesMax {
		panic("segstore: a filter of more than 255 bytes")
	}
	b.filter = append(b.filter[:0], f...)
}

// Filter is the batch's filter; nil if it has none.
func (b *Batch) Filter() []byte {
	if len(b.filter) == 0 {
		return nil
	}
	return b.filter
}

// filterSize is what the filter adds to the batch.
func (b *Batch) filterSize() int {
	if len(b.filter) == 0 {
		return 0
	}
	return len(b.filter) + 1
}

// encodeFilter writes the filter to the end of the encoded batch.
func (b *Batch) encodeFilter(dst []byte) {
	dst[batchFlagsPos] |= flagFilter
	dst[len(dst)-1] = byte(len(b.filter))
	copy(dst[len(dst)-1-len(b.filter):], b.filter)
}

// batchFilter is the filter of a whole and valid batch, nil if it has none.
func batchFilter(batch []byte) []byte {
	if batch[batchFlagsPos]&flagFilter == 0 {
		return nil
	}
	end := len(batch) - 1
	return batch[end-int(batch[end]) : end : end]
}

// Query says what a Reader may pass over. Passing over is a saving, no promise:
// the reader still meets records that are not wanted.
type Query struct {
	// SinceMs: records that are older, Unix milliseconds, are not wanted.
	SinceMs int64
	// Wanted says whether records under a filter can be wanted; nil stands for no
	// filter. It is called often, also by goroutines of the store.
	Wanted func(filter []byte) bool
}

// SetQuery narrows what the reader returns from now on; nil: everything. Seek
// then answers ErrMissing for offsets that are passed over.
func (r *Reader) SetQuery(q *Query) { r.query = q }

// passes reports whether the reader need not look into a batch.
func (q *Query) passes(batch []byte) bool {
	return q.Wanted != nil && !q.Wanted(batchFilter(batch))
}

// noteFilter adds the filter of a batch that goes to s.end to the last index
// entry.
func (s *segment) noteFilter(batch []byte) {
	f := batchFilter(batch)
	n := len(s.index)
	if s.filterBytes == 0 {
		if len(f) == 0 {
			return
		}
		s.filterBytes = len(f)
		s.filters = make([]byte, n*(1+len(f)), max(8, n)*(1+len(f)))
		for i := range n {
			s.filters[i*(1+len(f))] = filterBare
		}
		if s.index[n-1].pos == s.end {
			s.filters[(n-1)*(1+len(f))] = 0
		}
	}
	width := 1 + s.filterBytes
	for len(s.filters) < n*width {
		s.filters = append(s.filters, 0)
	}
	row := s.filters[(n-1)*width : n*width]
	switch len(f) {
	case 0:
		row[0] |= filterBare
	case s.filterBytes:
		for i, bits := range f {
			row[1+i] |= bits
		}
	default:
		row[0] |= filterForeign
	}
}

// nextWanted returns the first offset from offset on, up to end, that q may want
// by the index of a segment.
func nextWanted(q *Query, index []indexEntry, filters []byte, filterBytes int, offset, end uint64) uint64 {
	width := 1 + filterBytes
	for i := range index {
		if i+1 < len(index) && index[i+1].offset <= offset {
			continue
		}
		if i+1 < len(index) && index[i+1].timestamp < q.SinceMs {
			continue // all of it is older
		}
		if q.Wanted != nil {
			if filterBytes == 0 {
				if !q.Wanted(nil) {
					continue
				}
			} else if row := filters[i*width : (i+1)*width]; row[0]&filterForeign == 0 &&
				!(row[0]&filterBare != 0 && q.Wanted(nil)) && !q.Wanted(row[1:]) {
				continue
			}
		}
		return max(offset, index[i].offset)
	}
	return end
}

// versionOf splits the version field of a trailer.
func versionOf(t []byte) (version, filterBytes int) {
	v := binary.LittleEndian.Uint32(t[44:])
	return int(v & 0xFFFF), int(v >> 16)
}
