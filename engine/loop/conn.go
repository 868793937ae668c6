package loop

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// CloseAfterDrain waits lingerStep for the peer to close, too, and again while
// the peer has taken some of what is on its way, at most lingerStepsMax times.
const (
	lingerStep     = 2 * time.Second
	lingerStepsMax = 5
)

// linger is the state of a connection that waits for its peer's end.
type linger struct {
	conn   *Conn
	timer  Timer
	steps  int
	unsent int // bytes in the socket at the last look
}

// Conn is a stream socket served by one loop.
type Conn struct {
	loop    *Loop
	handler Handler
	local   address
	remote  address

	out    *arena.Buf // being written; nil when none
	outPos int
	outEnd int

	desc int32 // the socket
	// poll is epoll's own: the armed event mask, or pollDetached.
	poll      uint32
	paused    bool
	closing   bool // linger once the outstanding write has left
	last      bool // CloseAfterDrain follows the write that is outstanding
	lingering bool // nothing more is sent; input is discarded until its end
	ended     bool // the peer has closed, while closing waits for the write
	dead      bool
	err       error
	linger    *linger  // while lingering
	over      *layered // a layer between socket and handler; nil: none

	// The state of the backend for io_uring.
	//lint:ignore U1000 it is used in builds with io_uring
	ring *ringPeer
}

// Adopt takes a connected non-blocking socket over: the loop owns fd from now
// on and closes it. makeHandler runs on the loop, unless that has ended. Any
// goroutine.
func (l *Loop) Adopt(fd int, makeHandler func(*Conn) Handler) {
	l.conns.Add(1) // at once, so that balancing sees it
	if !l.post(RunnerFunc(func() { l.adopt(fd, makeHandler) })) {
		l.conns.Add(-1)
		unix.Close(fd)
	}
}

func (l *Loop) adopt(fd int, makeHandler func(*Conn) Handler) {
	l.serve(l.newConn(fd, netip.AddrPort{}, netip.AddrPort{}), makeHandler)
}

// newConn asks the socket for an address that is not valid.
func (l *Loop) newConn(fd int, remote, local netip.AddrPort) *Conn {
	if !remote.IsValid() {
		remote = addrOf(unix.Getpeername(fd))
	}
	if !local.IsValid() {
		local = addrOf(unix.Getsockname(fd))
	}
	return &Conn{loop: l, desc: int32(fd), remote: addressOf(remote), local: addressOf(local)}
}

// serve begins with a connection on its loop.
func (l *Loop) serve(c *Conn, makeHandler func(*Conn) Handler) {
	l.open.add(c)
	// Watched first: makeHandler may write and pause already.
	if err := l.backend.add(c); err != nil {
		c.fail(fmt.Errorf("loop: cannot watch the socket: %w", err))
	}
	c.handler = makeHandler(c)
}

func (c *Conn) fd() int { return int(c.desc) }

// Loop returns the owning loop.
func (c *Conn) Loop() *Loop { return c.loop }

// Remote is the peer's address; invalid for unix sockets.
func (c *Conn) Remote() netip.AddrPort { return c.remote.addrPort() }

// Local is the address of this side.
func (c *Conn) Local() netip.AddrPort { return c.local.addrPort() }

// Write sends the first n bytes of buf. It returns true when they have left
// already: buf is the caller's again. Otherwise the loop holds it until
// Drained, and no other Write may be made before. On a connection that is
// closing or dead (Closed follows) nothing is sent, and it returns true.
func (c *Conn) Write(buf *arena.Buf, n int) bool {
	if c.over == nil && c.out != nil {
		panic("loop: two writes outstanding on one connection")
	}
	if c.dead || c.lingering {
		return true
	}
	if c.over != nil {
		return c.writeLayered(buf, n)
	}
	c.out, c.outPos, c.outEnd = buf, 0, n
	done, err := c.loop.backend.write(c)
	if err != nil {
		c.fail(err)
		done = true
	}
	if done {
		c.out = nil
	}
	return done
}

// WriteLast is Write and then CloseAfterDrain: nothing follows buf, so that the
// end of this direction leaves in the packet of its last bytes, and the peer is
// woken once. What it returns, and whose the buffer is, is as with Write; there
// is no Drained.
func (c *Conn) WriteLast(buf *arena.Buf, n int) bool {
	c.last = !c.dead && !c.lingering
	done := c.Write(buf, n)
	c.CloseAfterDrain()
	return done
}

// sendFlags are for the next write to the socket: the last one is kept back
// until startLinger ends the direction.
func (c *Conn) sendFlags() uintptr {
	if c.last {
		return unix.MSG_MORE
	}
	return 0
}

// Writing says whether a write is outstanding.
func (c *Conn) Writing() bool {
	if c.over != nil {
		return c.over.plain != nil
	}
	return c.out != nil
}

// PauseRead stops reading from the socket (invariant 5).
func (c *Conn) PauseRead() {
	if !c.paused && !c.dead && !c.closing {
		c.paused = true
		c.loop.backend.interest(c)
	}
}

// ResumeRead undoes PauseRead.
func (c *Conn) ResumeRead() {
	if !c.dead && !c.closing {
		c.readAgain()
		if c.over != nil {
			c.over.resumed()
		}
	}
}

// Paused says whether reading is paused.
func (c *Conn) Paused() bool { return c.paused }

// CloseAfterDrain closes the socket when the outstanding write, if any, has
// left and the peer has had its chance to read it (invariant 6). The handler
// gets no other call than Closed from now on; the loop releases the buffer of
// the outstanding write.
func (c *Conn) CloseAfterDrain() {
	if c.dead || c.closing {
		return
	}
	c.closing = true
	if c.out == nil {
		if c.over != nil {
			c.endLayer()
		} else {
			c.startLinger()
		}
	}
	if c.out == nil {
		return
	}
	// A peer may not read before its own writing gets on.
	c.readAgain()
}

// Close closes the socket now, dropping what has not been sent.
func (c *Conn) Close() { c.fail(ErrClosed) }

// startLinger ends this side's direction and waits for the other's end.
func (c *Conn) startLinger() {
	if err := unix.Shutdown(c.fd(), unix.SHUT_WR); err != nil || c.ended {
		c.fail(ErrClosed)
		return
	}
	c.lingering = true
	c.linger = &linger{conn: c, unsent: unsentBytes(c.fd())}
	c.linger.timer.Fire = c.linger
	c.loop.Arm(&c.linger.timer, lingerStep)
	c.readAgain()
}

// Run is due when the peer has not closed for a while.
func (g *linger) Run() {
	unsent := unsentBytes(g.conn.fd())
	if g.steps++; g.steps == lingerStepsMax || unsent >= g.unsent {
		g.conn.Close()
		return
	}
	g.unsent = unsent
	g.conn.loop.Arm(&g.timer, lingerStep)
}

// unsentBytes is how much the peer has not confirmed yet.
func unsentBytes(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func (c *Conn) readAgain() {
	if c.paused {
		c.paused = false
		c.loop.backend.interest(c)
	}
}

// received passes input on, unless nobody wants it any more.
func (c *Conn) received(data []byte) {
	c.loop.stats.BytesRead += uint64(len(data))
	switch {
	case c.closing:
	case c.over != nil:
		c.decode(data)
	default:
		c.handler.Input(data)
	}
}

// endOfInput is called by the backend when the peer has closed its direction.
func (c *Conn) endOfInput() {
	if c.closing && c.out != nil {
		c.ended, c.paused = true, true // it may still read
		return
	}
	c.fail(io.EOF)
}

// drained is called by the backend when the outstanding write is done.
func (c *Conn) drained() {
	if c.over != nil {
		c.drainedLayered()
		return
	}
	buf := c.out
	c.out = nil
	if c.closing {
		buf.Release()
		c.startLinger()
		return
	}
	c.handler.Drained()
}

// fail marks the connection dead; its handler hears of it at the end of the
// turn.
func (c *Conn) fail(err error) {
	if c.dead {
		return
	}
	if c.lingering {
		err = ErrClosed
	}
	c.dead = true
	c.err = err
	c.loop.dead = append(c.loop.dead, c)
}

func (c *Conn) bury() {
	l := c.loop
	l.backend.remove(c)
	if c.out != nil {
		c.out.Release()
		c.out = nil
	}
	if c.over != nil {
		c.over.drop()
	}
	if c.linger != nil {
		l.Disarm(&c.linger.timer)
	}
	l.open.remove(c)
	l.conns.Add(-1)
	c.handler.Closed(c.err)
}

func addrOf(sa unix.Sockaddr, err error) netip.AddrPort {
	if err != nil {
		return netip.AddrPort{}
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
