package client

import (
	"errors"
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// walkSummary is everything that must not depend on how a stream is cut.
type walkSummary struct {
	delivered, bodyBytes, settled, nacked, failures uint64
	methods                                         string // those for the caller, in order
	acks                                            string
	failed                                          bool
}

// newTestWalker has everything switched on.
func newTestWalker(frameMax uint32) *walker {
	options := BodyOptions{Verify: true, Size: 40, Publishers: 3, Timestamp: true}
	confirms := NewConfirmTracker(1000)
	inspector := NewInspector(options, NewLatencyRecorder(0))
	return &walker{frameMax: frameMax, AckEvery: 2, CommitEvery: 4, Inspector: inspector, Confirms: &confirms, sent: 1000}
}

// newPlainWalker does not look into bodies, so it takes runs of equal
// deliveries at once.
func newPlainWalker(frameMax uint32) *walker {
	confirms := newConfirmRing(1024)
	return &walker{frameMax: frameMax, AckEvery: 2, CommitEvery: 4, Confirms: &confirms, sent: 1000}
}

// walkPieces walks data in pieces of the given sizes, repeated.
func walkPieces(w *walker, data []byte, sizes []int) (summary walkSummary) {
	var carry []byte
	if w.Inspector != nil {
		w.Inspector.Latency.begin()
		defer w.Inspector.Latency.end()
	}
	for i := 0; len(data) > 0 && !summary.failed; i++ {
		n := min(max(sizes[i%len(sizes)], 1), len(data))
		piece := append(carry, data[:n]...)
		data = data[n:]
		for {
			consumed, method, err := w.walk(piece)
			piece = piece[consumed:]
			if method != nil {
				summary.methods += amqp.MethodName(session.MethodID(uint16(method[0])<<8|uint16(method[1]), uint16(method[2])<<8|uint16(method[3]))) + " "
				continue
			}
			summary.failed = err != nil
			break
		}
		carry = append([]byte(nil), piece...)
	}
	summary.delivered, summary.bodyBytes = w.delivered, w.bodyBytes
	summary.settled, summary.nacked = w.Confirms.settled, w.nacked
	if w.Inspector != nil {
		summary.failures = w.Inspector.failures
	}
	summary.acks = string(w.acks)
	return summary
}

// referenceCounts walks with wire/amqp's own parser and the plainest state
// machine. cut says that the stream ends within a body frame.
func referenceCounts(data []byte, frameMax uint32) (delivered, bodyBytes uint64, failed, cut bool) {
	state, left := wantMethod, uint64(0)
	for {
		frame, n, err := amqp.ParseFrame(data, frameMax)
		if err != nil {
			return delivered, bodyBytes, true, false
		}
		if n == 0 {
			return delivered, bodyBytes, false, len(data) > 0 && data[0] == amqp.FrameBody
		}
		data = data[n:]
		switch {
		case frame.Type == amqp.FrameMethod:
			id, arguments, err := amqp.SplitMethod(frame.Payload)
			if err != nil {
				return delivered, bodyBytes, true, false
			}
			if frame.Channel == 0 {
				continue
			}
			if frame.Channel != session.ClientChannel || state != wantMethod {
				return delivered, bodyBytes, true, false
			}
			short := 0
			switch id {
			case amqp.BasicDeliverID:
				short = 10
				if len(arguments) > 0 {
					short += int(arguments[0])
				}
				state = wantHeader
			case amqp.BasicGetOkID:
				short, state = 9, wantHeader
			case amqp.BasicAckID, amqp.BasicNackID:
				short = 9
			}
			if len(arguments) < short {
				return delivered, bodyBytes, true, false
			}
		case frame.Type == amqp.FrameHeader:
			if state != wantHeader || frame.Channel != session.ClientChannel || len(frame.Payload) < contentHeaderBytes {
				return delivered, bodyBytes, true, false
			}
			state, left = wantBody, 0
			for _, b := range frame.Payload[4:12] {
				left = left<<8 | uint64(b)
			}
			bodyBytes += left
			if left == 0 {
				state = wantMethod
				delivered++
			}
		case frame.Type == amqp.FrameBody:
			if state != wantBody || frame.Channel != session.ClientChannel || uint64(len(frame.Payload)) > left {
				return delivered, bodyBytes, true, false
			}
			if left -= uint64(len(frame.Payload)); left == 0 {
				state = wantMethod
				delivered++
			}
		}
	}
}

// deliveryMethodBytes is the size of appendDelivery's method frame.
const deliveryMethodBytes = amqp.FrameOverhead + 4 + 5 + 8 + 1 + 2 + 4

// appendDelivery appends a delivery of the given message, as a broker would.
func appendDelivery(dst []byte, tag uint64, body []byte, frameMax uint32) []byte {
	dst = amqp.AppendMethodFrame(dst, session.ClientChannel, &amqp.BasicDeliver{
		ConsumerTag: []byte("ctag"), DeliveryTag: tag, Exchange: []byte("e"), RoutingKey: []byte("key"),
	})
	dst = amqp.AppendHeaderFrame(dst, session.ClientChannel, uint64(len(body)), []byte{0x10, 0, 1})
	return amqp.AppendBodyFrames(dst, session.ClientChannel, body, frameMax)
}

// drawStream makes a well-formed stream with everything the walker knows.
func drawStream(t *rapid.T, frameMax uint32) (stream []byte, deliveries uint64) {
	layout := bodyLayout{timestamp: true, Identity: true}
	encoding := EncodePublish("", "k", []byte{0x10, 0, 1}, 40, frameMax)
	tag := uint64(0)
	for range rapid.IntRange(1, 30).Draw(t, "frames") {
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			stream = append(stream, amqp.HeartbeatFrame...)
		case 1:
			tag++
			stream = amqp.AppendMethodFrame(stream, session.ClientChannel, &amqp.BasicAck{DeliveryTag: tag, Multiple: rapid.Bool().Draw(t, "multiple")})
		case 2:
			tag++
			stream = amqp.AppendMethodFrame(stream, session.ClientChannel, &amqp.BasicNack{DeliveryTag: tag})
		case 3:
			// Between method and header of a delivery, where only other channels may talk.
			deliveries++
			delivery := appendDelivery(nil, deliveries, make([]byte, 40), frameMax)
			stream = append(append(stream, delivery[:deliveryMethodBytes]...), amqp.HeartbeatFrame...)
			stream = append(stream, delivery[deliveryMethodBytes:]...)
			stream = amqp.AppendMethodFrame(stream, 0, &amqp.ConnectionBlocked{Reason: []byte("memory")})
		case 4:
			deliveries++
			body := make([]byte, rapid.SampledFrom([]int{0, 1, 39, 41, 9000}).Draw(t, "size"))
			stream = amqp.AppendMethodFrame(stream, session.ClientChannel, &amqp.BasicGetOk{DeliveryTag: deliveries})
			stream = amqp.AppendHeaderFrame(stream, session.ClientChannel, uint64(len(body)), []byte{0, 0})
			stream = amqp.AppendBodyFrames(stream, session.ClientChannel, body, frameMax)
		default:
			deliveries++
			message := append([]byte(nil), encoding.Bytes...)
			encoding.stamp(message, layout, Now(), deliveries)
			stream = appendDelivery(stream, deliveries, message[len(message)-41:len(message)-1], frameMax)
		}
	}
	return stream, deliveries
}

// However a stream is cut, the walker sees the same.
func TestWalkerAnySplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stream, deliveries := drawStream(t, amqp.FrameMinSize)
		whole := walkPieces(newTestWalker(amqp.FrameMinSize), stream, []int{len(stream)})
		if whole.failed || whole.delivered != deliveries {
			t.Fatalf("%d deliveries, failed %v; want %d", whole.delivered, whole.failed, deliveries)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 20).Draw(t, "sizes")
		if pieces := walkPieces(newTestWalker(amqp.FrameMinSize), stream, sizes); pieces != whole {
			t.Fatalf("in pieces of %v: %+v, whole: %+v", sizes, pieces, whole)
		}
		whole.failures = 0
		if plain := walkPieces(newPlainWalker(amqp.FrameMinSize), stream, sizes); plain != whole {
			t.Fatalf("without inspector, in pieces of %v: %+v, want %+v", sizes, plain, whole)
		}
		if plain := walkPieces(newPlainWalker(amqp.FrameMinSize), stream, []int{len(stream)}); plain != whole {
			t.Fatalf("without inspector: %+v, want %+v", plain, whole)
		}
	})
}

// FuzzWalker compares the walker with wire/amqp's frame parser.
func FuzzWalker(f *testing.F) {
	delivery := appendDelivery(nil, 1, make([]byte, 40), 4096)
	f.Add(delivery, uint8(7))
	f.Add(appendDelivery(delivery, 2, make([]byte, 5000), 4096), uint8(1))
	f.Add(appendDelivery(delivery, 2, make([]byte, 40), 4096), uint8(200))
	f.Add(append(append([]byte(nil), amqp.HeartbeatFrame...), delivery[:len(delivery)-3]...), uint8(3))
	f.Add(amqp.AppendMethodFrame(nil, 1, &amqp.BasicAck{DeliveryTag: 3, Multiple: true}), uint8(9))
	f.Add([]byte("AMQP\x00\x00\x09\x01"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, split uint8) {
		const frameMax = 8192
		whole := walkPieces(newPlainWalker(frameMax), data, []int{max(1, len(data))})
		if pieces := walkPieces(newPlainWalker(frameMax), data, []int{int(split)}); pieces != whole && !(pieces.failed && whole.failed) {
			t.Fatalf("in pieces: %+v, whole: %+v", pieces, whole)
		}
		delivered, bodyBytes, failed, cut := referenceCounts(data, frameMax)
		if failed && !whole.failed {
			t.Fatalf("the walker accepts what the parser refuses: %+v", whole)
		}
		// The walker checks a body frame's header before its end is there, and
		// confirms against what was sent.
		if whole.failed && !failed && !cut && whole.settled == 0 && !hasConfirm(data) {
			t.Fatalf("the walker refuses what the parser accepts: %+v", whole)
		}
		if !whole.failed && (whole.delivered != delivered || whole.bodyBytes != bodyBytes) {
			t.Fatalf("%d deliveries, %d bytes; want %d, %d", whole.delivered, whole.bodyBytes, delivered, bodyBytes)
		}
	})
}

func hasConfirm(data []byte) bool {
	for {
		frame, n, err := amqp.ParseFrame(data, 0)
		if err != nil || n == 0 {
			return false
		}
		if id, _, err := amqp.SplitMethod(frame.Payload); err == nil && (id == amqp.BasicAckID || id == amqp.BasicNackID) {
			return true
		}
		data = data[n:]
	}
}

func TestWalkerErrors(t *testing.T) {
	t.Parallel()
	delivery := appendDelivery(nil, 1, []byte("body"), 0)
	methodEnd := deliveryMethodBytes
	headerEnd := methodEnd + amqp.FrameOverhead + 12 + 3
	changed := func(at int, value byte) []byte {
		out := append([]byte(nil), delivery...)
		out[at] = value
		return out
	}
	tests := []struct {
		name string
		data []byte
		code uint16
	}{
		{"unknown frame type", changed(0, 9), 501},
		{"method frame end", changed(methodEnd-1, 0), 501},
		{"header frame end", changed(headerEnd-1, 0), 501},
		{"body frame end", changed(len(delivery)-1, 0), 501},
		{"frame above frame-max", changed(3, 1), 501},
		{"other channel", changed(2, 2), 505},
		{"header on another channel", changed(methodEnd+2, 2), 505},
		{"body on another channel", changed(headerEnd+2, 2), 505},
		{"header first", delivery[methodEnd:], 505},
		{"body first", delivery[headerEnd:], 505},
		{"method within a content", append(append([]byte(nil), delivery[:headerEnd]...), delivery...), 505},
		{"body too long", changed(headerEnd-1-3-8+7, 3), 505},
		{"consumer tag beyond the frame", changed(amqp.FrameOverhead-1+4, 200), 502},
		{"empty method", []byte{1, 0, 1, 0, 0, 0, 0, 0xCE}, 502},
		{"short header", append(append([]byte(nil), delivery[:methodEnd]...), 2, 0, 1, 0, 0, 0, 1, 0, 0xCE), 502},
		{"short ack", []byte{1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 80, 0xCE}, 502},
	}
	for _, test := range tests {
		for _, piece := range []int{1, 1 << 20} {
			w := newTestWalker(4096)
			var err error
			var carry []byte
			for data := test.data; len(data) > 0 && err == nil; {
				n := min(piece, len(data))
				carry = append(carry, data[:n]...)
				data = data[n:]
				var consumed int
				consumed, _, err = w.walk(carry)
				carry = carry[consumed:]
			}
			var protocol *amqp.Error
			if !errors.As(err, &protocol) || protocol.Code != test.code {
				t.Errorf("%s, pieces of %d: %v, want code %d", test.name, piece, err, test.code)
			}
		}
	}
	w := newTestWalker(4096)
	if _, _, err := w.walk(amqp.AppendMethodFrame(nil, session.ClientChannel, &amqp.BasicAck{DeliveryTag: 1001})); !errors.Is(err, errTagUnknown) {
		t.Errorf("ack of a message never sent: %v", err)
	}
}

// The walkers run once per message: they must not allocate.
func TestWalkerAllocatesNothing(t *testing.T) {
	var stream []byte
	for tag := range uint64(100) {
		stream = appendDelivery(stream, tag+1, make([]byte, 40), 0)
	}
	for name, w := range map[string]*walker{
		"counting":   {frameMax: 4096},
		"all checks": newTestWalker(4096),
	} {
		w.acks = make([]byte, 0, OutBytes)
		allocations := testing.AllocsPerRun(100, func() {
			if w.Inspector != nil {
				w.Inspector.Latency.begin()
				defer w.Inspector.Latency.end()
			}
			w.acks = w.acks[:0]
			if n, _, err := w.walk(stream); n != len(stream) || err != nil {
				panic(err)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
	var acks []byte
	for tag := range uint64(100) {
		acks = amqp.AppendMethodFrame(acks, session.ClientChannel, &amqp.BasicAck{DeliveryTag: 100 - tag})
	}
	allocations := testing.AllocsPerRun(100, func() {
		confirms := confirmTracker{mask: 127, ring: confirmRing[:]}
		w := walker{Confirms: &confirms, sent: 100}
		if n, _, err := w.walk(acks); n != len(acks) || err != nil || confirms.watermark != 100 {
			panic(fmt.Sprint(n, err, confirms.watermark))
		}
	})
	if allocations > 1 { // the tracker itself
		t.Errorf("confirms: %v allocations", allocations)
	}
}

var confirmRing [2]uint64

func BenchmarkWalker(b *testing.B) {
	var stream []byte
	const messages = 2500
	for tag := range uint64(messages) {
		stream = appendDelivery(stream, tag+1, make([]byte, 16), 0)
	}
	for name, w := range map[string]*walker{"counting": {}, "acking": {AckEvery: 10, acks: make([]byte, 0, OutBytes)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.acks = w.acks[:0]
				if _, _, err := w.walk(stream); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/messages, "ns/message")
		})
	}
}
