package disk

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// opQueue is a first-in-first-out list linked through Op.next, so that queueing
// allocates nothing. Its owner guards it.
type opQueue struct {
	head, tail *Op
}

func (q *opQueue) push(op *Op) {
	op.next = nil
	if q.tail == nil {
		q.head = op
	} else {
		q.tail.next = op
	}
	q.tail = op
}

// pop returns the oldest Op, or nil.
func (q *opQueue) pop() *Op {
	op := q.head
	if op == nil {
		return nil
	}
	q.head = op.next
	if q.head == nil {
		q.tail = nil
	}
	op.next = nil
	return op
}

// admit is called by Submit: it holds the file's descriptor open until finish,
// unless the file or the Disk is closed.
func (op *Op) admit(diskClosed bool) {
	op.held = !diskClosed && op.File.(*file).acquire()
}

// check returns the error of an Op that must not reach the kernel: its file was
// closed, or it asks for nothing the kernel would understand the same way on
// every path (a position of -1 means "where the descriptor stands" to io_uring).
func (op *Op) check() error {
	switch {
	case !op.held:
		return fs.ErrClosed
	case op.Kind > Punch, op.Pos < 0, op.Kind == Punch && op.Len <= 0:
		return unix.EINVAL
	}
	return nil
}

// finish records the outcome, lets go of the file and calls Done. The Op must
// not be touched afterwards: Done may have submitted it again.
func (op *Op) finish(n int, err error) {
	op.N = n
	op.Err = nil
	if err != nil {
		what := op.Kind
		if op.SyncAfter && n == len(op.Buf) {
			what = Sync
		}
		op.Err = &fs.PathError{Op: what.String(), Path: op.File.Name(), Err: err}
	}
	if op.held {
		op.held = false
		op.File.(*file).release()
	}
	op.Done(op)
}
