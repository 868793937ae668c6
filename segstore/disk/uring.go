//go:build uring && linux

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/uring"
)

// ringEntries is the size of the ring; ringSlots the most Ops in flight, further
// ones wait in a list. Each slot queues one entry at a time and the wake-up
// another, so neither queue can overflow.
const (
	ringEntries = 256
	ringSlots   = ringEntries - 1
)

// Completions carry the number of their slot, or this for the wake-up.
const wakeUserData = ^uint64(0)

// ringDisk runs Ops through one io_uring, owned by one goroutine locked to its
// thread (the kernel ties a ring's work to the thread that submits it, so
// submitters can't enter the ring themselves).
//
//	Submit: mutex { append to queue; was the ring asleep? } -> write the eventfd
//	ring thread: take the queue -> prepare -> sleep in the kernel until a
//	completion or the eventfd -> Done of everything completed -> again
//
// A Buf on the Go heap is pinned while the kernel uses it; off-heap memory needs
// no pin and gets none.
type ringDisk struct {
	tree
	wake    *os.File // eventfd; as an *os.File it may be written while Close closes it
	stopped chan struct{}
	blocked sync.WaitGroup // Ops on goroutines of their own (the kernel lacks them)

	mutex  sync.Mutex
	queue  opQueue
	asleep bool // the thread sleeps, or is about to, and would take more: wake it
	closed bool
	gone   bool // the thread has ended

	// Of the ring thread only.
	pending     opQueue // taken from queue, waiting for a slot
	ring        *uring.Ring
	canTruncate bool
	wakeFd      int
	wakeArmed   bool
	slots       []ringSlot
	free        []int
	visit       func(uring.CQE) // r.complete, bound once
}

type ringSlot struct {
	op      *Op
	moved   int // bytes done by completions before this one
	retries int
	syncing bool // the write of an Op with SyncAfter is done
	pinner  runtime.Pinner
}

// retriesMax bounds how often the kernel may say EAGAIN for one read or write,
// which then did nothing. It retries by itself on a worker thread, so once is
// rare already. A sync is never repeated after an error.
const retriesMax = 8

// OpenUring opens the io_uring backend on root, creating the directory if it is
// missing. Where io_uring can't be used the error matches errors.ErrUnsupported
// and says why.
func OpenUring(root string) (Disk, error) {
	tree, err := openTree(root)
	if err != nil {
		return nil, err
	}
	// Blocking on purpose: see uring.Ring.ReadEvent.
	wakeFd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("disk: eventfd: %w", err)
	}
	r := &ringDisk{
		tree:    tree,
		wake:    os.NewFile(uintptr(wakeFd), "eventfd"),
		wakeFd:  wakeFd,
		stopped: make(chan struct{}),
		slots:   make([]ringSlot, ringSlots),
	}
	for i := range r.slots {
		r.free = append(r.free, i)
	}
	r.visit = r.complete
	started := make(chan error)
	go r.run(started)
	if err := <-started; err != nil {
		_ = r.wake.Close()
		return nil, fmt.Errorf("disk: %w", err)
	}
	return r, nil
}

func (r *ringDisk) Name() string { return "uring" }

func (r *ringDisk) Open(path string, flag Flag) (File, error) {
	f, err := r.open(path, flag)
	if err != nil {
		return nil, err // not f: a nil *file in a File is not nil
	}
	return f, nil
}

// Submit implements Disk.
func (r *ringDisk) Submit(ops []*Op) {
	if len(ops) == 0 {
		return
	}
	r.mutex.Lock()
	for _, op := range ops {
		op.admit(r.closed)
		r.queue.push(op)
	}
	wake := r.asleep
	r.asleep = false
	var late opQueue
	if r.gone {
		late, r.queue = r.queue, late
	}
	r.mutex.Unlock()
	if wake {
		r.wakeUp()
	}
	if late.head != nil {
		go refuse(late)
	}
}

// refuse fails Ops submitted to a closed Disk, on a goroutine of the Disk.
func refuse(queue opQueue) {
	for op := queue.pop(); op != nil; op = queue.pop() {
		op.finish(0, op.check())
	}
}

var eventCount = binary.NativeEndian.AppendUint64(nil, 1)

func (r *ringDisk) wakeUp() {
	if _, err := r.wake.Write(eventCount); err != nil && !errors.Is(err, fs.ErrClosed) {
		panic(fmt.Sprintf("disk: waking the io_uring thread: %v", err))
	}
}

// Close implements Disk.
func (r *ringDisk) Close() error {
	r.mutex.Lock()
	again := r.closed
	r.closed = true
	r.asleep = false
	r.mutex.Unlock()
	if again {
		<-r.stopped
		return fmt.Errorf("disk: %w", fs.ErrClosed)
	}
	r.wakeUp()
	<-r.stopped
	r.blocked.Wait()
	return r.wake.Close()
}

// run is the ring thread.
func (r *ringDisk) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ring, err := uring.New(ringEntries)
	started <- err
	if err != nil {
		return
	}
	defer close(r.stopped)
	defer ring.Close()
	r.ring = ring
	r.canTruncate = ring.CanFtruncate()
	for {
		if end := r.takeQueue(); end {
			return
		}
		if err := ring.SubmitAndWait(1, -1); err != nil {
			// Which writes the kernel has taken, and whether it still reads
			// their buffers, can't be known any more. Recovery after a restart
			// is safer than any answer given here.
			panic(fmt.Sprintf("disk: the state of the operations in flight is lost: %v", err))
		}
		ring.ForEachCQE(r.visit)
	}
}

// takeQueue starts what was submitted, as far as slots allow, and decides
// whether submitters must wake the thread (asleep) or it must end.
func (r *ringDisk) takeQueue() (end bool) {
	for {
		r.mutex.Lock()
		r.pending.appendAll(&r.queue)
		if r.pending.head == nil || len(r.free) == 0 {
			break
		}
		r.mutex.Unlock()
		for len(r.free) > 0 {
			op := r.pending.pop()
			if op == nil {
				break
			}
			r.start(op)
		}
	}
	defer r.mutex.Unlock()
	// Without a free slot a wake-up would bring nothing: first a completion.
	r.asleep = len(r.free) > 0
	switch {
	case !r.closed && !r.wakeArmed:
		r.prepared(r.ring.ReadEvent(r.wakeFd, wakeUserData))
		r.wakeArmed = true
	case r.closed && !r.wakeArmed && len(r.free) == len(r.slots):
		// pending is empty: there are free slots.
		r.gone = true
	}
	return r.gone
}

func (r *ringDisk) start(op *Op) {
	if err := op.check(); err != nil {
		op.finish(0, err)
		return
	}
	if op.Kind == Truncate && !r.canTruncate {
		r.blocked.Go(func() {
			n, err := blockingCall(op, op.File.(*file).fd)
			op.finish(n, err)
		})
		return
	}
	if len(op.Buf) == 0 && (op.Kind == Write && !op.SyncAfter || op.Kind == Read) {
		op.finish(0, nil)
		return
	}
	slot := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	s := &r.slots[slot]
	s.op, s.moved, s.retries = op, 0, 0
	s.syncing = op.Kind == Write && len(op.Buf) == 0 // SyncAfter, and nothing to write
	if len(op.Buf) > 0 {
		s.pinner.Pin(&op.Buf[0]) // ignores memory that is not the Go heap's
	}
	r.issue(slot)
}

// issue prepares what is still to do of a slot's Op.
func (r *ringDisk) issue(slot int) {
	s := &r.slots[slot]
	op, userData := s.op, uint64(slot)
	fd := op.File.(*file).fd
	if s.syncing {
		r.prepared(r.ring.Fsync(fd, true, userData))
		return
	}
	switch op.Kind {
	case Write:
		r.prepared(r.ring.Write(fd, op.Buf[s.moved:], op.Pos+int64(s.moved), userData))
	case Read:
		r.prepared(r.ring.Read(fd, op.Buf[s.moved:], op.Pos+int64(s.moved), userData))
	case Sync:
		r.prepared(r.ring.Fsync(fd, true, userData))
	case Truncate:
		r.prepared(r.ring.Ftruncate(fd, op.Pos, userData))
	case Punch:
		r.prepared(r.ring.Fallocate(fd, punchMode, op.Pos, op.Len, userData))
	}
}

// prepared asserts that preparing cannot fail: the submission queue has room for
// every slot, and the operations are older than what uring.New asks for.
func (r *ringDisk) prepared(err error) {
	if err != nil {
		panic(fmt.Sprintf("disk: preparing an operation: %v", err))
	}
}

func (r *ringDisk) complete(c uring.CQE) {
	if c.UserData == wakeUserData {
		r.wakeArmed = false
		return
	}
	slot := int(c.UserData)
	s := &r.slots[slot]
	op := s.op
	err := c.Err()
	switch {
	case err == unix.EINTR, err == unix.EAGAIN && op.Kind <= Read && !s.syncing && s.retries < retriesMax:
		s.retries++
		r.issue(slot)
		return
	case err != nil, s.syncing:
	case op.Kind == Write:
		s.moved += int(c.Res)
		if c.Res == 0 {
			err = io.ErrShortWrite // no progress and no reason: never loop on it
		} else if s.moved < len(op.Buf) || op.SyncAfter {
			s.syncing = s.moved == len(op.Buf)
			r.issue(slot)
			return
		}
	case op.Kind == Read:
		s.moved += int(c.Res)
		if c.Res > 0 && s.moved < len(op.Buf) {
			r.issue(slot)
			return
		}
	}
	moved := s.moved
	s.pinner.Unpin()
	s.op = nil
	r.free = append(r.free, slot)
	op.finish(moved, err)
}

// appendAll moves everything from other to the end of q.
func (q *opQueue) appendAll(other *opQueue) {
	if other.head == nil {
		return
	}
	if q.tail == nil {
		q.head = other.head
	} else {
		q.tail.next = other.head
	}
	q.tail = other.tail
	*other = opQueue{}
}
