//go:build uring && linux

package loop

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// ringOf runs f on the loop with its backend.
func ringOf(l *Loop, f func(r *ring)) { on(l, func() { f(l.backend.(*ring)) }) }

// TestRing_ForgetsClosedPeers: the table of peers and the count of operations
// go back to where they were.
func TestRing_ForgetsClosedPeers(t *testing.T) {
	needBackend(t, "uring")
	l := newLoop(t, "uring")
	for round := range 3 {
		for i := range 20 {
			fd, peer := pair(t, "tcp")
			p := adopt(t, l, fd, func(p *probe) {
				if i%2 == 0 {
					p.write(pattern(256 << 10))
				}
				if i%3 == 0 {
					p.conn.PauseRead()
				}
			})
			_, err := peer.Write(pattern(20_000))
			check(t, err)
			if i%4 < 2 {
				turns(l)
			}
			on(l, p.conn.Close)
			within(t, "Closed", p.closed)
			_, _ = io.Copy(io.Discard, peer)
		}
		left, inFlight := -1, 0
		for deadline := time.Now().Add(patience); left != 0 || inFlight > 1; {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d peers, %d operations are left", round, left, inFlight)
			}
			ringOf(l, func(r *ring) {
				left, inFlight = len(r.peers)-len(r.free), r.inFlight // 1: the eventfd
			})
		}
	}
}

// TestRing_HeldInputIsCopied: what arrives for a paused connection does not keep
// the shared buffers from the others, and comes in order.
func TestRing_HeldInputIsCopied(t *testing.T) {
	needBackend(t, "uring")
	l := newLoop(t, "uring")
	fd, peer := pair(t, "unix")
	var got []byte
	p := adopt(t, l, fd, func(p *probe) {
		p.onInput = func(data []byte) { got = append(got, data...) }
	})
	out := pattern(200_000)
	ringOf(l, func(r *ring) {
		// As if these had come right behind a pause.
		c := p.conn
		c.paused = true
		for from := 0; from < len(out); {
			to := min(from+30_000, len(out))
			r.input(c.ring, c, out[from:to])
			from = to
		}
		if len(got) != 0 {
			t.Error("Input while paused")
		}
		c.ring.end = io.EOF
		c.ResumeRead()
	})
	if err := within(t, "Closed", p.closed); err != io.EOF || !bytes.Equal(got, out) {
		t.Errorf("%d of %d bytes, then %v", len(got), len(out), err)
	}
	peer.Close()
}

func TestRing_IdleLoopGivesBufferPagesBack(t *testing.T) {
	needBackend(t, "uring")
	l := newLoop(t, "uring")
	fd, peer := pair(t, "unix")
	adopt(t, l, fd, func(p *probe) { echo(p) })
	exchange := func() {
		t.Helper()
		out, in := pattern(60_000), make([]byte, 60_000)
		for range 8 {
			_, err := peer.Write(out)
			check(t, err)
			_, err = io.ReadFull(peer, in)
			check(t, err)
			if !bytes.Equal(in, out) {
				t.Fatal("the echo differs")
			}
		}
	}
	exchange()
	ringOf(l, func(r *ring) {
		memory := r.memory
		if !r.dirty || bytes.Count(memory, []byte{0}) == len(memory) {
			t.Error("nothing was received into the shared buffers")
		}
		r.trimmed = r.loop.now.Add(-recvTrimInterval)
		r.sinceTrimmed = r.loop.stats.BytesRead - recvBuffers*recvBufferBytes // a lot lately
		r.trim()
		if !r.dirty {
			t.Error("trimmed while busy")
		}
		r.trim() // too soon
		if !r.dirty {
			t.Error("trimmed again at once")
		}
		r.trimmed = r.loop.now.Add(-recvTrimInterval)
		r.trim()
		if r.dirty || bytes.Count(memory, []byte{0}) != len(memory) {
			t.Error("an idle loop keeps its receive buffers")
		}
	})
	exchange()
}

func TestRing_UserData(t *testing.T) {
	r := &ring{}
	a, b := r.newPeer(3), r.newPeer(4)
	for _, p := range []*ringPeer{a, b} {
		if operation, found := r.peerOf(p.userData(opSend)); operation != opSend || found != p {
			t.Errorf("found %p by operation %d", found, operation)
		}
	}
	a.gone, a.fd = true, -1
	r.retire(a)
	r.retire(a)
	next := r.newPeer(5)
	if next.index != a.index || len(r.free) != 0 {
		t.Errorf("index %d after %d was free", next.index, a.index)
	}
	for _, late := range []uint64{a.userData(opReceive), 1<<31 | opReceive<<56} {
		if _, found := r.peerOf(late); found != nil {
			t.Errorf("a late completion found %+v", found)
		}
	}
}
