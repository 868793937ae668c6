package engine_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

var closeOk = &amqp.ChannelCloseOk{}

const (
	startLine  = "0 connection.start"
	tuneLine   = "0 connection.tune ChannelMax=2047 FrameMax=131072 Heartbeat=60"
	openOkLine = "0 connection.open-ok*"
)

// handshakeRow sends raw bytes on a fresh socket. The answers must be want;
// then the socket must be closed, unless open.
type handshakeRow struct {
	name string
	send []byte
	want []string
	open bool
}

// TestHandshake covers the protocol header (4.2.2) and the methods of the
// handshake in and out of their order (2.2.4).
func TestHandshake(t *testing.T) {
	e := start(t)
	header := func(frames ...[]byte) []byte {
		return append(bytes.Clone(amqp.ProtocolHeader), bytes.Join(frames, nil)...)
	}
	method := func(m amqp.Method) []byte { return amqp.AppendMethodFrame(nil, 0, m) }
	on := func(channel uint16, m amqp.Method) []byte { return amqp.AppendMethodFrame(nil, channel, m) }
	login := func(change func(m *amqp.ConnectionStartOk)) []byte {
		m := amqptest.StartOk(amqptest.Options{})
		if change != nil {
			change(m)
		}
		return method(m)
	}
	plain := func(response string) []byte {
		return login(func(m *amqp.ConnectionStartOk) { m.Response = []byte(response) })
	}
	amqplain := func(user, password string, names ...string) []byte {
		return login(func(m *amqp.ConnectionStartOk) {
			var b amqp.TableBuilder
			for i, name := range names {
				b.SetString(name, []string{user, password}[i])
			}
			m.Mechanism, m.Response = []byte("AMQPLAIN"), b.Table()
		})
	}
	tuneOk := func(channelMax uint16, frameMax uint32, heartbeat uint16) []byte {
		return method(&amqp.ConnectionTuneOk{ChannelMax: channelMax, FrameMax: frameMax, Heartbeat: heartbeat})
	}
	open := method(&amqp.ConnectionOpen{VirtualHost: []byte("/")})
	closing := method(&amqp.ConnectionClose{ReplyCode: 200})

	refused := func(mechanism string) string {
		return "0 connection.close 403 (0,0) ACCESS_REFUSED - Login was refused using authentication mechanism " + mechanism + ". For details see the broker logfile."
	}
	tuned := []string{startLine, tuneLine}
	opened := []string{startLine, tuneLine, openOkLine}
	rows := []handshakeRow{
		{name: "start", send: header(), want: []string{startLine}, open: true},
		{name: "header 1 1 0 9 of old clients", send: []byte("AMQP\x01\x01\x00\x09"), want: []string{startLine}, open: true},
		{name: "start-ok sent with the header", send: header(login(nil)), want: tuned, open: true},
		{name: "open", send: header(login(nil), tuneOk(2047, 131072, 0), open), want: opened, open: true},
		{name: "close by client", send: header(login(nil), tuneOk(0, 0, 0), open, closing), want: append(opened[:3:3], "0 connection.close-ok")},
		{name: "close before open", send: header(login(nil), closing), want: append(tuned[:2:2], "0 connection.close-ok")},
		{name: "wrong password", send: header(plain("\x00guest\x00wrong")), want: []string{startLine, refused("PLAIN")}},
		{name: "unknown user", send: header(plain("\x00nobody\x00guest")), want: []string{startLine, refused("PLAIN")}},
		{name: "wrong password without authentication_failure_close", send: header(method(amqptest.StartOk(amqptest.Options{User: "guest", Password: "wrong", NoCapabilities: true}))), want: []string{startLine}},
		{name: "PLAIN garbage", send: header(plain("garbage")), want: []string{startLine, refused("PLAIN")}},
		{name: "AMQPLAIN", send: header(amqplain("guest", "guest", "LOGIN", "PASSWORD"), tuneOk(0, 0, 0), open), want: opened, open: true},
		{name: "AMQPLAIN wrong password", send: header(amqplain("guest", "wrong", "LOGIN", "PASSWORD")), want: []string{startLine, refused("AMQPLAIN")}},
		{name: "AMQPLAIN without password", send: header(amqplain("guest", "", "LOGIN")), want: []string{startLine, refused("AMQPLAIN")}},
		{name: "AMQPLAIN garbage", send: header(login(func(m *amqp.ConnectionStartOk) {
			m.Mechanism, m.Response = []byte("AMQPLAIN"), []byte("\xff\xff garbage")
		})), want: []string{startLine, refused("AMQPLAIN")}},
		{name: "unknown mechanism", send: header(login(func(m *amqp.ConnectionStartOk) { m.Mechanism = []byte("NOPE") })), want: []string{startLine, "0 connection.close 503 (10,11) COMMAND_INVALID - unsupported authentication mechanism 'NOPE'*"}},
		{name: "mechanism EXTERNAL", send: header(login(func(m *amqp.ConnectionStartOk) { m.Mechanism = []byte("EXTERNAL") })), want: []string{startLine, "0 connection.close 503 (10,11) *"}},
		// RabbitMQ drops the socket when start-ok is over 4096 bytes.
		{name: "start-ok of 100 KB", send: header(login(func(m *amqp.ConnectionStartOk) { m.ClientProperties = table("x", strings.Repeat("x", 100_000)) })), want: tuned, open: true},
		{name: "start-ok over the frame max", send: header(login(func(m *amqp.ConnectionStartOk) { m.ClientProperties = table("x", strings.Repeat("x", 140_000)) })), want: []string{startLine, "0 connection.close 501 (0,0) *"}},
		{name: "unknown vhost", send: header(login(nil), tuneOk(0, 0, 0), method(&amqp.ConnectionOpen{VirtualHost: []byte("nope")})), want: append(tuned[:2:2], "0 connection.close 530 (10,40) NOT_ALLOWED - vhost nope not found")},
		{name: "empty vhost", send: header(login(nil), tuneOk(0, 0, 0), method(&amqp.ConnectionOpen{})), want: append(tuned[:2:2], "0 connection.close 530 (10,40) NOT_ALLOWED - vhost  not found")},
		{name: "open before tune-ok", send: header(login(nil), open), want: append(tuned[:2:2], "0 connection.close 504 (10,40) *")},
		{name: "channel.open before tune-ok", send: header(login(nil), on(1, &amqp.ChannelOpen{})), want: append(tuned[:2:2], "0 connection.close 504 (20,10) *")},
		{name: "channel.open instead of start-ok", send: header(on(1, &amqp.ChannelOpen{})), want: []string{startLine, "0 connection.close 504 (20,10) *"}},
		{name: "tune-ok instead of start-ok", send: header(tuneOk(0, 0, 0)), want: []string{startLine, "0 connection.close 504 (10,31) *"}},
		{name: "body frame instead of start-ok", send: header(amqptest.AppendFrame(nil, amqp.FrameBody, 1, []byte("x"))), want: []string{startLine, "0 connection.close 505 (0,0) *"}},
		{name: "unknown frame type instead of start-ok", send: header(amqptest.AppendFrame(nil, 9, 0, nil)), want: []string{startLine, "0 connection.close 501 (0,0) *"}},
	}
	// 0 means "no limit": the broker's own limit then counts.
	for _, r := range []struct {
		name       string
		channelMax uint16
		frameMax   uint32
		heartbeat  uint16
		ok         bool
	}{
		{"frame_max 0", 2047, 0, 0, true},
		{"channel_max 0", 0, 131072, 0, true},
		{"frame_max 4096", 2047, 4096, 0, true},
		{"frame_max 4095", 2047, 4095, 0, false},
		{"frame_max 1", 0, 1, 0, false},
		{"frame_max 131073", 0, 131073, 0, false},
		{"frame_max 1000000", 0, 1000000, 0, false},
		{"channel_max 2048", 2048, 131072, 0, false},
		{"channel_max 65535", 65535, 131072, 0, false},
		{"channel_max 1 frame_max 4096 heartbeat 1", 1, 4096, 1, true},
		{"heartbeat 65535", 2047, 131072, 65535, true},
	} {
		h := handshakeRow{name: "tune-ok " + r.name, send: header(login(nil), tuneOk(r.channelMax, r.frameMax, r.heartbeat), open), want: opened, open: r.ok}
		if !r.ok {
			h.want = append(tuned[:2:2], "0 connection.close 530 (10,31) *")
		}
		rows = append(rows, h)
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c := amqptest.NewClient(t, e.Addr())
			c.Write(r.send)
			c.Want(r.want...)
			if r.open {
				return
			}
			if strings.HasPrefix(r.want[len(r.want)-1], "0 connection.close ") {
				c.FinishClose()
				return
			}
			c.WantClosed()
		})
	}
}

// TestHandshake_WrongProtocol: any other protocol is answered with ours, and
// the socket is closed (4.2.2).
func TestHandshake_WrongProtocol(t *testing.T) {
	e := start(t)
	for _, r := range []struct{ name, send string }{
		{"AMQP 0 0 9 0", "AMQP\x00\x00\x09\x00"},
		{"AMQP 1.0", "AMQP\x00\x01\x00\x00"},
		{"AMQP 1.0 SASL", "AMQP\x03\x01\x00\x00"},
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"TLS client hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
		{"one wrong byte", "B"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := amqptest.NewClient(t, e.Addr())
			c.Write([]byte(r.send))
			raw, err := c.Raw(8)
			if err != nil || !bytes.Equal(raw, amqp.ProtocolHeader) {
				t.Fatalf("got %q, %v", raw, err)
			}
			c.WantClosed()
		})
	}
}

// TestHandshake_Start checks what clients look for in connection.start (10,10).
func TestHandshake_Start(t *testing.T) {
	e := start(t)
	c := amqptest.NewClient(t, e.Addr())
	c.Write(amqp.ProtocolHeader)
	m := amqptest.Expect[*amqp.ConnectionStart](c).Method.(*amqp.ConnectionStart)
	mechanisms := strings.Fields(string(m.Mechanisms))
	if m.VersionMajor != 0 || m.VersionMinor != 9 || len(mechanisms) != 2 || string(m.Locales) != "en_US" {
		t.Fatalf("start %+v", m)
	}
	v, _ := m.ServerProperties.Lookup("capabilities")
	capabilities, ok := v.Table()
	if !ok {
		t.Fatal("no capabilities")
	}
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "consumer_priorities", "direct_reply_to", "per_consumer_qos", "authentication_failure_close"} {
		v, _ := capabilities.Lookup(name)
		if on, _ := v.Bool(); !on {
			t.Errorf("capability %s is missing", name)
		}
	}
	for _, name := range []string{"product", "version", "platform"} {
		v, _ := m.ServerProperties.Lookup(name)
		if text, _ := v.Bytes(); len(text) == 0 {
			t.Errorf("server property %s is missing", name)
		}
	}
}
