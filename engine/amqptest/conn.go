package amqptest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Patience is how long a read waits before it is an error. It is a bound for
// broken brokers, not an expectation: tests must not depend on it.
const Patience = time.Minute

// Event is one answer: a method, a method with its content, or a heartbeat.
type Event struct {
	Channel    uint16
	Method     amqp.Method // nil: heartbeat
	Content    bool        // Properties and Body count
	Properties []byte      // encoded, as in amqp.ContentHeader
	Body       []byte
}

// ErrProtocol is wrapped by errors that say that the peer broke the protocol.
var ErrProtocol = errors.New("protocol violation by the broker")

// Socket is what a client talks through: TCP, TLS, a unix socket.
type Socket interface {
	net.Conn
	CloseWrite() error
}

// Conn is a raw connection.
type Conn struct {
	Socket   Socket
	FrameMax uint32 // bounds received frames; 0: unbounded

	in      []byte // received, not parsed
	cut     bool   // see AllowCut
	partial map[uint16]*content
}

// content is a content being received on one channel.
type content struct {
	event  Event
	size   uint64
	header bool // seen
}

// Dial connects a TCP socket; nothing is sent.
func Dial(addr netip.AddrPort) (*Conn, error) {
	socket, err := net.DialTimeout("tcp", addr.String(), Patience)
	if err != nil {
		return nil, err
	}
	return NewConn(socket.(*net.TCPConn)), nil
}

// NewConn wraps a connected socket.
func NewConn(socket Socket) *Conn {
	return &Conn{Socket: socket, partial: map[uint16]*content{}}
}

// Open connects, performs the handshake and opens channel 1.
func Open(addr netip.AddrPort, o Options) (*Conn, error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	if err := c.open(o); err != nil {
		return nil, err
	}
	return c, nil
}

// open performs the handshake and opens channel 1.
func (c *Conn) open(o Options) error {
	err := c.Send(amqp.AppendMethodFrame(Handshake(o), 1, &amqp.ChannelOpen{}))
	for _, want := range []uint32{amqp.ConnectionStartID, amqp.ConnectionTuneID, amqp.ConnectionOpenOkID, amqp.ChannelOpenOkID} {
		if err == nil {
			_, err = c.Expect(want)
		}
	}
	if err != nil {
		c.Abort()
		return err
	}
	if c.FrameMax = o.FrameMax; c.FrameMax == 0 {
		c.FrameMax = 128 * 1024
	}
	return nil
}

// Expect returns the next event, which must be the method with this id.
// Heartbeats are passed over.
func (c *Conn) Expect(id uint32) (Event, error) {
	for {
		event, err := c.Next()
		if err != nil {
			return event, fmt.Errorf("while waiting for %s: %w", amqp.MethodName(id), err)
		}
		if event.Method == nil {
			continue
		}
		if event.Method.ID() != id {
			return event, fmt.Errorf("got %q instead of %s", event, amqp.MethodName(id))
		}
		return event, nil
	}
}

// Call sends a method and expects the answer with this id.
func (c *Conn) Call(channel uint16, m amqp.Method, id uint32) (Event, error) {
	if err := c.SendMethod(channel, m); err != nil {
		return Event{}, err
	}
	return c.Expect(id)
}

// Send writes bytes as they are.
func (c *Conn) Send(raw []byte) error {
	_ = c.Socket.SetWriteDeadline(time.Now().Add(Patience))
	_, err := c.Socket.Write(raw)
	return err
}

// SendMethod sends one method frame.
func (c *Conn) SendMethod(channel uint16, m amqp.Method) error {
	return c.Send(amqp.AppendMethodFrame(nil, channel, m))
}

// Abort closes the socket with a reset and drops what was not sent; it leaves
// no TIME_WAIT behind.
func (c *Conn) Abort() {
	if tcp, ok := c.Socket.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Socket.Close()
}

// Next returns the next event: io.EOF when the broker closed the socket
// between two frames.
func (c *Conn) Next() (Event, error) { return c.NextBefore(time.Now().Add(Patience)) }

// NextBefore is Next with a deadline.
func (c *Conn) NextBefore(deadline time.Time) (Event, error) {
	for {
		frame, n, err := amqp.ParseFrame(c.in, c.FrameMax)
		if err != nil {
			return Event{}, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if n == 0 {
			if err := c.fill(deadline); err != nil {
				return Event{}, err
			}
			continue
		}
		event, complete, err := c.frame(frame)
		c.in = c.in[n:]
		if err != nil || complete {
			return event, err
		}
	}
}

// AllowCut says that a content may end early, because the connection does.
func (c *Conn) AllowCut() { c.cut = true }

// Raw returns n received bytes as they are; fewer with an error.
func (c *Conn) Raw(n int) ([]byte, error) { return c.RawBefore(n, time.Now().Add(Patience)) }

// RawBefore is Raw with a deadline.
func (c *Conn) RawBefore(n int, deadline time.Time) ([]byte, error) {
	for len(c.in) < n {
		if err := c.fill(deadline); err != nil {
			return c.in, err
		}
	}
	raw := c.in[:n]
	c.in = c.in[n:]
	return raw, nil
}

// Unread puts bytes back that Raw returned.
func (c *Conn) Unread(raw []byte) { c.in = append(raw[:len(raw):len(raw)], c.in...) }

func (c *Conn) fill(deadline time.Time) error {
	_ = c.Socket.SetReadDeadline(deadline)
	// Views handed out stay valid: the buffer is never moved or overwritten.
	if cap(c.in)-len(c.in) < 4096 {
		grown := make([]byte, len(c.in), 2*len(c.in)+32*1024)
		copy(grown, c.in)
		c.in = grown
	}
	n, err := c.Socket.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	if err == io.EOF && len(c.in) > 0 {
		return fmt.Errorf("%w: socket closed in the middle of a frame", ErrProtocol)
	}
	return err
}

// frame adds one frame to what its channel is receiving.
func (c *Conn) frame(f amqp.Frame) (event Event, complete bool, err error) {
	broken := func(format string, args ...any) (Event, bool, error) {
		return Event{}, false, fmt.Errorf("%w: channel %d: "+format, append([]any{ErrProtocol, f.Channel}, args...)...)
	}
	p := c.partial[f.Channel]
	switch f.Type {
	case amqp.FrameHeartbeat:
		if f.Channel != 0 || len(f.Payload) != 0 {
			return broken("heartbeat with %d bytes", len(f.Payload))
		}
		return Event{}, true, nil
	case amqp.FrameMethod:
		id, args, err := amqp.SplitMethod(f.Payload)
		if err != nil {
			return broken("%v", err)
		}
		if p != nil && c.cut && f.Channel == 0 {
			clear(c.partial)
		} else if p != nil {
			return broken("%s inside a content", amqp.MethodName(id))
		}
		m := amqp.NewMethod(id)
		if m == nil {
			return broken("unknown method %#x", id)
		}
		if err := m.Decode(args); err != nil {
			return broken("%v", err)
		}
		event := Event{Channel: f.Channel, Method: m}
		switch id {
		case amqp.BasicDeliverID, amqp.BasicGetOkID, amqp.BasicReturnID:
			event.Content = true
			c.partial[f.Channel] = &content{event: event}
			return Event{}, false, nil
		}
		return event, true, nil
	case amqp.FrameHeader:
		if p == nil || p.header {
			return broken("content header out of place")
		}
		h, err := amqp.DecodeContentHeader(f.Payload)
		if err != nil || h.ClassID != amqp.ClassBasic {
			return broken("content header of class %d: %v", h.ClassID, err)
		}
		p.header, p.size, p.event.Properties = true, h.BodySize, h.Properties
	default:
		if p == nil || !p.header {
			return broken("content body out of place")
		}
		if p.event.Body == nil && uint64(len(f.Payload)) == p.size {
			p.event.Body = f.Payload
		} else {
			p.event.Body = append(p.event.Body, f.Payload...)
		}
		if uint64(len(p.event.Body)) > p.size {
			return broken("body of %d bytes, %d announced", len(p.event.Body), p.size)
		}
	}
	if uint64(len(p.event.Body)) < p.size {
		return Event{}, false, nil
	}
	delete(c.partial, f.Channel)
	return p.event, true, nil
}
