package loop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions here make non-blocking system calls without telling the Go
// scheduler (RawSyscall): a transfer of a few dozen microseconds must not cost
// the loop its processor. Soundness: every pointer passed is to memory that
// outlives the call (an off-heap buffer, or an element of a slice that the
// caller holds), and the kernel keeps none of them.

func readRaw(fd int, p []byte) (int, unix.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), e
}

func writeRaw(fd int, p []byte, flags uintptr) (int, unix.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT|flags, 0, 0)
	return int(n), e
}

func epollPoll(epfd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), e
}
