//go:build uring && linux

package uring

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// Opcodes newer than giouring, from include/uapi/linux/io_uring.h.
const opFtruncate = 55 // Linux 6.9

// transferBytesMax bounds one read or write; the kernel moves at most 2 GiB less
// a page at once, and completes short.
const transferBytesMax = 1 << 30

// push queues one whole entry: nothing of the slot's previous user stays.
func (r *Ring) push(entry giouring.SubmissionQueueEntry) error {
	if !r.supported[entry.OpCode] {
		return fmt.Errorf("uring: operation %d: %w by this kernel", entry.OpCode, errors.ErrUnsupported)
	}
	slot, err := r.slot()
	if err != nil {
		return err
	}
	r.sqes[slot] = entry
	r.sqNext++
	return nil
}

// slot is the index of the entry to fill next, after making room.
func (r *Ring) slot() (uint32, error) {
	if r.Queued() == len(r.sqes) {
		if err := r.Submit(); err != nil {
			return 0, err
		}
		if r.Queued() == len(r.sqes) {
			return 0, ErrFull
		}
	}
	return r.sqNext & r.sqMask, nil
}

func clampedLen(buf []byte) uint32 { return uint32(min(len(buf), transferBytesMax)) }

// Nop completes with 0.
func (r *Ring) Nop(userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpNop, Fd: -1, UserData: userData})
}

// Read completes with the bytes read into buf from pos; 0 at the end of the
// file. Reads may be short.
func (r *Ring) Read(fd int, buf []byte, pos int64, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpRead, Fd: int32(fd), Off: uint64(pos), Addr: addressOfBytes(buf), Len: clampedLen(buf), UserData: userData})
}

// Write completes with the bytes of buf written at pos. Writes may be short.
func (r *Ring) Write(fd int, buf []byte, pos int64, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpWrite, Fd: int32(fd), Off: uint64(pos), Addr: addressOfBytes(buf), Len: clampedLen(buf), UserData: userData})
}

// Fsync completes with 0 when the file is on stable storage; dataOnly is
// fdatasync.
func (r *Ring) Fsync(fd int, dataOnly bool, userData uint64) error {
	entry := giouring.SubmissionQueueEntry{OpCode: giouring.OpFsync, Fd: int32(fd), UserData: userData}
	if dataOnly {
		entry.OpcodeFlags = giouring.FsyncDatasync
	}
	return r.push(entry)
}

// Fallocate is fallocate(2) with a mode of unix.FALLOC_FL_*.
func (r *Ring) Fallocate(fd int, mode uint32, pos, length int64, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpFallocate, Fd: int32(fd), Off: uint64(pos), Addr: uint64(length), Len: mode, UserData: userData})
}

// CanFtruncate reports whether Ftruncate works here (Linux 6.9).
func (r *Ring) CanFtruncate() bool { return r.supported[opFtruncate] }

// Ftruncate sets the size of a file. Where the kernel lacks it, the error
// matches errors.ErrUnsupported and the caller uses ftruncate(2).
func (r *Ring) Ftruncate(fd int, size int64, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: opFtruncate, Fd: int32(fd), Off: uint64(size), UserData: userData})
}

// RecvMultishot receives into buffers of a registered group until the peer
// closes (Res 0), the group is empty (ENOBUFS), or CQE.More is false for another
// reason.
func (r *Ring) RecvMultishot(fd int, group uint16, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpRecv, Fd: int32(fd), Flags: giouring.SqeBufferSelect, IoPrio: giouring.RecvMultishot, BufIG: group, UserData: userData})
}

// Send completes with the bytes of buf sent. flags are unix.MSG_*; a closed peer
// gives EPIPE, never a signal.
func (r *Ring) Send(fd int, buf []byte, flags uint32, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpSend, Fd: int32(fd), Addr: addressOfBytes(buf), Len: clampedLen(buf), OpcodeFlags: flags | unix.MSG_NOSIGNAL, UserData: userData})
}

// AcceptMultishot completes once per connection with its descriptor
// (close-on-exec), until CQE.More is false.
func (r *Ring) AcceptMultishot(fd int, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpAccept, Fd: int32(fd), IoPrio: giouring.AcceptMultishot, OpcodeFlags: unix.SOCK_CLOEXEC, UserData: userData})
}

// PollAdd completes with the events that occurred, of unix.POLL* asked for:
// once, or with multishot each time while CQE.More.
func (r *Ring) PollAdd(fd int, events uint32, multishot bool, userData uint64) error {
	entry := giouring.SubmissionQueueEntry{OpCode: giouring.OpPollAdd, Fd: int32(fd), OpcodeFlags: pollWord(events), UserData: userData}
	if multishot {
		entry.Len = giouring.PollAddMulti
	}
	return r.push(entry)
}

// Message posts a completion {targetUserData, result} on another ring, and
// completes here with 0.
func (r *Ring) Message(ringFd int, result int32, targetUserData, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpMsgRing, Fd: int32(ringFd), Addr: uint64(giouring.MsgData), Len: uint32(result), Off: targetUserData, UserData: userData})
}

// Cancel ends the operation with user data target, which completes with
// ECANCELED; completes itself with 0, ENOENT (none found) or EALREADY (running).
func (r *Ring) Cancel(target, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpAsyncCancel, Fd: -1, Addr: target, UserData: userData})
}

// CloseFile closes a descriptor and completes with 0.
func (r *Ring) CloseFile(fd int, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpClose, Fd: int32(fd), UserData: userData})
}

// Shutdown is shutdown(2) with unix.SHUT_*.
func (r *Ring) Shutdown(fd, how int, userData uint64) error {
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpShutdown, Fd: int32(fd), Len: uint32(how), UserData: userData})
}

// Timeout completes with ETIME after a duration.
func (r *Ring) Timeout(after time.Duration, userData uint64) error {
	slot, err := r.slot() // the kernel reads the value while it takes the entry
	if err != nil {
		return err
	}
	r.timespecs[slot] = timespecOf(max(after, 0))
	return r.push(giouring.SubmissionQueueEntry{OpCode: giouring.OpTimeout, Fd: -1, Addr: addressOf(&r.timespecs[slot]), Len: 1, UserData: userData})
}

// ReadEvent completes with 8 when the counter of a blocking eventfd is not zero,
// and resets it. (On one opened with EFD_NONBLOCK it would complete with EAGAIN
// at once.) The value is not kept: it only says "something".
func (r *Ring) ReadEvent(fd int, userData uint64) error {
	return r.Read(fd, r.eventCount[:], 0, userData)
}
