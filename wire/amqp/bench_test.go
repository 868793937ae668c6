package amqp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// reportMessages reports the figures the broker is steered by: time per
// message and the bytes one message takes on the wire.
func reportMessages(b *testing.B, messages, wireBytes int) {
	b.ReportAllocs()
	b.SetBytes(int64(wireBytes))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*messages), "ns/message")
	b.ReportMetric(float64(wireBytes)/float64(messages), "wire-bytes/message")
}

// publishRun is a receive buffer full of equal publishes.
func publishRun(wire []byte) (run []byte, messages int) {
	messages = 128 << 10 / len(wire)
	return bytes.Repeat(wire, messages), messages
}

func BenchmarkPublish_PlainParse(b *testing.B) {
	for name, wire := range map[string][]byte{"body=16": publishWire(16), "headers": headersWire()} {
		b.Run(name, func(b *testing.B) {
			run, messages := publishRun(wire)
			var publish BasicPublish
			var properties Properties
			for b.Loop() {
				for rest := run; len(rest) > 0; {
					n := parsePublish(rest, &publish, &properties)
					if n == 0 {
						b.Fatal("parse failed")
					}
					rest = rest[n:]
				}
			}
			reportMessages(b, messages, len(run))
		})
	}
}

func BenchmarkPublish_Match(b *testing.B) {
	for name, wire := range map[string][]byte{"body=16": publishWire(16), "body=1024": publishWire(1024), "headers": headersWire()} {
		b.Run(name, func(b *testing.B) {
			run, messages := publishRun(wire)
			var template PublishTemplate
			methodFrame, headerFrame, _, _ := plainPublish(wire, 0)
			template.Learn(methodFrame, headerFrame)
			bodyBytes := 0
			for b.Loop() {
				for rest := run; len(rest) > 0; {
					body, n := template.Match(rest, 131072)
					if n == 0 {
						b.Fatal("match failed")
					}
					bodyBytes += len(body)
					rest = rest[n:]
				}
			}
			if bodyBytes == 0 {
				b.Fatal("no bodies")
			}
			reportMessages(b, messages, len(run))
		})
	}
}

func BenchmarkPublish_Learn(b *testing.B) {
	methodFrame, headerFrame, _, _ := plainPublish(publishWire(16), 0)
	var template PublishTemplate
	for b.Loop() {
		template.Learn(methodFrame, headerFrame)
	}
	reportMessages(b, 1, len(methodFrame)+len(headerFrame))
}

func BenchmarkDeliver_Template(b *testing.B) {
	for _, bodyLen := range []int{16, 1024, 10000} {
		b.Run(fmt.Sprintf("body=%d", bodyLen), func(b *testing.B) {
			var template DeliverTemplate
			template.Build(1, []byte("amq.ctag-0123456789"), nil, []byte("perf-test"), []byte{0x10, 0, 1})
			body := make([]byte, bodyLen)
			messages := 128 << 10 / template.Size(bodyLen, 131072)
			out := make([]byte, 0, 256<<10)
			tag := uint64(0)
			for b.Loop() {
				out = out[:0]
				for range messages {
					tag++
					out = template.Append(out, tag, false, body, 131072)
				}
			}
			reportMessages(b, messages, len(out))
		})
	}
}

func BenchmarkDeliver_Plain(b *testing.B) {
	deliver := BasicDeliver{ConsumerTag: []byte("amq.ctag-0123456789"), RoutingKey: []byte("perf-test")}
	raw, body := []byte{0x10, 0, 1}, make([]byte, 16)
	out := make([]byte, 0, 1024)
	for b.Loop() {
		deliver.DeliveryTag++
		out = AppendMethodFrame(out[:0], 1, &deliver)
		out = AppendHeaderFrame(out, 1, uint64(len(body)), raw)
		out = AppendBodyFrames(out, 1, body, 131072)
	}
	reportMessages(b, 1, len(out))
}

func BenchmarkAck_Decode(b *testing.B) {
	wire := AppendMethodFrame(nil, 1, &BasicAck{DeliveryTag: 5})
	var ack BasicAck
	for b.Loop() {
		frame, _, _ := ParseFrame(wire, 131072)
		_, args, _ := SplitMethod(frame.Payload)
		if err := ack.Decode(args); err != nil {
			b.Fatal(err)
		}
	}
	reportMessages(b, 1, len(wire))
}

func BenchmarkTable_Lookup(b *testing.B) {
	_, header, _, _ := plainPublish(headersWire(), 0)
	frame, _, _ := ParseFrame(header, 0)
	content, _ := DecodeContentHeader(frame.Payload)
	properties, _ := DecodeProperties(content.Properties)
	for b.Loop() {
		if _, ok := properties.Headers.Lookup("last"); !ok {
			b.Fatal("not found")
		}
	}
	reportMessages(b, 1, len(properties.Headers))
}

// equalWords is the alternative to bytes.Equal that PublishTemplate.Match
// could use: 8-byte loads, the last one overlapping.
func equalWords(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) < 8 {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	last := len(a) - 8
	for i := 0; i < last; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			return false
		}
	}
	return binary.LittleEndian.Uint64(a[last:]) == binary.LittleEndian.Uint64(b[last:])
}

func TestEqualWords(t *testing.T) {
	t.Parallel()
	for size := range 40 {
		a, b := make([]byte, size), make([]byte, size)
		if !equalWords(a, b) {
			t.Errorf("%d equal bytes differ", size)
		}
		for i := range b {
			b[i] = 1
			if equalWords(a, b) {
				t.Errorf("byte %d of %d is not compared", i, size)
			}
			b[i] = 0
		}
	}
}

// The two comparisons at the lengths that Match has: before the body size and after it.
func BenchmarkCompare(b *testing.B) {
	for _, length := range []int{6, 12, 37, 50, 120} {
		x, y := make([]byte, length), make([]byte, length)
		b.Run(fmt.Sprintf("bytes.Equal/%d", length), func(b *testing.B) {
			for b.Loop() {
				if !bytes.Equal(x, y) {
					b.Fatal("differs")
				}
			}
		})
		b.Run(fmt.Sprintf("words/%d", length), func(b *testing.B) {
			for b.Loop() {
				if !equalWords(x, y) {
					b.Fatal("differs")
				}
			}
		})
	}
}
