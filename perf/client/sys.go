package client

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This is the package's only file with unsafe. The conversions are sound: each
// uintptr(unsafe.Pointer(…)) stands in the argument list of the system call
// itself, which the rules of package unsafe (pattern 4) name as the place
// where the pointer stays valid, and the length passed is that of the slice.
//
// RawSyscall is used because these calls do not block (non-blocking sockets;
// for pollEvents see there): telling the scheduler about them costs about 50 ns each, and
// a copy of 128 KiB takes long enough for the scheduler to give the thread's
// processor away in the middle of it. Calls that may block use package unix.

// readNow reads from a non-blocking descriptor. n is 0 at the end of the
// stream; errno is EAGAIN when there is nothing to read.
func readNow(fd int, into []byte) (n int, errno unix.Errno) {
	if len(into) == 0 {
		return 0, unix.EINVAL
	}
	r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// writeNow writes to a non-blocking descriptor, as much as it takes.
func writeNow(fd int, from []byte) (n int, errno unix.Errno) {
	if len(from) == 0 {
		return 0, 0
	}
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// pollEvents asks an epoll instance for events and waits for them at most
// timeoutMillis. It may block, and is raw all the same: a thread that sleeps
// in an announced system call has its processor taken and given back at every
// wake-up, and keeps the runtime's monitor polling every 20 us, which together
// cost more than a paced client's own work. The price is that a stop of the
// world has to wait for the call to end: it is ended by the runtime's
// preemption signal (epoll_wait is never restarted), and where the signal came
// a moment too early, by the timeout.
func pollEvents(fd int, events []unix.EpollEvent, timeoutMillis int) (n int, errno unix.Errno) {
	if len(events) == 0 {
		return 0, unix.EINVAL
	}
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(timeoutMillis), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}
