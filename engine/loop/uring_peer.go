//go:build uring && linux

package loop

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/uring"
)

// User data of an operation:
//
//	bits  0..31  index of the ringPeer
//	bits 32..55  its generation: a completion that came too late for it would
//	             not find the next user of the index
//	bits 56..63  the operation
const (
	opReceive = iota + 1
	opSend
	opPoll
	opCancel        // of a peer that is gone
	opCancelReceive // of a pause
	opWake
)

const (
	generationMask = 1<<24 - 1
	wakeUserData   = opWake << 56
)

// ringPeer is what the kernel works for: a connection's socket or a listening
// one. It stays after their end until the last completion has come.
type ringPeer struct {
	conn       *Conn     // nil: a listener, or gone
	listener   *Listener // nil: a connection, or gone
	fd         int
	index      uint32
	generation uint32
	inFlight   int    // operations whose last completion is due
	spokeIn    uint64 // the last turn with input

	receiving  bool // a multishot receive, or a listener's poll, is outstanding
	cancelling bool // so is the cancelling of the receive
	sending    bool // so is a Send
	changed    bool // in ring.changed
	due        bool // in ring.due
	gone       bool // the connection or the listener is

	// Kept while reading is paused; held comes before end.
	held     []heldInput
	heldFrom int // the first of held that was not delivered yet
	end      error

	buf *arena.Buf // of a Send that outlives its connection
}

// heldInput is received bytes that nobody wanted yet.
type heldInput struct {
	buf   *arena.Buf
	bytes int
}

func (p *ringPeer) userData(operation uint64) uint64 {
	return operation<<56 | uint64(p.generation&generationMask)<<32 | uint64(p.index)
}

func (r *ring) newPeer(fd int) *ringPeer {
	r.lives++
	p := &ringPeer{fd: fd, generation: r.lives}
	if n := len(r.free); n > 0 {
		p.index = r.free[n-1]
		r.free = r.free[:n-1]
		r.peers[p.index] = p
	} else {
		p.index = uint32(len(r.peers))
		r.peers = append(r.peers, p)
	}
	return p
}

func (r *ring) peerOf(userData uint64) (operation uint64, p *ringPeer) {
	index, generation := uint32(userData), uint32(userData>>32)&generationMask
	if int(index) < len(r.peers) {
		p = r.peers[index]
	}
	if p != nil && p.generation&generationMask != generation {
		p = nil
	}
	return userData >> 56, p
}

func (r *ring) begin(p *ringPeer) {
	p.inFlight++
	r.inFlight++
}

// retire forgets a peer that is gone once the kernel is done with it.
func (r *ring) retire(p *ringPeer) {
	if !p.gone || p.inFlight > 0 || r.peers[p.index] != p {
		return
	}
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
	r.peers[p.index] = nil
	r.free = append(r.free, p.index)
}

func (r *ring) add(c *Conn) error {
	p := r.newPeer(c.fd())
	p.conn, c.ring = c, p
	return r.receive(p)
}

// remove hides the connection from completions to come, and ends its operations.
func (r *ring) remove(c *Conn) {
	p := c.ring
	p.conn, p.gone = nil, true
	if p.sending {
		p.buf, c.out = c.out, nil
		r.cancel(p, opSend)
	}
	if p.receiving && !p.cancelling {
		r.cancel(p, opReceive)
	}
	for _, h := range p.held[p.heldFrom:] {
		h.buf.Release()
	}
	p.held, p.heldFrom = nil, 0
	r.retire(p)
}

// cancel ends an operation for good.
func (r *ring) cancel(p *ringPeer, operation uint64) {
	if err := r.ring.Cancel(p.userData(operation), p.userData(opCancel)); err != nil {
		r.hangUp(p) // the kernel takes no operation now
		return
	}
	r.begin(p)
}

// hangUp ends what the peer's operations wait for, a listener's poll too.
func (r *ring) hangUp(p *ringPeer) { _ = unix.Shutdown(p.fd, unix.SHUT_RDWR) }

// receive arms the multishot receive.
func (r *ring) receive(p *ringPeer) error {
	if p.receiving || p.cancelling {
		return nil // its end will lead here again
	}
	if err := r.ring.RecvMultishot(p.fd, recvGroup, p.userData(opReceive)); err != nil {
		return err
	}
	p.receiving = true
	r.begin(p)
	return nil
}

// interest notes that c wants to read, or no longer does. Nothing is done at
// once: most pauses end in the same turn.
func (r *ring) interest(c *Conn) { r.change(c.ring) }

func (r *ring) change(p *ringPeer) {
	if !p.changed {
		p.changed = true
		r.changed = append(r.changed, p)
	}
}

// settle makes the kernel receive for those that read, and for nobody else.
func (r *ring) settle() {
	for i := 0; i < len(r.changed); i++ {
		p := r.changed[i]
		r.changed[i] = nil
		p.changed = false
		if c := p.conn; c != nil && !c.dead {
			r.settlePeer(p, c)
		}
	}
	r.changed = r.changed[:0]
}

func (r *ring) settlePeer(p *ringPeer, c *Conn) {
	switch {
	case c.paused:
		if !p.receiving || p.cancelling {
			return
		}
		// On an error the receive goes on, and its input is kept: the next one
		// brings us here again.
		if r.ring.Cancel(p.userData(opReceive), p.userData(opCancelReceive)) == nil {
			p.cancelling = true
			r.begin(p)
		}
	case len(p.held) > 0 || p.end != nil:
		if !p.due {
			p.due = true
			r.due = append(r.due, p)
		}
	default:
		if err := r.receive(p); err != nil {
			c.fail(err)
		}
	}
}

// cancelDone: whether the receive has ended or not (it may have been at work at
// the time), settle looks at it again.
func (r *ring) cancelDone(p *ringPeer) {
	p.cancelling = false
	if p.gone {
		if p.receiving {
			r.cancel(p, opReceive)
		}
	} else {
		r.change(p)
	}
}

func (r *ring) receiveDone(p *ringPeer, cqe uring.CQE) {
	if !cqe.More() {
		p.receiving = false
	}
	id, lent := cqe.BufferID()
	if c := p.conn; c != nil && !c.dead {
		if lent && cqe.Res > 0 {
			r.dirty = true
			if turn := r.loop.stats.Turns; p.spokeIn != turn {
				p.spokeIn = turn
				r.speakers++
			}
			r.input(p, c, r.group.Buffer(id)[:cqe.Res])
		} else {
			r.inputEnd(p, c, cqe)
		}
		if !p.receiving && !c.dead {
			r.change(p)
		}
	}
	if lent {
		r.group.Recycle(id)
	}
}

func (r *ring) input(p *ringPeer, c *Conn, data []byte) {
	if !c.paused && len(p.held) == 0 {
		c.received(data)
		return
	}
	// Copied, so that a paused connection does not keep buffers from others.
	// Bounded: the receive is cancelled before the kernel is entered again, so
	// this is at most what the shared buffers held at the time.
	if n := len(p.held); n > 0 {
		last := &p.held[n-1]
		k := copy(last.buf.Bytes()[last.bytes:], data)
		last.bytes += k
		data = data[k:]
	}
	if len(data) > 0 {
		buf := r.loop.pool.Get(len(data))
		p.held = append(p.held, heldInput{buf, copy(buf.Bytes(), data)})
	}
	r.change(p)
}

// inputEnd handles a completion that brought no bytes.
func (r *ring) inputEnd(p *ringPeer, c *Conn, cqe uring.CQE) {
	var end error
	switch err := cqe.Err(); {
	case cqe.Res >= 0:
		end = io.EOF
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ECANCELED), errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return
	default:
		end = fmt.Errorf("loop: read: %w", err)
	}
	if c.paused || len(p.held) > 0 {
		p.end = end
		return
	}
	r.endInput(c, end)
}

func (r *ring) endInput(c *Conn, end error) {
	if end == io.EOF {
		c.endOfInput()
		return
	}
	c.fail(end)
}

// deliverDue hands on what was kept for connections that read again.
func (r *ring) deliverDue() {
	for i := 0; i < len(r.due); i++ {
		p := r.due[i]
		r.due[i] = nil
		p.due = false
		if c := p.conn; c != nil {
			r.deliverHeld(p, c)
		}
	}
	r.due = r.due[:0]
}

func (r *ring) deliverHeld(p *ringPeer, c *Conn) {
	for p.heldFrom < len(p.held) {
		if c.dead || c.paused {
			return
		}
		h := p.held[p.heldFrom]
		p.held[p.heldFrom] = heldInput{}
		p.heldFrom++
		c.received(h.buf.Bytes()[:h.bytes])
		h.buf.Release()
	}
	p.held, p.heldFrom = p.held[:0], 0
	if c.dead || c.paused {
		return
	}
	if end := p.end; end != nil {
		p.end = nil
		r.endInput(c, end)
		return
	}
	r.change(p)
}

func (r *ring) write(c *Conn) (bool, error) {
	if max(r.speakers, r.spoke) >= crowdMin && c.outPos < c.outEnd {
		return false, r.send(c)
	}
	for c.outPos < c.outEnd {
		n, errno := writeRaw(c.fd(), c.out.Bytes()[c.outPos:c.outEnd], c.sendFlags())
		switch errno {
		case 0:
			c.outPos += n
			r.loop.stats.BytesSent += uint64(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return false, r.send(c)
		default:
			return false, fmt.Errorf("loop: write: %w", errno)
		}
	}
	return true, nil
}

// send leaves the rest of the write to the kernel: one completion when all has
// left.
func (r *ring) send(c *Conn) error {
	p := c.ring
	if err := r.ring.Send(p.fd, c.out.Bytes()[c.outPos:c.outEnd], unix.MSG_WAITALL, p.userData(opSend)); err != nil {
		return err
	}
	p.sending = true
	r.begin(p)
	return nil
}

func (r *ring) sendDone(p *ringPeer, cqe uring.CQE) {
	p.sending = false
	if p.buf != nil {
		p.buf.Release()
		p.buf = nil
	}
	c := p.conn
	if c == nil || c.dead {
		return
	}
	if cqe.Res > 0 {
		c.outPos += int(cqe.Res)
		r.loop.stats.BytesSent += uint64(cqe.Res)
	} else if err := cqe.Err(); err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
		c.fail(fmt.Errorf("loop: write: %w", err))
		return
	}
	switch done, err := r.write(c); {
	case err != nil:
		c.fail(err)
	case done:
		c.drained()
	}
}
