package exactjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// pair is a value with rules of its own.
type pair [2]string

func (p *pair) UnmarshalJSON(data []byte) error {
	a, b, ok := strings.Cut(strings.Trim(string(data), `"`), "=")
	if !ok {
		return errors.New("is not a pair")
	}
	*p = pair{a, b}
	return nil
}

type shared struct {
	Note *string `json:"note"`
}

type thing struct {
	Name   string   `json:"name"`
	Size   int64    `json:"size,omitempty"`
	On     bool     // by its own name
	List   []string `json:"list"`
	Pair   pair     `json:"pair"`
	Nested struct {
		Deep int `json:"deep"`
	} `json:"nested"`
	Raw json.RawMessage `json:"raw"`
	shared
	hidden string
}

func read(data string) (thing, error) {
	t := thing{Name: "as it was"}
	o, err := Parse([]byte(data))
	if err == nil {
		err = o.Fill(&t)
	}
	return t, err
}

// TestFill_OtherSpellings: only the name itself is the name.
func TestFill_OtherSpellings(t *testing.T) {
	got, err := read(`{"Name":"x","NAME":"x","On":true,"naMe":"x","name ":"x","nam\u0045":"x","Nested":{"deep":1},"nested":{"DEEP":1},"hidden":"x","Hidden":"x"}`)
	if err != nil || got.Name != "as it was" || got.On || got.Nested.Deep != 0 || got.hidden != "" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = read("\ufeff" + ` {"nam\u0065":"x","on":true,"nested":{"deep":2},"note":"n","pair":"a=b","raw":{"a":[1]},"list":["x"],"size":-3,"more":{}} `)
	if err != nil || got.Name != "x" || !got.On || got.Nested.Deep != 2 || *got.Note != "n" || got.Pair != (pair{"a", "b"}) || string(got.Raw) != `{"a":[1]}` || got.Size != -3 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := read(`{"name":null,"nested":null,"list":null,"note":null}`); err != nil || got.Name != "as it was" || got.Note != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestErrors: what is not taken, and what is said of it.
func TestErrors(t *testing.T) {
	for data, want := range map[string]string{
		`{"name":"a","name":"b"}`:                "has 'name' twice",
		`{"name":"a","n\u0061me":"b"}`:           "has 'name' twice",
		`{"x":{"name":1},"y":[":"],"y":{}}`:      "has 'y' twice",
		`{"nested":{"deep":1,"deep":2}}`:         "'nested' has 'deep' twice",
		"{\"name\":\"a\xff\"}":                   "is not UTF-8",
		"{\"a\xc0\xaf\":1}":                      "is not UTF-8",
		``:                                       "is not a JSON object",
		`{`:                                      "is not a JSON object",
		`{"name":}`:                              "is not a JSON object",
		`[]`:                                     "is array instead of an object",
		`"x"`:                                    "is string instead of an object",
		`7`:                                      "is number instead of an object",
		`null`:                                   "is null instead of an object",
		`{} {}`:                                  "has something behind",
		`{}x`:                                    "has something behind",
		`{"name":7}`:                             "'name' is number instead of a text",
		`{"size":1.5}`:                           "'size' is number 1.5 instead of a whole number",
		`{"size":9223372036854775808}`:           "'size' is number 9223372036854775808 instead of a whole number",
		`{"on":"true"}`:                          "'on' is string instead of true or false",
		`{"list":"x"}`:                           "'list' is string instead of an array",
		`{"list":[1]}`:                           "'list' is number instead of a text",
		`{"nested":[]}`:                          "'nested' is array instead of an object",
		`{"nested":{"deep":"x"}}`:                "'nested' 'deep' is string instead of a whole number",
		`{"pair":"x"}`:                           "'pair' is not a pair",
		`{"a":` + strings.Repeat("[", 1<<14):     "is not a JSON object",
		`{"a":1}` + strings.Repeat(" ", 9) + `]`: "has something behind",
	} {
		if got, err := read(data); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%.60q: %+v, %v, want %s", data, got, err, want)
		}
	}
	o, err := Parse([]byte(`{"a":1,"b":null}`))
	if err != nil || o.Need("a") != nil || o.Need("a", "b") == nil || o.Need("c").Error() != "'c' is missing" {
		t.Errorf("%v, %v", o, err)
	}
}

// TestUnique looks into everything.
func TestUnique(t *testing.T) {
	for data, want := range map[string]bool{
		`{}`: true, `{"a":":","b":{"a":"\":"},"c":[{"a":1},{"a":2}]}`: true,
		`{"a":1,"a":1}`: false, `{"x":[[{"a":1,"a":1}]]}`: false, `{"a":{"b":1},"a":{"c":1}}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		if got := Unique([]byte(data), v); got != want {
			t.Errorf("%s: %v", data, got)
		}
		if err := Repeated([]byte(data)); (err.Error() == "has '' twice") != want {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// FuzzParse: what is taken is what the standard library takes for the same, and
// writing it loses nothing.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":{"a":[":",{}]}}`, `{"a":1,"a":2}`, `{"\"":"\\"}`, "\ufeff{}", `{"a":"\ud800"}`, `{"":"","":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Parse(data)
		if err != nil {
			return
		}
		if !utf8.Valid(data) {
			t.Fatalf("%q is taken", data)
		}
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := Parse(again); err != nil || len(p) != len(o) {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
		var into thing
		_ = o.Fill(&into)
	})
}
