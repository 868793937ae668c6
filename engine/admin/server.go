package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine/secure/tlslayer"
)

// Server serves a handler on a listener.
type Server struct {
	http   *http.Server
	socket net.Listener
	done   chan struct{}
	close  func() error // what goes with the listener; nil: nothing
}

// ServeOptions say how a listener is served.
type ServeOptions struct {
	Listener net.Listener
	TLS      *tls.Config // nil: plain
	Handler  http.Handler
	Logger   *slog.Logger
	// trusted connections are the control socket's.
	trusted bool
	limits  serverLimits // zero: those of limits.go
}

// serverLimits bound what clients may take.
type serverLimits struct {
	connections               int
	header, read, write, idle time.Duration
	keepAlive                 bool
}

// Serve serves a TCP listener, which Close closes.
func Serve(o ServeOptions) *Server {
	if o.limits == (serverLimits{}) {
		o.limits = serverLimits{httpConnectionsMax, headerTimeout, readTimeout, writeTimeout, idleTimeout, true}
	}
	return serve(o)
}

func serve(o ServeOptions) *Server {
	s := &Server{done: make(chan struct{})}
	limited := &limitedListener{Listener: o.Listener, slots: make(chan struct{}, o.limits.connections), closed: make(chan struct{})}
	s.socket = limited
	s.http = &http.Server{
		Handler: o.Handler, ReadHeaderTimeout: o.limits.header, ReadTimeout: o.limits.read, WriteTimeout: o.limits.write, IdleTimeout: o.limits.idle,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			limited.idle.changed(c, state)
			if state == http.StateHijacked {
				release(c) // it is another protocol's, and not counted here any more
			}
		},
		Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	if o.trusted {
		s.http.ConnContext = trusted
	}
	s.http.SetKeepAlivesEnabled(o.limits.keepAlive)
	go func() {
		defer close(s.done)
		if o.TLS != nil {
			_ = s.http.Serve(securedListener{s.socket, o.TLS}) // ends with Close
			return
		}
		_ = s.http.Serve(s.socket)
	}()
	return s
}

// Addr is where a TCP listener is.
func (s *Server) Addr() netip.AddrPort {
	if a, ok := s.socket.Addr().(*net.TCPAddr); ok {
		a := a.AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return netip.AddrPort{}
}

// Close stops listening, lets requests that are being served end, for a little
// while, and then cuts them off.
func (s *Server) Close() error {
	var err error
	if s.close != nil {
		if err = s.close(); errors.Is(err, fs.ErrNotExist) {
			err = nil // somebody was faster
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
	return err
}

// limitedListener accepts no more than so many connections at once. Who comes
// when there are as many waits, and takes the place of the connection that has
// been idle for longest: nobody keeps others out by doing nothing.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
	idle   idleConns
}

func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
		return &limitedConn{Conn: c, slots: l.slots}, nil
	default:
	}
	l.idle.makeRoom(true)
	defer l.idle.makeRoom(false)
	select {
	case l.slots <- struct{}{}:
		return &limitedConn{Conn: c, slots: l.slots}, nil
	case <-l.closed:
		c.Close()
		return nil, net.ErrClosed
	}
}

func (l *limitedListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { close(l.closed) })
	return err
}

// securedListener makes TLS of its connections, which may move to an event loop.
type securedListener struct {
	net.Listener
	config *tls.Config
}

func (l securedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tlslayer.Server(c, l.config), nil
}

// limitedConn gives its slot back once.
type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *limitedConn) release() { c.once.Do(func() { <-c.slots }) }

// NetConn is the connection that is counted.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// release gives the slot of a connection back that goes on without the server.
func release(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		if t, ok := secured.NetConn().(*tlslayer.Transport); ok {
			c = t.Conn
		}
	}
	if c, ok := c.(*limitedConn); ok {
		c.release()
	}
}
