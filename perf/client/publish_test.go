package client

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// 73 bytes is the figure that the relay yardstick divides by.
func TestPublishWireSize(t *testing.T) {
	t.Parallel()
	properties := (&amqp.Properties{DeliveryMode: 1, Flags: amqp.FlagDeliveryMode}).Append(nil)
	for _, test := range []struct {
		size uint64
		want int
	}{{16, 73}, {0, 49}, {1024, 1081}, {131072 - 8, 49 + 131072}, {131072, 49 + 131072 + 16}} {
		if got := EncodePublish("", "perf-test", properties, test.size, 131072).Size; got != test.want {
			t.Errorf("size %d: %d bytes, want %d", test.size, got, test.want)
		}
	}
}

// What the publisher stamps is what the inspector expects, for any size and
// any frame-max; a changed byte is noticed.
func TestStampAndInspectAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		options := BodyOptions{
			Verify: true, Publishers: 4, Size: uint64(rapid.IntRange(16, 10000).Draw(t, "size")),
			Timestamp: rapid.Bool().Draw(t, "timestamp"), Random: rapid.Bool().Draw(t, "random"),
		}
		frameMax := uint32(rapid.SampledFrom([]int{4096, 4097, 131072}).Draw(t, "frameMax"))
		encoding := EncodePublish("e", "k", []byte{0x10, 0, 1}, options.Size, frameMax)
		message := append([]byte(nil), encoding.Bytes...)
		identity := uint64(rapid.IntRange(0, 3).Draw(t, "publisher"))<<IdentityBits | uint64(rapid.IntRange(1, 1<<40).Draw(t, "number"))
		encoding.stamp(message, NewBodyLayout(options), Now(), identity)

		body := collectBody(t, message, frameMax)
		if uint64(len(body)) != options.Size {
			t.Fatalf("body of %d bytes", len(body))
		}
		if options.Timestamp && binary.LittleEndian.Uint64(body) == 0 {
			t.Fatal("no timestamp")
		}
		inspect := func(body []byte) *inspector {
			i := NewInspector(options, NewLatencyRecorder(0))
			i.Latency.begin()
			defer i.Latency.end()
			i.start(uint64(len(body)))
			for offset := 0; offset < len(body); {
				n := min(rapid.IntRange(1, 600).Draw(t, "chunk"), len(body)-offset)
				i.chunk(uint64(offset), body[offset:offset+n])
				offset += n
			}
			i.finish(false)
			return i
		}
		if i := inspect(body); i.failures != 0 || i.outOfOrder != 0 {
			t.Fatalf("%d failures, %d out of order", i.failures, i.outOfOrder)
		}
		head := NewBodyLayout(options).HeadBytes()
		if len(body) > head {
			body[rapid.IntRange(head, len(body)-1).Draw(t, "broken")] ^= 0x20
			if i := inspect(body); i.failures != 1 {
				t.Fatal("a changed byte was not noticed")
			}
		}
	})
}

func collectBody(t *rapid.T, encoded []byte, frameMax uint32) (body []byte) {
	for len(encoded) > 0 {
		frame, n, err := amqp.ParseFrame(encoded, frameMax)
		if err != nil || n == 0 {
			t.Fatalf("%d, %v", n, err)
		}
		if frame.Type == amqp.FrameBody {
			body = append(body, frame.Payload...)
		}
		encoded = encoded[n:]
	}
	return body
}

// A pattern can be written and checked from any offset.
func TestPatternAnyOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layout := bodyLayout{random: rapid.Bool().Draw(t, "random")}
		seed := rapid.Uint64().Draw(t, "seed") >> 16
		whole := make([]byte, rapid.IntRange(1, 9000).Draw(t, "size"))
		layout.putPattern(whole, seed, 0)
		from := rapid.IntRange(0, len(whole)-1).Draw(t, "from")
		part := make([]byte, rapid.IntRange(0, len(whole)-from).Draw(t, "length"))
		layout.putPattern(part, seed, uint64(from))
		if !bytes.Equal(part, whole[from:from+len(part)]) {
			t.Fatal("a part differs from the whole")
		}
		if !layout.checkPattern(part, seed, uint64(from)) {
			t.Fatal("the check refuses it")
		}
	})
}

// testPublisher has no socket: its bytes go nowhere.
func testPublisher(layout bodyLayout) *Publisher {
	encoding := EncodePublish("", "perf-test", []byte{0x10, 0, 1}, 64, 131072)
	return &Publisher{
		Loop: &Loop{}, Encoding: encoding, Layout: layout,
		Buffer: encoding.Repeat(PublisherBufferBytes), Quota: 1 << 62, Window: 5000,
		socket: socket{Walker: walker{Confirms: new(NewConfirmTracker(5000))}},
	}
}

// The publishers' path from budget to buffer must not allocate.
func TestPublisherAllocatesNothing(t *testing.T) {
	for name, layout := range map[string]bodyLayout{
		"plain": {}, "stamped": {timestamp: true, Identity: true, random: true},
	} {
		p := testPublisher(layout)
		now := p.published
		allocations := testing.AllocsPerRun(200, func() {
			now++
			if p.prepare(int64(now)) {
				p.advance(p.end-p.pos, int64(now))
			}
			p.Walker.Confirms.settle(p.published, true, p.published)
		})
		if allocations != 0 || p.published == 0 {
			t.Errorf("%s: %v allocations, %d published", name, allocations, p.published)
		}
	}
}

// Whatever the socket accepts and the broker confirms, the byte stream is the
// encoded publishes in order, and the budget holds (invariant 1).
func TestPublisherStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layout := bodyLayout{Identity: rapid.Bool().Draw(t, "stamped")}
		p := testPublisher(layout)
		p.Buffer = p.Encoding.Repeat(p.Encoding.Size * rapid.IntRange(1, 9).Draw(t, "buffered"))
		p.Window = uint64(rapid.IntRange(1, 40).Draw(t, "window"))
		p.Quota = uint64(rapid.IntRange(1, 200).Draw(t, "quota"))
		if rapid.Bool().Draw(t, "paced") {
			p.Pace = NewPacer(0, uint64(time.Second/paceTick))
		}
		var stream []byte
		for step := int64(0); p.published < p.Quota; step++ {
			if step > 10000 {
				t.Fatal("stuck")
			}
			now := step * int64(paceTick)
			if p.prepare(now) {
				n := rapid.IntRange(0, p.end-p.pos).Draw(t, "accepted")
				stream = append(stream, p.Buffer[p.pos:p.pos+n]...)
				p.advance(n, now)
			}
			started := p.published
			if p.partial > 0 {
				started++
			}
			if outstanding := started - p.Walker.Confirms.settled; outstanding > p.Window {
				t.Fatalf("%d unconfirmed, window %d", outstanding, p.Window)
			}
			if p.Pace != nil && started > p.Pace.dueBy(now) {
				t.Fatalf("%d started at %d ns", started, now)
			}
			if rapid.Bool().Draw(t, "confirm") && p.published > 0 {
				p.Walker.Confirms.settle(p.published, true, p.published)
			}
		}
		if len(stream) != int(p.Quota)*p.Encoding.Size {
			t.Fatalf("%d bytes for %d messages", len(stream), p.Quota)
		}
		for number := range p.Quota {
			want := append([]byte(nil), p.Encoding.Bytes...)
			p.Encoding.stamp(want, layout, 0, number+1)
			if got := stream[int(number)*len(want) : int(number+1)*len(want)]; !bytes.Equal(got, want) {
				t.Fatalf("message %d is not what it should be", number+1)
			}
		}
	})
}

func TestPacer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := NewPacer(rapid.Int64Range(0, 1e15).Draw(t, "start"), rapid.Uint64Range(1, 20e6).Draw(t, "rate"))
		now := p.Start + rapid.Int64Range(-1e9, 1e13).Draw(t, "elapsed")
		count := p.dueBy(now)
		if count > 0 && p.intended(count-1) > now {
			t.Fatal("a message is sent before its time")
		}
		if p.intended(count+1) <= now {
			t.Fatal("an overdue message is not sent")
		}
		if wake := p.wakeUp(count, now); wake < now+int64(paceTick) || wake < p.intended(count) {
			t.Fatalf("it wakes %d ns from now", wake-now)
		}
	})
}

// A publisher that has sent rests for a tick, whatever becomes due meanwhile, and
// then sends all of that.
func TestPublisherRestsBetweenTicks(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]bodyLayout{"plain": {}, "stamped": {timestamp: true}} {
		p := testPublisher(layout)
		p.Pace = NewPacer(1000, 250000)
		now := int64(1000)
		for range 3 {
			if !p.prepare(now) {
				t.Fatalf("%s: nothing is sent at %d", name, now)
			}
			p.advance(p.end-p.pos, now)
			if want := p.Pace.dueBy(now); p.published != want {
				t.Fatalf("%s: %d messages were sent, %d were due", name, p.published, want)
			}
			if again := now + int64(paceTick)/2; p.prepare(again) || p.due != now+int64(paceTick) {
				t.Fatalf("%s: at %d it wants to go on at %d", name, again, p.due)
			}
			now = p.due
		}
	}
}

func BenchmarkPublisherStamp(b *testing.B) {
	p := testPublisher(bodyLayout{timestamp: true, Identity: true})
	b.ReportAllocs()
	messages := 0
	for b.Loop() {
		p.prepare(1)
		messages += (p.end - p.pos) / p.Encoding.Size
		p.advance(p.end-p.pos, 1)
		p.Walker.Confirms.settle(p.published, true, p.published)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(messages), "ns/message")
}
