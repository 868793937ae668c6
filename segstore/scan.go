package segstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// scanner reads the batches of one segment file through one arena buffer. It
// blocks; for the goroutines that recover and that read behind the tail.
type scanner struct {
	store *Store
	file  disk.File
	limit int64 // bytes of the file that may hold batches
	block int   // bytes read at a time

	buf   *arena.Buf
	start int64 // buf.Bytes()[:n] is the file from start on
	n     int
}

// window returns at least need bytes of the file from pos on, fewer when the
// limit comes first. They are valid until the next call.
func (s *scanner) window(pos int64, need int) ([]byte, error) {
	if have := s.start + int64(s.n); s.buf != nil && pos >= s.start && (pos+int64(need) <= have || have >= s.limit) {
		return s.buf.Bytes()[min(pos-s.start, int64(s.n)):s.n], nil
	}
	size := int(max(0, min(int64(max(need, s.block)), s.limit-pos)))
	if size == 0 {
		return nil, nil
	}
	if s.buf == nil || s.buf.Len() < size {
		s.release()
		s.buf = s.store.arena.Get(size)
	}
	s.start, s.n = pos, 0
	op := disk.Op{Kind: disk.Read, File: s.file, Pos: pos, Buf: s.buf.Bytes()[:size]}
	if err := disk.Run(s.store.disk, &op); err != nil {
		return nil, err
	}
	s.store.readBytes.Add(uint64(op.N))
	s.n = op.N
	if op.N < size {
		s.limit = pos + int64(op.N) // the file is shorter than it should be
	}
	return s.buf.Bytes()[:s.n], nil
}

func (s *scanner) release() {
	if s.buf != nil {
		s.buf.Release()
		s.buf = nil
	}
}

// batch returns the verified batch at pos, or the mark of the hole that begins
// there (isHole): batchLength and endOf tell of both how to go on. An error
// that is errBatch means that there is neither, any other is a failed read.
func (s *scanner) batch(pos int64) ([]byte, error) {
	w, err := s.window(pos, holeBytes)
	if err != nil {
		return nil, err
	}
	if isHole(w) {
		if err = checkHole(w); err == nil && pos+int64(batchLength(w)) > s.limit {
			err = errShort
		}
		if err == nil {
			return w[:holeBytes], nil
		}
	} else if err = checkHeader(w); err == nil {
		length := batchLength(w)
		if pos+int64(length) > s.limit {
			err = errShort
		} else if w, err = s.window(pos, length); err != nil {
			return nil, err
		} else {
			_, err = checkBatch(w)
		}
		if err == nil {
			return w[:length], nil
		}
	}
	if err == errShort {
		err = errBeyond
	}
	return nil, err
}

var errBeyond = fmt.Errorf("%w: it ends beyond the file", errBatch)

// batchMagicBytes is batchMagic as it is in the file, and the version.
var batchMagicBytes = []byte{batchMagic & 0xFF, batchMagic >> 8, batchVersion}

// resync looks for the next good batch, or hole, after pos with offsets in
// [floor, ceiling); found is false when there is none.
func (s *scanner) resync(pos int64, floor, ceiling uint64) (at int64, found bool, err error) {
	for pos++; pos+batchHeaderBytes <= s.limit; {
		w, err := s.window(pos, batchHeaderBytes)
		if err != nil {
			return 0, false, err
		}
		i := bytes.Index(w, batchMagicBytes)
		if i < 0 {
			pos += int64(max(1, len(w)-len(batchMagicBytes)+1))
			continue
		}
		pos += int64(i)
		switch batch, err := s.batch(pos); {
		case err == nil && batchBase(batch) >= floor && endOf(batch) <= ceiling:
			return pos, true, nil
		case err != nil && !isBatchError(err):
			return 0, false, err
		}
		pos++
	}
	return 0, false, nil
}

// unwritten says whether the bytes [from, to), which are no good batch, look like
// a write that did not arrive though a later one did: there is a sector of
// zeros, or they are zeros from the beginning of their last sector on (which the
// later write has in common with this one).
func (s *scanner) unwritten(from, to int64) (bool, error) {
	zeros := int64(0) // how many bytes up to pos are zeros
	for pos := from; pos < to; {
		w, err := s.window(pos, 1)
		if err != nil || len(w) == 0 {
			return false, err
		}
		for _, c := range w[:min(int64(len(w)), to-pos)] {
			if pos++; c != 0 {
				zeros = 0
			} else if zeros++; pos%sectorBytes == 0 && zeros >= sectorBytes {
				return true, nil
			}
		}
	}
	return zeros == to-from || to%sectorBytes > 0 && zeros >= to%sectorBytes, nil
}

func isBatchError(err error) bool { return errors.Is(err, errBatch) }
