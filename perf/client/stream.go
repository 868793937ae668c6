package client

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/perf/session"
	"golang.org/x/sys/unix"
)

// StreamReader reads what a publisher wrote, byte for byte, from a connection
// that speaks no AMQP (the bare relay), and records the latency of each message.
type StreamReader struct {
	socket
	Loop     *Loop
	Encoding PublishEncoding
	Latency  *latencyRecorder
}

func (r *StreamReader) work(now int64) (again bool, err error) {
	if !r.readable || r.closed {
		return false, nil
	}
	size, buffer := r.Encoding.Size, r.Loop.buffer
	have := copy(buffer, r.carry)
	n, errno := readNow(r.fd, buffer[have:have+loopReadBytes])
	switch {
	case errno == unix.EAGAIN:
		r.readable = false
		return false, nil
	case errno == unix.EINTR:
		return true, nil
	case errno != 0:
		return false, session.SocketError(errno)
	case n == 0:
		return false, session.ErrDisconnected
	case n < loopReadBytes && !r.hungUp:
		r.readable = false
	}
	data := buffer[:have+n]
	messages := len(data) / size
	r.Latency.begin()
	for i := range messages {
		r.Latency.record(int64(binary.LittleEndian.Uint64(data[i*size+r.Encoding.segments[0].at:])))
	}
	r.Latency.end()
	r.carry = append(r.carry[:0], data[messages*size:]...)
	r.Loop.addConsumed(uint64(messages), n, now)
	return r.readable, nil
}

func (r *StreamReader) startClosing() { r.closed = true }

// AdoptStream takes over a connected socket that nothing but messages goes
// through: there is nobody to say goodbye to at its end.
func (s *socket) AdoptStream(fd int) error {
	s.fd, s.writable, s.readable, s.plain = fd, true, true, true
	return unix.SetNonblock(fd, true)
}
