package engine_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// session is what one client sends, cut into frames; the first piece is the
// protocol header.
type session struct {
	name   string
	frames [][]byte
}

func (s session) bytes() []byte { return bytes.Join(s.frames, nil) }

// recordedSessions are valid sessions of many kinds. Queues are exclusive or
// auto-delete where possible, so that little is left behind; "durable" is one
// name for all.
func recordedSessions() []session {
	on := func(channel uint16, methods ...amqp.Method) (raw []byte) {
		for _, m := range methods {
			raw = amqp.AppendMethodFrame(raw, channel, m)
		}
		return raw
	}
	make1 := func(name string, options amqptest.Options, pieces ...[]byte) session {
		raw := amqptest.Handshake(options)
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.ChannelOpen{})
		raw = append(raw, bytes.Join(pieces, nil)...)
		header := len(amqp.ProtocolHeader)
		return session{name, append([][]byte{raw[:header]}, splitFrames(raw[header:])...)}
	}
	publish := func(channel uint16, m amqptest.Message) []byte { return amqptest.AppendPublish(nil, channel, m) }
	closing := on(0, &amqp.ConnectionClose{ReplyCode: 200, ReplyText: []byte("bye")})
	q := []byte("bad-q")
	exclusive := &amqp.QueueDeclare{Exclusive: true}
	own := exclusive // server-named; an empty name then means this one
	rich := amqp.Properties{
		Flags:       0xfffc &^ amqp.FlagUserID,
		ContentType: []byte("text/plain"), ContentEncoding: []byte("utf-8"), Headers: table("a", "b", "n", 5, "yes", true),
		DeliveryMode: 1, Priority: 3, CorrelationID: []byte("correlation"), ReplyTo: []byte("reply"), Expiration: []byte("60000"),
		MessageID: []byte("id"), Timestamp: 1, Type: []byte("type"), AppID: []byte("app"),
	}
	var run []byte
	for range 30 {
		run = append(run, publish(1, amqptest.Message{Key: "bad-q", Body: "0123456789abcdef"})...)
	}
	return []session{
		make1("open and close", amqptest.Options{}, closing),
		make1("small limits", amqptest.Options{FrameMax: 4096, ChannelMax: 5, Heartbeat: 1}, amqp.HeartbeatFrame, on(1, &amqp.ChannelClose{}), closing),
		make1("declare and bind", amqptest.Options{}, on(1,
			own,
			&amqp.ExchangeDeclare{Exchange: []byte("bad-x"), Type: []byte("topic"), AutoDelete: true, Arguments: table("x-a", "v")},
			&amqp.QueueBind{Exchange: []byte("bad-x"), RoutingKey: []byte("a.*.#"), Arguments: table("k", 1)},
			&amqp.ExchangeBind{Destination: []byte("amq.fanout"), Source: []byte("bad-x"), RoutingKey: []byte("e")},
			&amqp.ExchangeUnbind{Destination: []byte("amq.fanout"), Source: []byte("bad-x"), RoutingKey: []byte("e")},
			&amqp.QueueUnbind{Exchange: []byte("bad-x"), RoutingKey: []byte("a.*.#"), Arguments: table("k", 1)},
			&amqp.QueuePurge{}, &amqp.QueueDelete{}), closing),
		make1("headers exchange", amqptest.Options{}, on(1, own,
			&amqp.QueueBind{Exchange: []byte("amq.headers"), Arguments: table("x-match", "any", "a", "b", "n", 5)}),
			publish(1, amqptest.Message{Exchange: "amq.headers", Key: "k", Body: "hello", Properties: &rich}),
			on(1, &amqp.BasicGet{NoAck: true}), closing),
		make1("run of publishes", amqptest.Options{}, on(1, &amqp.QueueDeclare{Queue: q, AutoDelete: true}), run, closing),
		make1("publish and get", amqptest.Options{}, on(1, &amqp.QueueDeclare{Queue: q, AutoDelete: true}),
			publish(1, amqptest.Message{Key: "bad-q", Body: "hello", Properties: &rich}),
			publish(1, amqptest.Message{Key: "bad-q"}),
			on(1, &amqp.BasicGet{Queue: q}, &amqp.BasicAck{DeliveryTag: 0, Multiple: true}, &amqp.BasicGet{Queue: q, NoAck: true}), closing),
		make1("body of many frames", amqptest.Options{FrameMax: 4096}, on(1, own),
			publish(1, amqptest.Message{Exchange: "amq.fanout", Body: string(make([]byte, 20_000))}), closing),
		make1("mandatory and immediate", amqptest.Options{}, on(1, &amqp.ConfirmSelect{}),
			publish(1, amqptest.Message{Key: "bad-nowhere", Body: "back", Mandatory: true}),
			publish(1, amqptest.Message{Key: "bad-nowhere", Body: "back", Immediate: true}),
			publish(1, amqptest.Message{Key: "bad-nowhere", Body: "gone"}), closing),
		make1("confirms", amqptest.Options{}, on(1, &amqp.QueueDeclare{Queue: q, AutoDelete: true}, &amqp.ConfirmSelect{}), run,
			on(1, &amqp.QueuePurge{Queue: q}), closing),
		make1("durable", amqptest.Options{}, on(1, &amqp.ConfirmSelect{}),
			publish(1, amqptest.Message{Key: "bad-durable", Body: "persistent", Persistent: true}),
			on(1, &amqp.QueuePurge{Queue: []byte("bad-durable")})),
		make1("tx", amqptest.Options{}, on(1, &amqp.QueueDeclare{Queue: q, AutoDelete: true}, &amqp.TxSelect{}), run,
			on(1, &amqp.TxRollback{}), run, on(1, &amqp.TxCommit{}, &amqp.BasicGet{Queue: q}, &amqp.QueuePurge{Queue: q}), closing),
		make1("consume and ack", amqptest.Options{}, on(1, &amqp.QueueDeclare{Queue: q, AutoDelete: true}), run, on(1,
			&amqp.BasicQos{PrefetchCount: 10}, &amqp.BasicQos{PrefetchCount: 20, Global: true},
			&amqp.BasicConsume{Queue: q, ConsumerTag: []byte("t"), Arguments: table("x-b", "c")},
			&amqp.ChannelFlow{Active: true},
			&amqp.BasicRecover{Requeue: true}, &amqp.BasicRecoverAsync{Requeue: true},
			&amqp.BasicNack{Multiple: true, Requeue: true}, &amqp.BasicAck{Multiple: true},
			&amqp.BasicCancel{ConsumerTag: []byte("t")}, &amqp.QueuePurge{Queue: q}), closing),
		make1("consume without acks", amqptest.Options{}, on(1, own,
			&amqp.BasicConsume{ConsumerTag: []byte("t"), NoAck: true, NoWait: true, Exclusive: true}),
			on(1, &amqp.QueueBind{Exchange: []byte("amq.fanout"), NoWait: true}),
			publish(1, amqptest.Message{Exchange: "amq.fanout", Key: "k", Body: "to all"}), closing),
		make1("many channels", amqptest.Options{},
			on(2, &amqp.ChannelOpen{}), on(3, &amqp.ChannelOpen{}), on(65535, &amqp.ChannelOpen{}),
			publish(2, amqptest.Message{Key: "bad-nowhere", Body: "2"}), publish(3, amqptest.Message{Key: "bad-nowhere", Body: "3"}),
			on(2, &amqp.ChannelClose{}), on(2, &amqp.ChannelOpen{}), on(65535, &amqp.ChannelClose{ReplyCode: 1, ReplyText: []byte("x")}), closing),
		make1("access and errors", amqptest.Options{}, on(1, &amqp.AccessRequest{Realm: []byte("/data")}, &amqp.QueueDelete{Queue: []byte("bad-none")}),
			on(1, &amqp.QueuePurge{Queue: []byte("bad-none")}, &amqp.ChannelCloseOk{}, &amqp.ChannelOpen{}), closing),
	}
}

// garbage makes n random bytes.
func garbage(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// mutate damages a session in one to four ways; all choices come from random.
func mutate(random *rand.Rand, all []session) (name string, raw []byte) {
	s := all[random.IntN(len(all))]
	frames := make([][]byte, len(s.frames))
	for i := range frames {
		frames[i] = bytes.Clone(s.frames[i])
	}
	for range 1 + random.IntN(4) {
		frames = mutateFrames(random, frames, all)
	}
	raw = bytes.Join(frames, nil)
	switch random.IntN(8) {
	case 0: // truncated
		raw = raw[:random.IntN(len(raw)+1)]
	case 1: // bits flipped anywhere
		for range 1 + random.IntN(3) {
			if len(raw) > 0 {
				raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
			}
		}
	case 2: // garbage anywhere
		at := random.IntN(len(raw) + 1)
		raw = append(append(bytes.Clone(raw[:at]), garbage(random, random.IntN(300))...), raw[at:]...)
	}
	return s.name, raw
}

func mutateFrames(random *rand.Rand, frames [][]byte, all []session) [][]byte {
	if len(frames) < 2 {
		return append(frames, garbage(random, 1+random.IntN(40)))
	}
	i := 1 + random.IntN(len(frames)-1) // the protocol header is damaged by other means
	f := frames[i]
	insert := func(at int, piece []byte) {
		frames = append(frames, nil)
		copy(frames[at+1:], frames[at:])
		frames[at] = piece
	}
	switch random.IntN(15) {
	case 0:
		insert(i, bytes.Clone(f))
	case 1:
		frames = append(frames[:i], frames[i+1:]...)
	case 2:
		j := 1 + random.IntN(len(frames)-1)
		frames[i], frames[j] = frames[j], frames[i]
	case 3: // length field
		if len(f) >= 7 {
			sizes := []uint32{0, 1, 3, uint32(len(f)), 4088, 4089, 131064, 131065, 1 << 31, 1<<32 - 1, random.Uint32N(400)}
			binary.BigEndian.PutUint32(f[3:], sizes[random.IntN(len(sizes))])
		}
	case 4: // channel
		if len(f) >= 7 {
			channels := []uint16{0, 1, 2, 3, 65535, uint16(random.Uint32())}
			binary.BigEndian.PutUint16(f[1:], channels[random.IntN(len(channels))])
		}
	case 5: // frame type
		f[0] = []byte{0, 1, 2, 3, 4, 8, 9, byte(random.Uint32())}[random.IntN(8)]
	case 6: // class and method
		if len(f) >= 12 {
			ids := []uint16{0, 10, 20, 30, 40, 50, 60, 85, 90, 99}
			binary.BigEndian.PutUint16(f[7:], ids[random.IntN(len(ids))])
			binary.BigEndian.PutUint16(f[9:], uint16(random.IntN(130)))
		}
	case 7: // random payload under a valid frame
		frames[i] = amqptest.AppendFrame(nil, f[0], uint16(random.IntN(3)), garbage(random, random.IntN(100)))
	case 8: // content of a huge size
		insert(i, amqptest.AppendHeader(nil, 1, 60, []uint64{1, 100, 1 << 20, 100 << 20, 1 << 40, 1 << 63, 1<<64 - 1}[random.IntN(7)]))
	case 9: // a frame of another session
		other := all[random.IntN(len(all))]
		insert(i, bytes.Clone(other.frames[1+random.IntN(len(other.frames)-1)]))
	case 10: // end octet
		f[len(f)-1] = byte(random.Uint32())
	case 11: // bits in the arguments
		f[random.IntN(len(f))] ^= 1 << random.IntN(8)
	case 12: // a random known method with random arguments
		known := []uint32{amqp.BasicPublishID, amqp.BasicAckID, amqp.BasicConsumeID, amqp.QueueDeclareID, amqp.QueueBindID, amqp.ExchangeDeclareID, amqp.ChannelOpenID, amqp.ChannelCloseID, amqp.ConnectionStartOkID, amqp.ConnectionTuneOkID, amqp.ConnectionCloseOkID, amqp.TxCommitID, amqp.BasicDeliverID}
		payload := binary.BigEndian.AppendUint32(nil, known[random.IntN(len(known))])
		insert(i, amqptest.AppendFrame(nil, amqp.FrameMethod, uint16(random.IntN(3)), append(payload, garbage(random, random.IntN(40))...)))
	case 13: // a payload cut short, with a frame that is whole
		if len(f) > 8 {
			frames[i] = amqptest.AppendFrame(nil, f[0], binary.BigEndian.Uint16(f[1:]), f[7:7+random.IntN(len(f)-8)])
		}
	case 14: // protocol header
		frames[0][random.IntN(len(frames[0]))] ^= 1 << random.IntN(8)
	}
	return frames
}
