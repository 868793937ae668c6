package tablejson

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestAppend_EveryKind(t *testing.T) {
	var inner, b amqp.TableBuilder
	inner.SetString("k", "v<>")
	b.SetValue("i", amqp.Int8Value(-3))
	b.SetValue("h", amqp.Uint16Value(65535))
	b.SetValue("g", amqp.Float64Value(2))
	b.SetValue("f", amqp.Float32Value(0.5))
	b.SetValue("e", amqp.DecimalValue(2, 1234))
	b.SetValue("d", amqp.TimestampValue(1_700_000_000))
	b.SetValue("c", amqp.VoidValue())
	b.SetValue("b", amqp.BoolValue(true))
	b.SetValue("a", amqp.BytesValue([]byte("x\xff\n")))
	b.SetValue("t", amqp.TableValue(inner.Table()))
	b.SetValue("r", amqp.ArrayValue(amqp.ArrayOf(amqp.Int64Value(1), amqp.String("s"))))
	b.SetValue("n", amqp.Float64Value(math.NaN()))
	const want = `{"a":"x` + "\uFFFD" + `\n","b":true,"c":null,"d":1700000000,"e":12.34,"f":0.5,"g":2.0,"h":65535,"i":-3,"n":null,"r":[1,"s"],"t":{"k":"v<>"}}`
	got := string(Append(nil, b.Table()))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := Parse([]byte(got))
	if err != nil || !Equal(back, b.Table()) || string(Append(nil, back)) != want {
		t.Errorf("read back: %v, %s", err, Append(nil, back))
	}
}

func TestParse_Refused(t *testing.T) {
	for in, want := range map[string]string{
		`{`:                                      "is not JSON",
		`{} {}`:                                  "behind its end",
		`7`:                                      "is not an object",
		`[1]`:                                    "is not an object",
		`{"a":99999999999999999999}`:             "does not fit 64 bits",
		`{"a":[1e999]}`:                          "too large",
		`{"` + strings.Repeat("n", 256) + `":1}`: "256 bytes",
		strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000): "",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", in, err, want)
		}
	}
	for _, in := range []string{"", " ", "null", "[]", "{}"} {
		if table, err := Parse([]byte(in)); err != nil || table.Len() != 0 {
			t.Errorf("%q: %v, %v", in, table, err)
		}
	}
}

// FuzzParse: what is read is a sound table, its JSON is JSON, and reading that
// gives the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"x-message-ttl":60000,"x-queue-type":"classic","a":[1,2.5,null,true,{"b":"c"}]}`))
	f.Add([]byte(`{"a":-0,"b":1e3,"c":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Parse(data)
		if err != nil {
			return
		}
		if err := amqp.ValidateTable(table); err != nil {
			t.Fatal(err)
		}
		text := Append(nil, table)
		if !json.Valid(text) {
			t.Fatalf("not JSON: %s", text)
		}
		again, err := Parse(text)
		if err != nil || !Equal(again, table) {
			t.Fatalf("%s became %s (%v)", text, Append(nil, again), err)
		}
	})
}
