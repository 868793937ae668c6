package amqp

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParseFrame_Errors_4_2_3(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		wire     string
		frameMax uint32
		wrong    bool
	}{
		{"unknown type 0", "00 0000 00000000 CE", 0, true},
		{"unknown type 4, seen with 7 bytes", "04 0000 00000000", 0, true},
		{"unknown type, 6 bytes are too few", "FF 0000 000000", 0, false},
		{"type 64+1 is not type 1", "41 0000 00000000 CE", 0, true},
		{"client that starts over", "'AMQP' 00 00 09 01", 0, true},
		{"bad end octet", "08 0000 00000000 CF", 0, true},
		{"bad end octet not there yet", "08 0000 00000000", 0, false},
		{"exactly frame max", "03 0001 00000FF8", 4096, false},
		{"one over frame max, seen with 7 bytes", "03 0001 00000FF9", 4096, true},
		{"size near 2^32", "03 0001 FFFFFFFF", 4096, true},
		{"size near 2^32, no bound", "03 0001 FFFFFFFF", 0, false},
		{"size near 2^32, largest bound", "03 0001 FFFFFFF8", 1<<32 - 1, true},
	} {
		wire := unhex(t, c.wire)
		_, n, err := ParseFrame(wire, c.frameMax)
		if len(wire) <= frameHeaderSize && c.wrong {
			_, _, _, _, headerErr := ParseFrameHeader(wire, c.frameMax)
			wantCode(t, headerErr, CodeFrameError)
		}
		if c.wrong {
			wantCode(t, err, CodeFrameError)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n != 0 {
			t.Errorf("%s: consumed %d", c.name, n)
		}
	}
}

func TestFrame_RoundTripInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]uint8{FrameMethod, FrameHeader, FrameBody, FrameHeartbeat}).Draw(t, "type")
		channel := rapid.Uint16().Draw(t, "channel")
		payload := drawBytes(t, "payload", 300)
		wire := append(append(appendFrameHeader(nil, typ, channel, len(payload)), payload...), FrameEnd)
		for cut := range len(wire) {
			if _, n, err := ParseFrame(wire[:cut], 0); n != 0 || err != nil {
				t.Fatalf("%d of %d bytes: consumed %d, %v", cut, len(wire), n, err)
			}
		}
		frame, n, err := ParseFrame(append(wire, "next"...), uint32(len(wire)))
		if err != nil || n != len(wire) || frame.Type != typ || frame.Channel != channel || !bytes.Equal(frame.Payload, payload) {
			t.Fatalf("ParseFrame = %+v, %d, %v", frame, n, err)
		}
		gotType, gotChannel, size, ok, err := ParseFrameHeader(wire, 0)
		if !ok || err != nil || gotType != typ || gotChannel != channel || int(size) != len(payload) {
			t.Fatalf("ParseFrameHeader = %d, %d, %d, %v, %v", gotType, gotChannel, size, ok, err)
		}
	})
}

func TestAppendBodyFrames_Split(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bodyLen    int
		frameMax   uint32
		frameSizes []int // payloads
	}{
		{0, 4096, nil},
		{0, 0, nil},
		{1, 4096, []int{1}},
		{4088, 4096, []int{4088}},
		{4089, 4096, []int{4088, 1}},
		{10000, 0, []int{10000}},
		{10000, 4096, []int{4088, 4088, 1824}},
		{5000, 8, []int{4088, 912}}, // no peer may negotiate less than 4096
		{5000, 1<<32 - 1, []int{5000}},
	} {
		body := bytes.Repeat([]byte("0123456789"), 1+c.bodyLen/10)[:c.bodyLen]
		wire := AppendBodyFrames(nil, 7, body, c.frameMax)
		var got []byte
		for i := 0; len(wire) > 0; i++ {
			frame, n, err := ParseFrame(wire, 0)
			if err != nil || n == 0 || frame.Type != FrameBody || frame.Channel != 7 ||
				i >= len(c.frameSizes) || len(frame.Payload) != c.frameSizes[i] {
				t.Fatalf("%d bytes, frame max %d, frame %d: %d bytes, %v", c.bodyLen, c.frameMax, i, len(frame.Payload), err)
			}
			got = append(got, frame.Payload...)
			wire = wire[n:]
		}
		if !bytes.Equal(got, body) {
			t.Errorf("%d bytes, frame max %d: body differs", c.bodyLen, c.frameMax)
		}
	}
}

func TestError_TextAndClass_1_5(t *testing.T) {
	t.Parallel()
	e := Errorf(CodeNotFound, QueueDeclareID, "no queue '%s' in vhost '%s'", "x", "/")
	if e.Text != "NOT_FOUND - no queue 'x' in vhost '/'" || e.Hard() {
		t.Errorf("%+v", e)
	}
	if got := e.Error(); got != "amqp: 404 NOT_FOUND - no queue 'x' in vhost '/' (queue.declare)" {
		t.Error(got)
	}
	if got := Errorf(CodeFrameError, 0, "x").Error(); got != "amqp: 501 FRAME_ERROR - x" {
		t.Error(got)
	}
	soft := map[uint16]bool{200: true, 311: true, 312: true, 313: true, 403: true, 404: true, 405: true, 406: true}
	for _, row := range replyCodes {
		if (&Error{Code: row.code}).Hard() == soft[row.code] {
			t.Errorf("%d: Hard() = %v", row.code, !soft[row.code])
		}
		if CodeName(row.code) != row.name {
			t.Errorf("%d: CodeName = %q", row.code, CodeName(row.code))
		}
	}
	if CodeName(999) != "UNKNOWN" || !(&Error{Code: 999}).Hard() {
		t.Error("a code outside the table")
	}
}

func TestErrorf_CutsOnRuneBoundary(t *testing.T) {
	t.Parallel()
	for pad := range 8 {
		for _, filler := range []string{"x", "é", "世", "😀"} {
			e := Errorf(CodeNotFound, 0, "%s", strings.Repeat("x", pad)+strings.Repeat(filler, 300))
			if len(e.Text) > ShortStringMax || len(e.Text) < ShortStringMax-3 || !utf8.ValidString(e.Text) {
				t.Errorf("%d bytes, valid %v: %q", len(e.Text), utf8.ValidString(e.Text), e.Text)
			}
		}
	}
	if e := Errorf(CodeNotFound, 0, "%s", strings.Repeat("\x80", 300)); len(e.Text) != ShortStringMax {
		t.Errorf("bytes that are no UTF-8: cut to %d", len(e.Text))
	}
}

func TestAppendAckFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		channel := rapid.Uint16().Draw(t, "channel")
		ack := BasicAck{DeliveryTag: rapid.Uint64().Draw(t, "tag"), Multiple: rapid.Bool().Draw(t, "multiple")}
		want := AppendMethodFrame([]byte("before"), channel, &ack)
		if got := AppendAckFrame([]byte("before"), channel, ack.DeliveryTag, ack.Multiple); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}
