package amqptest

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Client is a Conn that ends the test on the first surprise.
type Client struct {
	*Conn
	t testing.TB
	// Prefix replaces "$" in every name and text that passes through the client,
	// so that the rows of a table can share a broker.
	Prefix string
}

// NewClient connects without a handshake. The socket is closed with the test.
func NewClient(t testing.TB, addr netip.AddrPort) *Client {
	t.Helper()
	c, err := Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return &Client{Conn: c, t: t}
}

// OpenClient connects, performs the handshake and opens channel 1.
func OpenClient(t testing.TB, addr netip.AddrPort, o Options) *Client {
	t.Helper()
	c, err := Open(addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return &Client{Conn: c, t: t}
}

// NewClientOf makes a client of an open connection, which the caller closes.
func NewClientOf(t testing.TB, c *Conn) *Client { return &Client{Conn: c, t: t} }

// NewClientOn is NewClient over a connected socket.
func NewClientOn(t testing.TB, socket Socket) *Client {
	t.Helper()
	c := NewConn(socket)
	t.Cleanup(c.Abort)
	return &Client{Conn: c, t: t}
}

// OpenClientOn is OpenClient over a connected socket.
func OpenClientOn(t testing.TB, socket Socket, o Options) *Client {
	t.Helper()
	c := NewClientOn(t, socket)
	if err := c.open(o); err != nil {
		t.Fatal(err)
	}
	return c
}

// With returns the client for use by another test or fuzz input.
func (c *Client) With(t testing.TB) *Client { return &Client{Conn: c.Conn, t: t, Prefix: c.Prefix} }

// Name replaces "$" by the prefix.
func (c *Client) Name(s string) string { return strings.ReplaceAll(s, "$", c.Prefix) }

func (c *Client) name(s string) []byte { return []byte(c.Name(s)) }

// Write sends raw bytes.
func (c *Client) Write(raw []byte) {
	c.t.Helper()
	if err := c.Send(raw); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// Method sends a method and waits for nothing.
func (c *Client) Method(channel uint16, m amqp.Method) {
	c.t.Helper()
	c.Write(amqp.AppendMethodFrame(nil, channel, m))
}

// Read returns the next event that is not a heartbeat.
func (c *Client) Read() Event {
	c.t.Helper()
	for {
		event, err := c.Next()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if event.Method != nil {
			return event
		}
	}
}

// Want reads one event per pattern (see Matches) and compares.
func (c *Client) Want(patterns ...string) {
	c.t.Helper()
	for _, pattern := range patterns {
		if line := c.Read().String(); !Matches(line, c.Name(pattern)) {
			c.t.Fatalf("\n got %s\nwant %s", line, c.Name(pattern))
		}
	}
}

// WantClosed reads on until the socket is closed; nothing may come before. It
// closes this side, too, as the broker waits for that a little.
func (c *Client) WantClosed() {
	c.t.Helper()
	event, err := c.Next()
	if err == nil {
		c.t.Fatalf("got %s, want a closed socket", event)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %v, want a closed socket", err)
	}
	c.Abort()
}

// WantQuiet makes sure that what was sent so far on the channel has no answer
// (or no further one). Two round trips: work that the broker defers to the end
// of a turn is done before the second.
func (c *Client) WantQuiet(channel uint16) {
	c.t.Helper()
	for range 2 {
		c.Method(channel, &amqp.BasicCancel{ConsumerTag: []byte(marker)})
		if line := c.Read().String(); !strings.HasSuffix(line, "basic.cancel-ok ConsumerTag="+marker) {
			c.t.Fatalf("got %s, want nothing", line)
		}
	}
}

// marker is a consumer tag that nobody uses: cancelling it changes nothing and
// is answered.
const marker = "amqptest-marker"

// FinishClose answers the broker's connection.close and wants the socket closed.
func (c *Client) FinishClose() {
	c.t.Helper()
	c.Method(0, &amqp.ConnectionCloseOk{})
	c.WantClosed()
}

// Ask sends a method and wants the answer M.
func Ask[M amqp.Method](c *Client, channel uint16, m amqp.Method) M {
	c.t.Helper()
	c.Method(channel, m)
	return Expect[M](c).Method.(M)
}

// Expect reads an event and wants it to be an M.
func Expect[M amqp.Method](c *Client) Event {
	c.t.Helper()
	event := c.Read()
	if _, ok := event.Method.(M); !ok {
		c.t.Fatalf("got %s, want %T", event, *new(M))
	}
	return event
}
