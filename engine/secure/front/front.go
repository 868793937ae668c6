package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/secure/proxyproto"
	"github.com/basaltmq/basaltmq/engine/secure/tlslayer"
)

const (
	// pendingMax is how many handshakes may be under way: each takes some tens of
	// kilobytes, and a slow client keeps its place for HandshakeTimeout.
	pendingMax = 1024
	// acceptPause is how long accepting rests when there are no descriptors left.
	acceptPause = 200 * time.Millisecond
	// HandshakeTimeoutDefault is for the PROXY header and the TLS handshake
	// together.
	HandshakeTimeoutDefault = 10 * time.Second
)

// Options say what comes before the protocol.
type Options struct {
	// Proxies must begin with a PROXY header; nobody else may.
	Proxies proxyproto.Sources
	TLS     *tls.Config // nil: none
	// Identify names the user that a verified client certificate stands for.
	Identify func(c *x509.Certificate) string
	// HandshakeTimeout; 0 means HandshakeTimeoutDefault.
	HandshakeTimeout time.Duration
	Logger           *slog.Logger
}

// Front is a listener.
type Front struct {
	Options
	listener net.Listener
	hand     func(fd int, t amqp.Transport) // nil before Serve
	slots    chan struct{}
	pending  sync.WaitGroup
	done     chan struct{} // closed when accepting has ended
	closing  context.Context
	close    context.CancelFunc
}

// Listen opens a TCP listener; port 0 picks a free one. It accepts once Serve is
// called.
func Listen(addr netip.AddrPort, o Options) (*Front, error) {
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return On(l, o), nil
}

// On serves a listener that is open already.
func On(l net.Listener, o Options) *Front { return newFront(l, o) }

// ListenUnix opens a unix socket for the owner and the group of the process. A
// socket that nobody listens on any more is replaced.
func ListenUnix(path string, o Options) (*Front, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, fmt.Errorf("listen on %s: somebody does already: stop that process, or choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return newFront(l, o), nil
}

func newFront(l net.Listener, o Options) *Front {
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = HandshakeTimeoutDefault
	}
	f := &Front{Options: o, listener: l, slots: make(chan struct{}, pendingMax), done: make(chan struct{})}
	f.closing, f.close = context.WithCancel(context.Background())
	return f
}

// Serve hands sockets to accept from now on. Once.
func (f *Front) Serve(accept func(fd int, t amqp.Transport)) {
	f.hand = accept
	go f.accept()
}

// Addr is where the listener is.
func (f *Front) Addr() net.Addr { return f.listener.Addr() }

// Close stops accepting and ends the handshakes that are under way. Not while
// Serve is being called.
func (f *Front) Close() {
	f.close()
	f.listener.Close()
	if f.hand != nil {
		<-f.done
		f.pending.Wait()
	}
}

func (f *Front) accept() {
	defer close(f.done)
	short := false
	for {
		select {
		case f.slots <- struct{}{}:
		case <-f.closing.Done():
			return
		}
		c, err := f.listener.Accept()
		if err == nil {
			short = false
			f.pending.Go(func() {
				f.welcome(c)
				<-f.slots
			})
			continue
		}
		<-f.slots
		if f.closing.Err() != nil {
			return
		}
		if !short {
			f.Logger.Error("cannot accept connections, trying again shortly; raise the limit of open files if this repeats", "addr", f.Addr().String(), "err", err)
		}
		short = true
		select {
		case <-time.After(acceptPause):
		case <-f.closing.Done():
			return
		}
	}
}

// welcome does what comes before the protocol.
func (f *Front) welcome(c net.Conn) {
	stop := context.AfterFunc(f.closing, func() { c.Close() })
	defer stop()
	t, socket, err := f.prepare(c)
	if err == nil && !stop() {
		err = net.ErrClosed
	}
	var fd int
	if err == nil {
		fd, err = TakeSocket(socket)
	}
	c.Close()
	if err != nil {
		if f.closing.Err() == nil {
			f.Logger.Warn("connection refused before its protocol began", "peer", peerName(c, t), "listener", f.Addr().String(), "reason", explain(err))
		}
		return
	}
	f.hand(fd, t)
}

func peerName(c net.Conn, t amqp.Transport) string {
	if t.Remote.IsValid() {
		return t.Remote.String() + " by way of " + c.RemoteAddr().String()
	}
	return c.RemoteAddr().String()
}

// prepare reads the PROXY header and makes the TLS handshake, where there are.
func (f *Front) prepare(c net.Conn) (t amqp.Transport, socket net.Conn, err error) {
	if err := c.SetDeadline(time.Now().Add(f.HandshakeTimeout)); err != nil {
		return t, nil, err
	}
	if len(f.Proxies) > 0 && f.Proxies.Trust(addrOf(c.RemoteAddr())) {
		if err := readHeader(c, &t); err != nil {
			return t, nil, err
		}
	}
	if f.TLS == nil {
		return t, c, nil
	}
	secured := tlslayer.Server(&early{Conn: c, data: t.Early}, f.TLS)
	t.Early = nil
	if err := secured.HandshakeContext(f.closing); err != nil {
		return t, nil, err
	}
	t.TLS = Describe(secured.ConnectionState(), f.Identify)
	layer, _, err := tlslayer.Detach(secured)
	t.Layer = layer
	return t, c, err
}

func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// readHeader reads a PROXY header, and perhaps what follows it.
func readHeader(c net.Conn, t *amqp.Transport) error {
	buf := make([]byte, 0, 512)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*proxyproto.HeaderBytesMax), buf...)
		}
		n, err := c.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		h, used, parseErr := proxyproto.Parse(buf)
		switch {
		case parseErr != nil:
			return parseErr
		case used > 0:
			t.Early = bytes.Clone(buf[used:])
			if h.Local {
				return nil
			}
			t.Remote, t.Local = h.Source, h.Destination
			if h.TLS != nil {
				t.TLS = &amqp.TLS{Protocol: h.TLS.Version, Cipher: h.TLS.Cipher}
				if h.TLS.Verified {
					t.TLS.PeerSubject, t.TLS.Identity = "CN="+h.TLS.CommonName, h.TLS.CommonName
				}
			}
			return nil
		case err != nil:
			return fmt.Errorf("the proxy's header does not come: %w", err)
		}
	}
}

// early is a connection of which some bytes were read already.
type early struct {
	net.Conn
	data []byte
}

func (e *early) Read(p []byte) (int, error) {
	if len(e.data) == 0 {
		return e.Conn.Read(p)
	}
	n := copy(p, e.data)
	e.data = e.data[n:]
	return n, nil
}

// TakeSocket returns a descriptor of a connection's socket for a loop; the
// connection is still to be closed. It looks through wrappers that have a method
// NetConn.
func TakeSocket(c net.Conn) (fd int, err error) {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = w.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return -1, errors.New("front: not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	controlErr := raw.Control(func(old uintptr) {
		// A copy shares the socket's state: it is non-blocking, too. Taking the
		// number itself would leave it to the runtime's poller.
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(err, controlErr)
}

// explain words the likely cause.
func explain(err error) string {
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return "the client does not speak TLS: it should, on this port"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it did not finish in time"
	case errors.Is(err, io.EOF):
		return "the client has gone"
	}
	return err.Error()
}
