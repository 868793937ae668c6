package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConn_ClosedOnceAndLast(t *testing.T) {
	big := pattern(256 << 10)
	reset := func(peer net.Conn) {
		if tcp, ok := peer.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		peer.Close()
	}
	cases := []struct {
		name string
		set  func(p *probe)
		act  func(l *Loop, p *probe, peer net.Conn)
		want error // nil: any
	}{
		{name: "the peer closes", act: func(_ *Loop, _ *probe, peer net.Conn) { peer.Close() }, want: io.EOF},
		{name: "the peer resets", act: func(_ *Loop, _ *probe, peer net.Conn) { reset(peer) }, want: unix.ECONNRESET},
		{name: "by makeHandler", set: func(p *probe) { p.conn.Close() }, want: ErrClosed},
		{name: "in Input", set: func(p *probe) {
			p.onInput = func([]byte) { p.conn.Close(); p.conn.Close(); p.write(big) }
		}, act: func(_ *Loop, _ *probe, peer net.Conn) { _, _ = peer.Write([]byte("x")) }, want: ErrClosed},
		{name: "after draining, in Input", set: func(p *probe) {
			p.onInput = func([]byte) { p.write([]byte("y")); p.conn.CloseAfterDrain(); p.conn.CloseAfterDrain() }
		}, act: func(_ *Loop, _ *probe, peer net.Conn) {
			_, _ = peer.Write([]byte("x"))
			_, _ = io.ReadAll(peer)
			peer.Close()
		}, want: ErrClosed},
		{name: "in Drained", set: func(p *probe) {
			buf := p.conn.loop.pool.Get(len(big))
			p.onDrained = func() { buf.Release(); p.conn.Close() }
			p.conn.Write(buf, len(big))
		}, act: func(_ *Loop, _ *probe, peer net.Conn) { _, _ = io.ReadAll(peer) }, want: ErrClosed},
		{name: "with a write outstanding", set: func(p *probe) { p.write(big) }, act: func(l *Loop, p *probe, _ net.Conn) {
			turns(l)
			on(l, p.conn.Close)
		}, want: ErrClosed},
		{name: "paused with a write outstanding, the peer resets", set: func(p *probe) { p.write(big); p.conn.PauseRead() },
			act: func(l *Loop, _ *probe, peer net.Conn) { turns(l); reset(peer) }},
		{name: "the peer resets between input and answer", set: func(p *probe) {
			p.onInput = func([]byte) { p.conn.PauseRead() }
		}, act: func(l *Loop, p *probe, peer net.Conn) {
			_, _ = peer.Write([]byte("x"))
			for p.input.Load() == 0 {
				turns(l)
			}
			reset(peer)
			on(l, func() {
				if !p.isClosed {
					p.write([]byte("y"))
				}
			})
			on(l, p.conn.ResumeRead)
		}},
		{name: "by a timer and again in Closed", set: func(p *probe) {
			p.onClosed = func() {
				p.conn.Close()
				p.conn.PauseRead()
				p.conn.ResumeRead()
				p.conn.CloseAfterDrain()
				p.write(big)
			}
			p.conn.loop.Arm(&Timer{Fire: RunnerFunc(p.conn.Close)}, 0)
		}, want: ErrClosed},
	}
	forBackends(t, func(t *testing.T, backend string) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				l := newLoop(t, backend)
				fd, peer := pair(t, "tcp")
				limitBuffers(t, fd, 4096)
				p := adopt(t, l, fd, tc.set)
				if tc.act != nil {
					tc.act(l, p, peer)
				}
				err := within(t, "Closed", p.closed)
				if tc.want != nil && !errors.Is(err, tc.want) {
					t.Errorf("closed because of %v, want %v", err, tc.want)
				}
				turns(l) // the probe complains about anything more
				if n := l.Conns(); n != 0 {
					t.Errorf("%d connections", n)
				}
			})
		}
	})
}

// TestConn_CloseAfterDrainDelivers: the peer gets everything although it has
// sent what nobody read, and sends on.
func TestConn_CloseAfterDrainDelivers(t *testing.T) {
	out := pattern(1 << 20)
	forBackends(t, func(t *testing.T, backend string) {
		for _, paused := range []bool{false, true} {
			t.Run(map[bool]string{false: "reading", true: "paused"}[paused], func(t *testing.T) {
				l := newLoop(t, backend)
				fd, peer := pair(t, "tcp")
				limitBuffers(t, fd, 65536)
				peerFD(t, peer, func(fd int) { limitBuffers(t, fd, 65536) })
				go func() { // until the socket is closed
					for junk := make([]byte, 50_000); ; {
						if _, err := peer.Write(junk); err != nil {
							return
						}
					}
				}()
				p := adopt(t, l, fd, func(p *probe) {
					if paused {
						p.conn.PauseRead()
					}
					p.write(out)
					p.conn.CloseAfterDrain()
					p.conn.PauseRead() // too late to matter
				})
				turns(l)
				in, err := io.ReadAll(peer)
				if err != nil || !bytes.Equal(in, out) {
					t.Errorf("%d of %d bytes arrived, then %v", len(in), len(out), err)
				}
				peer.Close()
				if err := within(t, "Closed", p.closed); err != ErrClosed {
					t.Errorf("closed because of %v", err)
				}
				if p.drained != 0 {
					t.Errorf("drained %d times after CloseAfterDrain", p.drained)
				}
			})
		}
	})
}

// TestConn_WriteLast: the last bytes and the end of the direction are one packet
// where they fit one, unless the loop is held up in between, and all of them
// arrive where they do not.
func TestConn_WriteLast(t *testing.T) {
	segments := func(peer net.Conn) (n uint32) {
		peerFD(t, peer, func(fd int) {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			check(t, err)
			n = info.Segs_in
		})
		return n
	}
	forBackends(t, func(t *testing.T, backend string) {
		for _, size := range []int{100, 1 << 20} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				l := newLoop(t, backend)
				once := func() (packets uint32) {
					fd, peer := pair(t, "tcp")
					if size > 100 {
						limitBuffers(t, fd, 65536)
					}
					before, out := segments(peer), pattern(size)
					p := adopt(t, l, fd, func(p *probe) {
						buf := p.conn.loop.pool.Get(len(out))
						copy(buf.Bytes(), out)
						left := p.conn.WriteLast(buf, len(out))
						if left {
							buf.Release()
						}
						if left != (size == 100) {
							t.Errorf("%d bytes have left: %v", size, left)
						}
					})
					in, err := io.ReadAll(peer)
					if err != nil || !bytes.Equal(in, out) {
						t.Errorf("%d of %d bytes arrived, then %v", len(in), len(out), err)
					}
					packets = segments(peer) - before
					peer.Close()
					if err := within(t, "Closed", p.closed); err != ErrClosed {
						t.Errorf("closed because of %v", err)
					}
					if p.drained != 0 {
						t.Errorf("drained %d times after the last write", p.drained)
					}
					return packets
				}
				for try := 1; ; try++ { // the kernel sends the bytes after 200 ms without their end
					n := once()
					if size > 100 || n == 1 {
						break
					}
					if try == 20 {
						t.Fatalf("it took %d packets", n)
					}
				}
			})
		}
	})
}

// TestConn_CloseAfterDrainToHalfClosedPeer: a peer that has ended its own
// direction still gets everything.
func TestConn_CloseAfterDrainToHalfClosedPeer(t *testing.T) {
	out := pattern(1 << 20)
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "tcp")
		limitBuffers(t, fd, 65536)
		p := adopt(t, l, fd, func(p *probe) {
			p.write(out)
			p.conn.CloseAfterDrain()
		})
		check(t, peer.(*net.TCPConn).CloseWrite())
		turns(l)
		in, err := io.ReadAll(peer)
		if err != nil || !bytes.Equal(in, out) {
			t.Errorf("%d of %d bytes arrived, then %v", len(in), len(out), err)
		}
		if err := within(t, "Closed", p.closed); err != ErrClosed {
			t.Errorf("closed because of %v", err)
		}
	})
}

// TestConn_LingerEnds: a peer that never closes is let go of.
func TestConn_LingerEnds(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, _ := pair(t, "tcp")
		p := adopt(t, l, fd, func(p *probe) {
			p.conn.CloseAfterDrain()
			p.conn.loop.Arm(&p.conn.linger.timer, 0) // not lingerStep
		})
		if err := within(t, "Closed", p.closed); err != ErrClosed {
			t.Errorf("closed because of %v", err)
		}
	})
}

// TestConn_LingerGoesOnWithProgress: a slow reader gets more time, one that
// reads nothing does not.
func TestConn_LingerGoesOnWithProgress(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		p := adopt(t, l, fd, func(p *probe) {
			p.write(pattern(3000))
			p.conn.CloseAfterDrain()
		})
		on(l, func() {
			g := p.conn.linger
			if g.unsent < 3000 {
				t.Errorf("%d bytes are unsent", g.unsent)
			}
			g.unsent++ // as if the peer had taken one since
			g.Run()
			if p.conn.dead || g.timer.index == 0 {
				t.Error("given up although the peer reads")
			}
			g.Run()
			if !p.conn.dead {
				t.Error("waits for a peer that does not read")
			}
		})
		if err := within(t, "Closed", p.closed); err != ErrClosed {
			t.Errorf("closed because of %v", err)
		}
		in, err := io.ReadAll(peer)
		if err != nil || len(in) != 3000 {
			t.Errorf("%d bytes arrived, then %v", len(in), err)
		}
	})
}
