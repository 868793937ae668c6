package disk

import (
	"fmt"
	"io"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// posixWorkersMax bounds the goroutines, and so the threads, that block in the
// kernel. Eight saturate the device queues of cloud volumes with synchronous
// calls; a store has one write and one sync in flight most of the time.
const posixWorkersMax = 8

// posix runs each Op as a blocking system call on a worker goroutine. Workers
// start when there is work and end when there is none, so an idle Disk owns no
// goroutine.
type posix struct {
	tree
	work func() // p.runWorker, bound once so that starting a worker allocates no closure

	mutex   sync.Mutex
	idle    sync.Cond // workers and waiters became 0
	queue   opQueue
	workers int
	waiters int // goroutines in Wait
	closed  bool
}

// OpenPosix opens the portable backend on root, creating the directory if it is
// missing.
func OpenPosix(root string) (Disk, error) {
	tree, err := openTree(root)
	if err != nil {
		return nil, err
	}
	p := &posix{tree: tree}
	p.work = p.runWorker
	p.idle.L = &p.mutex
	return p, nil
}

func (p *posix) Name() string { return "posix" }

func (p *posix) Open(path string, flag Flag) (File, error) {
	f, err := p.open(path, flag)
	if err != nil {
		return nil, err // not f: a nil *file in a File is not nil
	}
	return f, nil
}

// Submit implements Disk.
func (p *posix) Submit(ops []*Op) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, op := range ops {
		op.admit(p.closed)
		p.queue.push(op)
		if p.workers < posixWorkersMax {
			p.workers++
			go p.work()
		}
	}
}

// Close implements Disk.
func (p *posix) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.workers+p.waiters > 0 {
		p.idle.Wait()
	}
	if p.closed {
		return fmt.Errorf("disk: %w", fs.ErrClosed)
	}
	p.closed = true
	return nil
}

func (p *posix) runWorker() {
	p.mutex.Lock()
	for {
		op := p.queue.pop()
		if op == nil {
			break
		}
		p.mutex.Unlock()
		op.perform()
		p.mutex.Lock()
	}
	p.workers--
	if p.workers+p.waiters == 0 {
		p.idle.Broadcast()
	}
	p.mutex.Unlock()
}

// Wait implements Waiter.
func (p *posix) Wait(op *Op) {
	p.mutex.Lock()
	op.admit(p.closed)
	p.waiters++
	p.mutex.Unlock()
	op.perform()
	p.mutex.Lock()
	p.waiters--
	if p.workers+p.waiters == 0 {
		p.idle.Broadcast()
	}
	p.mutex.Unlock()
}

// perform carries out an admitted Op with blocking calls.
func (op *Op) perform() {
	n, err := 0, op.check()
	if err == nil {
		n, err = blockingCall(op, op.File.(*file).fd)
	}
	op.finish(n, err)
}

// blockingCall does what op asks for on fd and returns the bytes moved.
func blockingCall(op *Op, fd int) (n int, err error) {
	switch op.Kind {
	case Write:
		if n, err = writeAll(fd, op.Buf, op.Pos); err != nil || !op.SyncAfter {
			return n, err
		}
		return n, retryInterrupted(func() error { return unix.Fdatasync(fd) })
	case Read:
		return readFull(fd, op.Buf, op.Pos)
	}
	for {
		switch op.Kind {
		case Sync:
			err = unix.Fdatasync(fd)
		case Truncate:
			err = unix.Ftruncate(fd, op.Pos)
		case Punch:
			err = unix.Fallocate(fd, punchMode, op.Pos, op.Len)
		}
		if err != unix.EINTR {
			return 0, err
		}
	}
}

const punchMode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE

func writeAll(fd int, buf []byte, pos int64) (n int, err error) {
	for n < len(buf) {
		wrote, err := unix.Pwrite(fd, buf[n:], pos+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case wrote == 0:
			return n, io.ErrShortWrite // no progress and no reason: never loop on it
		default:
			n += wrote
		}
	}
	return n, nil
}

// readFull reads until buf is full or the file ends.
func readFull(fd int, buf []byte, pos int64) (n int, err error) {
	for n < len(buf) {
		got, err := unix.Pread(fd, buf[n:], pos+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case got == 0:
			return n, nil
		default:
			n += got
		}
	}
	return n, nil
}
