package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/loop"
)

var _ loop.Layer = (*Layer)(nil)

// frame makes a client's frame.
func frame(first byte, payload []byte) []byte {
	out := appendHeader(nil, 0, len(payload))
	out[0] = first
	out[1] |= maskBit
	var key [4]byte
	binary.BigEndian.PutUint32(key[:], rand.Uint32())
	out = append(out, key[:]...)
	for i, b := range payload {
		out = append(out, b^key[i&3])
	}
	return out
}

func feed(l *Layer, data []byte, piece func(rest int) int) (plain []byte, err error) {
	scratch := make([]byte, len(data)+loop.LayerSlack)
	for first := true; err == nil && (len(data) > 0 || first); first = false {
		k := piece(len(data))
		var part []byte
		part, err = l.Decode(bytes.Clone(data[:k]), scratch)
		plain = append(plain, part...)
		data = data[k:]
	}
	return plain, err
}

// TestJudge_Key: the key is base64 of 16 bytes, and nothing that only decodes to
// them.
func TestJudge_Key(t *testing.T) {
	for key, good := range map[string]bool{
		"dGhlIHNhbXBsZSBub25jZQ==": true, "dGhlIHNhbXBs\nZSBub25jZQ==": false, "dGhlIHNhbXBsZSBub25jZQ==\r\n": false, "": false, "dGhlIHNhbXBsZSBub25j": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {key}}
		if _, status, problem := judge(r); (problem == "") != good || !good && status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", key, status, problem)
		}
	}
}

func whole(rest int) int { return rest }

// TestLayer_Pieces: messages in frames of any size, cut anywhere, with pings
// between, give the payloads.
func TestLayer_Pieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire, want []byte
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			frames := rapid.IntRange(1, 4).Draw(t, "frames")
			for i := range frames {
				payload := make([]byte, rapid.SampledFrom([]int{0, 1, 7, 8, 9, 125, 126, 1000, 65535, 65536, 70000}).Draw(t, "bytes"))
				for j := range payload {
					payload[j] = byte(rand.Uint32())
				}
				first := byte(opContinuation)
				if i == 0 {
					first = opBinary
				}
				if i == frames-1 {
					first |= finBit
				}
				if rapid.Bool().Draw(t, "ping") {
					wire = append(wire, frame(finBit|opPing, []byte("are you there"))...)
				}
				wire, want = append(wire, frame(first, payload)...), append(want, payload...)
			}
		}
		early := rapid.IntRange(0, min(len(wire), 4096)).Draw(t, "early")
		l := NewLayer(nil, bytes.Clone(wire[:early]))
		got, err := feed(l, wire[early:], func(rest int) int { return min(rest, rapid.IntRange(1, 100_000).Draw(t, "piece")) })
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

// TestLayer_Encode: what is sent is read by another look at RFC 6455.
func TestLayer_Encode(t *testing.T) {
	for _, n := range []int{1, 125, 126, 65535, 65536} {
		l := NewLayer(nil, nil)
		if _, err := feed(l, frame(finBit|opPing, []byte("p1")), whole); err != nil || !l.Pending() {
			t.Fatal(err)
		}
		if _, err := feed(l, frame(finBit|opPing, []byte("p2")), whole); err != nil {
			t.Fatal(err)
		}
		plain := bytes.Repeat([]byte{7}, n)
		out, err := l.Encode([]byte("before"), plain)
		if err != nil || l.Pending() {
			t.Fatal(err)
		}
		want := "before\x8a\x02p2" // the latest ping only
		switch {
		case n < 126:
			want += "\x82" + string(rune(n))
		case n < 1<<16:
			want += "\x82\x7e" + string([]byte{byte(n >> 8), byte(n)})
		default:
			want += "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"
		}
		if string(out) != want+string(plain) {
			t.Errorf("%d bytes: %q", n, out[:min(len(out), 40)])
		}
	}
	l := NewLayer(nil, nil)
	l.End()
	if out, err := l.Encode(nil, nil); err != nil || string(out) != "\x88\x02\x03\xe8" || l.Pending() {
		t.Errorf("%q, %v", out, err)
	}
	l.End()
	if l.Pending() {
		t.Error("good-bye twice")
	}
}

// TestLayer_Close: the peer's close frame is answered, with its code or ours.
func TestLayer_Close(t *testing.T) {
	for payload, answer := range map[string]string{
		"": "\x88\x02\x03\xe8", "\x03\xe9going": "\x88\x02\x03\xe9", "\x0f\xa0": "\x88\x02\x0f\xa0",
		"\x03": "\x88\x02\x03\xea", "\x03\xed": "\x88\x02\x03\xea", "\x00\x01": "\x88\x02\x03\xea",
	} {
		l := NewLayer(nil, nil)
		data := append(frame(finBit|opBinary, []byte("last")), frame(finBit|opClose, []byte(payload))...)
		data = append(data, frame(finBit|opBinary, []byte("ignored"))...)
		plain, err := feed(l, data, whole)
		if string(plain) != "last" || err == nil {
			t.Errorf("%q: %q, %v", payload, plain, err)
		}
		if good := answer != "\x88\x02\x03\xea"; good != (err == io.EOF) {
			t.Errorf("%q: %v", payload, err)
		}
		if out, err := l.Encode(nil, nil); err != nil || string(out) != answer {
			t.Errorf("%q is answered %q, %v", payload, out, err)
		}
	}
}

// TestLayer_Violations end the connection, with a close frame that says why; the
// first two bytes of a frame are enough to tell.
func TestLayer_Violations(t *testing.T) {
	first := func(a, b byte) []byte { return []byte{a, b} }
	begun := frame(opBinary, []byte("x"))
	for name, r := range map[string]struct {
		data []byte
		want string
		code string
	}{
		"not masked":         {first(0x82, 5), "not masked", "\x03\xea"},
		"extension":          {first(0xc2, 0x85), "extensions", "\x03\xea"},
		"unknown":            {first(0x83, 0x80), "unknown kind", "\x03\xea"},
		"unknown control":    {first(0x8b, 0x80), "unknown kind", "\x03\xea"},
		"text":               {first(0x81, 0x80), "text", "\x03\xeb"},
		"ping in pieces":     {first(0x09, 0x80), "in pieces", "\x03\xea"},
		"long ping":          {first(0x89, 0xfe), "too long", "\x03\xea"},
		"goes on":            {first(0x80, 0x80), "has not begun", "\x03\xea"},
		"begins inside":      {append(begun, first(0x82, 0x80)...), "inside another", "\x03\xea"},
		"impossible length":  {append(first(0x82, 0xff), "\xff\xff\xff\xff\xff\xff\xff\xffmask"...), "impossible", "\x03\xea"},
		"another protocol":   {[]byte("AMQP\x00\x00\x09\x01"), "extensions", "\x03\xea"},
		"HTTP once more":     {[]byte("GET / HTTP/1.1\r\n"), "extensions", "\x03\xea"},
		"TLS where none was": {[]byte("\x16\x03\x01\x02\x00"), "extensions", "\x03\xea"},
	} {
		l := NewLayer(nil, nil)
		_, err := feed(l, r.data, func(int) int { return 1 })
		var v *violation
		if !errors.As(err, &v) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out, err := l.Encode(nil, nil); err != nil || string(out) != "\x88\x02"+r.code {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

// FuzzLayer: cutting input changes nothing, payloads never grow, and a layer that
// has ended says so.
func FuzzLayer(f *testing.F) {
	f.Add(append(frame(finBit|opBinary, []byte("hello")), frame(finBit|opClose, nil)...), uint8(3))
	f.Add(append(frame(opBinary, []byte("a")), frame(finBit|opContinuation, bytes.Repeat([]byte("b"), 200))...), uint8(1))
	f.Add(frame(finBit|opPing, []byte("x")), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		a, b := NewLayer(nil, nil), NewLayer(nil, nil)
		one, err1 := feed(a, data, whole)
		two, err2 := feed(b, data, func(rest int) int { return min(rest, int(piece)+1) })
		if !bytes.Equal(one, two) || (err1 == nil) != (err2 == nil) || len(one) > len(data) {
			t.Fatalf("%q, %v; in pieces %q, %v", one, err1, two, err2)
		}
		out1, _ := a.Encode(nil, []byte("x"))
		out2, _ := b.Encode(nil, []byte("x"))
		if !bytes.Equal(out1, out2) {
			t.Fatalf("%q, %q", out1, out2)
		}
	})
}
