package loop

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// acceptMax bounds the connections taken in one turn, so that a flood of them
// does not starve those that are open.
const acceptMax = 64

// acceptPause is how long a listener rests when there are no descriptors left.
const acceptPause = 200 * time.Millisecond

// Listener is a listening TCP socket served by one loop.
type Listener struct {
	fd      int
	addr    netip.AddrPort
	accept  func(fd int, remote netip.AddrPort)
	loop    *Loop
	closing atomic.Bool // Close was called

	// Only on the loop.
	pause     Timer // running while accepting is suspended
	suspended bool  // from running out of descriptors until the next success
	//lint:ignore U1000 it is used in builds with io_uring
	ring *ringPeer
}

// Listen opens a TCP listener; port 0 picks a free port (see Addr). It accepts
// once Serve is called.
func Listen(addr netip.AddrPort) (*Listener, error) {
	family := unix.AF_INET6
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	if addr.Addr().Is4() {
		family = unix.AF_INET
		sa = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	fail := func(err error) (*Listener, error) {
		unix.Close(fd)
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fail(err)
	}
	if err := noDelay(fd); err != nil {
		return fail(err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fail(err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return fail(err)
	}
	return &Listener{fd: fd, addr: addrOf(unix.Getsockname(fd))}, nil
}

// ListenOn takes over a TCP socket that listens already. On an error it stays the
// caller's.
func ListenOn(fd int) (*Listener, error) {
	addr := addrOf(unix.Getsockname(fd))
	if !addr.IsValid() {
		return nil, fmt.Errorf("listen on descriptor %d: it is no TCP socket", fd)
	}
	for _, set := range []func(int) error{noDelay, func(fd int) error { return unix.SetNonblock(fd, true) }} {
		if err := set(fd); err != nil {
			return nil, fmt.Errorf("listen on %v: %w", addr, err)
		}
	}
	return &Listener{fd: fd, addr: addr}, nil
}

// noDelay is for a listening socket: those accepted inherit it. Nagle's algorithm
// would hold back the small frames that end a burst.
func noDelay(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

// Addr is the bound address.
func (ln *Listener) Addr() netip.AddrPort { return ln.addr }

// Serve hands each accepted, non-blocking socket to accept, on loop l. Once, by
// any goroutine.
func (ln *Listener) Serve(l *Loop, accept func(fd int, remote netip.AddrPort)) {
	ln.loop, ln.accept = l, accept
	l.Post(RunnerFunc(func() {
		if ln.closing.Load() {
			return
		}
		if err := l.backend.listen(ln); err != nil {
			l.log.Error("cannot watch the listening socket", "addr", ln.addr, "err", err)
		}
	}))
}

// Close stops accepting. Any goroutine that knows whether Serve was called.
func (ln *Listener) Close() {
	if !ln.closing.CompareAndSwap(false, true) {
		return
	}
	if ln.loop == nil || !ln.loop.post(RunnerFunc(ln.shut)) {
		unix.Close(ln.fd)
	}
}

func (ln *Listener) shut() {
	ln.loop.Disarm(&ln.pause)
	ln.loop.backend.unlisten(ln, true)
}

// acceptReady takes what has arrived.
func (ln *Listener) acceptReady() {
	for range acceptMax {
		fd, remote, err := acceptRaw(ln.fd)
		switch err {
		case 0:
			ln.suspended = false
			ln.accept(fd, remote)
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EAGAIN:
			return
		default:
			// EMFILE, ENFILE, ENOMEM: the socket stays in the backlog.
			ln.suspend(err)
			return
		}
	}
}

// suspend stops accepting for a moment: the socket stays readable, and the
// loop would spin on it. Logged once until it works again.
func (ln *Listener) suspend(err error) {
	l := ln.loop
	if !ln.suspended {
		l.log.Error("cannot accept connections, trying again shortly; raise the limit of open files if this repeats", "addr", ln.addr, "err", err)
	}
	ln.suspended = true
	l.backend.unlisten(ln, false)
	ln.pause.Fire = RunnerFunc(func() {
		if err := l.backend.listen(ln); err != nil {
			ln.suspend(err)
		}
	})
	l.Arm(&ln.pause, acceptPause)
}
