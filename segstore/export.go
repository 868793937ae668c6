package segstore

import (
	"encoding/binary"
	"errors"
)

// What follows shows the file formats (see doc.go for their tables) to tools
// that only read, such as package inspect. All of it takes bytes and returns
// values: nothing here opens, writes or keeps anything. Any goroutine.

// Sizes and limits of the formats, bytes and offsets.
const (
	BatchHeaderBytes   = batchHeaderBytes
	HoleMarkBytes      = holeBytes
	SegmentHeaderBytes = segmentHeaderBytes
	TrailerBytes       = trailerBytes
	SettledHeaderBytes = settledHeaderBytes
	SettledRecordBytes = settledRecordBytes
	OffsetMax          = offsetMax
)

// Names in a data directory.
const (
	LogsDir          = logsDir
	TransientDir     = transientDir
	TrashDir         = trashDir
	QuarantineDir    = quarantineDir
	SettledName      = settledName
	SettledTempName  = settledTempName
	SegmentTempEnd   = segmentTempSuffix
	QuarantineSuffix = quarantineSuffix
)

// Kinds of settled records, see DecodeSettledRecord.
const (
	SettledLow     = settledLow
	SettledRange   = settledRange
	SettledCursor  = settledCursor
	SettledPunched = settledPunched
)

// BatchMagic is how each batch begins.
var BatchMagic = [...]byte{batchMagic & 0xFF, batchMagic >> 8, batchVersion}

// BatchInfo is what a batch's header says.
type BatchInfo struct {
	Base, End     uint64 // offsets [Base, End)
	Timestamp     int64  // Unix milliseconds
	Bytes         int64  // of the whole batch
	Templates     int
	TemplateBytes int
	Checksum      uint32
	Filtered      bool // it ends with a filter, whose length is its last byte
	Hole          bool // the mark of a hole: Bytes and offsets are those of the hole, the mark is HoleMarkBytes
}

// DecodeHole reads the mark of a hole at the start of data, completely. found is
// false when data is not headed like one: then it is to be tried as a batch.
func DecodeHole(data []byte) (info BatchInfo, found bool, err error) {
	if !isHole(data) {
		return BatchInfo{}, false, nil
	}
	if err := checkHole(data); err != nil {
		return BatchInfo{}, true, err
	}
	return BatchInfo{
		Base: batchBase(data), End: endOf(data), Timestamp: batchTimestamp(data), Bytes: int64(batchLength(data)),
		Checksum: binary.LittleEndian.Uint32(data[batchCRCPos:]), Hole: true,
	}, true, nil
}

// DecodeBatchHeader reads the header at the start of data, judging only whether
// it is plausible. IsBatchShort tells whether more data is needed.
func DecodeBatchHeader(data []byte) (BatchInfo, error) {
	if err := checkHeader(data); err != nil {
		return BatchInfo{}, err
	}
	return BatchInfo{
		Base: batchBase(data), End: batchEnd(data), Timestamp: batchTimestamp(data), Bytes: int64(batchLength(data)),
		Templates: batchTemplates(data), TemplateBytes: batchTemplateBytes(data),
		Checksum: binary.LittleEndian.Uint32(data[batchCRCPos:]), Filtered: data[batchFlagsPos]&flagFilter != 0,
	}, nil
}

// VerifyBatch checks the batch at the start of data completely: header,
// checksum, structure.
func VerifyBatch(data []byte) (BatchInfo, error) {
	if _, err := checkBatch(data); err != nil {
		return BatchInfo{}, err
	}
	return DecodeBatchHeader(data)
}

// IsBatchShort says of an error of the two above that the batch continues
// beyond the data.
func IsBatchShort(err error) bool { return errors.Is(err, errShort) }

// WalkBatch calls visit for each record of a batch that VerifyBatch accepted,
// until it returns false. The bytes are views of the batch.
func WalkBatch(batch []byte, visit func(rec Record, t Template) bool) {
	data, pos := batch[:batchLength(batch)], batchHeaderBytes
	templates := make([]Template, batchTemplates(batch))
	for i := range templates {
		templates[i] = decodeTemplate(data[pos:])
		for range 3 {
			n, w := binary.Uvarint(data[pos:])
			pos += w + int(n)
		}
	}
	r := Reader{data: data, pos: pos, offset: batchBase(data), end: batchEnd(data), timestamp: batchTimestamp(data)}
	var rec Record
	for r.Next(&rec) && visit(rec, templates[rec.Template]) {
	}
}

// AnyTemplate says whether a template of a batch that VerifyBatch accepted is
// one that which wants.
func AnyTemplate(batch []byte, which func(t Template) bool) bool {
	pos := batchHeaderBytes
	for range batchTemplates(batch) {
		if which(decodeTemplate(batch[pos:])) {
			return true
		}
		for range 3 {
			n, w := binary.Uvarint(batch[pos:])
			pos += w + int(n)
		}
	}
	return false
}

// ParseSegmentName returns the base offset in the name of a segment file.
func ParseSegmentName(name string) (base uint64, ok bool) { return parseSegmentName(name) }

// VerifySegmentHeader checks that h heads the segment of log id at base.
func VerifySegmentHeader(h []byte, id, base uint64) error { return checkSegmentHeader(h, id, base) }

// IsFooter reports whether data begins like the index of a sealed segment.
func IsFooter(data []byte) bool { return isFooter(data) }

// IsTrailer reports whether data begins like a trailer, sound or not.
func IsTrailer(data []byte) bool {
	return len(data) >= 8 && binary.LittleEndian.Uint64(data) == trailerMagic
}

// Trailer is what the end of a sealed segment says.
type Trailer struct {
	BatchesEnd    int64 // position where batches end and the index begins
	IndexBytes    int64
	Records, Next uint64
	HolesListed   bool
	segment       segment
}

// IndexEntry says where a batch is: offset of its first record, position,
// timestamp in Unix milliseconds, and what the filters of the batches from there
// to the next entry add up to (see FilterCovers); nil if there are none.
type IndexEntry struct {
	Offset    uint64
	Pos       int64
	Timestamp int64
	Filter    []byte
}

// FilterCovers says whether an index entry's filter lets readers find a batch
// with that filter, nil for none.
func FilterCovers(entry, filter []byte) bool {
	switch {
	case len(entry) == 0 || entry[0]&filterForeign != 0:
		return true
	case len(filter) == 0:
		return entry[0]&filterBare != 0
	case len(filter) != len(entry)-1:
		return false
	}
	for i, bits := range filter {
		if bits&^entry[1+i] != 0 {
			return false
		}
	}
	return true
}

// Hole is the offsets [First, End) between two batches.
type Hole struct{ First, End uint64 }

// DecodeTrailer reads the last TrailerBytes of the segment at base, a file of
// fileBytes; ok is false when they are no sound trailer.
func DecodeTrailer(tail []byte, base uint64, fileBytes int64) (t Trailer, ok bool) {
	s := segment{base: base}
	if !s.decodeTrailer(tail, fileBytes) {
		return Trailer{}, false
	}
	return Trailer{
		BatchesEnd: s.indexPos, IndexBytes: indexBytes(s.indexCount, s.holeCount, s.filterBytes),
		Records: s.records, Next: s.next, HolesListed: s.holeCount != holesUnlisted, segment: s,
	}, true
}

// DecodeIndex parses the index, IndexBytes from BatchesEnd on.
func (t *Trailer) DecodeIndex(data []byte) (entries []IndexEntry, holes []Hole, err error) {
	index, gaps, err := t.segment.decodeIndex(data)
	if err != nil {
		return nil, nil, err
	}
	filters, width := t.segment.filters, 1+t.segment.filterBytes
	for i, e := range index {
		entry := IndexEntry{Offset: e.offset, Pos: e.pos, Timestamp: e.timestamp}
		if len(filters) > 0 {
			entry.Filter = filters[i*width : (i+1)*width]
		}
		entries = append(entries, entry)
	}
	for _, gap := range gaps {
		holes = append(holes, Hole{gap.first, gap.end})
	}
	return entries, holes, nil
}

// FooterBytes is the length of index and trailer that data, which IsFooter,
// announces; 0 if it is too short to say.
func FooterBytes(data []byte) int64 {
	if len(data) < indexHeaderBytes {
		return 0
	}
	filterBytes := min(binary.LittleEndian.Uint32(data[12:]), FilterBytesMax)
	return indexBytes(binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint32(data[8:]), int(filterBytes)) + trailerBytes
}

// VerifySettledHeader checks that h heads the settled file of log id.
func VerifySettledHeader(h []byte, id uint64) error { return checkSettledHeader(h, id) }

// DecodeSettledRecord reads one record of SettledRecordBytes; ok is false when
// its checksum is wrong. Kinds and bounds are the caller's to judge.
func DecodeSettledRecord(r []byte) (kind byte, a, b uint64, ok bool) {
	if len(r) < settledRecordBytes || binary.LittleEndian.Uint32(r[4:]) != partialCRC(r[:settledRecordBytes], 4) {
		return 0, 0, 0, false
	}
	return r[0], binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(r[16:]), true
}
