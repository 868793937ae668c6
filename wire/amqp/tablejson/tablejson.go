package tablejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// nameBytesMax is what a short string holds.
const nameBytesMax = 255

// Parse reads a JSON object. Nothing, null and an empty array (as PHP writes an
// empty object) are an empty table.
func Parse(data []byte) (amqp.Table, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "null" || string(data) == "[]" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("is not JSON: " + err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("has something behind its end")
	}
	object, ok := v.(map[string]any)
	switch {
	case !ok:
		return nil, errors.New("is not an object")
	case !utf8.Valid(data):
		return nil, errors.New("is not UTF-8")
	case !exactjson.Unique(data, v):
		return nil, exactjson.Repeated(data)
	}
	t, err := table(object)
	if err == nil {
		err = amqp.ValidateTable(t) // depth
	}
	return t, err
}

func table(object map[string]any) (amqp.Table, error) {
	var b amqp.TableBuilder
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(name) > nameBytesMax {
			return nil, fmt.Errorf("has a name of %d bytes; %d are possible", len(name), nameBytesMax)
		}
		v, err := value(object[name])
		if err != nil {
			return nil, fmt.Errorf("'%s' %w", name, err)
		}
		b.SetValue(name, v)
	}
	return b.Table(), nil
}

func value(v any) (amqp.Value, error) {
	switch v := v.(type) {
	case nil:
		return amqp.VoidValue(), nil
	case bool:
		return amqp.BoolValue(v), nil
	case string:
		return amqp.String(v), nil
	case json.Number:
		return number(string(v))
	case []any:
		values := make([]amqp.Value, 0, len(v))
		for _, item := range v {
			one, err := value(item)
			if err != nil {
				return amqp.Value{}, err
			}
			values = append(values, one)
		}
		return amqp.ArrayValue(amqp.ArrayOf(values...)), nil
	case map[string]any:
		t, err := table(v)
		return amqp.TableValue(t), err
	}
	return amqp.Value{}, fmt.Errorf("is of an unknown type")
}

func number(text string) (amqp.Value, error) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return amqp.Value{}, fmt.Errorf("is %s, which does not fit 64 bits", text)
		}
		return amqp.Int64Value(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return amqp.Value{}, fmt.Errorf("is %s, which is too large", text)
	}
	return amqp.Float64Value(f), nil
}

// Append appends the table as a JSON object, names sorted.
func Append(dst []byte, t amqp.Table) []byte {
	type field struct {
		name  []byte
		value amqp.Value
	}
	var fields []field
	for name, v := range t.All() {
		fields = append(fields, field{name, v})
	}
	slices.SortStableFunc(fields, func(a, b field) int { return bytes.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, f.name), ':')
		dst = appendValue(dst, f.value)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v amqp.Value) []byte {
	if n, ok := v.Int64(); ok {
		return strconv.AppendInt(dst, n, 10)
	}
	if on, ok := v.Bool(); ok {
		return strconv.AppendBool(dst, on)
	}
	if s, ok := v.Bytes(); ok {
		return appendString(dst, s)
	}
	if t, ok := v.Table(); ok {
		return Append(dst, t)
	}
	if a, ok := v.Array(); ok {
		dst = append(dst, '[')
		first := true
		for item := range a.All() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendValue(dst, item)
		}
		return append(dst, ']')
	}
	if s, ok := v.Timestamp(); ok {
		return strconv.AppendUint(dst, min(s, math.MaxInt64), 10)
	}
	if scale, n, ok := v.Decimal(); ok {
		return appendFloat(dst, float64(n)/math.Pow10(int(scale)))
	}
	if f, ok := v.Float64(); ok {
		return appendFloat(dst, f)
	}
	return append(dst, "null"...)
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !bytes.ContainsAny(dst[from:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendString(dst, s []byte) []byte {
	text := string(s)
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return append(dst, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// Equal says whether two tables are the same in JSON.
func Equal(a, b amqp.Table) bool { return bytes.Equal(Append(nil, a), Append(nil, b)) }
