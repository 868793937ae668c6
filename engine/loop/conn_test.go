package loop

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// echo makes p send back what it gets: it stops reading while a write is
// outstanding, so it holds little.
func echo(p *probe) (unfinished *int) {
	unfinished = new(int)
	var pending []byte
	flush := func() {
		for len(pending) > 0 && !p.conn.Writing() {
			n := min(len(pending), 60_000)
			if !p.write(pending[:n]) {
				*unfinished++
				p.conn.PauseRead()
			}
			pending = append(pending[:0], pending[n:]...)
		}
		if len(pending) == 0 && !p.conn.Writing() {
			p.conn.ResumeRead()
		}
	}
	held := p.conn.out // the last unfinished write's
	p.onInput = func(data []byte) {
		pending = append(pending, data...)
		flush()
		held = p.conn.out
	}
	p.onDrained = func() {
		held.Release()
		flush()
		held = p.conn.out
	}
	return unfinished
}

func TestConn_EchoThroughSmallBuffers(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		for _, network := range []string{"unix", "tcp"} {
			t.Run(network, func(t *testing.T) {
				l := newLoop(t, backend)
				fd, peer := pair(t, network)
				// On TCP, tiny buffers would mean waiting for delayed acknowledgements.
				bytesMax := map[string]int{"unix": 4096, "tcp": 32768}[network]
				limitBuffers(t, fd, bytesMax)
				peerFD(t, peer, func(fd int) { limitBuffers(t, fd, bytesMax) })
				var unfinished *int
				p := adopt(t, l, fd, func(p *probe) { unfinished = echo(p) })
				out := pattern(2 << 20)
				var writer sync.WaitGroup
				writer.Go(func() {
					random := rand.New(rand.NewPCG(1, 2))
					for rest := out; len(rest) > 0; {
						n := min(1+random.IntN(200_000), len(rest))
						if _, err := peer.Write(rest[:n]); err != nil {
							t.Error(err)
							return
						}
						rest = rest[n:]
					}
				})
				in := make([]byte, len(out))
				_, err := io.ReadFull(peer, in)
				check(t, err)
				writer.Wait()
				if !bytes.Equal(in, out) {
					t.Error("the echo differs")
				}
				turns(l)
				on(l, func() {
					if p.drained != *unfinished || p.drained == 0 && network == "unix" {
						t.Errorf("Drained %d times for %d unfinished writes", p.drained, *unfinished)
					}
				})
				peer.Close()
				if err := within(t, "Closed", p.closed); err != io.EOF {
					t.Errorf("closed because of %v", err)
				}
			})
		}
	})
}

func TestConn_PausePushesBackAndLosesNothing(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		for _, network := range []string{"unix", "tcp"} {
			t.Run(network, func(t *testing.T) {
				l := newLoop(t, backend)
				fd, peer := pair(t, network)
				var got []byte
				p := adopt(t, l, fd, func(p *probe) {
					p.onInput = func(data []byte) {
						got = append(got, data...)
						p.conn.PauseRead() // at every single one
					}
				})
				const most = 32 << 20
				out := pattern(most)
				sent := 0
				// Fill until the peer is refused even after the loop had its turns.
				for refused := 0; refused < 3 && sent < most; {
					var n int
					var err error
					peerFD(t, peer, func(fd int) { n, err = unix.Write(fd, out[sent:min(sent+100_000, most)]) })
					if err == unix.EAGAIN {
						refused++
						turns(l)
						continue
					}
					check(t, err)
					refused = 0
					sent += n
				}
				if sent == most {
					t.Fatal("a paused connection took everything")
				}
				before := 0
				on(l, func() { before = len(got) })
				turns(l)
				on(l, func() {
					if len(got) != before || !p.conn.Paused() {
						t.Errorf("Input while paused: %d, then %d bytes", before, len(got))
					}
				})
				peer.Close() // what has been sent must still arrive, before the end
				for {
					select {
					case err := <-p.closed:
						if err != io.EOF {
							t.Errorf("closed because of %v", err)
						}
						if !bytes.Equal(got, out[:sent]) {
							t.Errorf("%d of %d bytes arrived", len(got), sent)
						}
						return
					default:
						on(l, p.conn.ResumeRead)
					}
				}
			})
		}
	})
}

// TestConn_PauseAndResumeAtOnce: pausing and resuming before anything happens changes
// nothing.
func TestConn_PauseAndResumeAtOnce(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		p := adopt(t, l, fd, func(p *probe) { // also before the first event
			p.conn.PauseRead()
			p.conn.ResumeRead()
			echo(p)
		})
		for i := range 200 {
			on(l, func() {
				p.conn.PauseRead()
				if i%2 == 0 {
					p.conn.ResumeRead()
				}
			})
			_, err := peer.Write([]byte{byte(i)})
			check(t, err)
			if i%3 == 0 {
				turns(l)
			}
			on(l, p.conn.ResumeRead)
			var b [1]byte
			_, err = io.ReadFull(peer, b[:])
			check(t, err)
			if b[0] != byte(i) {
				t.Fatalf("got %d, want %d", b[0], i)
			}
		}
	})
}

func TestConn_DrainedOnce(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		limitBuffers(t, fd, 4096)
		out := pattern(256 << 10)
		drained := make(chan bool, 2)
		p := adopt(t, l, fd, func(p *probe) {
			buf := p.conn.loop.pool.Get(len(out))
			copy(buf.Bytes(), out)
			p.onDrained = func() {
				if p.conn.Writing() {
					t.Error("still writing in Drained")
				}
				buf.Release()
				drained <- true
			}
			if p.conn.Write(buf, len(out)) { // from makeHandler
				t.Error("256 KiB fitted into a small buffer")
			}
			defer func() {
				if recover() == nil {
					t.Error("a second Write was accepted")
				}
			}()
			p.conn.Write(buf, 1)
		})
		turns(l)
		on(l, func() {
			if p.drained != 0 || !p.conn.Writing() {
				t.Errorf("drained %d times before the peer reads", p.drained)
			}
		})
		in := make([]byte, len(out))
		_, err := io.ReadFull(peer, in)
		check(t, err)
		within(t, "Drained", drained)
		if !bytes.Equal(in, out) {
			t.Error("the bytes differ")
		}
		turns(l)
		on(l, func() {
			if p.drained != 1 {
				t.Errorf("drained %d times", p.drained)
			}
		})
	})
}

func TestConn_Addresses(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "tcp")
		p := adopt(t, l, fd, nil)
		if got, want := p.conn.Remote().String(), peer.LocalAddr().String(); got != want {
			t.Errorf("remote %s, want %s", got, want)
		}
		if got, want := p.conn.Local().String(), peer.RemoteAddr().String(); got != want {
			t.Errorf("local %s, want %s", got, want)
		}
		if p.conn.Loop() != l || l.Backend() != backend || l.ID() != 0 {
			t.Error("wrong loop")
		}
	})
}

// TestConn_DescriptorReuse: what was under way for a closed connection never
// reaches the one that gets its descriptor number.
func TestConn_DescriptorReuse(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		reused := 0
		numbers := map[int]bool{}
		for i := range 100 {
			fd, peer := pair(t, "unix")
			if numbers[fd] {
				reused++
			}
			numbers[fd] = true
			p := adopt(t, l, fd, func(p *probe) { p.onInput = func(data []byte) { p.write(data) } })
			_, err := peer.Write([]byte{byte(i)})
			check(t, err)
			var b [2]byte
			n, err := peer.Read(b[:])
			check(t, err)
			if n != 1 || b[0] != byte(i) {
				t.Fatalf("connection %d got %v", i, b[:n])
			}
			on(l, func() { // leave a write and a read behind
				if p.write(bytes.Repeat([]byte{0xEE}, 256<<10)) {
					p.write(bytes.Repeat([]byte{0xEE}, 256<<10))
				}
				p.conn.PauseRead()
				p.conn.Close()
			})
			within(t, "Closed", p.closed)
			_, _ = io.Copy(io.Discard, peer) // until the descriptor is closed
			peer.Close()
		}
		if reused == 0 {
			t.Error("no descriptor was reused")
		}
	})
}

// plainEcho sends back what it gets, to peers that wait for it.
type plainEcho struct {
	conn    *Conn
	sending *arena.Buf
}

func (e *plainEcho) Input(data []byte) {
	buf := e.conn.loop.pool.Get(len(data))
	copy(buf.Bytes(), data)
	if e.conn.Write(buf, len(data)) {
		buf.Release()
		return
	}
	e.sending = buf
}
func (e *plainEcho) Drained()     { e.sending.Release() }
func (e *plainEcho) Closed(error) {}

func TestConn_HotPathAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		adopted := make(chan struct{})
		l.Adopt(fd, func(c *Conn) Handler { defer close(adopted); return &plainEcho{conn: c} })
		<-adopted
		message, answer := pattern(4000), make([]byte, 4000)
		nop := &countRunner{}
		peerFD(t, peer, func(fd int) {
			check(t, unix.SetNonblock(fd, false))
			allocs := testing.AllocsPerRun(500, func() {
				l.Post(nop)
				_, _ = unix.Write(fd, message)
				for n := 0; n < len(answer); {
					k, err := unix.Read(fd, answer[n:])
					if err != nil || k == 0 {
						t.Errorf("read: %d, %v", k, err)
						return
					}
					n += k
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations per round trip", allocs)
			}
			check(t, unix.SetNonblock(fd, true))
		})
	})
}
