package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Object are the members of an object, each a valid JSON value.
type Object map[string]json.RawMessage

// Parse takes an object apart, one level of it. Errors say what is wrong with it,
// for who has written it.
func Parse(data []byte) (Object, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	var o Object
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&o); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("is %s instead of an object", wrong.Value)
		}
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	if o == nil {
		return nil, errors.New("is null instead of an object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("has something behind the end of its object")
	}
	if names(data, 1) != len(o) {
		return nil, Repeated(data)
	}
	return o, nil
}

// names counts the members of objects down to a depth in valid JSON.
func names(data []byte, deepest int) (n int) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth <= deepest {
				n++
			}
		}
	}
	return n
}

// Unique says whether no object in v, which was decoded from data, lost members to
// others of the same name.
func Unique(data []byte, v any) bool { return names(data, len(data)) == members(v) }

func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, one := range v {
			n += members(one)
		}
	case []any:
		for _, one := range v {
			n += members(one)
		}
	}
	return n
}

// Repeated is the error for valid JSON that has a name twice in an object.
func Repeated(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	name := repeated(d)
	return fmt.Errorf("has '%s' twice", name)
}

// repeated reads a value and returns the first name that its object has already.
func repeated(d *json.Decoder) string {
	token, err := d.Token()
	open, ok := token.(json.Delim)
	if err != nil || !ok {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			token, _ := d.Token()
			name, _ := token.(string)
			if seen[name] {
				return name
			}
			seen[name] = true
		}
		if name := repeated(d); name != "" {
			return name
		}
	}
	_, _ = d.Token() // its end
	return ""
}

// Need is an error for the first of names that is missing or null.
func (o Object) Need(names ...string) error {
	for _, name := range names {
		if v, ok := o[name]; !ok || string(v) == "null" {
			return fmt.Errorf("'%s' is missing", name)
		}
	}
	return nil
}

// Fill sets the fields of the struct that into points to: each from the member
// that its tag names, or its own name in small letters; what has none stays as it
// is. Members without a field are passed over. Errors name the member.
func (o Object) Fill(into any) error {
	v := reflect.ValueOf(into).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		raw, ok := o[name]
		if !ok {
			continue
		}
		if err := fill(v.FieldByIndex(f.Index), raw); err != nil {
			return fmt.Errorf("'%s' %w", name, err)
		}
	}
	return nil
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func fill(v reflect.Value, raw json.RawMessage) error {
	into := v.Addr()
	if v.Kind() == reflect.Struct && !into.Type().Implements(unmarshaler) && string(raw) != "null" {
		o, err := Parse(raw)
		if err != nil {
			return err
		}
		return o.Fill(into.Interface())
	}
	err := json.Unmarshal(raw, into.Interface())
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("is %s instead of %s", wrong.Value, kindText(wrong.Type))
	}
	return err
}

// kindText names a type for people who do not write Go.
func kindText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
