package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// SocketName is the socket's name in the data directory.
const SocketName = "control.sock"

// Server serves a handler on a unix socket.
type Server struct {
	path   string
	http   *http.Server
	socket net.Listener
	done   chan struct{}
}

// Serve listens in a directory that is locked for this process: a socket that
// is there is left over from a crash, and replaced. Errors name the path.
func Serve(dir string, handler http.Handler, logger *slog.Logger) (*Server, error) {
	return serve(dir, handler, logger, headerTimeout, readTimeout)
}

func serve(dir string, handler http.Handler, logger *slog.Logger, headerTimeout, readTimeout time.Duration) (*Server, error) {
	s := &Server{path: filepath.Join(dir, SocketName), done: make(chan struct{})}
	listener, err := listen(dir)
	if err != nil {
		return nil, fmt.Errorf("admin: cannot make the socket %s: %w", s.path, err)
	}
	s.socket = &limitedListener{Listener: listener, slots: make(chan struct{}, connectionsMax), closed: make(chan struct{})}
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	s.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(s.done)
		_ = s.http.Serve(s.socket) // ends with Close
	}()
	return s, nil
}

// listen makes the socket under another name, gives it its mode, and renames it,
// so that it is never there with more permissions. The directory is reached by a
// descriptor, because its path may be longer than a socket's address holds.
func listen(dir string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	const temporary = SocketName + ".new"
	if err := os.Remove(filepath.Join(dir, temporary)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: byDescriptor(d, temporary)})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(filepath.Join(dir, temporary), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, temporary), filepath.Join(dir, SocketName))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func byDescriptor(dir *os.File, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name
}

// Dial connects to a socket, however long its path is.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", byDescriptor(dir, filepath.Base(path)))
}

// Close removes the socket, lets requests that are being served end, for a
// little while, and then cuts them off.
func (s *Server) Close() error {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody was faster
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
	return err
}

// limitedListener accepts no more than so many connections at once.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots}, nil
}

func (l *limitedListener) Close() error {
	err := l.Listener.Close()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return err
}

// limitedConn gives its slot back once.
type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
