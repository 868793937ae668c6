package signed

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical_RFC8785_3_2_2_Sample(t *testing.T) {
	const given = `{
       "numbers": [333333333.33333329, 1E30, 4.50,
                   2e-3, 0.000000000000000000000000001],
       "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
       "literals": [null, true, false]
     }`
	const want = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`
	got, err := canonicalise([]byte(given))
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if _, err := Canonical([]byte(given)); err == nil || !strings.Contains(err.Error(), "333333333.33333329") {
		t.Errorf("the number that is rounded was signed: %v", err)
	}
}

func TestCanonical_RFC8785_3_2_3_SortsByUTF16(t *testing.T) {
	const given = `{
       "\u20ac": "Euro Sign",
       "\r": "Carriage Return",
       "\ufb33": "Hebrew Letter Dalet With Dagesh",
       "1": "One",
       "\ud83d\ude00": "Emoji: Grinning Face",
       "\u0080": "Control",
       "\u00f6": "Latin Small Letter O With Diaeresis"
     }`
	want := "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"\u00f6\":\"Latin Small Letter O With Diaeresis\"," +
		"\"\u20ac\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"
	if got, err := Canonical([]byte(given)); err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// The table of appendix B, given in another notation than the one wanted.
func TestCanonical_RFC8785_AppendixB_Numbers(t *testing.T) {
	for _, sample := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		number := math.Float64frombits(sample.bits)
		for _, format := range []byte("eEf") {
			given := strconv.FormatFloat(number, format, -1, 64)
			if got, err := Canonical([]byte(given)); err != nil || string(got) != sample.want {
				t.Errorf("%x as %s: got %s, %v; want %s", sample.bits, given, got, err, sample.want)
			}
		}
		// The exact value has more digits than the shortest form as a rule.
		exact := strconv.FormatFloat(number, 'e', 800, 64)
		if got, err := canonicalise([]byte(exact)); err != nil || string(got) != sample.want {
			t.Errorf("%x, exactly: got %s, %v; want %s", sample.bits, got, err, sample.want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for name, document := range map[string]string{
		"a member twice":            `{"a":1,"a":2}`,
		"a member twice, escaped":   `{"a":1,"\u0061":2}`,
		"a lone surrogate":          `"\ud800"`,
		"invalid UTF-8":             "\"\xff\"",
		"two documents":             `{} {}`,
		"nothing":                   ``,
		"an integer beyond 2^53":    `9007199254740993`,
		"a fraction with more bits": `0.1000000000000000055`,
		"an underflow":              `{"a":[1e-400]}`,
		"an overflow":               `1e400`,
		"a comment":                 `{} // yes`,
		"a leading zero":            `01`,
	} {
		if got, err := Canonical([]byte(document)); err == nil {
			t.Errorf("%s: %s became %s", name, document, got)
		}
	}
}

func TestDecimalOfComparesValues(t *testing.T) {
	for _, pair := range [][2]string{
		{"0", "-0.00e7"}, {"100", "1e2"}, {"0.001", "1E-3"}, {"-12.50", "-0.125e+2"},
	} {
		if a, b := decimalOf(pair[0]), decimalOf(pair[1]); a != b {
			t.Errorf("%s is %+v, %s is %+v", pair[0], a, pair[1], b)
		}
	}
	for _, pair := range [][2]string{{"1", "-1"}, {"1", "10"}, {"1.1", "1.01"}, {"0", "1e-400"}, {"5e-324", "4e-324"}} {
		if a, b := decimalOf(pair[0]), decimalOf(pair[1]); a == b {
			t.Errorf("%s and %s are both %+v", pair[0], pair[1], a)
		}
	}
}

// Whatever Go writes can be signed, comes back as the same value, and its
// canonical form is its own.
func TestCanonicalKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{
			rapid.String().Draw(t, "name"): rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) }).Draw(t, "number"),
			"list":                         rapid.SliceOf(rapid.Int64Range(-1<<53, 1<<53)).Draw(t, "list"),
			"text":                         rapid.String().Draw(t, "text"),
		}
		document, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		checkCanonical(t, document)
	})
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.50,-0],"a":"\u20ac"}`))
	f.Add([]byte(`1e-7`))
	f.Fuzz(func(t *testing.T, document []byte) {
		if _, err := Canonical(document); err == nil {
			checkCanonical(t, document)
		}
	})
}

func checkCanonical(t interface{ Fatalf(string, ...any) }, document []byte) {
	canonical, err := Canonical(document)
	if err != nil {
		t.Fatalf("%s can't be signed: %v", document, err)
	}
	again, err := Canonical(canonical)
	if err != nil || string(again) != string(canonical) {
		t.Fatalf("%s became %s, %v", canonical, again, err)
	}
	var before, after any
	if err := json.Unmarshal(document, &before); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	if err := json.Unmarshal(canonical, &after); err != nil {
		t.Fatalf("%s: %v", canonical, err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("%s became %s", document, canonical)
	}
}
