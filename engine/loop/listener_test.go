package loop

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// signalHandler is a slog handler that says when something is logged.
type signalHandler struct{ logged chan string }

func (h signalHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h signalHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h signalHandler) WithGroup(string) slog.Handler            { return h }
func (h signalHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.logged <- r.Message:
	default:
	}
	return nil
}

func TestListener_RecoversFromTooManyFiles(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		log := signalHandler{make(chan string, 16)}
		l, err := New(Options{Arena: new(arena.Pool), Backend: backend, Logger: slog.New(log)})
		check(t, err)
		l.Start()
		defer func() { l.Stop(); l.Wait() }()
		ln, err := Listen(loopback)
		check(t, err)
		defer ln.Close()
		accepted := make(chan int, 8)
		ln.Serve(l, func(fd int, _ netip.AddrPort) { accepted <- fd })
		turns(l)

		const clients = 4
		var fds [clients]int
		for i := range fds {
			fds[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			check(t, err)
			defer unix.Close(fds[i])
		}
		var old unix.Rlimit
		check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
		lowest, err := unix.Dup(fds[0])
		check(t, err)
		unix.Close(lowest)
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest), Max: old.Max}))
		for _, fd := range fds {
			check(t, unix.Connect(fd, &unix.SockaddrInet4{Port: int(ln.Addr().Port()), Addr: loopback.Addr().As4()}))
		}
		message := within(t, "a complaint", log.logged)
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		if len(accepted) != 0 {
			t.Error("accepted beyond the limit")
		}
		for range clients {
			unix.Close(within(t, "accepting after "+message, accepted))
		}
	})
}

func TestListener_Addresses(t *testing.T) {
	for _, bind := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(bind, func(t *testing.T) {
			ln, err := Listen(netip.MustParseAddrPort(bind))
			if err == unix.EADDRNOTAVAIL || err == unix.EAFNOSUPPORT {
				t.Skip(err)
			}
			check(t, err)
			if ln.Addr().Port() == 0 || ln.Addr().Addr() != netip.MustParseAddrPort(bind).Addr() {
				t.Errorf("bound to %v", ln.Addr())
			}
			if _, err := Listen(ln.Addr()); err == nil {
				t.Error("bound twice")
			}
			ln.Close()
			ln.Close()
		})
	}
}

// TestListener_Accepts: sockets come with the peer's address, do not block, and
// do not wait for more to send.
func TestListener_Accepts(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		for _, bind := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
			ln, err := Listen(netip.MustParseAddrPort(bind))
			if err != nil && bind != "127.0.0.1:0" {
				t.Log(err) // no IPv6 here
				continue
			}
			check(t, err)
			type socket struct {
				fd     int
				remote netip.AddrPort
			}
			accepted := make(chan socket, 1)
			ln.Serve(newLoop(t, backend), func(fd int, remote netip.AddrPort) { accepted <- socket{fd, remote} })
			peer, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(map[string]string{"127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1", "[::]:0": "127.0.0.1"}[bind]), ln.Addr().Port()).String())
			check(t, err)
			s := within(t, "accepting", accepted)
			if got, want := s.remote.String(), peer.LocalAddr().String(); got != want {
				t.Errorf("%s: remote %s, want %s", bind, got, want)
			}
			if on, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || on == 0 {
				t.Errorf("%s: TCP_NODELAY %d, %v", bind, on, err)
			}
			if flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("%s: flags %x, %v", bind, flags, err)
			}
			unix.Close(s.fd)
			peer.Close()
			ln.Close()
		}
	})
}

// TestListener_PortIsFreeAfterClose: nothing keeps the socket open.
func TestListener_PortIsFreeAfterClose(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		addr := ownAddress
		for range 5 {
			ln, err := Listen(addr)
			check(t, err)
			addr = ln.Addr()
			ln.Serve(l, func(fd int, _ netip.AddrPort) { unix.Close(fd) })
			ln.Close()
			turns(l)
		}
	})
}
