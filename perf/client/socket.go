package client

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"golang.org/x/sys/unix"
)

// socket is what publishers and consumers have in common: a non-blocking
// descriptor with what epoll said about it, and the walker of its incoming
// frames. Epoll is edge-triggered: readable and writable stay true until a
// call proves otherwise.
type socket struct {
	fd       int   // below 0: none at the moment
	index    int32 // among the clients of its loop
	readable bool
	writable bool
	hungUp   bool  // the end of the stream is near: a short read proves nothing
	active   bool  // on its loop's list of clients with work
	due      int64 // when a paced client wants to work again; 0: not by time

	Walker    walker
	carry     []byte // start of a frame that was cut
	Out       []byte // control frames and acks to be written
	outPos    int
	commitOks uint64
	emptyGets uint64
	Blocked   atomic.Bool // by connection.blocked; read by the reporter

	plain   bool // no AMQP: see AdoptStream
	closing bool
	closed  bool
}

// Capacities reserved up front so that the running phase need not grow them.
const (
	carryBytes = 1 << 10
	OutBytes   = 64 << 10
)

// closeFrame is the farewell.
var closeFrame = amqp.AppendMethodFrame(nil, 0, &amqp.ConnectionClose{
	ReplyCode: amqp.CodeSuccess, ReplyText: []byte("done"),
})

// Adopt takes over a session that finished its set-up.
func (s *socket) Adopt(from *session.Session) error {
	s.fd = from.FD
	s.readable = true // what came with the last reply, and maybe more
	s.writable = true
	s.Walker.frameMax = from.FrameMax
	s.carry = append(make([]byte, 0, carryBytes+len(from.Pending)), from.Pending...)
	return unix.SetNonblock(s.fd, true)
}

// base gives the loop access to the part it manages.
func (s *socket) base() *socket { return s }

// receive reads once, at most limit bytes, and walks what came. buffer is
// scratch space with room for a carried frame and limit bytes.
func (s *socket) receive(buffer []byte, limit int) (n int, err error) {
	have := copy(buffer, s.carry)
	limit = min(limit, len(buffer)-have)
	n, errno := readNow(s.fd, buffer[have:have+limit])
	switch {
	case errno == unix.EAGAIN:
		s.readable = false
		return 0, s.walkAll(buffer[:have]) // the first time: what came with the set-up
	case errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		return 0, session.SocketError(errno)
	case n == 0:
		return 0, session.ErrDisconnected
	case n < limit && !s.hungUp:
		s.readable = false
	}
	return n, s.walkAll(buffer[:have+n])
}

// walkAll walks data and keeps the start of a cut frame for the next time.
func (s *socket) walkAll(data []byte) error {
	for {
		consumed, method, err := s.Walker.walk(data)
		data = data[consumed:]
		if err != nil {
			return err
		}
		if method == nil {
			s.carry = append(s.carry[:0], data...)
			return nil
		}
		if err := s.takeMethod(method); err != nil {
			return err
		}
	}
}

// takeMethod handles the methods that the walker leaves to its caller.
func (s *socket) takeMethod(payload []byte) error {
	id := binary.BigEndian.Uint32(payload) // the walker checked the length
	switch id {
	case amqp.TxCommitOkID:
		s.commitOks++
	case amqp.BasicGetEmptyID:
		s.emptyGets++
	case amqp.ConnectionBlockedID:
		s.Blocked.Store(true)
	case amqp.ConnectionUnblockedID:
		s.Blocked.Store(false)
	case amqp.ConnectionCloseOkID:
		s.closed = true
	default:
		return session.ClosedBy(id, payload[4:])
	}
	return nil
}

// flush writes what is in out; afterwards out is empty or the socket full.
func (s *socket) flush() error {
	for s.writable && s.outPos < len(s.Out) {
		n, err := s.send(s.Out[s.outPos:])
		if err != nil {
			return err
		}
		s.outPos += n
	}
	if s.outPos == len(s.Out) {
		s.Out, s.outPos = s.Out[:0], 0
	}
	return nil
}

// send writes once and notes whether the socket is full.
func (s *socket) send(from []byte) (n int, err error) {
	n, errno := writeNow(s.fd, from)
	switch {
	case errno == unix.EAGAIN:
		s.writable = false
		return 0, nil
	case errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		return 0, s.sendError(errno)
	case n < len(from):
		s.writable = false
	}
	return n, nil
}

// sendError prefers the broker's own words: when it closed the connection, its
// reason is likely still in the receive buffer.
func (s *socket) sendError(errno unix.Errno) error {
	buffer := make([]byte, loopBufferBytes)
	for s.readable = true; s.readable; {
		if _, err := s.receive(buffer, loopReadBytes); err != nil {
			if err == session.ErrDisconnected {
				break
			}
			return err
		}
	}
	return session.SocketError(errno)
}

// startFarewell queues connection.close behind the rest of what is being sent.
func (s *socket) startFarewell(rest []byte) {
	s.closing = true
	s.Walker.AckEvery = 0
	s.Walker.Inspector = nil
	s.Out = append(append(s.Out, rest...), closeFrame...)
}

// farewell sends the rest and reads until the broker's close-ok. Errors end
// the connection too: the figures are taken already.
func (s *socket) farewell(buffer []byte) (again bool) {
	if s.flush() != nil {
		s.closed = true
	}
	if s.readable && !s.closed {
		if _, err := s.receive(buffer, loopReadBytes); err != nil {
			s.closed = true
		}
	}
	return !s.closed && s.readable
}
