package main

import (
	"net"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// client is as little of an AMQP client as the tests need: one connection, one
// channel, blocking.
type client struct {
	t    *testing.T
	conn net.Conn
	buf  []byte // received and not yet parsed
	used int
}

const channelNumber = 1

// connect opens a connection and a channel.
func connect(t *testing.T, addr string) *client {
	t.Helper()
	c := login(t, addr, "guest", "guest")
	var tune amqp.ConnectionTune
	c.expect(0, &tune)
	c.send(0, &amqp.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax})
	c.send(0, &amqp.ConnectionOpen{VirtualHost: []byte("/")})
	c.expect(0, &amqp.ConnectionOpenOk{})
	c.send(channelNumber, &amqp.ChannelOpen{})
	c.expect(channelNumber, &amqp.ChannelOpenOk{})
	return c
}

// login connects and sends a name and password.
func login(t *testing.T, addr, user, password string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: conn}
	c.write(amqp.ProtocolHeader)
	c.expect(0, &amqp.ConnectionStart{})
	c.send(0, &amqp.ConnectionStartOk{Mechanism: []byte("PLAIN"), Response: []byte("\x00" + user + "\x00" + password), Locale: []byte("en_US")})
	return c
}

func (c *client) write(data []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(data); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(channel uint16, m amqp.Method) {
	c.t.Helper()
	c.write(amqp.AppendMethodFrame(nil, channel, m))
}

// frame reads one frame. Its payload is valid until the next call.
func (c *client) frame() (amqp.Frame, error) {
	c.buf, c.used = append([]byte(nil), c.buf[c.used:]...), 0
	for {
		f, n, err := amqp.ParseFrame(c.buf, 0)
		if err != nil {
			return amqp.Frame{}, err
		}
		if n > 0 {
			c.used = n
			return f, nil
		}
		var more [8192]byte
		k, err := c.conn.Read(more[:])
		if err != nil {
			return amqp.Frame{}, err
		}
		c.buf = append(c.buf, more[:k]...)
	}
}

// method reads a method frame.
func (c *client) method() (channel uint16, id uint32, args []byte) {
	c.t.Helper()
	f, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	if f.Type != amqp.FrameMethod {
		c.t.Fatalf("got a frame of type %d instead of a method", f.Type)
	}
	if id, args, err = amqp.SplitMethod(f.Payload); err != nil {
		c.t.Fatal(err)
	}
	return f.Channel, id, args
}

// expect reads a method of m's kind into m.
func (c *client) expect(channel uint16, m amqp.Method) {
	c.t.Helper()
	got, id, args := c.method()
	if id != m.ID() || got != channel {
		c.t.Fatalf("got %s on channel %d (%q), want %s on channel %d", amqp.MethodName(id), got, args, amqp.MethodName(m.ID()), channel)
	}
	if err := m.Decode(args); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a method and reads the answer.
func (c *client) call(m, answer amqp.Method) {
	c.t.Helper()
	c.send(channelNumber, m)
	c.expect(channelNumber, answer)
}

// publishFrames encodes a persistent message.
func publishFrames(dst []byte, exchange, key, body string) []byte {
	dst = amqp.AppendMethodFrame(dst, channelNumber, &amqp.BasicPublish{Exchange: []byte(exchange), RoutingKey: []byte(key)})
	dst = amqp.AppendHeaderFrame(dst, channelNumber, uint64(len(body)), []byte{byte(amqp.FlagDeliveryMode >> 8), byte(amqp.FlagDeliveryMode & 0xff), 2})
	return amqp.AppendBodyFrames(dst, channelNumber, []byte(body), 0)
}

// confirmed reads confirms until the broker has acked everything up to tag.
func (c *client) confirmed(tag uint64) {
	c.t.Helper()
	for acked := uint64(0); acked < tag; {
		var ack amqp.BasicAck
		c.expect(channelNumber, &ack)
		acked = ack.DeliveryTag
	}
}

// goodBye answers the connection.close of a broker that stops.
func (c *client) goodBye() {
	c.t.Helper()
	c.expect(0, &amqp.ConnectionClose{})
	c.send(0, &amqp.ConnectionCloseOk{})
	c.conn.Close()
}

// message is what basic.get gives.
type message struct {
	body        string
	tag         uint64
	redelivered bool
}

// get takes one message; ok is false when the queue is empty.
func (c *client) get(queue string, noAck bool) (m message, ok bool) {
	c.t.Helper()
	c.send(channelNumber, &amqp.BasicGet{Queue: []byte(queue), NoAck: noAck})
	_, id, args := c.method()
	if id == amqp.BasicGetEmptyID {
		return message{}, false
	}
	var got amqp.BasicGetOk
	if id != got.ID() {
		c.t.Fatalf("got %s", amqp.MethodName(id))
	}
	if err := got.Decode(args); err != nil {
		c.t.Fatal(err)
	}
	m.tag, m.redelivered = got.DeliveryTag, got.Redelivered
	f, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	h, err := amqp.DecodeContentHeader(f.Payload)
	if err != nil {
		c.t.Fatal(err)
	}
	for uint64(len(m.body)) < h.BodySize {
		f, err := c.frame()
		if err != nil {
			c.t.Fatal(err)
		}
		m.body += string(f.Payload)
	}
	return m, true
}

// all takes everything there is.
func (c *client) all(queue string) (messages []message) {
	c.t.Helper()
	for {
		m, ok := c.get(queue, true)
		if !ok {
			return messages
		}
		messages = append(messages, m)
	}
}
