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
)

// SocketName is the socket's name in the data directory.
const SocketName = "control.sock"

// ServeSocket serves the control socket of a directory that is locked for this
// process: a socket that is there is left over from a crash, and replaced. Errors
// name the path.
func ServeSocket(dir string, handler http.Handler, logger *slog.Logger) (*Server, error) {
	return serveSocket(dir, handler, logger, serverLimits{connectionsMax, headerTimeout, readTimeout, writeTimeout, 0, false})
}

func serveSocket(dir string, handler http.Handler, logger *slog.Logger, limits serverLimits) (*Server, error) {
	path := filepath.Join(dir, SocketName)
	listener, err := listenSocket(dir)
	if err != nil {
		return nil, fmt.Errorf("admin: cannot make the socket %s: %w", path, err)
	}
	s := serve(ServeOptions{Listener: listener, Handler: handler, Logger: logger, trusted: true, limits: limits})
	s.close = func() error { return os.Remove(path) }
	return s, nil
}

// listenSocket makes the socket under another name, gives it its mode, and renames
// it, so that it is never there with more permissions. The directory is reached by
// a descriptor, because its path may be longer than a socket's address holds.
func listenSocket(dir string) (net.Listener, error) {
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
