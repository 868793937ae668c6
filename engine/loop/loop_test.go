package loop

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// countRunner counts its runs; of one loop.
type countRunner struct {
	runs int
	then func()
}

func (r *countRunner) Run() {
	r.runs++
	if r.then != nil {
		r.then()
	}
}

type countWaker struct{ wakes int }

func (w *countWaker) wake() { w.wakes++ }

func TestMailbox_OneWakePerBurst(t *testing.T) {
	w := &countWaker{}
	m := mailbox{waker: w}
	r := &countRunner{}
	burst := func() {
		for range 1000 {
			m.Post(r)
		}
	}
	burst()
	if w.wakes != 0 {
		t.Errorf("%d wake-ups of a loop that is awake", w.wakes)
	}
	m.sleeping.Store(true)
	burst()
	if w.wakes != 1 {
		t.Errorf("%d wake-ups for a burst", w.wakes)
	}
	m.sleeping.Store(true)
	burst()
	if w.wakes != 2 {
		t.Errorf("%d wake-ups for two bursts", w.wakes)
	}
	if n := len(m.take(nil)); n != 3000 || m.posted.Load() {
		t.Errorf("%d of 3000 posts taken", n)
	}
	m.shut()
	if m.post(r) || m.posted.Load() {
		t.Error("a closed mailbox took a post")
	}
	m.silence()
	m.wake()
	if w.wakes != 2 {
		t.Error("a silenced mailbox woke its loop")
	}
}

func TestLoop_PostFromManyGoroutines(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		const goroutines, posts = 16, 2000
		var last [goroutines]int
		var all, senders sync.WaitGroup
		all.Add(goroutines * posts)
		for g := range goroutines {
			senders.Go(func() {
				for i := 1; i <= posts; i++ {
					l.Post(RunnerFunc(func() {
						if last[g] != i-1 {
							t.Errorf("goroutine %d: post %d ran after %d", g, i, last[g])
						}
						last[g] = i
						all.Done()
					}))
				}
			})
		}
		senders.Wait()
		all.Wait()
	})
}

// TestLoop_PostRacesWithSleep: each post arrives while the loop is about to
// sleep; one lost wake-up hangs the test.
func TestLoop_PostRacesWithSleep(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		const rounds = 10_000
		a, b := newLoop(t, backend), newLoop(t, backend)
		finished := make(chan struct{})
		var ping, pong countRunner
		ping.then = func() { b.Post(&pong) }
		pong.then = func() {
			if pong.runs == rounds {
				close(finished)
				return
			}
			a.Post(&ping)
		}
		a.Post(&ping)
		c := newLoop(t, backend)
		back := make(chan struct{})
		reply := &countRunner{then: func() { back <- struct{}{} }}
		for range rounds {
			c.Post(reply)
			within(t, "a posted Runner", back)
		}
		within(t, "two loops posting to each other", finished)
	})
}

func TestLoop_DeferRunsAfterInput(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		var order []string
		done := make(chan struct{})
		l.Post(RunnerFunc(func() {
			l.Defer(RunnerFunc(func() {
				order = append(order, "deferred")
				l.Defer(RunnerFunc(func() {
					order = append(order, "deferred by the deferred")
					close(done)
				}))
			}))
			order = append(order, "posted")
		}))
		within(t, "deferred work", done)
		want := []string{"posted", "deferred", "deferred by the deferred"}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("order %q", order)
			}
		}
	})
}

func TestLoop_Churn(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		ln, err := Listen(loopback)
		check(t, err)
		defer ln.Close()
		ln.Serve(l, func(fd int, _ netip.AddrPort) {
			l.Adopt(fd, func(c *Conn) Handler {
				p := &probe{t: t, conn: c, closed: make(chan error, 1)}
				echo(p)
				return p
			})
		})
		const clients, rounds = 10, 100
		var all sync.WaitGroup
		for g := range clients {
			all.Go(func() {
				for i := range rounds {
					conn, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					want := [2]byte{byte(g), byte(i)}
					var got [2]byte
					_ = conn.SetDeadline(time.Now().Add(patience))
					_, _ = conn.Write(want[:])
					if _, err := io.ReadFull(conn, got[:]); err != nil || got != want {
						t.Errorf("client %d round %d: %v, %v", g, i, got, err)
					}
					conn.Close()
				}
			})
		}
		all.Wait()
		for deadline := time.Now().Add(patience); l.Conns() > 0; turns(l) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections are left", l.Conns())
			}
		}
		on(l, func() {
			if l.open.count != 0 {
				t.Errorf("%d connections are still listed", l.open.count)
			}
		})
	})
}

func TestLoop_ManyConnectionsAtOnce(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		const count = 1000
		peers := make([]net.Conn, count)
		for i := range peers {
			var fd int
			fd, peers[i] = pair(t, "unix")
			adopt(t, l, fd, func(p *probe) { echo(p) })
		}
		if l.Conns() != count {
			t.Errorf("%d connections", l.Conns())
		}
		message := pattern(3000)
		for round := range 3 {
			for _, peer := range peers {
				_, err := peer.Write(message[round:])
				check(t, err)
			}
			in := make([]byte, len(message)-round)
			for i, peer := range peers {
				_, err := io.ReadFull(peer, in)
				check(t, err)
				if string(in) != string(message[round:]) {
					t.Fatalf("connection %d got something else back", i)
				}
			}
		}
		for _, peer := range peers {
			peer.Close()
		}
	})
}

// TestLoop_Crowd: many connections have input in the same turn, some go at once.
func TestLoop_Crowd(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		const count = 64
		var peers [count]net.Conn
		var probes [count]*probe
		for i := range peers {
			var fd int
			fd, peers[i] = pair(t, "tcp")
			probes[i] = adopt(t, l, fd, func(p *probe) { echo(p) })
		}
		for round := range 8 {
			held, release := make(chan struct{}), make(chan struct{})
			l.Post(RunnerFunc(func() { close(held); <-release }))
			<-held
			for i, peer := range peers {
				_, err := peer.Write(pattern(1000 + i))
				check(t, err)
				if i%8 == round {
					peer.(*net.TCPConn).SetLinger(0)
					peer.Close()
				}
			}
			close(release)
			kept := 0
			for i, peer := range peers {
				if i%8 == round {
					within(t, "Closed", probes[i].closed)
					var fd int
					fd, peers[i] = pair(t, "tcp")
					probes[i] = adopt(t, l, fd, func(p *probe) { echo(p) })
					continue
				}
				in := make([]byte, 1000+i)
				_, err := io.ReadFull(peer, in)
				check(t, err)
				if !bytes.Equal(in, pattern(1000+i)) {
					t.Fatalf("round %d: connection %d got something else back", round, i)
				}
				kept++
			}
			if kept != count*7/8 {
				t.Fatalf("%d answered", kept)
			}
		}
	})
}

// TestLoop_ManyBusyPeers: more input at once than any receive buffers hold, with
// readers that pause now and then.
func TestLoop_ManyBusyPeers(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		const count = 24
		out := pattern(1 << 20)
		var probes [count]*probe
		var writers sync.WaitGroup
		got := make([][]byte, count)
		for i := range count {
			fd, peer := pair(t, "tcp")
			var resume countRunner
			probes[i] = adopt(t, l, fd, func(p *probe) {
				resume.then = p.conn.ResumeRead
				p.onInput = func(data []byte) {
					got[i] = append(got[i], data...)
					if i%2 == 0 {
						p.conn.PauseRead()
						if len(got[i])%3 == 0 {
							l.Defer(&resume)
						} else {
							l.Post(&resume)
						}
					}
				}
			})
			writers.Go(func() {
				_, err := peer.Write(out)
				if err != nil {
					t.Error(err)
				}
				peer.Close()
			})
		}
		writers.Wait()
		for i, p := range probes {
			if err := within(t, "Closed", p.closed); err != io.EOF || !bytes.Equal(got[i], out) {
				t.Errorf("peer %d: %d of %d bytes, then %v", i, len(got[i]), len(out), err)
			}
		}
	})
}
