package loop

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

func TestLoop_StopClosesEverything(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		pool := new(arena.Pool)
		l, err := New(Options{ID: 3, Arena: pool, Backend: backend})
		check(t, err)
		l.Start()
		ln, err := Listen(ownAddress)
		check(t, err)
		ln.Serve(l, func(fd int, _ netip.AddrPort) { unix.Close(fd) })
		var probes []*probe
		var peers []net.Conn
		for i := range 12 {
			fd, peer := pair(t, "tcp")
			if i%4 == 1 {
				limitBuffers(t, fd, 4096) // what does not leave now does not leave at all
			}
			peers = append(peers, peer)
			probes = append(probes, adopt(t, l, fd, func(p *probe) {
				switch i % 4 {
				case 1:
					for p.write(pattern(256 << 10)) {
					}
				case 2:
					p.onInput = func([]byte) { p.conn.PauseRead() }
				case 3:
					p.write([]byte("bye"))
					p.conn.CloseAfterDrain()
				}
			}))
			if i%4 == 2 {
				_, err := peer.Write(pattern(300_000))
				check(t, err)
			}
		}
		turns(l)
		late, latePeer := pair(t, "unix")
		var stops sync.WaitGroup
		for range 4 {
			stops.Go(func() { l.Stop(); l.Post(&countRunner{}) })
		}
		l.Wait()
		stops.Wait()
		for i, p := range probes {
			select {
			case err := <-p.closed:
				if err != ErrClosed {
					t.Errorf("connection %d closed because of %v", i, err)
				}
			default:
				t.Errorf("connection %d was not told", i)
			}
			_, err := io.Copy(io.Discard, peers[i])
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Errorf("the socket of connection %d is still open", i)
			}
		}
		l.Adopt(late, func(*Conn) Handler { t.Error("adopted after the end"); return nil })
		if _, err := io.ReadAll(latePeer); err != nil {
			t.Errorf("a socket handed over after the end: %v", err)
		}
		ln.Close()
		ln.Close()
		if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			t.Error("the listener is still open")
		}
		if n := pool.Stats().InUse; n != 0 || l.Conns() != 0 {
			t.Errorf("%d bytes, %d connections left", n, l.Conns())
		}
	})
}

// TestLoop_StopTakesWhatWasHandedOver: sockets in the mailbox are not leaked.
func TestLoop_StopTakesWhatWasHandedOver(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		closed := make(chan error, 1)
		on(l, func() {
			l.Stop()
			l.Adopt(fd, func(c *Conn) Handler { return &probe{t: t, conn: c, closed: closed} })
		})
		if err := within(t, "Closed", closed); err != ErrClosed {
			t.Error(err)
		}
		if _, err := io.ReadAll(peer); err != nil {
			t.Error(err)
		}
	})
}

func TestNew_Refuses(t *testing.T) {
	if _, err := New(Options{Backend: "kqueue"}); err == nil {
		t.Error("an unknown backend was made")
	}
	if err := BackendAvailable("epoll"); err != nil {
		t.Error(err)
	}
	l, err := New(Options{})
	check(t, err)
	l.Stop() // never started
	l.Wait()
}
