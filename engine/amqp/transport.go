package amqp

import (
	"github.com/basaltmq/basaltmq/engine/loop"
)

// Transport is how a client's bytes come, when that is not its own TCP
// connection from the first byte on.
type Transport struct {
	loop.Link
	TLS       *TLS // nil: none
	WebSocket bool
	// Foreign: a page of another site, in a browser, makes the connection. It does
	// not count as this machine, even if the browser runs on it.
	Foreign bool
}

// TLS is what operators see of a client's TLS, and EXTERNAL of its certificate.
type TLS struct {
	Protocol, KeyExchange, Cipher, Hash   string
	PeerSubject, PeerIssuer, PeerValidity string // of a verified certificate
	Identity                              string // the user that it names
}

// AcceptTransport is Accept for a socket with a past.
func (s *Server) AcceptTransport(fd int, t Transport) {
	sh := s.leastBusy()
	link := t.Link
	t.Link = loop.Link{}
	sh.loop.AdoptLink(fd, link, func(c *loop.Conn) loop.Handler {
		conn := newConn(sh, c)
		conn.transport = &t
		return conn
	})
}

// protocol names what the client speaks.
func (c *conn) protocol() string {
	if c.transport != nil && c.transport.WebSocket {
		return "Web AMQP 0-9-1"
	}
	return "AMQP 0-9-1"
}

// describeTransport fills in what operators see of the transport.
func (c *conn) describeTransport(info *ConnectionInfo) {
	info.Protocol = c.protocol()
	if c.transport == nil || c.transport.TLS == nil {
		return
	}
	t := c.transport.TLS
	info.TLS = true
	info.TLSProtocol, info.TLSKeyExchange, info.TLSCipher, info.TLSHash = t.Protocol, t.KeyExchange, t.Cipher, t.Hash
	info.PeerCertSubject, info.PeerCertIssuer, info.PeerCertValidity = t.PeerSubject, t.PeerIssuer, t.PeerValidity
}
