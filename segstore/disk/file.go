package disk

import (
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// fileClosed is the bit of file.state that Close sets; the bits below it count
// the holders of the descriptor.
const fileClosed = 1 << 30

// file is the File of the posix and uring backends: a descriptor that is not
// given back to the kernel while an Op uses it. Otherwise a descriptor number
// reused by another open could receive a late write.
type file struct {
	name  string
	fd    int
	state atomic.Int32
}

func (f *file) Name() string { return f.name }

// acquire holds the descriptor open; false if the file is closed.
func (f *file) acquire() bool {
	for {
		state := f.state.Load()
		if state&fileClosed != 0 {
			return false
		}
		if f.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

// release undoes acquire. The last holder of a closed file closes the
// descriptor; an error of that close can't be reported and says nothing about
// data that was synced.
func (f *file) release() {
	if f.state.Add(-1) == fileClosed {
		_ = unix.Close(f.fd)
	}
}

// Close implements File. A second Close returns fs.ErrClosed.
func (f *file) Close() error {
	before := f.state.Or(fileClosed)
	if before&fileClosed != 0 {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	if before != 0 {
		return nil
	}
	// close(2) on Linux always frees the descriptor, so EINTR isn't retried.
	if err := unix.Close(f.fd); err != nil && err != unix.EINTR {
		return &fs.PathError{Op: "close", Path: f.name, Err: err}
	}
	return nil
}

// Size implements File.
func (f *file) Size() (int64, error) {
	if !f.acquire() {
		return 0, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	defer f.release()
	var stat unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Fstat(f.fd, &stat) }); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: f.name, Err: err}
	}
	return stat.Size, nil
}

// retryInterrupted calls f until it returns something else than EINTR. The Go
// runtime preempts threads with signals, so any slow call can see it.
func retryInterrupted(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
