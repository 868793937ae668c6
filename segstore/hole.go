package segstore

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// A hole is a run of wholly settled batches of a sealed segment whose blocks the
// file system got back. The header of its first batch is replaced by a mark that
// says how far it goes; what is between the mark and its end means nothing any
// more: zeros, or old bytes where whole blocks did not fit, or where a power cut
// came before the blocks were given back. See doc.go for the table.
const (
	flagHole    = 1 << 4 // of a batch header: it is the mark of a hole
	holeNextPos = 40
	holeBytes   = 48

	// holeLengthMax keeps the length of a mark far from what 32 bits hold.
	holeLengthMax = 1 << 30

	// sectorBytes is what a disk writes wholly or not at all. A mark lies in one
	// sector, so that a power cut leaves the old header or the mark.
	sectorBytes = 512

	// allocBytes is the unit in which file systems give space back.
	allocBytes = 4096
)

// hole is the place of a hole in a segment.
type hole struct {
	pos, end int64
	sure     bool // its blocks were given back, durably, in this life of the process
}

// encodeHole returns the mark of a hole of length bytes, with the offsets
// [base, next), whose first batch has that timestamp.
func encodeHole(base, next uint64, timestamp, length int64) []byte {
	h := make([]byte, holeBytes)
	binary.LittleEndian.PutUint16(h, batchMagic)
	h[2], h[batchFlagsPos] = batchVersion, flagHole
	binary.LittleEndian.PutUint32(h[batchLengthPos:], uint32(length))
	binary.LittleEndian.PutUint64(h[batchBasePos:], base)
	binary.LittleEndian.PutUint64(h[batchTimestampPos:], uint64(timestamp))
	binary.LittleEndian.PutUint64(h[holeNextPos:], next)
	binary.LittleEndian.PutUint32(h[batchCRCPos:], partialCRC(h, batchCRCPos))
	return h
}

// isHole reports whether data is headed like the mark of a hole.
func isHole(data []byte) bool { return len(data) > batchFlagsPos && data[batchFlagsPos] == flagHole }

// checkHole verifies the mark at the start of data, which isHole.
func checkHole(data []byte) error {
	switch {
	case len(data) < holeBytes:
		return errShort
	case binary.LittleEndian.Uint16(data) != batchMagic:
		return fmt.Errorf("%w: wrong magic", errBatch)
	case data[2] != batchVersion:
		return fmt.Errorf("%w: format version %d, this program knows %d", errBatch, data[2], batchVersion)
	case binary.LittleEndian.Uint32(data[batchCRCPos:]) != partialCRC(data[:holeBytes], batchCRCPos):
		return fmt.Errorf("%w: the mark of a hole has a wrong checksum", errBatch)
	case batchLength(data) < holeBytes || batchLength(data) > holeLengthMax:
		return fmt.Errorf("%w: a hole of %d bytes", errBatch, batchLength(data))
	case batchBase(data) >= endOf(data) || endOf(data) > offsetMax:
		return fmt.Errorf("%w: a hole without offsets", errBatch)
	}
	return nil
}

// endOf is the offset after a batch or a hole.
func endOf(h []byte) uint64 {
	if isHole(h) {
		return binary.LittleEndian.Uint64(h[holeNextPos:])
	}
	return batchEnd(h)
}

// holdsMark reports whether a mark at pos lies in one sector.
func holdsMark(pos int64) bool { return pos%sectorBytes <= sectorBytes-holeBytes }

// blocks is what of the hole are whole blocks: [from, to), empty if from >= to.
func (h hole) blocks() (from, to int64) {
	from = (h.pos + holeBytes + allocBytes - 1) / allocBytes * allocBytes
	return from, h.end / allocBytes * allocBytes
}

// holeAt returns the hole that pos lies in, if there is one.
func holeAt(holes []hole, pos int64) (hole, bool) {
	i := sort.Search(len(holes), func(i int) bool { return holes[i].end > pos })
	if i == len(holes) || holes[i].pos > pos {
		return hole{}, false
	}
	return holes[i], true
}

// holesIn returns those of the holes that lie in [pos, end).
func holesIn(holes []hole, pos, end int64) []hole {
	i := sort.Search(len(holes), func(i int) bool { return holes[i].pos >= pos })
	k := i + sort.Search(len(holes)-i, func(k int) bool { return holes[i+k].pos >= end })
	return holes[i:k]
}

// putHole makes h one of the holes, in the place of those it covers.
func putHole(holes []hole, h hole) []hole {
	i := sort.Search(len(holes), func(i int) bool { return holes[i].pos >= h.pos })
	k := i
	for k < len(holes) && holes[k].end <= h.end {
		k++
	}
	out := append(make([]hole, 0, len(holes)-(k-i)+1), holes[:i]...)
	return append(append(out, h), holes[k:]...)
}
