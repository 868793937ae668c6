package amqp

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// unhex reads bytes written as hex with spaces; quoted words are taken as text.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for _, word := range strings.Fields(text) {
		if literal, ok := strings.CutPrefix(word, "'"); ok {
			out = append(out, strings.TrimSuffix(literal, "'")...)
			continue
		}
		raw, err := hex.DecodeString(word)
		if err != nil {
			t.Fatalf("%q: %v", word, err)
		}
		out = append(out, raw...)
	}
	return out
}

func builtTable(set func(*TableBuilder)) Table {
	var b TableBuilder
	set(&b)
	return b.Table()
}

// Written by hand from the specification, not by the encoder under test.
var goldenMethods = []struct {
	wire    string
	channel uint16
	method  Method
}{
	{"01 0000 0000002A 000A000A 00 09 0000000E 07 'product' 'S' 00000001 'B' 00000005 'PLAIN' 00000005 'en_US' CE", 0,
		&ConnectionStart{VersionMajor: 0, VersionMinor: 9,
			ServerProperties: builtTable(func(b *TableBuilder) { b.SetString("product", "B") }),
			Mechanisms:       []byte("PLAIN"), Locales: []byte("en_US")}},
	{"01 0000 00000024 000A000B 00000000 05 'PLAIN' 0000000C 00 'guest' 00 'guest' 05 'en_US' CE", 0,
		&ConnectionStartOk{ClientProperties: Table{}, Mechanism: []byte("PLAIN"),
			Response: []byte("\x00guest\x00guest"), Locale: []byte("en_US")}},
	{"01 0000 0000000C 000A001E 07FF 00020000 003C CE", 0,
		&ConnectionTune{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}},
	{"01 0000 0000000C 000A001F 0000 00001000 0000 CE", 0, &ConnectionTuneOk{FrameMax: 4096}},
	{"01 0000 00000008 000A0028 01 '/' 00 00 CE", 0, &ConnectionOpen{VirtualHost: []byte("/")}},
	{"01 0000 00000005 000A0029 00 CE", 0, &ConnectionOpenOk{KnownHosts: []byte{}}},
	{"01 0000 0000000D 000A0032 0140 02 'OK' 003C 0028 CE", 0,
		&ConnectionClose{ReplyCode: 320, ReplyText: []byte("OK"), ClassID: 60, MethodID: 40}},
	{"01 0000 00000004 000A0033 CE", 0, &ConnectionCloseOk{}},
	{"01 0000 00000008 000A003C 03 'low' CE", 0, &ConnectionBlocked{Reason: []byte("low")}},
	{"01 0000 0000000F 000A0046 00000003 'abc' 03 'exp' CE", 0,
		&ConnectionUpdateSecret{NewSecret: []byte("abc"), Reason: []byte("exp")}},
	{"01 0001 00000005 0014000A 00 CE", 1, &ChannelOpen{}},
	{"01 0001 00000008 0014000B 00000000 CE", 1, &ChannelOpenOk{}},
	{"01 0102 00000005 00140014 01 CE", 258, &ChannelFlow{Active: true}},
	{"01 0001 0000000B 001E000A 05 '/data' 1D CE", 1, // exclusive, active, write, read: bits 0, 2, 3, 4
		&AccessRequest{Realm: []byte("/data"), Exclusive: true, Active: true, Write: true, Read: true}},
	{"01 0001 00000014 0028000A 0000 02 'ex' 05 'topic' 0A 00000000 CE", 1, // durable, internal: bits 1, 3
		&ExchangeDeclare{Exchange: []byte("ex"), Type: []byte("topic"), Durable: true, Internal: true, Arguments: Table{}}},
	{"01 0001 00000004 00280033 CE", 1, &ExchangeUnbindOk{}},
	{"01 0001 0000001F 0032000A 0000 01 'q' 0A 00000012 0C 'x-max-length' 'I' 0000000A CE", 1, // durable, auto-delete: bits 1, 3
		&QueueDeclare{Queue: []byte("q"), Durable: true, AutoDelete: true,
			Arguments: builtTable(func(b *TableBuilder) { b.SetInt32("x-max-length", 10) })}},
	{"01 0001 0000000E 0032000B 01 'q' 00000005 00000001 CE", 1,
		&QueueDeclareOk{Queue: []byte("q"), MessageCount: 5, ConsumerCount: 1}},
	{"01 0001 00000012 00320014 0000 01 'q' 02 'ex' 01 '#' 01 00000000 CE", 1,
		&QueueBind{Queue: []byte("q"), Exchange: []byte("ex"), RoutingKey: []byte("#"), NoWait: true, Arguments: Table{}}},
	{"01 0001 0000000B 003C000A 00000000 0064 01 CE", 1, &BasicQos{PrefetchCount: 100, Global: true}},
	{"01 0001 0000000F 003C0014 0000 01 'q' 01 'c' 06 00000000 CE", 1, // no-ack, exclusive: bits 1, 2
		&BasicConsume{Queue: []byte("q"), ConsumerTag: []byte("c"), NoAck: true, Exclusive: true, Arguments: Table{}}},
	{"01 0001 0000000A 003C0028 0000 00 01 'q' 01 CE", 1,
		&BasicPublish{Exchange: []byte{}, RoutingKey: []byte("q"), Mandatory: true}},
	{"01 0001 00000012 003C0032 0138 08 'NO_ROUTE' 00 01 'q' CE", 1,
		&BasicReturn{ReplyCode: 312, ReplyText: []byte("NO_ROUTE"), Exchange: []byte{}, RoutingKey: []byte("q")}},
	{"01 0001 00000012 003C003C 01 'c' 0000000000000007 01 00 01 'q' CE", 1,
		&BasicDeliver{ConsumerTag: []byte("c"), DeliveryTag: 7, Redelivered: true, Exchange: []byte{}, RoutingKey: []byte("q")}},
	{"01 0001 00000014 003C0047 0000000000000001 00 00 01 'q' 00000003 CE", 1,
		&BasicGetOk{DeliveryTag: 1, Exchange: []byte{}, RoutingKey: []byte("q"), MessageCount: 3}},
	{"01 0001 00000005 003C0048 00 CE", 1, &BasicGetEmpty{}},
	{"01 0001 0000000D 003C0050 0102030405060708 01 CE", 1, &BasicAck{DeliveryTag: 0x0102030405060708, Multiple: true}},
	{"01 0001 0000000D 003C0078 0000000000000009 03 CE", 1, &BasicNack{DeliveryTag: 9, Multiple: true, Requeue: true}},
	{"01 0001 00000005 0055000A 01 CE", 1, &ConfirmSelect{NoWait: true}},
	{"01 0001 00000004 005A0015 CE", 1, &TxCommitOk{}},
}

func TestMethod_GoldenBytes_4_2_4(t *testing.T) {
	t.Parallel()
	for _, golden := range goldenMethods {
		name := MethodName(golden.method.ID())
		wire := unhex(t, golden.wire)
		if got := AppendMethodFrame(nil, golden.channel, golden.method); !bytes.Equal(got, wire) {
			t.Errorf("%s encodes to\n%x, want\n%x", name, got, wire)
		}
		frame, n, err := ParseFrame(wire, FrameMinSize)
		if err != nil || n != len(wire) || frame.Type != FrameMethod || frame.Channel != golden.channel {
			t.Errorf("%s: ParseFrame = %+v, %d, %v", name, frame, n, err)
			continue
		}
		id, args, err := SplitMethod(frame.Payload)
		if err != nil || id != golden.method.ID() {
			t.Errorf("%s: SplitMethod = %#x, %v", name, id, err)
			continue
		}
		got := NewMethod(id)
		if err := got.Decode(args); err != nil || !reflect.DeepEqual(got, golden.method) {
			t.Errorf("%s decodes to %+v, %v; want %+v", name, got, err, golden.method)
		}
	}
}

func TestContent_GoldenBytes_4_2_6(t *testing.T) {
	t.Parallel()
	header := unhex(t, "02 0001 0000001A 003C 0000 0000000000000005 9000 0A 'text/plain' 02 CE")
	body := unhex(t, "03 0001 00000005 'hello' CE")
	properties := Properties{Flags: FlagContentType | FlagDeliveryMode, ContentType: []byte("text/plain"), DeliveryMode: 2}
	raw := properties.Append(nil)
	if got := AppendHeaderFrame(nil, 1, 5, raw); !bytes.Equal(got, header) {
		t.Errorf("header frame %x, want %x", got, header)
	}
	if got := AppendBodyFrames(nil, 1, []byte("hello"), 0); !bytes.Equal(got, body) {
		t.Errorf("body frame %x, want %x", got, body)
	}
	frame, _, err := ParseFrame(header, 0)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := DecodeContentHeader(frame.Payload)
	if err != nil || decoded.ClassID != ClassBasic || decoded.BodySize != 5 || !bytes.Equal(decoded.Properties, raw) {
		t.Errorf("DecodeContentHeader = %+v, %v", decoded, err)
	}
	if got, err := DecodeProperties(decoded.Properties); err != nil || !reflect.DeepEqual(got, properties) {
		t.Errorf("DecodeProperties = %+v, %v", got, err)
	}
	if got := unhex(t, "08 0000 00000000 CE"); !bytes.Equal(got, HeartbeatFrame) {
		t.Errorf("heartbeat %x", HeartbeatFrame)
	}
	if got := unhex(t, "'AMQP' 00 00 09 01"); !bytes.Equal(got, ProtocolHeader) {
		t.Errorf("protocol header %x", ProtocolHeader)
	}
}

func TestProperties_GoldenBytes_AllFourteen(t *testing.T) {
	t.Parallel()
	wire := unhex(t, "FFFC 01 'a' 01 'b' 00000004 01 'h' 't' 01 02 09 01 'c' 01 'd' 01 'e' 01 'f' 0000000065000000 01 'g' 01 'i' 01 'j' 01 'k'")
	want := Properties{Flags: 0xFFFC, ContentType: []byte("a"), ContentEncoding: []byte("b"),
		Headers: builtTable(func(b *TableBuilder) { b.SetBool("h", true) }), DeliveryMode: 2, Priority: 9,
		CorrelationID: []byte("c"), ReplyTo: []byte("d"), Expiration: []byte("e"), MessageID: []byte("f"),
		Timestamp: 0x65000000, Type: []byte("g"), UserID: []byte("i"), AppID: []byte("j"), ClusterID: []byte("k")}
	got, err := DecodeProperties(wire)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("DecodeProperties = %+v, %v", got, err)
	}
	if encoded := want.Append(nil); !bytes.Equal(encoded, wire) {
		t.Errorf("Append = %x, want %x", encoded, wire)
	}
	if DeliveryMode(wire) != 2 {
		t.Errorf("DeliveryMode = %d", DeliveryMode(wire))
	}
}

func TestValue_GoldenBytes_4_2_5_5(t *testing.T) {
	t.Parallel()
	for _, golden := range []struct {
		wire  string
		value Value
	}{
		{"'t' 01", BoolValue(true)},
		{"'b' FE", Int8Value(-2)},
		{"'B' FE", Uint8Value(254)},
		{"'s' FFFE", Int16Value(-2)},
		{"'U' FFFE", Value{kind: KindInt16Alt, number: 0xFFFFFFFFFFFFFFFE}},
		{"'u' FFFE", Uint16Value(65534)},
		{"'I' FFFFFFFE", Int32Value(-2)},
		{"'i' FFFFFFFE", Uint32Value(4294967294)},
		{"'l' FFFFFFFFFFFFFFFE", Int64Value(-2)},
		{"'L' FFFFFFFFFFFFFFFE", Value{kind: KindInt64Alt, number: 0xFFFFFFFFFFFFFFFE}},
		{"'f' 3FC00000", Float32Value(1.5)},
		{"'d' BFF8000000000000", Float64Value(-1.5)},
		{"'D' 02 FFFFFF6A", DecimalValue(2, -150)},
		{"'S' 00000002 'hi'", String("hi")},
		{"'x' 00000002 'hi'", BytesValue([]byte("hi"))},
		{"'A' 00000003 't' 00 'V'", ArrayValue(ArrayOf(BoolValue(false), VoidValue()))},
		{"'T' 0000000065000000", TimestampValue(0x65000000)},
		{"'F' 00000003 01 'k' 'V'", TableValue(builtTable(func(b *TableBuilder) { b.SetValue("k", VoidValue()) }))},
		{"'V'", VoidValue()},
	} {
		wire := unhex(t, golden.wire)
		if got := golden.value.Append(nil); !bytes.Equal(got, wire) {
			t.Errorf("%c encodes to %x, want %x", golden.value.Kind(), got, wire)
		}
		got, rest, ok := cutValue(wire)
		if !ok || len(rest) != 0 || !reflect.DeepEqual(got, golden.value) || !Equal(got, golden.value) {
			t.Errorf("%s decodes to %+v, want %+v", golden.wire, got, golden.value)
		}
	}
}
