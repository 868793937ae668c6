package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/basaltmq/basaltmq/segstore"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchError says why there is no good batch at a position.
type batchError struct {
	text  string
	short bool // it goes on beyond the end of the data
}

func (e *batchError) Error() string { return e.text }

func badBatch(format string, args ...any) error {
	return &batchError{text: fmt.Sprintf(format, args...)}
}

// asBatchError turns segstore's verdicts into batchErrors.
func asBatchError(err error) error {
	if segstore.IsBatchShort(err) {
		return &batchError{text: "the batch goes on beyond the end of the data", short: true}
	}
	text := err.Error()
	if _, after, ok := bytes.Cut([]byte(text), []byte("not a valid batch: ")); ok {
		text = string(after)
	}
	return &batchError{text: text}
}

// place returns what the batch header at pos says, or the mark of a hole there,
// which is sound then. Holes are in segments only.
func (w *window) place(pos int64) (segstore.BatchInfo, error) {
	head, err := w.at(pos, segstore.HoleMarkBytes)
	if err != nil {
		return segstore.BatchInfo{}, err
	}
	info, isHole, err := segstore.DecodeHole(head)
	if !isHole {
		return w.header(pos)
	}
	return w.decoded(pos, info, err)
}

// header returns what the batch header at pos says.
func (w *window) header(pos int64) (segstore.BatchInfo, error) {
	head, err := w.at(pos, segstore.BatchHeaderBytes)
	if err != nil {
		return segstore.BatchInfo{}, err
	}
	info, err := segstore.DecodeBatchHeader(head)
	return w.decoded(pos, info, err)
}

// decoded judges what was decoded at pos.
func (w *window) decoded(pos int64, info segstore.BatchInfo, err error) (segstore.BatchInfo, error) {
	if err != nil {
		return info, asBatchError(err)
	}
	if info.Bytes > w.limit-pos {
		return info, &batchError{text: "the batch goes on beyond the end of the data", short: true}
	}
	return info, nil
}

// span verifies the batch or the hole at pos completely.
func (w *window) span(pos int64) (segstore.BatchInfo, error) {
	if info, err := w.place(pos); err != nil || info.Hole {
		return info, err
	}
	return w.batch(pos)
}

// batch verifies the batch at pos completely. Errors are *batchErrors, failed
// reads or the context's.
func (w *window) batch(pos int64) (segstore.BatchInfo, error) {
	info, err := w.header(pos)
	if err != nil {
		return info, err
	}
	if info.Bytes > windowBytes {
		return info, w.largeBatch(pos, info)
	}
	data, err := w.at(pos, int(info.Bytes))
	if err != nil {
		return info, err
	}
	if info, err = segstore.VerifyBatch(data); err != nil {
		return info, asBatchError(err)
	}
	return info, nil
}

// Position of the checksum in a batch header; segstore's package comment.
const (
	checksumPos = 8
	checksumEnd = 12
)

// largeBatch does for a batch that does not fit the window what VerifyBatch
// does for others, in two passes: the checksum, then the structure.
func (w *window) largeBatch(pos int64, info segstore.BatchInfo) error {
	head, err := w.at(pos, segstore.BatchHeaderBytes)
	if err != nil {
		return err
	}
	sum := crc32.Update(0, castagnoli, head[:checksumPos])
	end := pos + info.Bytes
	for at := pos + checksumEnd; at < end; {
		data, err := w.at(at, 1)
		if err != nil {
			return err
		}
		data = data[:min(int64(len(data)), end-at)]
		sum = crc32.Update(sum, castagnoli, data)
		at += int64(len(data))
		w.count(at)
	}
	if sum != info.Checksum {
		return badBatch("checksum %08x, computed %08x", info.Checksum, sum)
	}
	return w.structure(pos, info)
}

// structure walks templates and records of a large batch.
func (w *window) structure(pos int64, info segstore.BatchInfo) error {
	k := walker{window: w, pos: pos + segstore.BatchHeaderBytes}
	k.end = k.pos + int64(info.TemplateBytes)
	for range info.Templates {
		for range 3 {
			k.skip(k.uvarint())
		}
	}
	if k.err == nil && k.pos != k.end {
		return badBatch("%d bytes left in the template area", k.end-k.pos)
	}
	k.end = pos + info.Bytes
	for range info.End - info.Base {
		head := k.uvarint()
		if k.err == nil && head>>1 >= uint64(info.Templates) {
			return badBatch("record names template %d of %d", head>>1, info.Templates)
		}
		if head&1 != 0 {
			k.uvarint()
		}
		k.skip(k.uvarint())
		if k.err != nil {
			return k.err
		}
	}
	if k.pos != k.end {
		return badBatch("%d bytes after the last record", k.end-k.pos)
	}
	return nil
}

// walker takes fields off a range of the file; the first error sticks.
type walker struct {
	window   *window
	pos, end int64
	err      error
}

func (k *walker) uvarint() uint64 {
	if k.err != nil {
		return 0
	}
	var data []byte
	data, k.err = k.window.at(k.pos, int(min(binary.MaxVarintLen64, k.end-k.pos)))
	if k.err != nil {
		return 0
	}
	data = data[:min(int64(len(data)), k.end-k.pos)]
	v, n := binary.Uvarint(data)
	if n <= 0 {
		k.err = badBatch("a number that does not end")
		return 0
	}
	k.pos += int64(n)
	return v
}

func (k *walker) skip(n uint64) {
	switch {
	case k.err != nil:
	case n > uint64(k.end-k.pos):
		k.err = badBatch("a field goes beyond the batch")
	default:
		k.pos += int64(n)
	}
}

// resync looks for the next good batch, or hole, after pos with offsets in [floor,
// ceiling); found is false when there is none up to the limit.
func (w *window) resync(pos int64, floor, ceiling uint64) (at int64, found bool, err error) {
	magic := segstore.BatchMagic[:]
	for pos++; w.limit-pos >= segstore.BatchHeaderBytes; {
		data, err := w.at(pos, segstore.BatchHeaderBytes)
		if err != nil {
			return 0, false, err
		}
		i := bytes.Index(data, magic)
		if i < 0 {
			pos += int64(len(data) - len(magic) + 1)
			continue
		}
		pos += int64(i)
		// The header alone rules most out: checksums only for the plausible.
		info, err := w.place(pos)
		if err == nil && info.Base >= floor && info.End <= ceiling {
			if _, err = w.span(pos); err == nil {
				return pos, true, nil
			}
		}
		if err != nil && !isBatchError(err) {
			return 0, false, err
		}
		pos++
	}
	return 0, false, nil
}

func isBatchError(err error) bool {
	var bad *batchError
	return errors.As(err, &bad)
}
