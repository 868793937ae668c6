package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// windowBytes is what a worker reads at a time: large enough for a disk to
// stream, small enough to stay in a core's cache while it is checked.
const windowBytes = 1 << 20

// window reads a file through one buffer. Used by one goroutine.
type window struct {
	ctx      context.Context
	progress *Progress
	buf      []byte // reused from file to file

	file    io.ReaderAt
	limit   int64 // bytes of the file that may be asked for
	start   int64 // buf[:n] is the file from start on
	n       int
	counted int64 // progress knows that the file is done up to here
}

// open turns the window to another file of size bytes.
func (w *window) open(file io.ReaderAt, size int64) {
	if need := min(size, windowBytes); int64(len(w.buf)) < need {
		w.buf = make([]byte, need)
	}
	w.file, w.limit, w.start, w.n, w.counted = file, size, 0, 0, 0
}

// at returns at least need bytes from pos on, more if they are there, fewer
// only where the limit comes first. need is at most windowBytes. The bytes are
// valid until the next call.
func (w *window) at(pos int64, need int) ([]byte, error) {
	need = int(max(0, min(int64(need), w.limit-pos)))
	if need == 0 {
		return nil, nil
	}
	if pos >= w.start && pos+int64(need) <= w.start+int64(w.n) {
		return w.buf[pos-w.start : min(int64(w.n), w.limit-w.start)], nil
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	size := int(min(int64(len(w.buf)), w.limit-pos))
	n, err := w.file.ReadAt(w.buf[:size], pos)
	w.start, w.n = pos, n
	if n < size {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("the file became shorter while it was read")
		}
		return nil, readError{pos: pos, err: err}
	}
	return w.buf[:n], nil
}

// count tells progress that the file is done up to pos.
func (w *window) count(pos int64) {
	if pos > w.counted {
		w.progress.add(pos - w.counted)
		w.counted = pos
	}
}

// readError is a failed read: the disk's word, not a judgement on the bytes.
type readError struct {
	pos int64
	err error
}

func (e readError) Error() string {
	return fmt.Sprintf("inspect: reading at byte %d: %v", e.pos, e.err)
}
func (e readError) Unwrap() error { return e.err }
