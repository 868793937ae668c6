package loop

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

const (
	// readBytesMax is the size of the receive buffer a loop lends its
	// connections: one read of a busy publisher fills batches for several queues.
	readBytesMax = arena.BufBytesMax
	eventsMax    = 128
	// pollDetached is the mask of a connection that epoll does not watch: paused,
	// and hung up by its peer, which can't be masked.
	pollDetached = ^uint32(0)
)

// epoll is the portable backend: level-triggered epoll, read(2), send(2).
type epoll struct {
	loop      *Loop
	fd        int
	eventFD   int
	events    [eventsMax]unix.EpollEvent
	ready     int        // how many of events are to be handled
	recv      *arena.Buf // taken while there is input, given back when idle
	listeners map[int32]*Listener
}

func newEpoll(l *Loop) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("loop: epoll_create1: %w", err)
	}
	eventFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("loop: eventfd: %w", err)
	}
	e := &epoll{loop: l, fd: fd, eventFD: eventFD, listeners: map[int32]*Listener{}}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(eventFD)}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, eventFD, &ev); err != nil {
		e.close()
		return nil, fmt.Errorf("loop: epoll_ctl: %w", err)
	}
	return e, nil
}

func (e *epoll) name() string { return "epoll" }

func (e *epoll) poll() (bool, error) {
	n, errno := epollPoll(e.fd, e.events[:])
	e.ready = n
	if errno != 0 {
		e.ready = 0
		if errno != unix.EINTR {
			return false, os.NewSyscallError("epoll_wait", errno)
		}
	}
	return e.ready > 0, nil
}

// sleepMillisMax fits the int that epoll_wait takes; longer sleeps are broken up.
const sleepMillisMax = math.MaxInt32

func (e *epoll) sleep(timeout time.Duration) error {
	e.releaseRecv()
	ms := -1
	if timeout >= 0 {
		ms = int(min((timeout+time.Millisecond-1)/time.Millisecond, sleepMillisMax))
	}
	n, err := unix.EpollWait(e.fd, e.events[:], ms)
	if err == unix.EINTR {
		n, err = 0, nil
	}
	e.ready = max(n, 0)
	return os.NewSyscallError("epoll_wait", err)
}

func (e *epoll) dispatch() {
	for i := range e.ready {
		e.handle(&e.events[i])
	}
	e.ready = 0
}

func (e *epoll) handle(ev *unix.EpollEvent) {
	if c := e.loop.open.get(ev.Fd); c != nil {
		if ev.Events&unix.EPOLLOUT != 0 && !c.dead {
			e.writable(c)
		}
		if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0 && !c.dead {
			e.readable(c, ev.Events)
		}
		return
	}
	if ev.Fd == int32(e.eventFD) {
		var b [8]byte
		_, _ = unix.Read(e.eventFD, b[:])
		e.loop.stats.Wakeups++
		return
	}
	if ln := e.listeners[ev.Fd]; ln != nil {
		ln.acceptReady()
	}
}

func (e *epoll) readable(c *Conn, events uint32) {
	if c.paused {
		switch {
		case events&unix.EPOLLERR != 0:
			c.fail(socketError(c.fd()))
		case events&unix.EPOLLHUP != 0:
			e.detach(c)
		default:
			e.arm(c) // a late event, or the lazy part of PauseRead
		}
		return
	}
	if e.recv == nil {
		e.recv = e.loop.pool.Get(readBytesMax)
	}
	into := e.recv.Bytes()
	if c.over != nil {
		into = into[:layerReadMax]
	}
	n, errno := readRaw(c.fd(), into)
	switch {
	case errno == 0 && n > 0:
		c.received(e.recv.Bytes()[:n])
	case errno == 0:
		c.endOfInput()
	case errno == unix.EAGAIN || errno == unix.EINTR:
	default:
		c.fail(fmt.Errorf("loop: read: %w", errno))
	}
}

func (e *epoll) writable(c *Conn) {
	done, err := e.write(c)
	switch {
	case err != nil:
		c.fail(err)
	case done:
		e.arm(c)
		c.drained()
	}
}

func (e *epoll) write(c *Conn) (bool, error) {
	for c.outPos < c.outEnd {
		n, errno := writeRaw(c.fd(), c.out.Bytes()[c.outPos:c.outEnd], c.sendFlags())
		if errno != 0 {
			if errno == unix.EINTR {
				continue
			}
			if errno == unix.EAGAIN {
				e.arm(c)
				return false, nil
			}
			return false, fmt.Errorf("loop: write: %w", errno)
		}
		c.outPos += n
		e.loop.stats.BytesSent += uint64(n)
	}
	return true, nil
}

func (e *epoll) interest(c *Conn) {
	// Pausing is lazy: most pauses end before the next event.
	if !c.paused {
		e.arm(c)
	}
}

// arm brings the kernel's event mask in line with what c waits for.
func (e *epoll) arm(c *Conn) {
	var mask uint32
	if !c.paused {
		mask |= unix.EPOLLIN
	}
	if c.out != nil && c.outPos < c.outEnd {
		mask |= unix.EPOLLOUT
	}
	op := unix.EPOLL_CTL_MOD
	if c.poll == pollDetached {
		if mask == 0 {
			return
		}
		op = unix.EPOLL_CTL_ADD
	}
	if mask == c.poll {
		return
	}
	ev := unix.EpollEvent{Events: mask, Fd: c.desc}
	if err := unix.EpollCtl(e.fd, op, c.fd(), &ev); err != nil {
		c.fail(os.NewSyscallError("epoll_ctl", err))
		return
	}
	c.poll = mask
}

// detach stops watching c until it reads or writes again; its input stays in
// the socket.
func (e *epoll) detach(c *Conn) {
	if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, c.fd(), nil); err != nil {
		c.fail(os.NewSyscallError("epoll_ctl", err))
		return
	}
	c.poll = pollDetached
}

func (e *epoll) add(c *Conn) error {
	c.poll = unix.EPOLLIN
	ev := unix.EpollEvent{Events: c.poll, Fd: c.desc}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, c.fd(), &ev))
}

func (e *epoll) remove(c *Conn) {
	unix.Close(c.fd())
}

func (e *epoll) listen(ln *Listener) error {
	e.listeners[int32(ln.fd)] = ln
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(ln.fd)}
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, ln.fd, &ev)
}

func (e *epoll) unlisten(ln *Listener, closing bool) {
	delete(e.listeners, int32(ln.fd))
	_ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, ln.fd, nil)
	if closing {
		unix.Close(ln.fd)
	}
}

func (e *epoll) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(e.eventFD, one[:])
}

func (e *epoll) releaseRecv() {
	if e.recv != nil {
		e.recv.Release()
		e.recv = nil
	}
}

func (e *epoll) close() {
	e.releaseRecv()
	unix.Close(e.eventFD)
	unix.Close(e.fd)
}

func socketError(fd int) error {
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
		return fmt.Errorf("loop: socket: %w", unix.Errno(code))
	}
	return io.EOF
}
