package tlslayer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// controlBytesMax bounds what waits to be said besides the handler's bytes.
const controlBytesMax = 1024

// Transport is the connection that a tls.Conn works on: a socket until Detach,
// then the bytes that its loop feeds it.
type Transport struct {
	net.Conn // nil after Detach

	in       []byte // received, to be read by the tls.Conn
	out      []byte // what it wrote; while encoding, the output buffer itself
	encoding bool
}

// Server makes the server's side of a TLS connection that can be detached.
func Server(c net.Conn, config *tls.Config) *tls.Conn {
	return tls.Server(&Transport{Conn: c}, config)
}

// again is what reads answer when there is nothing to read: temporary, so that
// the tls.Conn keeps its state.
type again struct{}

func (again) Error() string   { return "tlslayer: no input now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

var errControl = errors.New("tlslayer: the peer provokes messages and does not read them")

// Read implements net.Conn.
func (t *Transport) Read(p []byte) (int, error) {
	if t.Conn != nil {
		return t.Conn.Read(p)
	}
	if len(t.in) == 0 {
		return 0, again{}
	}
	n := copy(p, t.in)
	t.in = t.in[n:]
	return n, nil
}

// NetConn is the socket; nil after Detach.
func (t *Transport) NetConn() net.Conn { return t.Conn }

// Write implements net.Conn.
func (t *Transport) Write(p []byte) (int, error) {
	if t.Conn != nil {
		return t.Conn.Write(p)
	}
	if !t.encoding && len(t.out)+len(p) > controlBytesMax {
		return 0, errControl
	}
	t.out = append(t.out, p...)
	return len(p), nil
}

// Close implements net.Conn.
func (t *Transport) Close() error {
	if t.Conn != nil {
		return t.Conn.Close()
	}
	return nil
}

// SetDeadline implements net.Conn.
func (t *Transport) SetDeadline(at time.Time) error {
	if t.Conn != nil {
		return t.Conn.SetDeadline(at)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (t *Transport) SetReadDeadline(at time.Time) error {
	if t.Conn != nil {
		return t.Conn.SetReadDeadline(at)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (t *Transport) SetWriteDeadline(at time.Time) error {
	if t.Conn != nil {
		return t.Conn.SetWriteDeadline(at)
	}
	return nil
}

// Layer opens and seals the records of one connection. It implements loop.Layer.
type Layer struct {
	conn *tls.Conn
	t    *Transport
}

// Detach takes a connection made by Server off its socket, after the handshake.
// The socket is the caller's; nothing reads or writes it any more. The layer may
// hold input already: it wants a first Decode, of nothing.
func Detach(c *tls.Conn) (*Layer, net.Conn, error) {
	t, ok := c.NetConn().(*Transport)
	if !ok || t.Conn == nil {
		return nil, nil, errors.New("tlslayer: not a connection that can be detached")
	}
	if !c.ConnectionState().HandshakeComplete {
		return nil, nil, errors.New("tlslayer: detached before the end of the handshake")
	}
	socket := t.Conn
	t.Conn = nil
	return &Layer{conn: c, t: t}, socket, nil
}

// Decode implements loop.Layer.
func (l *Layer) Decode(raw, scratch []byte) (plain []byte, err error) {
	l.t.in = raw
	n := 0
	for {
		if n == len(scratch) {
			panic("tlslayer: records are larger than there is room for")
		}
		k, err := l.conn.Read(scratch[n:])
		n += k
		if err == nil {
			continue
		}
		l.t.in = nil
		var a again
		switch {
		case errors.As(err, &a):
			return scratch[:n], nil
		case errors.Is(err, io.EOF):
			return scratch[:n], io.EOF
		}
		return scratch[:n], fmt.Errorf("tlslayer: %w", err)
	}
}

// Encode implements loop.Layer.
func (l *Layer) Encode(dst, plain []byte) ([]byte, error) {
	t := l.t
	t.out, t.encoding = append(dst, t.out...), true
	var err error
	if len(plain) > 0 {
		_, err = l.conn.Write(plain)
	}
	dst, t.out, t.encoding = t.out, nil, false
	if err != nil {
		err = fmt.Errorf("tlslayer: %w", err)
	}
	return dst, err
}

// Pending implements loop.Layer.
func (l *Layer) Pending() bool { return len(l.t.out) > 0 }

// End implements loop.Layer: close_notify.
func (l *Layer) End() {
	// Fails only if the connection has failed: then there is nothing to say.
	_ = l.conn.CloseWrite()
}
