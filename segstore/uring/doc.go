// Package uring is a small, typed io_uring: the only importer of giouring.
//
// It exists in builds with the tag "uring" on Linux, which must be linked with
// -ldflags=-checklinkname=0 because giouring reaches into package syscall.
// Without the tag only Probe and Built remain, and say so.
//
// From giouring come the ring set-up and tear-down, registration, and the
// layouts of submission and completion entries. Its Prepare helpers are not
// used: several pass the address of a slice header, and all of them leave the
// op-specific flags of the slot's previous user in place, so that a write
// prepared where a datasync stood would ask for high-priority polling. Every
// operation here fills a whole entry (ops.go).
//
// How a loop uses a Ring:
//
//	runtime.LockOSThread()
//	ring, err := uring.New(256)
//	for {
//		ring.Write(fd, buf, pos, userData)       // any number of operations
//		ring.SubmitAndWait(1, -1)                // or Submit while busy
//		ring.ForEachCQE(func(c uring.CQE) {...}) // may prepare more
//	}
//
// Invariants:
//
//  1. A Ring is made, used and closed on one locked OS thread; the kernel
//     checks it (EEXIST) where it knows single-issuer rings.
//  2. Memory named by an operation (Read, Write, Send, buffer groups) stays
//     valid and in place until its completion: off-heap memory, or Go memory
//     held by a runtime.Pinner. What an operation needs beside that (timeout
//     values, the counter of an eventfd) lives in the Ring.
//  3. No completion is lost: the kernel keeps what the completion queue can't
//     take (NODROP is required), and ForEachCQE fetches it.
//  4. An interrupted system call (EINTR: the Go runtime preempts by signals) is
//     repeated, or reported as "woke early" when there is a timeout.
//  5. Operations that can't be queued because the submission queue is full are
//     submitted first; only a kernel that takes nothing more (EAGAIN: it is out
//     of memory) makes an operation fail with ErrFull, with nothing queued.
//
// Waiting: Submit never sleeps and bypasses the Go scheduler (a raw system
// call), for a loop that is busy. SubmitAndWait tells the scheduler that the
// thread may block.
package uring

import (
	"errors"
	"fmt"
)

// UnavailableError says why this machine offers no usable io_uring. It matches
// errors.ErrUnsupported: the caller may fall back. Any other error of New or
// Probe is a fault to report.
type UnavailableError struct {
	Cause error  // a syscall.Errno, or nil when built without io_uring
	Hint  string // what is likely behind it
}

func (e *UnavailableError) Error() string {
	if e.Cause == nil {
		return "io_uring is not available: " + e.Hint
	}
	return fmt.Sprintf("io_uring is not available: %v: %s", e.Cause, e.Hint)
}

func (e *UnavailableError) Unwrap() error { return e.Cause }

// Is reports whether target is errors.ErrUnsupported.
func (e *UnavailableError) Is(target error) bool { return target == errors.ErrUnsupported }
