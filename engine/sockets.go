package engine

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/secure/front"
)

// SocketNames are the listeners that may be given sockets which somebody else,
// such as systemd, has opened.
var SocketNames = []string{"amqp", "amqps", "http"}

// passed takes the descriptor of a listener out of Config.Sockets; -1: none was
// passed for it.
func (e *Engine) passed(name string) int {
	fd, ok := e.config.Sockets[name]
	if !ok {
		return -1
	}
	delete(e.config.Sockets, name)
	return fd
}

// listenerFor makes a net.Listener of a passed socket, or else by open.
func (e *Engine) listenerFor(name string, open func() (net.Listener, error)) (net.Listener, error) {
	fd := e.passed(name)
	if fd < 0 {
		return open()
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() // the listener has a descriptor of its own
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket %q that was passed cannot be used: %w", name, err)
	}
	return l, nil
}

// loopListener makes a listener of a loop, as above.
func (e *Engine) loopListener(name string, open func() (*loop.Listener, error)) (*loop.Listener, error) {
	fd := e.passed(name)
	if fd < 0 {
		return open()
	}
	l, err := loop.ListenOn(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("the socket %q that was passed cannot be used: %w", name, err)
	}
	return l, nil
}

// The kernel closes what an io_uring holds a while after its process is gone: 7 ms
// on an idle machine, much longer on a busy one, and somebody who waits for a killed
// broker and starts it again is faster than that.
const (
	portPatience = 3 * time.Second
	portInterval = 5 * time.Millisecond
)

// listenPatiently calls open until the port is free or patience ends.
func listenPatiently(open func() (*loop.Listener, error)) (*loop.Listener, error) {
	for end := time.Now().Add(portPatience); ; time.Sleep(portInterval) {
		l, err := open()
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			return l, err
		}
	}
}

// front opens a listener that does something before AMQP begins.
func (e *Engine) front(name string, port int, o front.Options) (*front.Front, error) {
	fd, ok := e.config.Sockets[name]
	if !ok {
		return front.Listen(netip.AddrPortFrom(e.config.Bind, uint16(port)), o)
	}
	l, err := e.listenerFor(name, nil)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return front.On(l, o), nil
}

// unusedSockets is an error if a socket was passed that nothing serves: clients
// would connect to it and wait for ever.
func (e *Engine) unusedSockets() error {
	if len(e.config.Sockets) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(e.config.Sockets))
	return fmt.Errorf("sockets were passed that the configuration does not open: %s; set what they need (amqps needs tls.cert), or take them out of the socket unit", strings.Join(names, ", "))
}

// closePassed closes what was not used.
func (e *Engine) closePassed() {
	for _, fd := range e.config.Sockets {
		unix.Close(fd)
	}
	e.config.Sockets = nil
}
