package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp/internal/gen"
	"pgregory.net/rapid"
)

// methodIDs lists every method of the table.
func methodIDs() (ids []uint32) {
	for _, class := range gen.Classes {
		for _, method := range class.Methods {
			ids = append(ids, gen.MethodID(class, method))
		}
	}
	return ids
}

// wantCode fails unless err is an *Error with the code.
func wantCode(t testing.TB, err error, code uint16) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want code %d", err, code)
	}
	if !strings.HasPrefix(e.Text, CodeName(code)+" - ") || len(e.Text) > ShortStringMax {
		t.Fatalf("bad reply text %q", e.Text)
	}
	return e
}

func TestMethod_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, id := range methodIDs() {
		t.Run(MethodName(id), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				want := NewMethod(id)
				drawMethod(t, want)
				channel := rapid.Uint16().Draw(t, "channel")
				wire := AppendMethodFrame([]byte("before"), channel, want)[len("before"):]
				frame, n, err := ParseFrame(wire, 0)
				if err != nil || n != len(wire) || frame.Channel != channel || frame.Type != FrameMethod {
					t.Fatalf("ParseFrame = %+v, %d, %v", frame, n, err)
				}
				gotID, args, err := SplitMethod(frame.Payload)
				if err != nil || gotID != id {
					t.Fatalf("SplitMethod = %#x, %v", gotID, err)
				}
				got := NewMethod(id)
				if err := got.Decode(args); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

// Every strict prefix is a syntax error, and so is one byte more; each names the method.
func TestMethod_WrongLengthIsSyntaxError(t *testing.T) {
	t.Parallel()
	table := builtTable(func(b *TableBuilder) { b.SetString("a", "b") })
	for _, id := range methodIDs() {
		full := NewMethod(id)
		fields := reflect.ValueOf(full).Elem()
		for i := range fields.NumField() {
			switch fields.Field(i).Interface().(type) {
			case []byte:
				fields.Field(i).SetBytes([]byte("text"))
			case Table:
				fields.Field(i).Set(reflect.ValueOf(table))
			}
		}
		args := full.AppendArgs(nil)
		for cut := range len(args) {
			if e := wantCode(t, NewMethod(id).Decode(args[:cut]), CodeFrameError); e.MethodID != id {
				t.Errorf("%s cut to %d bytes: error names %#x", MethodName(id), cut, e.MethodID)
			}
		}
		if e := wantCode(t, NewMethod(id).Decode(append(args, 0)), CodeFrameError); e.MethodID != id {
			t.Errorf("%s with a byte left over: error names %#x", MethodName(id), e.MethodID)
		}
	}
}

func TestMethod_BrokenTableArgumentIsSyntaxError(t *testing.T) {
	t.Parallel()
	m := QueueDeclare{Queue: []byte("q"), Arguments: Table("\x01a?")}
	var got QueueDeclare
	e := wantCode(t, got.Decode(m.AppendArgs(nil)), CodeFrameError)
	if e.MethodID != QueueDeclareID || !strings.Contains(e.Text, "queue.declare") {
		t.Errorf("error %+v", e)
	}
}

func TestMethod_UnusedBitsAreIgnored(t *testing.T) {
	t.Parallel()
	var m BasicAck
	if err := m.Decode([]byte{0, 0, 0, 0, 0, 0, 0, 3, 0xFE}); err != nil || m.DeliveryTag != 3 || m.Multiple {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestMethod_DecodeOverwritesEarlierValues(t *testing.T) {
	t.Parallel()
	m := BasicPublish{Exchange: []byte("old"), RoutingKey: []byte("old"), Mandatory: true, Immediate: true}
	if err := m.Decode([]byte{0, 0, 0, 0, 0}); err != nil || len(m.Exchange)+len(m.RoutingKey) != 0 || m.Mandatory || m.Immediate {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestMethod_LongShortStringIsCut(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 300)
	var got BasicConsumeOk
	if err := got.Decode((&BasicConsumeOk{ConsumerTag: long}).AppendArgs(nil)); err != nil || len(got.ConsumerTag) != ShortStringMax {
		t.Errorf("%d bytes, %v", len(got.ConsumerTag), err)
	}
}

func TestMethod_NamesAndUnknownIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range methodIDs() {
		m := NewMethod(id)
		if m == nil || m.ID() != id {
			t.Fatalf("NewMethod(%#x) = %T", id, m)
		}
		name := MethodName(id)
		if name == "unknown" || seen[name] {
			t.Errorf("MethodName(%#x) = %q", id, name)
		}
		seen[name] = true
	}
	for _, id := range []uint32{0, 1, 60, BasicPublishID + 1, 61<<16 | 40, 1<<32 - 1} {
		if NewMethod(id) != nil || MethodName(id) != "unknown" || HasContent(id) {
			t.Errorf("id %#x is known", id)
		}
	}
	for id, want := range map[uint32]bool{BasicPublishID: true, BasicDeliverID: true, BasicReturnID: true, BasicGetOkID: true, BasicGetID: false} {
		if HasContent(id) != want {
			t.Errorf("HasContent(%s) = %v", MethodName(id), !want)
		}
	}
	if BasicPublishID != 60<<16|40 || MethodName(BasicPublishID) != "basic.publish" || MethodName(ConnectionUpdateSecretOkID) != "connection.update-secret-ok" {
		t.Error("ids or names are off")
	}
}

func TestSplitMethod_Short(t *testing.T) {
	t.Parallel()
	for size := range 4 {
		_, _, err := SplitMethod(make([]byte, size))
		wantCode(t, err, CodeFrameError)
	}
	if id, args, err := SplitMethod([]byte{0, 20, 0, 10}); id != ChannelOpenID || len(args) != 0 || err != nil {
		t.Errorf("%#x, %x, %v", id, args, err)
	}
}

// Views are capped: appending to one must not overwrite the buffer behind it.
func TestMethod_ViewsAreCapped(t *testing.T) {
	t.Parallel()
	m := BasicPublish{Exchange: []byte("ex"), RoutingKey: []byte("key")}
	args := m.AppendArgs(nil)
	before := bytes.Clone(args)
	var got BasicPublish
	if err := got.Decode(args); err != nil {
		t.Fatal(err)
	}
	_ = append(got.Exchange, "overwritten"...)
	_ = append(got.RoutingKey, "overwritten"...)
	if !bytes.Equal(args, before) {
		t.Error("append to a view changed the buffer")
	}
}
