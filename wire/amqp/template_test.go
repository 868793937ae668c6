package amqp

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestDeliverTemplate_AgainstPlainEncoding(t *testing.T) {
	t.Parallel()
	var template DeliverTemplate // reused, so that leftovers of an earlier Build would show
	rapid.Check(t, func(t *rapid.T) {
		channel := rapid.Uint16().Draw(t, "channel")
		tag, exchange, key := drawBytes(t, "tag", 300), drawBytes(t, "exchange", 300), drawBytes(t, "key", 300)
		properties := drawProperties(t)
		raw := properties.Append(nil)
		if rapid.Bool().Draw(t, "no properties") {
			raw = nil
		}
		template.Build(channel, tag, exchange, key, raw)
		for range 3 {
			deliver := BasicDeliver{ConsumerTag: tag, DeliveryTag: rapid.Uint64().Draw(t, "delivery tag"),
				Redelivered: rapid.Bool().Draw(t, "redelivered"), Exchange: exchange, RoutingKey: key}
			bodyLen := rapid.SampledFrom([]int{0, 1, 16, 4087, 4088, 4089, 8176, 10000}).Draw(t, "body length")
			frameMax := rapid.SampledFrom([]uint32{0, 1, 4096, 5000, 131072}).Draw(t, "frame max")
			body := bytes.Repeat([]byte{byte(bodyLen)}, bodyLen)

			want := AppendMethodFrame([]byte("before"), channel, &deliver)
			want = AppendHeaderFrame(want, channel, uint64(bodyLen), raw)
			want = AppendBodyFrames(want, channel, body, frameMax)

			dst := append(make([]byte, 0, rapid.SampledFrom([]int{6, 100, 20000}).Draw(t, "capacity")), "before"...)
			got := template.Append(dst, deliver.DeliveryTag, deliver.Redelivered, body, frameMax)
			if !bytes.Equal(got, want) {
				t.Fatalf("got\n%x, want\n%x", got, want)
			}
			if size := template.Size(bodyLen, frameMax); size != len(want)-len("before") {
				t.Fatalf("Size = %d, want %d", size, len(want)-len("before"))
			}
		}
	})
}

// plainPublish is the ordinary parse: a publish at the start of buf with at
// most one body frame. n is 0 when there is none.
func plainPublish(buf []byte, frameMax uint32) (methodFrame, headerFrame, body []byte, n int) {
	method, methodLen, err := ParseFrame(buf, frameMax)
	if err != nil || methodLen == 0 || method.Type != FrameMethod {
		return nil, nil, nil, 0
	}
	id, args, err := SplitMethod(method.Payload)
	var publish BasicPublish
	if err != nil || id != BasicPublishID || publish.Decode(args) != nil {
		return nil, nil, nil, 0
	}
	header, headerLen, err := ParseFrame(buf[methodLen:], frameMax)
	if err != nil || headerLen == 0 || header.Type != FrameHeader || header.Channel != method.Channel {
		return nil, nil, nil, 0
	}
	content, err := DecodeContentHeader(header.Payload)
	if err != nil || content.ClassID != ClassBasic {
		return nil, nil, nil, 0
	}
	n = methodLen + headerLen
	methodFrame, headerFrame = buf[:methodLen], buf[methodLen:n]
	if content.BodySize == 0 {
		return methodFrame, headerFrame, buf[n:n], n
	}
	bodyFrame, bodyLen, err := ParseFrame(buf[n:], frameMax)
	if err != nil || bodyLen == 0 || bodyFrame.Type != FrameBody || bodyFrame.Channel != method.Channel ||
		uint64(len(bodyFrame.Payload)) != content.BodySize {
		return nil, nil, nil, 0
	}
	return methodFrame, headerFrame, bodyFrame.Payload, n + bodyLen
}

// checkMatch learns the publish at the start of learn and holds Match(buf) to
// the ordinary parse, both ways (invariant 5).
func checkMatch(t interface {
	Helper()
	Fatalf(string, ...any)
}, template *PublishTemplate, learn, buf []byte, frameMax uint32) {
	t.Helper()
	methodFrame, headerFrame, _, n := plainPublish(learn, 0)
	if n == 0 {
		return
	}
	template.Learn(methodFrame, headerFrame)
	gotBody, gotN := template.Match(buf, frameMax)
	wantMethod, wantHeader, wantBody, wantN := plainPublish(buf, frameMax)
	if wantN > 0 {
		sizePos := frameHeaderSize + 4
		same := bytes.Equal(methodFrame, wantMethod) && len(headerFrame) == len(wantHeader) &&
			bytes.Equal(headerFrame[:sizePos], wantHeader[:sizePos]) &&
			bytes.Equal(headerFrame[sizePos+8:], wantHeader[sizePos+8:])
		if !same {
			wantBody, wantN = nil, 0
		}
	}
	if gotN != wantN || !bytes.Equal(gotBody, wantBody) {
		t.Fatalf("Match consumed %d, body %x; the ordinary parse %d, body %x\nlearned %x\ninput %x\nframe max %d",
			gotN, gotBody, wantN, wantBody, learn, buf, frameMax)
	}
}

func appendPublish(dst []byte, channel uint16, m *BasicPublish, raw, body []byte, frameMax uint32) []byte {
	dst = AppendMethodFrame(dst, channel, m)
	dst = AppendHeaderFrame(dst, channel, uint64(len(body)), raw)
	return AppendBodyFrames(dst, channel, body, frameMax)
}

func TestPublishTemplate_AgainstPlainParse(t *testing.T) {
	t.Parallel()
	var template PublishTemplate
	rapid.Check(t, func(t *rapid.T) {
		publish := BasicPublish{Exchange: drawBytes(t, "exchange", 20), RoutingKey: drawBytes(t, "key", 20)}
		properties := drawProperties(t)
		raw := properties.Append(nil)
		first := appendPublish(nil, 5, &publish, raw, drawBytes(t, "first body", 20), 0)
		body := drawBytes(t, "body", 50)
		second := appendPublish(nil, 5, &publish, raw, body, 0)
		frameMax := rapid.SampledFrom([]uint32{0, 9, 58, 64, 4096}).Draw(t, "frame max")

		checkMatch(t, &template, first, second, frameMax)
		if gotBody, n := template.Match(append(second, "next"...), 0); n != len(second) || !bytes.Equal(gotBody, body) {
			t.Fatalf("Match = %x, %d", gotBody, n)
		}
		checkMatch(t, &template, first, second[:rapid.IntRange(0, len(second)).Draw(t, "cut")], frameMax)
		mutated := bytes.Clone(second)
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			mutated[rapid.IntRange(0, len(mutated)-1).Draw(t, "position")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		checkMatch(t, &template, first, mutated, frameMax)
	})
}

// Every single bit that is flipped, outside the body and the redundant sizes, makes Match refuse.
func TestPublishTemplate_EveryFlippedBit(t *testing.T) {
	t.Parallel()
	var template PublishTemplate
	publish := BasicPublish{Exchange: []byte("exchange"), RoutingKey: []byte("key")}
	for _, body := range []string{"", "hello"} {
		wire := appendPublish(nil, 1, &publish, []byte{0x10, 0, 2}, []byte(body), 0)
		for i := range len(wire) * 8 {
			flipped := bytes.Clone(wire)
			flipped[i/8] ^= 1 << (i % 8)
			checkMatch(t, &template, wire, flipped, 4096)
		}
		for cut := range len(wire) {
			checkMatch(t, &template, wire, wire[:cut], 4096)
		}
	}
}

func TestPublishTemplate_FrameMax(t *testing.T) {
	t.Parallel()
	var template PublishTemplate
	publish := BasicPublish{RoutingKey: []byte("q")}
	for _, bodyLen := range []int{0, 1, 4087, 4088, 4089} {
		wire := appendPublish(nil, 1, &publish, nil, make([]byte, bodyLen), 0)
		checkMatch(t, &template, wire, wire, 4096)
		split := appendPublish(nil, 1, &publish, nil, make([]byte, bodyLen), 4096)
		checkMatch(t, &template, wire, split, 4096)
		checkMatch(t, &template, wire, split, 0)
	}
}

func TestPublishTemplate_LearnRefuses(t *testing.T) {
	t.Parallel()
	publish := AppendMethodFrame(nil, 1, &BasicPublish{RoutingKey: []byte("q")})
	header := AppendHeaderFrame(nil, 1, 0, nil)
	otherClass := bytes.Clone(header)
	otherClass[8]++
	for _, c := range []struct {
		name                string
		methodFrame, header []byte
	}{
		{"nothing", nil, nil},
		{"another method", AppendMethodFrame(nil, 1, &BasicAck{}), header},
		{"frames swapped", header, publish},
		{"another channel", publish, AppendHeaderFrame(nil, 2, 0, nil)},
		{"another class", publish, otherClass},
		{"method frame cut", publish[:len(publish)-1], header},
		{"header frame with a byte more", publish, append(bytes.Clone(header), FrameEnd)},
	} {
		var template PublishTemplate
		template.Learn(publish, header)
		if _, n := template.Match(append(bytes.Clone(publish), header...), 0); n == 0 {
			t.Fatal("the plain case does not match")
		}
		template.Learn(c.methodFrame, c.header)
		for _, buf := range [][]byte{nil, append(bytes.Clone(publish), header...), append(bytes.Clone(c.methodFrame), c.header...)} {
			if _, n := template.Match(buf, 0); n != 0 {
				t.Errorf("%s: learned and matches", c.name)
			}
		}
	}
	var template PublishTemplate
	template.Learn(publish, header)
	for _, attached := range []string{"something", "", "and something longer, for which the buffer has to grow, wherever it was before"} {
		template.Attach([]byte(attached))
		if got := template.Attached(len(attached)); string(got) != attached {
			t.Errorf("%q is attached, want %q", got, attached)
		}
		if _, n := template.Match(append(bytes.Clone(publish), header...), 0); n != len(publish)+len(header) {
			t.Errorf("no match with %q attached", attached)
		}
	}
	template.Reset()
	if _, n := template.Match(append(bytes.Clone(publish), header...), 0); n != 0 {
		t.Error("matches after Reset")
	}
}
