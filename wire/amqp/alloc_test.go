package amqp

import (
	"runtime"
	"testing"
)

// publishWire is a publish as a busy client sends it: 16-byte body, 73 bytes or so on the wire.
func publishWire(bodyLen int) []byte {
	properties := Properties{Flags: FlagDeliveryMode, DeliveryMode: 1}
	return appendPublish(nil, 1, &BasicPublish{RoutingKey: []byte("perf-test")}, properties.Append(nil), make([]byte, bodyLen), 0)
}

// headersWire is a publish with content type and three headers.
func headersWire() []byte {
	var headers TableBuilder
	headers.SetString("source", "sensor-17")
	headers.SetInt64("sequence", 123456)
	headers.SetBool("last", false)
	properties := Properties{Flags: FlagContentType | FlagHeaders | FlagDeliveryMode | FlagMessageID,
		ContentType: []byte("application/json"), Headers: headers.Table(), DeliveryMode: 2, MessageID: []byte("0123456789abcdef")}
	return appendPublish(nil, 1, &BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("a.b.c")}, properties.Append(nil), make([]byte, 100), 0)
}

// parsePublish is the ordinary path of a publish; it returns the bytes consumed.
func parsePublish(wire []byte, publish *BasicPublish, properties *Properties) int {
	method, methodLen, err := ParseFrame(wire, 131072)
	if err != nil {
		return 0
	}
	id, args, err := SplitMethod(method.Payload)
	if err != nil || id != BasicPublishID || publish.Decode(args) != nil {
		return 0
	}
	header, headerLen, err := ParseFrame(wire[methodLen:], 131072)
	if err != nil {
		return 0
	}
	content, err := DecodeContentHeader(header.Payload)
	if err != nil {
		return 0
	}
	if *properties, err = DecodeProperties(content.Properties); err != nil {
		return 0
	}
	_, bodyLen, err := ParseFrame(wire[methodLen+headerLen:], 131072)
	if err != nil {
		return 0
	}
	return methodLen + headerLen + bodyLen
}

func wantNoAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

// Not parallel: AllocsPerRun counts the whole process.
func TestAllocations_HotPaths(t *testing.T) {
	for name, wire := range map[string][]byte{"small": publishWire(16), "with headers": headersWire()} {
		var publish BasicPublish
		var properties Properties
		wantNoAllocs(t, "parsing a publish, "+name, func() {
			if parsePublish(wire, &publish, &properties) != len(wire) {
				t.Fatal("parse failed")
			}
		})
		var template PublishTemplate
		methodFrame, headerFrame, body, _ := plainPublish(wire, 0)
		wantNoAllocs(t, "matching a publish, "+name, func() {
			if _, n := template.Match(wire, 131072); n != 0 && n != len(wire) {
				t.Fatal("match failed")
			}
			template.Learn(methodFrame, headerFrame)
		})
		var deliver DeliverTemplate
		out := make([]byte, 0, 20000)
		wantNoAllocs(t, "encoding a deliver, "+name, func() {
			deliver.Build(1, []byte("consumer"), publish.Exchange, publish.RoutingKey, properties.Headers)
			out = deliver.Append(out[:0], 1, false, body, 131072)
			out = deliver.Append(out, 2, true, nil, 131072)
			out = deliver.Append(out, 3, true, wire, 4096)
		})
		wantNoAllocs(t, "tables, "+name, func() {
			if v, ok := properties.Headers.Lookup("sequence"); ok {
				if n, _ := v.Int64(); n != 123456 {
					t.Fatal("wrong header")
				}
			}
			fields := 0
			for _, v := range properties.Headers.All() {
				fields += int(v.Kind()) / 256
				fields++
			}
			if fields != properties.Headers.Len() || !TableEqual(properties.Headers, properties.Headers) {
				t.Fatal("wrong iteration")
			}
		})
	}
	ack := BasicAck{DeliveryTag: 5, Multiple: true}
	out := make([]byte, 0, 100)
	wantNoAllocs(t, "encoding an ack", func() { out = AppendMethodFrame(out[:0], 1, &ack) })
}

// Declared sizes are believed only as far as the bytes are there: no
// allocation depends on them. The bound covers the errors themselves.
func TestAllocations_HostileSizes(t *testing.T) {
	inputs := map[string]func() error{
		"table": func() error { return ValidateTable([]byte("\x01aS\xff\xff\xff\xff")) },
		"table argument": func() error {
			return new(QueueDeclare).Decode([]byte("\x00\x00\x01q\x00\xff\xff\xff\xff"))
		},
		"long string": func() error { return new(ConnectionSecureOk).Decode([]byte("\xff\xff\xff\xff")) },
		"properties": func() error {
			_, err := DecodeProperties([]byte("\x20\x00\xff\xff\xff\xff"))
			return err
		},
		"frame": func() error {
			_, _, err := ParseFrame([]byte("\x03\x00\x01\xff\xff\xff\xff"), 131072)
			return err
		},
	}
	for name, f := range inputs {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if f() == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		runtime.ReadMemStats(&after)
		if perRun := (after.TotalAlloc - before.TotalAlloc) / runs; perRun > 4096 {
			t.Errorf("%s: %d bytes allocated", name, perRun)
		}
	}
}
