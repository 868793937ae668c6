//go:build uring && linux

package uring

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// This file and buffers_unsafe.go hold all the unsafe code of the package. Why
// it is sound:
//
//   - ringLayout, submissionLayout and completionLayout repeat giouring's
//     structs to reach unexported fields (its exported calls can't submit
//     without a scheduler hand-off). go.sum pins the module; the sizes are
//     compared at compile time, names, types and offsets by a test.
//   - the slices over the entries cover exactly the mapping that giouring made
//     with the counts the kernel wrote into it; Close drops them before it
//     unmaps.
//   - addresses go to the kernel as integers. They name memory outside the Go
//     heap, memory the caller pinned (invariant 2), or fields of the Ring, which
//     is heap-allocated, never moves and is kept alive across the call.

type submissionLayout struct {
	head, tail, ringMask, ringEntries, flags *uint32

	_    [2]*uint32 // dropped, array
	sqes *giouring.SubmissionQueueEntry
	_    uint           // ringSize
	_    unsafe.Pointer // ringPtr
	_    [4]uint32      // sqeHead, sqeTail, pad
}

type completionLayout struct {
	head, tail, ringMask, ringEntries *uint32

	_    [2]*uint32 // flags, overflow
	cqes *giouring.CompletionQueueEvent
	_    uint           // ringSize
	_    unsafe.Pointer // ringPtr
	_    [2]uint32      // pad
}

type ringLayout struct {
	sqRing   *submissionLayout
	cqRing   *completionLayout
	_        uint32 // flags
	ringFd   int
	features uint32
	_        int      // enterRingFd
	_        [8]uint8 // intFlags, pad, pad2
}

var (
	_ [unsafe.Sizeof(giouring.Ring{})]byte            = [unsafe.Sizeof(ringLayout{})]byte{}
	_ [unsafe.Sizeof(giouring.SubmissionQueue{})]byte = [unsafe.Sizeof(submissionLayout{})]byte{}
	_ [unsafe.Sizeof(giouring.CompletionQueue{})]byte = [unsafe.Sizeof(completionLayout{})]byte{}
	_ [64]byte                                        = [unsafe.Sizeof(giouring.SubmissionQueueEntry{})]byte{}
	_ [16]byte                                        = [unsafe.Sizeof(giouring.CompletionQueueEvent{})]byte{}
	_ [24]byte                                        = [unsafe.Sizeof(waitArgument{})]byte{}
)

// kernelTimespec is struct __kernel_timespec: 64-bit on every architecture.
type kernelTimespec struct {
	seconds, nanoseconds int64
}

func timespecOf(d time.Duration) kernelTimespec {
	return kernelTimespec{int64(d / time.Second), int64(d % time.Second)}
}

// waitArgument is struct io_uring_getevents_arg.
type waitArgument struct {
	signalMask      uint64
	signalMaskBytes uint32
	minWaitMicros   uint32
	timespecAddress uint64
}

// attach finds the shared memory of a ring that giouring has set up.
func (r *Ring) attach() {
	layout := (*ringLayout)(unsafe.Pointer(r.inner))
	submission, completion := layout.sqRing, layout.cqRing
	r.fd = layout.ringFd
	r.features = layout.features
	r.sqHead, r.sqTail, r.sqFlags = submission.head, submission.tail, submission.flags
	r.sqes = unsafe.Slice(submission.sqes, *submission.ringEntries)
	r.sqMask = *submission.ringMask
	r.cqHead, r.cqTail = completion.head, completion.tail
	r.cqes = unsafe.Slice(completion.cqes, *completion.ringEntries)
	r.cqMask = *completion.ringMask
	r.timespecs = make([]kernelTimespec, len(r.sqes))
	r.waitArgument.timespecAddress = addressOf(&r.waitTimespec)
}

// enter is io_uring_enter by a raw system call: it must not be asked to wait.
func (r *Ring) enter(submit, flags uint32) (uint32, syscall.Errno) {
	taken, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), 0, uintptr(flags), 0, 0)
	return uint32(taken), errno
}

// enterBlocking is io_uring_enter for a call that may sleep. timeout < 0 waits
// without limit.
func (r *Ring) enterBlocking(submit, wait, flags uint32, timeout time.Duration) (uint32, syscall.Errno) {
	if timeout < 0 {
		taken, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(wait), uintptr(flags), 0, 0)
		return uint32(taken), errno
	}
	r.waitTimespec = timespecOf(timeout)
	taken, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(wait),
		uintptr(flags|giouring.EnterExtArg), uintptr(unsafe.Pointer(&r.waitArgument)), unsafe.Sizeof(r.waitArgument))
	runtime.KeepAlive(r)
	return uint32(taken), errno
}

// readySQEs makes the prepared entries visible to the kernel and returns how
// many it has not taken yet.
func (r *Ring) readySQEs() uint32 {
	atomic.StoreUint32(r.sqTail, r.sqNext)
	return r.sqNext - atomic.LoadUint32(r.sqHead)
}

func addressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func addressOfBytes(buf []byte) uint64 { return addressOf(unsafe.SliceData(buf)) }
