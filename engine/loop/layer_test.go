package loop

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// maskLayer is a layer for tests. On the wire each plain byte is two: 1 and its
// complement. The peer's 2 asks for a word of the layer's own (a 3), its 4 ends
// its direction, anything else is an error. The layer's good-bye is 5.
type maskLayer struct {
	half    bool
	pending []byte
}

var errMask = errors.New("not a byte of this layer")

func (m *maskLayer) Decode(raw, scratch []byte) ([]byte, error) {
	n := 0
	for i, b := range raw {
		switch {
		case m.half:
			m.half = false
			scratch[n] = ^b
			n++
		case b == 1:
			m.half = true
		case b == 2:
			m.pending = append(m.pending, 3)
		case b == 4:
			if i != len(raw)-1 {
				return scratch[:n], errMask
			}
			return scratch[:n], io.EOF
		default:
			m.pending = append(m.pending, 6)
			return scratch[:n], errMask
		}
	}
	return scratch[:n], nil
}

// Encode is for at most LayerSlack bytes: tests write no more at once.
func (m *maskLayer) Encode(dst, plain []byte) ([]byte, error) {
	dst = append(dst, m.pending...)
	m.pending = m.pending[:0]
	return append(dst, plain...), nil
}

func (m *maskLayer) Pending() bool { return len(m.pending) > 0 }
func (m *maskLayer) End()          { m.pending = append(m.pending, 5) }

// masked is the peer's encoding.
func masked(plain []byte) []byte {
	var out []byte
	for _, b := range plain {
		out = append(out, 1, ^b)
	}
	return out
}

func adoptLayered(t testing.TB, l *Loop, fd int, early []byte, set func(p *probe)) *probe {
	t.Helper()
	p := &probe{t: t, closed: make(chan error, 1)}
	ready := make(chan struct{})
	l.AdoptLink(fd, Link{Layer: &maskLayer{}, Early: early, Remote: loopback}, func(c *Conn) Handler {
		defer close(ready)
		p.conn = c
		if set != nil {
			set(p)
		}
		return p
	})
	within(t, "adopting", ready)
	return p
}

// layeredEcho sends back what comes, and stops reading meanwhile.
func layeredEcho(p *probe) {
	var held *arena.Buf
	p.onInput = func(data []byte) {
		if held != nil {
			p.t.Error("input while paused")
			return
		}
		buf := p.conn.loop.pool.Get(len(data))
		copy(buf.Bytes(), data)
		if p.conn.Write(buf, len(data)) {
			buf.Release()
			return
		}
		if !p.conn.Writing() {
			p.t.Error("an outstanding write is not seen")
		}
		held = buf
		p.conn.PauseRead()
	}
	p.onDrained = func() {
		held.Release()
		held = nil
		p.conn.ResumeRead()
	}
}

// TestLayer_Echo through small buffers, with early bytes and words of the layer's
// own between them.
func TestLayer_Echo(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		limitBuffers(t, fd, 4096)
		peerFD(t, peer, func(fd int) { limitBuffers(t, fd, 4096) })
		plain := pattern(1 << 20)
		for i := range plain { // what the layer says itself is told by its values
			plain[i] |= 0x80
		}
		wire := masked(plain)
		const words = 200
		p := adoptLayered(t, l, fd, wire[:1001], layeredEcho)
		if p.conn.Remote() != loopback {
			t.Errorf("remote %v", p.conn.Remote())
		}
		var writer sync.WaitGroup
		writer.Go(func() {
			rest := wire[1001:] // between the two bytes of one
			for i := range words {
				k := len(rest) / (words - i) / 2 * 2
				if i == 0 {
					k = 1
				}
				if _, err := peer.Write(append(bytes.Clone(rest[:k]), 2)); err != nil {
					t.Error(err)
					return
				}
				rest = rest[k:]
			}
			if _, err := peer.Write(rest); err != nil {
				t.Error(err)
			}
		})
		var got []byte
		said := 0
		buf := make([]byte, 8192)
		for len(got) < len(plain) || said < words {
			n, err := peer.Read(buf)
			check(t, err)
			for _, b := range buf[:n] {
				if b == 3 {
					said++
				} else {
					got = append(got, b)
				}
			}
		}
		writer.Wait()
		if !bytes.Equal(got, plain) || said != words {
			t.Errorf("the echo differs, or %d words", said)
		}
		peer.Close()
		if err := within(t, "closing", p.closed); err != io.EOF {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestLayer_Ends: good-bye comes behind what was written, and the peer's end
// behind what was received, also when it is found while the handler is paused.
func TestLayer_Ends(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		big := bytes.Repeat([]byte{0x99}, 300_000)
		t.Run("closed after draining", func(t *testing.T) {
			fd, peer := pair(t, "unix")
			limitBuffers(t, fd, 4096)
			p := adoptLayered(t, l, fd, nil, nil)
			on(l, func() {
				p.write(big)
				p.conn.CloseAfterDrain()
			})
			got, err := io.ReadAll(peer)
			check(t, err)
			if !bytes.Equal(got, append(bytes.Clone(big), 5)) {
				t.Errorf("%d bytes, the last %v", len(got), got[max(0, len(got)-1):])
			}
			peer.Close()
			if err := within(t, "closing", p.closed); err != ErrClosed {
				t.Errorf("%v", err)
			}
		})
		t.Run("ended by the peer while paused", func(t *testing.T) {
			fd, peer := pair(t, "unix")
			p := adoptLayered(t, l, fd, nil, func(p *probe) {
				p.onInput = func(data []byte) { p.conn.PauseRead() }
			})
			_, err := peer.Write(append(masked([]byte("last")), 4))
			check(t, err)
			for p.input.Load() < 4 {
				turns(l)
			}
			on(l, func() {
				if p.isClosed {
					t.Error("closed while paused")
				}
				p.conn.ResumeRead()
				p.conn.ResumeRead()
			})
			if err := within(t, "closing", p.closed); err != io.EOF {
				t.Errorf("%v", err)
			}
		})
		t.Run("an error of the layer", func(t *testing.T) {
			fd, peer := pair(t, "unix")
			p := adoptLayered(t, l, fd, nil, nil)
			_, err := peer.Write(append(masked([]byte("x")), 77))
			check(t, err)
			if err := within(t, "closing", p.closed); !errors.Is(err, errMask) {
				t.Errorf("%v", err)
			}
			if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, []byte{6}) {
				t.Errorf("%v, %v", got, err)
			}
			if p.input.Load() != 1 {
				t.Errorf("%d bytes of input", p.input.Load())
			}
		})
		t.Run("closed with a write outstanding", func(t *testing.T) {
			fd, peer := pair(t, "unix")
			limitBuffers(t, fd, 4096)
			p := adoptLayered(t, l, fd, nil, nil)
			on(l, func() { p.write(big) })
			peer.Close()
			within(t, "closing", p.closed)
		})
		t.Run("closed on an ended loop", func(t *testing.T) {
			other := newLoop(t, backend)
			other.Stop()
			other.Wait()
			fd, peer := pair(t, "unix")
			other.AdoptLink(fd, Link{Layer: &maskLayer{}}, func(*Conn) Handler { return nil })
			if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%d, %v", n, err)
			}
		})
	})
}
