package loop

import (
	"net/netip"
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

// acceptRaw takes a connection from a non-blocking listener, non-blocking too.
// Soundness: the kernel writes at most n bytes to sa, which is of the size that
// any address fits; it is read as what its family says.
func acceptRaw(fd int) (int, netip.AddrPort, unix.Errno) {
	var sa unix.RawSockaddrAny
	n := uint32(unix.SizeofSockaddrAny)
	got, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&n)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if e != 0 {
		return -1, netip.AddrPort{}, e
	}
	port := func(p *uint16) uint16 { // in network order
		b := (*[2]byte)(unsafe.Pointer(p))
		return uint16(b[0])<<8 | uint16(b[1])
	}
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sa))
		return int(got), netip.AddrPortFrom(netip.AddrFrom4(in.Addr), port(&in.Port)), 0
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&sa))
		return int(got), netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), port(&in.Port)), 0
	}
	return int(got), netip.AddrPort{}, 0
}

func epollPoll(epfd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), e
}
