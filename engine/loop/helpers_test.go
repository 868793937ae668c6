package loop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)

// ownAddress is for tests in which nobody else may take a port that was closed.
var ownAddress = netip.MustParseAddrPort("127.0.99.5:0")

// patience bounds every wait of a test; reaching it is a failure.
const patience = time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forBackends runs a test once per backend that works here.
func forBackends(t *testing.T, test func(t *testing.T, backend string)) {
	for _, backend := range []string{"epoll", "uring"} {
		t.Run(backend, func(t *testing.T) {
			needBackend(t, backend)
			test(t, backend)
		})
	}
}

func needBackend(t testing.TB, backend string) {
	t.Helper()
	if err := BackendAvailable(backend); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// newLoop starts a loop that the test's end stops; then all its buffers and
// connections must be gone.
func newLoop(t testing.TB, backend string) *Loop {
	t.Helper()
	pool := new(arena.Pool)
	l, err := New(Options{Arena: pool, Backend: backend})
	check(t, err)
	l.Start()
	t.Cleanup(func() {
		l.Stop()
		l.Wait()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of buffers are still in use after the loop's end", n)
		}
		if n := l.Conns(); n != 0 {
			t.Errorf("%d connections after the loop's end", n)
		}
	})
	return l
}

// on runs f on the loop and waits for it.
func on(l *Loop, f func()) {
	done := make(chan struct{})
	l.Post(RunnerFunc(func() { f(); close(done) }))
	<-done
}

// turns lets the loop go round a few times.
func turns(l *Loop) {
	for range 4 {
		on(l, func() {})
	}
}

// within waits for a value.
func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
		panic("unreachable")
	}
}

// probe is a Handler that checks the order of its calls.
type probe struct {
	t         testing.TB
	conn      *Conn
	onInput   func(data []byte)
	onDrained func()
	onClosed  func()

	busy     bool
	isClosed bool
	drained  int
	input    atomic.Int64
	closed   chan error // one value
}

func (p *probe) enter(call string) func() {
	if p.isClosed {
		p.t.Errorf("%s after Closed", call)
	}
	if p.busy {
		p.t.Errorf("%s from inside another call", call)
	}
	p.busy = true
	return func() { p.busy = false }
}

func (p *probe) Input(data []byte) {
	defer p.enter("Input")()
	p.input.Add(int64(len(data)))
	if len(data) == 0 {
		p.t.Error("empty Input")
	}
	if p.onInput != nil {
		p.onInput(data)
	}
}

func (p *probe) Drained() {
	defer p.enter("Drained")()
	p.drained++
	if p.onDrained != nil {
		p.onDrained()
	}
}

func (p *probe) Closed(err error) {
	defer p.enter("Closed")()
	p.isClosed = true
	if err == nil {
		p.t.Error("Closed without a reason")
	}
	if p.onClosed != nil {
		p.onClosed()
	}
	p.closed <- err
}

// adopt hands fd to the loop under a new probe, which set prepares on the loop.
func adopt(t testing.TB, l *Loop, fd int, set func(p *probe)) *probe {
	t.Helper()
	p := &probe{t: t, closed: make(chan error, 1)}
	ready := make(chan struct{})
	l.Adopt(fd, func(c *Conn) Handler {
		defer close(ready)
		p.conn = c
		p.busy = true
		if set != nil {
			set(p)
		}
		p.busy = false
		return p
	})
	within(t, "adopting", ready)
	return p
}

// write sends bytes through a buffer of the loop's pool.
func (p *probe) write(data []byte) (left bool) {
	buf := p.conn.loop.pool.Get(len(data))
	copy(buf.Bytes(), data)
	if !p.conn.Write(buf, len(data)) {
		return false
	}
	buf.Release()
	return true
}

// pair is a connected pair of sockets: fd for a loop, peer for the test.
func pair(t testing.TB, network string) (fd int, peer net.Conn) {
	t.Helper()
	var fds [2]int
	switch network {
	case "unix":
		var err error
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		check(t, err)
	case "tcp":
		ln, err := Listen(loopback)
		check(t, err)
		defer ln.Close()
		fds[1], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		check(t, err)
		check(t, unix.Connect(fds[1], &unix.SockaddrInet4{Port: int(ln.Addr().Port()), Addr: loopback.Addr().As4()}))
		check(t, unix.SetNonblock(ln.fd, false))
		fds[0], _, err = unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		check(t, err)
	}
	f := os.NewFile(uintptr(fds[1]), "peer")
	defer f.Close()
	peer, err := net.FileConn(f)
	check(t, err)
	t.Cleanup(func() { peer.Close() })
	check(t, peer.SetDeadline(time.Now().Add(patience)))
	return fds[0], peer
}

// peerFD runs f with the descriptor of a test's side.
func peerFD(t testing.TB, peer net.Conn, f func(fd int)) {
	t.Helper()
	raw, err := peer.(syscall.Conn).SyscallConn()
	check(t, err)
	check(t, raw.Control(func(fd uintptr) { f(int(fd)) }))
}

// limitBuffers gives a socket small buffers, so that transfers are partial.
func limitBuffers(t testing.TB, fd, bytesMax int) {
	t.Helper()
	check(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytesMax))
	check(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytesMax))
}

// pattern is n bytes that tell where they are.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 ^ i>>8 ^ i>>13)
	}
	return b
}
