package segstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Batch header fields: byte positions, see doc.go for the table.
const (
	batchMagic   = 0xBA5A // first two bytes 5A BA
	batchVersion = 1

	batchFlagsPos         = 3
	batchLengthPos        = 4
	batchCRCPos           = 8
	batchBasePos          = 12
	batchCountPos         = 20
	batchTemplateCountPos = 24
	batchReservedPos      = 26
	batchTimestampPos     = 28
	batchTemplateBytesPos = 36
	batchHeaderBytes      = 40

	// recordHeaderBytesMax is the longest record header: three uvarints.
	recordHeaderBytesMax = binary.MaxVarintLen32 + 2*binary.MaxVarintLen64
	// recordBytesMin is the shortest record: template byte and a zero length.
	recordBytesMin = 2
	// templateBytesMin is the shortest template: three zero lengths.
	templateBytesMin = 3
)

// Flag bits of a batch. A batch that carries one that is not known is refused,
// because its records could not be understood.
const (
	flagProducer     = 1 << 0 // producer id, epoch and sequence follow the header
	flagCompressed   = 1 << 1
	flagEncrypted    = 1 << 2
	flagContinuation = 1 << 3 // part of a record larger than the batch limit
	flagFilter       = 1 << 5 // a filter ends the batch; see filter.go
	flagsKnown       = flagFilter
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers everything of a batch but its own four bytes.
func checksum(batch []byte) uint32 {
	sum := crc32.Update(0, castagnoli, batch[:batchCRCPos])
	return crc32.Update(sum, castagnoli, batch[batchBasePos:])
}

// sealBatch stores the checksum of a batch.
func sealBatch(batch []byte) {
	binary.LittleEndian.PutUint32(batch[batchCRCPos:], checksum(batch))
}

// Accessors of a batch header. The caller has checked that it is whole; none
// of them reads the checksum, which the flusher may be writing (invariant 4).
func batchLength(h []byte) int      { return int(binary.LittleEndian.Uint32(h[batchLengthPos:])) }
func batchBase(h []byte) uint64     { return binary.LittleEndian.Uint64(h[batchBasePos:]) }
func batchCount(h []byte) uint64    { return uint64(binary.LittleEndian.Uint32(h[batchCountPos:])) }
func batchEnd(h []byte) uint64      { return batchBase(h) + batchCount(h) }
func batchTimestamp(h []byte) int64 { return int64(binary.LittleEndian.Uint64(h[batchTimestampPos:])) }
func batchTemplates(h []byte) int   { return int(binary.LittleEndian.Uint16(h[batchTemplateCountPos:])) }
func batchTemplateBytes(h []byte) int {
	return int(binary.LittleEndian.Uint32(h[batchTemplateBytesPos:]))
}

// errBatch says why bytes are not a batch; wrapped by fmt.Errorf below.
var errBatch = errors.New("segstore: not a valid batch")

// errShort means that the batch is longer than the bytes at hand.
var errShort = errors.New("segstore: batch continues beyond the data")

// checkHeader says whether data begins with a plausible batch header, without
// looking beyond it.
func checkHeader(data []byte) error {
	if len(data) < batchHeaderBytes {
		return errShort
	}
	length := uint64(binary.LittleEndian.Uint32(data[batchLengthPos:]))
	templates := uint64(batchTemplates(data))
	templateBytes := uint64(batchTemplateBytes(data))
	count := batchCount(data)
	switch {
	case binary.LittleEndian.Uint16(data) != batchMagic:
		return fmt.Errorf("%w: wrong magic", errBatch)
	case data[2] != batchVersion:
		return fmt.Errorf("%w: format version %d, this program knows %d", errBatch, data[2], batchVersion)
	case data[batchFlagsPos]&^byte(flagsKnown) != 0:
		return fmt.Errorf("%w: flags %#x need a newer program", errBatch, data[batchFlagsPos])
	case length < batchHeaderBytes+templateBytes+count*recordBytesMin, templateBytes < templates*templateBytesMin:
		return fmt.Errorf("%w: lengths contradict each other", errBatch)
	case count == 0:
		return fmt.Errorf("%w: no records", errBatch)
	case batchBase(data) > offsetMax || batchBase(data)+count > offsetMax:
		return fmt.Errorf("%w: offsets overflow", errBatch)
	}
	return nil
}

// checkBatch verifies the batch at the start of data completely: header,
// checksum and structure, so that a Reader may walk it unchecked. It returns
// the batch's length in bytes.
func checkBatch(data []byte) (int, error) {
	if err := checkHeader(data); err != nil {
		return 0, err
	}
	length := batchLength(data)
	if length > len(data) {
		return length, errShort
	}
	batch := data[:length]
	if got, want := checksum(batch), binary.LittleEndian.Uint32(batch[batchCRCPos:]); got != want {
		return 0, fmt.Errorf("%w: checksum %08x, computed %08x", errBatch, want, got)
	}
	if err := checkStructure(batch); err != nil {
		return 0, err
	}
	return length, nil
}

// checkStructure walks templates and records; the checksum alone does not
// protect from a writer's mistake.
func checkStructure(batch []byte) error {
	pos, end := batchHeaderBytes, batchHeaderBytes+batchTemplateBytes(batch)
	templates := batchTemplates(batch)
	for range templates {
		for range 3 {
			n, w := binary.Uvarint(batch[pos:end])
			if w <= 0 || n > uint64(end-pos-w) {
				return fmt.Errorf("%w: template beyond its area", errBatch)
			}
			pos += w + int(n)
		}
	}
	if pos != end {
		return fmt.Errorf("%w: %d bytes left in the template area", errBatch, end-pos)
	}
	limit := len(batch)
	if batch[batchFlagsPos]&flagFilter != 0 {
		if limit -= 1 + int(batch[limit-1]); batch[len(batch)-1] == 0 || limit < pos {
			return fmt.Errorf("%w: bad filter", errBatch)
		}
	}
	batch = batch[:limit]
	for range batchCount(batch) {
		head, w := binary.Uvarint(batch[pos:])
		if w <= 0 || head>>1 >= uint64(templates) {
			return fmt.Errorf("%w: record names template %d of %d", errBatch, head>>1, templates)
		}
		pos += w
		if head&1 != 0 {
			if _, w = binary.Uvarint(batch[pos:]); w <= 0 {
				return fmt.Errorf("%w: bad timestamp delta", errBatch)
			}
			pos += w
		}
		n, w := binary.Uvarint(batch[pos:])
		if w <= 0 || n > uint64(len(batch)-pos-w) {
			return fmt.Errorf("%w: body beyond the batch", errBatch)
		}
		pos += w + int(n)
	}
	if pos != len(batch) {
		return fmt.Errorf("%w: %d bytes after the last record", errBatch, len(batch)-pos)
	}
	return nil
}
