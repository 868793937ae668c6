package segstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
	"strconv"
	"strings"
)

// Segment file: header, batches, and when sealed an index and a trailer. See
// doc.go for the tables.
const (
	segmentMagic   = 0x4745534C41534142 // "BASALSEG"
	indexMagic     = 0x58444942         // "BIDX"
	trailerMagic   = 0x444E454C41534142 // "BASALEND"
	segmentVersion = 1
	// segmentVersionRetained is that of retained logs: batches and index may have
	// filters.
	segmentVersionRetained = 2

	segmentHeaderBytes = 64
	indexHeaderBytes   = 16
	indexEntryBytes    = 24
	indexHoleBytes     = 16
	trailerBytes       = 52

	// segmentHolesMax bounds the holes that a footer lists; a segment with more
	// has holesUnlisted instead, and recovery looks for them in the data.
	segmentHolesMax = 4096
	holesUnlisted   = 1<<32 - 1

	// offsetMax bounds offsets in files, so that sums never overflow.
	offsetMax = 1 << 62
)

// segment is what the log knows of one segment file. Guarded by the log's
// mutex.
type segment struct {
	base     uint64 // first offset it may hold; its name
	next     uint64 // offset after the last batch written or being written
	records  uint64
	size     int64  // batches are complete below this position: readers' limit
	sizeNext uint64 // the offset at size, see written
	end      int64  // the next batch goes here; above size while a write is in flight

	index       []indexEntry // always there until sealed, then loaded on demand
	indexedPos  int64        // position of the last entry
	holes       []interval   // between batches, until sealed; not complete if holesMany
	holesMany   bool
	filterBytes int    // length of filters; 0: there are none
	filters     []byte // those of the index entries, beside index; see filter.go
	indexPos    int64  // of the index in the file, when sealed
	indexCount  uint32
	holeCount   uint32
	indexSum    uint32

	firstMs       int64 // time of its first batch
	unsyncedBytes int64 // of batches that no fdatasync covered

	created     bool // the file exists
	entrySynced bool // and its directory entry is durable
	unsynced    bool // it has batches that no fdatasync covered
	bare        bool // and some of them are not in the journal
	full        bool // takes no more batches
	sealed      bool // index and trailer are written
	footerDirty bool // and not synced yet
	dead        bool // all settled, to be removed in this round
	removed     bool
	replaced    bool    // by a new segment, or nobody knows; see reopen.go
	bad         []int64 // positions of corrupt batches that were reported

	punched  []hole // where blocks were given back, see punch.go; complete if mapped
	mapped   bool
	punching bool  // somebody is at it
	gained   int64 // the gain that was looked for the last time
}

// indexEntry says where a batch is.
type indexEntry struct {
	offset    uint64
	pos       int64
	timestamp int64
}

// note extends the segment by a batch that goes to s.end.
func (s *segment) note(batch []byte, everyBytes int64) {
	if s.end == segmentHeaderBytes {
		s.firstMs = batchTimestamp(batch)
	}
	if len(s.index) == 0 || s.end-s.indexedPos >= everyBytes {
		s.index = append(s.index, indexEntry{batchBase(batch), s.end, batchTimestamp(batch)})
		s.indexedPos = s.end
	}
	if s.filterBytes > 0 || batch[batchFlagsPos]&flagFilter != 0 {
		s.noteFilter(batch)
	}
	s.noteGap(batchBase(batch))
	s.next = batchEnd(batch)
	s.records += batchCount(batch)
	s.end += int64(batchLength(batch))
}

// noteRun extends the segment by all that is saved and not flushed of a chunk of a
// log that is not retained, which goes to s.end. It reads few of its headers.
func (s *segment) noteRun(c *chunk, everyBytes int64) {
	if s.end == segmentHeaderBytes {
		s.firstMs = batchTimestamp(c.data[c.flushed:])
	}
	end := s.end + int64(c.saved-c.flushed)
	for {
		due := s.end
		if len(s.index) > 0 {
			due = max(due, s.indexedPos+everyBytes)
		}
		at := c.saved
		if due < end {
			at = c.startAt(c.flushed + int(due-s.end))
		}
		if at >= c.saved {
			break
		}
		s.indexedPos = s.end + int64(at-c.flushed)
		s.index = append(s.index, indexEntry{batchBase(c.data[at:]), s.indexedPos, batchTimestamp(c.data[at:])})
	}
	s.noteGap(c.flushedNext)
	s.next = c.savedNext
	s.records += c.savedNext - c.flushedNext
	s.end = end
}

// noteGap notes that the batch after the last one begins at base.
func (s *segment) noteGap(base uint64) {
	switch {
	case base <= s.next:
	case len(s.holes) < segmentHolesMax:
		s.holes = append(s.holes, interval{s.next, base})
	default:
		s.holesMany = true
	}
}

// written lets readers have all batches noted so far. Between sizeNext and next are
// batches whose write is in flight: the file says nothing about these offsets yet,
// the chunks do (invariant 6).
func (s *segment) written() { s.size, s.sizeNext = s.end, s.next }

// noteHole extends the segment by the hole that begins at s.end.
func (s *segment) noteHole(mark []byte, everyBytes int64) {
	s.note(mark, everyBytes)
	if next := endOf(mark); len(s.holes) < segmentHolesMax {
		s.holes = append(s.holes, interval{batchBase(mark), next})
	} else {
		s.holesMany = true
	}
	s.next = endOf(mark)
	s.punched = append(s.punched, hole{pos: s.end - int64(batchLength(mark)), end: s.end})
}

// lookup returns the position of a batch at or before the one with offset.
func lookup(index []indexEntry, offset uint64) int64 {
	i := sort.Search(len(index), func(i int) bool { return index[i].offset > offset })
	if i == 0 {
		return segmentHeaderBytes
	}
	return index[i-1].pos
}

const segmentSuffix = ".seg"

func segmentName(base uint64) string { return fmt.Sprintf("%020d%s", base, segmentSuffix) }

// parseSegmentName returns the base offset in a file name.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseUint(digits, 10, 64)
	return base, err == nil && base < offsetMax && segmentName(base) == name
}

// partialCRC is the checksum of data without the four bytes at pos.
func partialCRC(data []byte, pos int) uint32 {
	sum := crc32.Update(0, castagnoli, data[:pos])
	return crc32.Update(sum, castagnoli, data[pos+4:])
}

// encodeSegmentHeader returns the first 64 bytes of a segment file.
func encodeSegmentHeader(version uint16, id, base uint64, createdMs int64) []byte {
	h := make([]byte, segmentHeaderBytes)
	binary.LittleEndian.PutUint64(h, segmentMagic)
	binary.LittleEndian.PutUint16(h[8:], version)
	binary.LittleEndian.PutUint64(h[16:], id)
	binary.LittleEndian.PutUint64(h[24:], base)
	binary.LittleEndian.PutUint64(h[32:], uint64(createdMs))
	binary.LittleEndian.PutUint32(h[12:], partialCRC(h, 12))
	return h
}

var errHeader = errors.New("segstore: unreadable file header")

// checkSegmentHeader verifies that h heads the segment of log id at base.
func checkSegmentHeader(h []byte, id, base uint64) error {
	switch {
	case len(h) < segmentHeaderBytes:
		return fmt.Errorf("%w: %d bytes of %d", errHeader, len(h), segmentHeaderBytes)
	case binary.LittleEndian.Uint64(h) != segmentMagic:
		return fmt.Errorf("%w: wrong magic", errHeader)
	case binary.LittleEndian.Uint32(h[12:]) != partialCRC(h[:segmentHeaderBytes], 12):
		return fmt.Errorf("%w: wrong checksum", errHeader)
	case binary.LittleEndian.Uint16(h[8:]) != segmentVersion && binary.LittleEndian.Uint16(h[8:]) != segmentVersionRetained:
		return fmt.Errorf("%w: format version %d, this program knows %d", errHeader, binary.LittleEndian.Uint16(h[8:]), segmentVersionRetained)
	case binary.LittleEndian.Uint64(h[16:]) != id:
		return fmt.Errorf("%w: it belongs to log %#x", errHeader, binary.LittleEndian.Uint64(h[16:]))
	case binary.LittleEndian.Uint64(h[24:]) != base:
		return fmt.Errorf("%w: its base offset is %d", errHeader, binary.LittleEndian.Uint64(h[24:]))
	}
	return nil
}

// encodeFooter returns index and trailer of a segment whose batches end at
// s.end, and remembers what the trailer says about the index.
func (s *segment) encodeFooter() []byte {
	holes, holeCount := s.holes, uint32(len(s.holes))
	if s.holesMany {
		holes, holeCount = nil, holesUnlisted
	}
	out := make([]byte, 0, indexHeaderBytes+len(s.index)*indexEntryBytes+len(holes)*indexHoleBytes+len(s.filters)+trailerBytes)
	out = binary.LittleEndian.AppendUint32(out, indexMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(s.index)))
	out = binary.LittleEndian.AppendUint32(out, holeCount)
	out = binary.LittleEndian.AppendUint32(out, uint32(s.filterBytes))
	for _, e := range s.index {
		out = binary.LittleEndian.AppendUint64(out, e.offset)
		out = binary.LittleEndian.AppendUint64(out, uint64(e.pos))
		out = binary.LittleEndian.AppendUint64(out, uint64(e.timestamp))
	}
	for _, hole := range holes {
		out = binary.LittleEndian.AppendUint64(out, hole.first)
		out = binary.LittleEndian.AppendUint64(out, hole.end)
	}
	out = append(out, s.filters...)
	s.indexPos, s.indexCount, s.holeCount = s.end, uint32(len(s.index)), holeCount
	s.indexSum = crc32.Checksum(out, castagnoli)
	t := len(out)
	out = binary.LittleEndian.AppendUint64(out, trailerMagic)
	out = binary.LittleEndian.AppendUint64(out, uint64(s.end))
	out = binary.LittleEndian.AppendUint64(out, s.records)
	out = binary.LittleEndian.AppendUint64(out, s.next)
	out = binary.LittleEndian.AppendUint32(out, s.indexCount)
	out = binary.LittleEndian.AppendUint32(out, holeCount)
	out = binary.LittleEndian.AppendUint32(out, s.indexSum)
	version := uint32(segmentVersion)
	if s.filterBytes > 0 {
		version = segmentVersionRetained | uint32(s.filterBytes)<<16
	}
	out = binary.LittleEndian.AppendUint32(out, version)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out[t:], castagnoli))
}

// decodeTrailer fills in what the trailer, the last bytes of a file of
// fileBytes, says; false when it is none.
func (s *segment) decodeTrailer(t []byte, fileBytes int64) bool {
	if len(t) < trailerBytes || binary.LittleEndian.Uint64(t) != trailerMagic ||
		binary.LittleEndian.Uint32(t[48:]) != crc32.Checksum(t[:48], castagnoli) {
		return false
	}
	version, filterBytes := versionOf(t)
	if version != segmentVersion && version != segmentVersionRetained || version == segmentVersion && filterBytes > 0 || filterBytes > FilterBytesMax {
		return false
	}
	pos, records, next := binary.LittleEndian.Uint64(t[8:]), binary.LittleEndian.Uint64(t[16:]), binary.LittleEndian.Uint64(t[24:])
	count, holes := binary.LittleEndian.Uint32(t[32:]), binary.LittleEndian.Uint32(t[36:])
	indexBytes := indexBytes(count, holes, filterBytes)
	if pos < segmentHeaderBytes || pos > uint64(fileBytes) || pos+uint64(indexBytes)+trailerBytes != uint64(fileBytes) ||
		next < s.base || next > offsetMax || records > next-s.base {
		return false
	}
	s.end, s.indexPos = int64(pos), int64(pos)
	s.records, s.next, s.indexCount, s.holeCount = records, next, count, holes
	s.written()
	s.indexSum = binary.LittleEndian.Uint32(t[40:])
	s.filterBytes = filterBytes
	s.full, s.sealed = true, true
	return true
}

// indexBytes is the length of an index.
func indexBytes(entries, holes uint32, filterBytes int) int64 {
	if holes == holesUnlisted {
		holes = 0
	}
	filters := int64(0)
	if filterBytes > 0 {
		filters = int64(entries) * int64(1+filterBytes)
	}
	return filters + indexHeaderBytes + int64(entries)*indexEntryBytes + int64(holes)*indexHoleBytes
}

var errIndex = errors.New("segstore: the segment's index is corrupt")

// decodeIndex parses the index that the trailer of s describes, and sets its
// filters.
func (s *segment) decodeIndex(data []byte) (index []indexEntry, holes []interval, err error) {
	if int64(len(data)) != indexBytes(s.indexCount, s.holeCount, s.filterBytes) || crc32.Checksum(data, castagnoli) != s.indexSum || !isFooter(data) {
		return nil, nil, errIndex
	}
	index = make([]indexEntry, s.indexCount)
	if s.filterBytes > 0 {
		end := len(data) - len(index)*(1+s.filterBytes)
		s.filters = append([]byte(nil), data[end:]...)
		data = data[:end]
	}
	data = data[indexHeaderBytes:]
	for i := range index {
		index[i] = indexEntry{
			offset:    binary.LittleEndian.Uint64(data),
			pos:       int64(binary.LittleEndian.Uint64(data[8:])),
			timestamp: int64(binary.LittleEndian.Uint64(data[16:])),
		}
		if index[i].pos < segmentHeaderBytes || index[i].pos >= s.indexPos {
			return nil, nil, errIndex
		}
		data = data[indexEntryBytes:]
	}
	for ; len(data) > 0; data = data[indexHoleBytes:] {
		hole := interval{binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])}
		if hole.first < s.base || hole.first >= hole.end || hole.end > s.next {
			return nil, nil, errIndex
		}
		holes = append(holes, hole)
	}
	return index, holes, nil
}

// isFooter reports whether data begins like the index of a sealed segment.
func isFooter(data []byte) bool {
	return len(data) >= 4 && binary.LittleEndian.Uint32(data) == indexMagic
}
