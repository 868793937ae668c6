package front

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/secure/proxyproto"
)

// ProxyListener is for servers with a goroutine for each connection: the headers
// of trusted proxies are taken from their connections, whose address then is the
// client's. Accept does not wait for headers; the first use of a connection does.
type ProxyListener struct {
	net.Listener
	Proxies proxyproto.Sources
	Timeout time.Duration // for a header
	Logger  *slog.Logger
}

// Accept implements net.Listener.
func (l *ProxyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &proxiedConn{Conn: c, listener: l}
	if !l.Proxies.Trust(addrOf(c.RemoteAddr())) {
		p.once.Do(func() {}) // there is no header
		p.suspect = true
	}
	return p, nil
}

// proxiedConn is a connection that begins with a header. What reads it is the
// first of Read and the addresses, on one goroutine or several; it holds the
// others up.
type proxiedConn struct {
	net.Conn
	listener *ProxyListener
	once     sync.Once

	transport amqp.Transport // what the header says; its early bytes are to be read first
	refused   bool
	suspect   bool // a header would be out of place: say so
}

func (c *proxiedConn) header() { c.once.Do(c.readHeader) }

func (c *proxiedConn) readHeader() {
	l := c.listener
	err := c.Conn.SetDeadline(time.Now().Add(l.Timeout))
	if err == nil {
		err = readHeader(c.Conn, &c.transport)
	}
	if err == nil {
		err = c.Conn.SetDeadline(time.Time{})
	}
	if err != nil {
		c.refused = true
		c.Conn.Close()
		if errors.Is(err, net.ErrClosed) {
			return // the server's stop
		}
		l.Logger.Warn("connection refused before its protocol began", "peer", c.Conn.RemoteAddr().String(), "listener", l.Addr().String(), "reason", explain(err))
	}
}

// Read implements net.Conn.
func (c *proxiedConn) Read(p []byte) (int, error) {
	c.header()
	switch {
	case c.refused:
		return 0, io.EOF
	case len(c.transport.Early) > 0:
		n := copy(p, c.transport.Early)
		c.transport.Early = c.transport.Early[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if c.suspect && n > 0 {
		c.suspect = false
		if n >= len("PROXY ") && proxyproto.Starts(p[:n]) {
			c.listener.Logger.Warn("a connection begins with a PROXY header, and its address is not one of amqp.proxy_trusted_sources", "peer", c.Conn.RemoteAddr().String(), "listener", c.listener.Addr().String())
		}
	}
	return n, err
}

// RemoteAddr implements net.Conn: the client's, as the header says.
func (c *proxiedConn) RemoteAddr() net.Addr {
	if c.header(); c.transport.Remote.IsValid() {
		return net.TCPAddrFromAddrPort(c.transport.Remote)
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr implements net.Conn: where the client connected to.
func (c *proxiedConn) LocalAddr() net.Addr {
	if c.header(); c.transport.Local.IsValid() {
		return net.TCPAddrFromAddrPort(c.transport.Local)
	}
	return c.Conn.LocalAddr()
}

// NetConn is the connection below.
func (c *proxiedConn) NetConn() net.Conn { return c.Conn }

// TransportOf is what a proxy has said of the client of a connection, and bytes
// behind the header that nobody has read yet. It looks through wrappers that have
// a method NetConn; where there was no proxy, the answer is the zero Transport.
func TransportOf(c net.Conn) amqp.Transport {
	for {
		if p, ok := c.(*proxiedConn); ok {
			p.header()
			return p.transport
		}
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return amqp.Transport{}
		}
		c = w.NetConn()
	}
}
