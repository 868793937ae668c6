package amqp

import (
	"bytes"
	"testing"
)

func FuzzFrame(f *testing.F) {
	for _, golden := range goldenMethods {
		f.Add(unhex(f, golden.wire), uint32(4096))
	}
	f.Add(HeartbeatFrame, uint32(0))
	f.Add(ProtocolHeader, uint32(131072))
	f.Add([]byte("\x03\x00\x01\xff\xff\xff\xff"), uint32(0))
	f.Add(publishWire(16), uint32(60))
	f.Fuzz(func(t *testing.T, data []byte, frameMax uint32) {
		frame, n, err := ParseFrame(data, frameMax)
		typ, channel, size, ok, headerErr := ParseFrameHeader(data, frameMax)
		if headerErr != nil {
			wantCode(t, headerErr, CodeFrameError)
		}
		switch {
		case err != nil:
			wantCode(t, err, CodeFrameError)
			if n != 0 {
				t.Fatalf("error and %d bytes consumed", n)
			}
		case n == 0:
			if headerErr != nil || ok && uint64(size)+FrameOverhead <= uint64(len(data)) {
				t.Fatal("a frame that is there counts as incomplete")
			}
		default:
			if !ok || headerErr != nil || typ != frame.Type || channel != frame.Channel || int(size) != len(frame.Payload) {
				t.Fatalf("frame %+v, header %d %d %d %v %v", frame, typ, channel, size, ok, headerErr)
			}
			again := append(append(appendFrameHeader(nil, frame.Type, frame.Channel, len(frame.Payload)), frame.Payload...), FrameEnd)
			if !bytes.Equal(again, data[:n]) || frameMax != 0 && n > int(frameMax) {
				t.Fatalf("%d bytes consumed, encodes to %x", n, again)
			}
		}
	})
}

func FuzzMethod(f *testing.F) {
	for _, golden := range goldenMethods {
		f.Add(golden.method.ID(), golden.method.AppendArgs(nil))
	}
	for _, id := range methodIDs() {
		f.Add(id, NewMethod(id).AppendArgs(nil))
	}
	f.Fuzz(func(t *testing.T, id uint32, args []byte) {
		m := NewMethod(id)
		if m == nil {
			return
		}
		if err := m.Decode(args); err != nil {
			if e := wantCode(t, err, CodeFrameError); e.MethodID != id {
				t.Fatalf("error of %#x names %#x", id, e.MethodID)
			}
			return
		}
		encoded := m.AppendArgs(nil)
		again := NewMethod(id)
		if err := again.Decode(encoded); err != nil || !bytes.Equal(again.AppendArgs(nil), encoded) {
			t.Fatalf("%s: %x encodes to %x: %v", MethodName(id), args, encoded, err)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(deepTable(3, true)))
	f.Add([]byte(deepTable(70, false)))
	f.Add([]byte("\x01aI\x00\x00\x00\x01\x01bt\x01\x01cS\x00\x00\x00\x02hi\x01dV\x01eD\x02\x00\x00\x00\x96"))
	f.Add([]byte("\x01aA\x00\x00\x00\x09b\x01B\x02s\x00\x03u\x04\x01al\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x00S\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table := Table(data)
		fields := 0
		rebuilt := Table{}
		for name, v := range table.All() {
			fields++
			if _, ok := table.Lookup(string(name)); !ok {
				t.Fatalf("%q is there but not found", name)
			}
			if !Equal(v, v) {
				t.Fatalf("%q: %+v is not equal to itself", name, v)
			}
			rebuilt = v.Append(appendShortstr(rebuilt, name))
		}
		if fields != table.Len() {
			t.Fatalf("All gives %d fields, Len %d", fields, table.Len())
		}
		if err := ValidateTable(data); err != nil {
			wantCode(t, err, CodeFrameError)
			TableEqual(table, rebuilt)
			return
		}
		if len(rebuilt) != len(table) || !TableEqual(table, rebuilt) || !TableEqual(rebuilt, table) {
			t.Fatalf("%x rebuilt as %x", data, rebuilt)
		}
		longer := VoidValue().Append(appendShortstr(bytes.Clone(table), "a name that no fuzzer finds"))
		if TableEqual(table, longer) || TableEqual(longer, table) {
			t.Fatal("equal to a table with a field more")
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 1, 0, 0})
	f.Add([]byte("\x90\x00\x0atext/plain\x02"))
	f.Add(unhex(f, "FFFC 01 'a' 01 'b' 00000004 01 'h' 't' 01 02 09 01 'c' 01 'd' 01 'e' 01 'f' 0000000065000000 01 'g' 01 'i' 01 'j' 01 'k'"))
	f.Add([]byte("\x20\x00\x00\x00\x00\x05\x01at"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		mode := DeliveryMode(raw)
		p, err := DecodeProperties(raw)
		payload := append([]byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"), raw...)
		header, headerErr := DecodeContentHeader(payload)
		if (err == nil) != (headerErr == nil) {
			t.Fatalf("DecodeProperties: %v, DecodeContentHeader: %v", err, headerErr)
		}
		if err != nil {
			wantCode(t, err, CodeFrameError)
			wantCode(t, headerErr, CodeFrameError)
			return
		}
		if mode != p.DeliveryMode {
			t.Fatalf("DeliveryMode %d, decoded %d", mode, p.DeliveryMode)
		}
		if !bytes.Equal(p.Append(nil), raw) || !bytes.Equal(header.Properties, raw) || header.BodySize != 7 {
			t.Fatalf("%x encodes to %x", raw, p.Append(nil))
		}
	})
}

func FuzzPublishTemplate(f *testing.F) {
	small, empty, headers := publishWire(16), publishWire(0), headersWire()
	f.Add(small, small, uint32(4096), uint16(0), byte(0))
	f.Add(small, publishWire(100), uint32(131072), uint16(0), byte(0))
	f.Add(empty, small, uint32(0), uint16(40), byte(1))
	f.Add(small, empty, uint32(20), uint16(3), byte(0xFF))
	f.Add(headers, headers, uint32(100), uint16(140), byte(8))
	f.Fuzz(func(t *testing.T, learn, buf []byte, frameMax uint32, position uint16, flip byte) {
		var template PublishTemplate
		checkMatch(t, &template, learn, buf, frameMax)
		// A near miss of what was learned: one byte changed.
		if len(learn) > 0 {
			mutated := bytes.Clone(learn)
			mutated[int(position)%len(mutated)] ^= flip
			checkMatch(t, &template, learn, mutated, frameMax)
		}
		// Whatever is learned, even what no parse accepted, Match must not panic.
		half := len(learn) / 2
		template.Learn(learn[:half], learn[half:])
		template.Match(buf, frameMax)
	})
}
