package amqp

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestContentHeader_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawProperties(t)
		raw := want.Append(nil)
		bodySize := rapid.Uint64().Draw(t, "body size")
		wire := AppendHeaderFrame([]byte("before"), 3, bodySize, raw)[len("before"):]
		frame, n, err := ParseFrame(wire, 0)
		if err != nil || n != len(wire) || frame.Type != FrameHeader || frame.Channel != 3 {
			t.Fatalf("ParseFrame = %+v, %d, %v", frame, n, err)
		}
		header, err := DecodeContentHeader(frame.Payload)
		if err != nil || header.ClassID != ClassBasic || header.BodySize != bodySize || !bytes.Equal(header.Properties, raw) {
			t.Fatalf("DecodeContentHeader = %+v, %v", header, err)
		}
		got, err := DecodeProperties(header.Properties)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if DeliveryMode(raw) != want.DeliveryMode {
			t.Fatalf("DeliveryMode = %d, want %d", DeliveryMode(raw), want.DeliveryMode)
		}
		for cut := range len(raw) {
			if _, err := DecodeProperties(raw[:cut]); err == nil {
				t.Fatalf("properties cut to %d of %d bytes decode", cut, len(raw))
			}
			DeliveryMode(raw[:cut])
		}
	})
}

func TestContentHeader_Errors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, wire string }{
		{"empty", ""},
		{"no flags", "003C 0000 0000000000000005"},
		{"half the flags", "003C 0000 0000000000000005 00"},
		{"undefined flag 1", "003C 0000 0000000000000005 0002"},
		{"more flags follow", "003C 0000 0000000000000005 0001 0000"},
		{"content type missing", "003C 0000 0000000000000005 8000"},
		{"content type cut", "003C 0000 0000000000000005 8000 05 'text'"},
		{"byte left over", "003C 0000 0000000000000005 1000 02 00"},
		{"headers cut", "003C 0000 0000000000000005 2000 00000005 01 'a' 't'"},
		{"headers broken", "003C 0000 0000000000000005 2000 00000003 01 'a' '?'"},
		{"timestamp cut", "003C 0000 0000000000000005 0040 00000000000000"},
	} {
		_, err := DecodeContentHeader(unhex(t, c.wire))
		wantCode(t, err, CodeFrameError)
	}
}

// The class is the caller's business, the weight nobody's.
func TestContentHeader_OtherClassAndWeight(t *testing.T) {
	t.Parallel()
	h, err := DecodeContentHeader(unhex(t, "0032 FFFF 0000000000000005 0003 'x'"))
	if err != nil || h.ClassID != ClassQueue || h.BodySize != 5 || len(h.Properties) != 3 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestAppendHeaderFrame_NoProperties(t *testing.T) {
	t.Parallel()
	want := unhex(t, "02 0001 0000000E 003C 0000 0000000000000000 0000 CE")
	for _, raw := range [][]byte{nil, {}, {0, 0}} {
		if got := AppendHeaderFrame(nil, 1, 0, raw); !bytes.Equal(got, want) {
			t.Errorf("%x, want %x", got, want)
		}
	}
}

func TestProperties_AppendDropsUndefinedFlags(t *testing.T) {
	t.Parallel()
	p := Properties{Flags: FlagPriority | 3, Priority: 4, AppID: []byte("not flagged")}
	if got := p.Append(nil); !bytes.Equal(got, []byte{0x08, 0x00, 4}) {
		t.Errorf("%x", got)
	}
}
