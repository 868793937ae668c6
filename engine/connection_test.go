package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// send makes a step that sends methods on channel 0.
func send(channel uint16, methods ...amqp.Method) func(*amqptest.Client) {
	return func(c *amqptest.Client) {
		var raw []byte
		for _, m := range methods {
			raw = amqp.AppendMethodFrame(raw, channel, m)
		}
		c.Write(raw)
	}
}

// raw makes a step that sends bytes.
func raw(pieces ...[]byte) func(*amqptest.Client) {
	return func(c *amqptest.Client) {
		for _, piece := range pieces {
			c.Write(piece)
		}
	}
}

// frame is amqptest.AppendFrame from nothing.
func frame(typ byte, channel uint16, payload ...byte) []byte {
	return amqptest.AppendFrame(nil, typ, channel, payload)
}

// TestConnection: methods of class connection on an open connection.
func TestConnection(t *testing.T) {
	running := func(id string) []string {
		return []string{"0 connection.close 504 (" + id + ") CHANNEL_ERROR - unexpected method *"}
	}
	runRows(t, start(t), []row{
		{name: "close by client", do: send(0, &amqp.ConnectionClose{ReplyCode: 200}), want: []string{"0 connection.close-ok"}},
		{name: "unsolicited close-ok", do: send(0, &amqp.ConnectionCloseOk{}), want: running("10,51")},
		{name: "second open", do: send(0, &amqp.ConnectionOpen{VirtualHost: []byte("/")}), want: running("10,40")},
		{name: "tune-ok", do: send(0, &amqp.ConnectionTuneOk{}), want: running("10,31")},
		{name: "start-ok", do: send(0, amqptest.StartOk(amqptest.Options{})), want: running("10,11")},
		{name: "blocked from the client", do: send(0, &amqp.ConnectionBlocked{}), want: running("10,60")},
		{name: "secure-ok", do: send(0, &amqp.ConnectionSecureOk{}), want: running("10,21")},
		// RabbitMQ answers 504 here; this broker says what is wrong.
		{name: "update-secret of a password user", do: send(0, &amqp.ConnectionUpdateSecret{}), want: []string{"0 connection.update-secret-ok"}},
		{name: "both sides close at once", do: send(0, &amqp.ConnectionOpen{}, &amqp.ConnectionClose{ReplyCode: 200}), want: []string{
			"0 connection.close 504 *", "0 connection.close-ok",
		}},
	})
}

// TestFrames: 4.2.3 and the errors of frames. Texts are our own, the codes and
// ids are those of RabbitMQ but where a comment says otherwise.
func TestFrames(t *testing.T) {
	publish := amqp.AppendMethodFrame(nil, 1, &amqp.BasicPublish{})
	qos := amqp.AppendMethodFrame(nil, 1, &amqp.BasicQos{})
	header := func(size uint64) []byte { return amqp.AppendHeaderFrame(nil, 1, size, nil) }
	body := func(n int) []byte { return frame(amqp.FrameBody, 1, make([]byte, n)...) }
	wrongEnd := amqp.AppendMethodFrame(nil, 1, &amqp.ChannelFlow{Active: true})
	wrongEnd[len(wrongEnd)-1] = 0
	wrongBodyEnd := body(5)
	wrongBodyEnd[len(wrongBodyEnd)-1] = 0
	declare := func(tail ...byte) []byte { // queue.declare: reserved, then tail
		return frame(amqp.FrameMethod, 1, append([]byte{0, 50, 0, 10, 0, 0}, tail...)...)
	}
	closed := func(code, ids string) []string { return []string{"0 connection.close " + code + " (" + ids + ") *"} }
	runRows(t, start(t), []row{
		{name: "method frame end 0", do: raw(wrongEnd), want: closed("501", "0,0")},
		{name: "body frame end 0", do: raw(publish, header(5), wrongBodyEnd), want: closed("501", "0,0")},
		{name: "type 9", do: raw(frame(9, 1)), want: closed("501", "0,0")},
		{name: "type 9 on channel 0", do: raw(frame(9, 0)), want: closed("501", "0,0")},
		{name: "type 0", do: raw(frame(0, 1)), want: closed("501", "0,0")},
		{name: "type 255", do: raw(frame(255, 1)), want: closed("501", "0,0")},
		{name: "head of frame_max plus 1", do: raw([]byte{3, 0, 1, 0, 2, 0, 1}), want: closed("501", "0,0")},
		{name: "head of 4 GiB", do: raw([]byte{3, 0, 1, 255, 255, 255, 255}), want: closed("501", "0,0")},
		{name: "payload of frame_max minus 8, body without header", do: raw(body(131072 - 8)), want: closed("505", "0,0")},
		// RabbitMQ tolerates 8 bytes more; the specification does not.
		{name: "payload of frame_max minus 7", do: raw(body(131072 - 7)), want: closed("501", "0,0")},
		{name: "heartbeat on channel 1", do: raw(frame(amqp.FrameHeartbeat, 1)), want: closed("505", "0,0")},
		{name: "heartbeat with payload", do: raw(frame(amqp.FrameHeartbeat, 0, 'x')), want: closed("501", "0,0")},
		{name: "heartbeat with none negotiated", do: raw(amqp.HeartbeatFrame, qos), want: []string{"1 basic.qos-ok"}},
		// RabbitMQ drops the socket without a close frame for unknown ids.
		{name: "unknown class", do: raw(frame(amqp.FrameMethod, 1, 0, 99, 0, 10)), want: closed("540", "99,10")},
		{name: "unknown method of basic", do: raw(frame(amqp.FrameMethod, 1, 0, 60, 3, 231)), want: closed("540", "60,999")},
		{name: "unknown class on channel 0", do: raw(frame(amqp.FrameMethod, 0, 0, 99, 0, 10)), want: closed("540", "99,10")},
		{name: "empty method frame", do: raw(frame(amqp.FrameMethod, 1)), want: closed("501", "0,0")},
		{name: "method frame of 3 bytes", do: raw(frame(amqp.FrameMethod, 1, 0, 60, 0)), want: closed("501", "0,0")},
		{name: "truncated arguments", do: raw(frame(amqp.FrameMethod, 1, 0, 50, 0, 10, 0, 0, 5)), want: closed("501", "50,10")},
		{name: "surplus arguments", do: raw(declare(1, 'q', 4, 0, 0, 0, 0, 'a', 'b', 'c')), want: closed("501", "50,10")},
		{name: "unknown table value kind", do: raw(declare(1, 'q', 4, 0, 0, 0, 3, 1, 'a', 'Z')), want: closed("501", "50,10")},
		{name: "table longer than the frame", do: raw(declare(1, 'q', 4, 0, 0, 1, 4, 1, 'a', 'Z', 0)), want: closed("501", "50,10")},
		{name: "queue name that is not UTF-8", do: raw(declare(1, 0xff, 4, 0, 0, 0, 0)), want: closed("501", "50,10")},
		{name: "exchange name that is not UTF-8", do: send(1, &amqp.ExchangeDeclare{Exchange: []byte{0xff}, Type: []byte("direct")}), want: closed("501", "40,10")},
		{name: "exchange.declare on channel 0", do: send(0, &amqp.ExchangeDeclare{}), want: closed("504", "40,10")},
		{name: "tune-ok on channel 1", do: send(1, &amqp.ConnectionTuneOk{}), want: closed("503", "10,31")},
		{name: "queue.declare-ok from the client", do: send(1, &amqp.QueueDeclareOk{}), want: closed("503", "50,11")},
		{name: "basic.deliver from the client", do: send(1, &amqp.BasicDeliver{}), want: closed("503", "60,60")},
		{name: "body frame without publish", do: raw(body(1)), want: closed("505", "0,0")},
		{name: "header frame without publish", do: raw(header(1)), want: closed("505", "0,0")},
		{name: "header frame on channel 0", do: raw(amqp.AppendHeaderFrame(nil, 0, 1, nil)), want: closed("505", "0,0")},
		{name: "publish, method", do: raw(publish, qos), want: closed("505", "60,40")},
		{name: "publish, body", do: raw(publish, body(1)), want: closed("505", "60,40")},
		{name: "publish, header, method", do: raw(publish, header(5), qos), want: closed("505", "60,40")},
		{name: "publish, header, header", do: raw(publish, header(5), header(5)), want: closed("505", "60,40")},
		{name: "publish, header, publish", do: raw(publish, header(5), publish), want: closed("505", "60,40")},
		// RabbitMQ leaves such a publish hanging.
		{name: "body longer than announced", do: raw(publish, header(5), body(6)), want: closed("501", "60,40")},
		{name: "second body frame longer than announced", do: raw(publish, header(5), body(3), body(3)), want: closed("501", "60,40")},
		{name: "header of class 50", do: raw(publish, amqptest.AppendHeader(nil, 1, 50, 0)), want: closed("505", "60,40")},
		{name: "property flags beyond the data", do: raw(publish, amqp.AppendHeaderFrame(nil, 1, 0, []byte{0x80, 0})), want: closed("501", "0,0")},
		{name: "undefined property flag", do: raw(publish, amqp.AppendHeaderFrame(nil, 1, 0, []byte{0, 1})), want: closed("501", "0,0")},
		{name: "header with weight 1", do: raw(publish, frame(amqp.FrameHeader, 1, 0, 60, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), qos), want: []string{"1 basic.qos-ok"}},
		{name: "size 0, then an empty body frame", do: raw(publish, header(0), body(0)), want: closed("505", "0,0")},
		{name: "empty body frame in the middle", do: raw(publish, header(4), body(2), body(0), body(2), qos), want: []string{"1 basic.qos-ok"}},
		{name: "header of 2^40 bytes", do: raw(publish, header(1<<40)), want: []string{"1 channel.close 406 (60,40) *"}},
		{name: "header of 2^63 bytes", do: raw(publish, header(1<<63)), want: []string{"1 channel.close 406 (60,40) *"}},
		{name: "header of 128 MiB and a byte", do: raw(publish, header(128<<20+1)), want: []string{"1 channel.close 406 (60,40) *"}},
		{name: "channel.close in the middle of a publish", do: raw(publish, header(5), amqp.AppendMethodFrame(nil, 1, &amqp.ChannelClose{})), want: closed("505", "60,40")},
		{name: "connection.close in the middle of a publish", do: raw(publish, header(5), amqp.AppendMethodFrame(nil, 0, &amqp.ConnectionClose{})), want: []string{"0 connection.close-ok"}},
		{name: "another channel in the middle of a publish", do: raw(publish, header(5), amqp.AppendMethodFrame(nil, 2, &amqp.BasicQos{})), want: []string{"2 basic.qos-ok"}},
		{name: "heartbeat in the middle of a publish", do: raw(publish, header(5), amqp.HeartbeatFrame, body(5), qos), want: []string{"1 basic.qos-ok"}},
		{name: "frame_max negotiated down", options: amqptest.Options{FrameMax: 4096}, do: raw(publish, header(5000), body(4089)), want: closed("501", "0,0")},
	})
}

// TestFrames_BodyOfARefusedFrame: the payload of a body frame that was refused
// is passed over, not parsed as frames: here it holds a connection.close.
func TestFrames_BodyOfARefusedFrame(t *testing.T) {
	e := start(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Write(frame(amqp.FrameBody, 1, amqp.AppendMethodFrame(nil, 0, &amqp.ConnectionClose{})...))
	c.Want("0 connection.close 505 *")
	c.FinishClose()
}

// TestChannels: class channel (20).
func TestChannels(t *testing.T) {
	never := func(id string) []string {
		return []string{"0 connection.close 504 (" + id + ") CHANNEL_ERROR - expected 'channel.open'*"}
	}
	missing := func(c *amqptest.Client) *amqp.QueuePurge { return &amqp.QueuePurge{Queue: []byte(c.Name("$missing"))} }
	closed404 := "1 channel.close 404 (50,30) NOT_FOUND - no queue '$missing' in vhost '/'"
	runRows(t, start(t), []row{
		{name: "method on a channel never opened", do: send(9, &amqp.QueueDeclare{}), want: never("50,10")},
		{name: "publish on a channel never opened", do: send(9, &amqp.BasicPublish{}), want: never("60,40")},
		{name: "ack on a channel never opened", do: send(9, &amqp.BasicAck{}), want: never("60,80")},
		{name: "close of a channel never opened", do: send(9, &amqp.ChannelClose{}), want: never("20,40")},
		// RabbitMQ closes with 504; here a close-ok may still come for a channel
		// that both sides closed at once, and is harmless.
		{name: "close-ok of a channel never opened", do: send(9, closeOk), want: nil},
		{name: "body frame on a channel never opened", do: raw(frame(amqp.FrameBody, 9, 'x')), want: []string{"0 connection.close 505 (0,0) *"}},
		{name: "open twice", do: send(1, &amqp.ChannelOpen{}), want: []string{"0 connection.close 504 (20,10) CHANNEL_ERROR - second 'channel.open' seen*"}},
		{name: "open of channel 0", do: send(0, &amqp.ChannelOpen{}), want: []string{"0 connection.close 504 (20,10) *"}},
		{name: "number at channel_max", options: amqptest.Options{ChannelMax: 10}, do: send(10, &amqp.ChannelOpen{}), want: []string{"10 channel.open-ok"}},
		{name: "number above channel_max, few open", options: amqptest.Options{ChannelMax: 10}, do: send(65535, &amqp.ChannelOpen{}), want: []string{"65535 channel.open-ok"}},
		{name: "more channels than channel_max", options: amqptest.Options{ChannelMax: 3}, do: func(c *amqptest.Client) {
			c.OpenChannel(3)
			c.Method(4, &amqp.ChannelOpen{})
		}, want: []string{"0 connection.close 530 (0,0) NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"}},
		{name: "close and reopen", do: send(1, &amqp.ChannelClose{}, &amqp.ChannelOpen{}), want: []string{"1 channel.close-ok", "1 channel.open-ok"}},
		{name: "close by server, then open without close-ok", do: func(c *amqptest.Client) {
			send(1, missing(c), &amqp.BasicQos{}, &amqp.ChannelOpen{})(c)
		}, want: []string{closed404, "0 connection.close 504 (20,10) CHANNEL_ERROR - second 'channel.open' seen*"}},
		{name: "close by server, close-ok, then a method", do: func(c *amqptest.Client) {
			send(1, missing(c), closeOk, &amqp.BasicQos{})(c)
		}, want: []string{closed404, "0 connection.close 504 (60,10) CHANNEL_ERROR - expected 'channel.open'*"}},
		{name: "both sides close at once", do: func(c *amqptest.Client) {
			send(1, missing(c), &amqp.ChannelClose{})(c)
			c.Want(closed404)
			c.Want("1 channel.close-ok")
			send(1, closeOk, &amqp.ChannelOpen{}, &amqp.BasicQos{})(c)
		}, want: []string{"1 channel.open-ok", "1 basic.qos-ok"}},
		{name: "content of a publish after close by server is discarded", do: func(c *amqptest.Client) {
			publish := amqptest.AppendPublish(nil, 1, amqptest.Message{Exchange: c.Name("$none"), Body: "hello"})
			c.Write(append(publish, publish...))
		}, want: []string{"1 channel.close 404 (60,40) NOT_FOUND - no exchange '$none' in vhost '/'"}},
		{name: "flow on", do: send(1, &amqp.ChannelFlow{Active: true}), want: []string{"1 channel.flow-ok Active=true"}},
		// As RabbitMQ: clients limit themselves by basic.qos.
		{name: "flow off", do: send(1, &amqp.ChannelFlow{}), want: []string{"0 connection.close 540 (20,20) NOT_IMPLEMENTED - active=false"}},
		{name: "unsolicited flow-ok", do: send(1, &amqp.ChannelFlowOk{}), want: []string{"0 connection.close 503 (20,21) *"}},
		{name: "access.request", do: send(1, &amqp.AccessRequest{}), want: []string{"1 access.request-ok *"}},
	})
}
