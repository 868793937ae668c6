package tlslayer

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ loop.Layer = (*Layer)(nil)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair makes a client and, behind its handshake, a detached layer. The layer's
// socket is a pipe that nobody reads any more: the test carries the bytes.
func pair(t testing.TB, change func(client, server *tls.Config)) (*tls.Conn, *carried, *Layer) {
	t.Helper()
	ca := securetest.NewCA(t)
	server := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, "localhost")}, DynamicRecordSizingDisabled: true}
	client := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"}
	if change != nil {
		change(client, server)
	}
	a, b := net.Pipe()
	carry := &carried{Conn: a}
	c := tls.Client(carry, client)
	s := Server(b, server)
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	check(t, c.Handshake())
	// Of TLS 1.3 the ticket is still in the pipe: it is read with the first input.
	check(t, <-done)
	l, socket, err := Detach(s)
	check(t, err)
	if socket != b {
		t.Fatal("another socket")
	}
	carry.detached = true
	t.Cleanup(func() { a.Close(); b.Close() })
	return c, carry, l
}

// carried is the client's connection: bytes by hand once it is detached.
type carried struct {
	net.Conn
	detached bool
	in, out  []byte
}

func (c *carried) Read(p []byte) (int, error) {
	if !c.detached {
		return c.Conn.Read(p)
	}
	if len(c.in) == 0 {
		return 0, again{}
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *carried) Write(p []byte) (int, error) {
	if !c.detached {
		return c.Conn.Write(p)
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

func (c *carried) Close() error { return nil }

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// TestLayer_Transfers carries random amounts both ways, cut at random places.
func TestLayer_Transfers(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			c, carry, l := pair(t, func(client, _ *tls.Config) { client.MaxVersion = version })
			scratch := make([]byte, 256<<10)
			rapid.Check(t, func(t *rapid.T) {
				data := make([]byte, rapid.IntRange(1, 100_000).Draw(t, "bytes"))
				_, _ = rand.Read(data)
				if _, err := c.Write(data); err != nil {
					t.Fatal(err)
				}
				var got []byte
				for wire := carry.out; len(wire) > 0; {
					k := min(rapid.IntRange(1, 40_000).Draw(t, "piece"), len(wire))
					plain, err := l.Decode(wire[:k], scratch[:k+loop.LayerSlack])
					if err != nil {
						t.Fatal(err)
					}
					got, wire = append(got, plain...), wire[k:]
				}
				carry.out = nil
				if !bytes.Equal(got, data) {
					t.Fatal("other bytes")
				}
				for rest := data; len(rest) > 0; {
					k := min(rapid.IntRange(1, loop.LayerPiece).Draw(t, "out"), len(rest))
					encoded, err := l.Encode(nil, rest[:k])
					if err != nil || l.Pending() {
						t.Fatal(err)
					}
					if len(encoded) > k+loop.LayerSlack {
						t.Fatal("more than the slack")
					}
					carry.in, rest = append(carry.in, encoded...), rest[k:]
				}
				back := make([]byte, len(data))
				if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, data) {
					t.Fatal("other bytes back", err)
				}
			})
		})
	}
}

// TestLayer_ByteByByte: a record that comes in single bytes is still read, which
// is what the package relies on of crypto/tls.
func TestLayer_ByteByByte(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			c, carry, l := pair(t, func(client, _ *tls.Config) { client.MaxVersion = version })
			scratch := make([]byte, 1+loop.LayerSlack)
			for range 3 {
				_, err := c.Write([]byte("hello, layer"))
				check(t, err)
				var got []byte
				for _, b := range carry.out {
					plain, err := l.Decode([]byte{b}, scratch)
					check(t, err)
					got = append(got, plain...)
				}
				carry.out = nil
				if string(got) != "hello, layer" {
					t.Fatalf("%q", got)
				}
			}
		})
	}
}

// TestLayer_Ends: close_notify both ways.
func TestLayer_Ends(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			c, carry, l := pair(t, func(client, _ *tls.Config) { client.MaxVersion = version })
			l.End()
			if !l.Pending() {
				t.Fatal("nothing to say")
			}
			end, err := l.Encode(nil, nil)
			check(t, err)
			carry.in = append(carry.in, end...)
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Fatalf("the client reads %v", err)
			}
			_, err = c.Write([]byte("last"))
			check(t, err)
			check(t, c.CloseWrite())
			plain, err := l.Decode(carry.out, make([]byte, len(carry.out)+loop.LayerSlack))
			if string(plain) != "last" || err != io.EOF {
				t.Fatalf("%q, %v", plain, err)
			}
		})
	}
}

// TestLayer_Tampered: a changed byte ends the connection, with an alert to send.
func TestLayer_Tampered(t *testing.T) {
	c, carry, l := pair(t, nil)
	_, err := c.Write([]byte("hello"))
	check(t, err)
	carry.out[len(carry.out)-1] ^= 1
	plain, err := l.Decode(carry.out, make([]byte, len(carry.out)+loop.LayerSlack))
	if len(plain) != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("%q, %v", plain, err)
	}
	if !l.Pending() {
		t.Fatal("no alert")
	}
}

// TestTransport_ControlIsBounded: what is said besides output has a bound.
func TestTransport_ControlIsBounded(t *testing.T) {
	tr := &Transport{}
	for range controlBytesMax / 64 {
		_, err := tr.Write(make([]byte, 64))
		check(t, err)
	}
	if _, err := tr.Write([]byte{1}); !errors.Is(err, errControl) {
		t.Fatalf("%v", err)
	}
}

func TestDetach_Refuses(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, _, err := Detach(tls.Server(a, &tls.Config{})); err == nil {
		t.Error("a connection of another make")
	}
	if _, _, err := Detach(Server(b, &tls.Config{})); err == nil {
		t.Error("before its handshake")
	}
}

// FuzzLayer feeds bytes that no client made.
func FuzzLayer(f *testing.F) {
	f.Add([]byte("\x17\x03\x03\x00\x10garbagegarbagega"))
	f.Add([]byte("\x15\x03\x03\x00\x02\x01\x00"))
	f.Add([]byte("\x16\x03\x03\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		_, _, l := pair(t, nil)
		plain, err := l.Decode(data, make([]byte, len(data)+loop.LayerSlack))
		if len(plain) > 0 {
			t.Fatalf("%q, %v", plain, err)
		}
		if _, err := l.Encode(nil, nil); err != nil {
			t.Fatal(err)
		}
	})
}
