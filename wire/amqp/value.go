package amqp

import (
	"encoding/binary"
	"math"
)

// Value is one field value. The zero Value is void. Values with bytes (S, x,
// A, F) are views into what they were decoded from or built with.
type Value struct {
	kind   byte
	number uint64 // integers sign-extended; floats as their bits; decimal as scale<<32 | uint32(integer)
	view   []byte // content of S, x, A, F
}

// VoidValue returns the value that says nothing (V).
func VoidValue() Value { return Value{kind: KindVoid} }

// BoolValue returns a boolean (t).
func BoolValue(v bool) Value { return Value{kind: KindBool, number: uint64(bit(v, 0))} }

// Int8Value returns an int8 (b).
func Int8Value(v int8) Value { return Value{kind: KindInt8, number: uint64(v)} }

// Uint8Value returns a uint8 (B).
func Uint8Value(v uint8) Value { return Value{kind: KindUint8, number: uint64(v)} }

// Int16Value returns an int16 (s, as RabbitMQ writes it).
func Int16Value(v int16) Value { return Value{kind: KindInt16, number: uint64(v)} }

// Uint16Value returns a uint16 (u).
func Uint16Value(v uint16) Value { return Value{kind: KindUint16, number: uint64(v)} }

// Int32Value returns an int32 (I).
func Int32Value(v int32) Value { return Value{kind: KindInt32, number: uint64(v)} }

// Uint32Value returns a uint32 (i).
func Uint32Value(v uint32) Value { return Value{kind: KindUint32, number: uint64(v)} }

// Int64Value returns an int64 (l).
func Int64Value(v int64) Value { return Value{kind: KindInt64, number: uint64(v)} }

// Float32Value returns a float32 (f).
func Float32Value(v float32) Value {
	return Value{kind: KindFloat32, number: uint64(math.Float32bits(v))}
}

// Float64Value returns a float64 (d).
func Float64Value(v float64) Value { return Value{kind: KindFloat64, number: math.Float64bits(v)} }

// DecimalValue returns integer / 10^scale (D).
func DecimalValue(scale uint8, integer int32) Value {
	return Value{kind: KindDecimal, number: uint64(scale)<<32 | uint64(uint32(integer))}
}

// TimestampValue returns a time in seconds since 1970 (T).
func TimestampValue(seconds uint64) Value { return Value{kind: KindTimestamp, number: seconds} }

// String returns a long string (S); it copies s.
func String(s string) Value { return Value{kind: KindString, view: []byte(s)} }

// StringBytes returns a long string (S) that is a view of b.
func StringBytes(b []byte) Value { return Value{kind: KindString, view: b} }

// BytesValue returns a byte array (x) that is a view of b.
func BytesValue(b []byte) Value { return Value{kind: KindBytes, view: b} }

// TableValue returns a nested table (F) that is a view of t.
func TableValue(t Table) Value { return Value{kind: KindTable, view: t} }

// ArrayValue returns an array (A) that is a view of a.
func ArrayValue(a Array) Value { return Value{kind: KindArray, view: a} }

// Kind returns the tag byte of the value on the wire, one of the Kind constants.
func (v Value) Kind() byte {
	if v.kind == 0 {
		return KindVoid
	}
	return v.kind
}

// Bool returns a boolean's value; false, false for any other kind.
func (v Value) Bool() (value, ok bool) {
	return v.kind == KindBool && v.number != 0, v.kind == KindBool
}

// Int64 returns the value of any integer kind (b B s U u I i l L).
func (v Value) Int64() (int64, bool) {
	switch v.kind {
	case KindInt8, KindUint8, KindInt16, KindInt16Alt, KindUint16, KindInt32, KindUint32, KindInt64, KindInt64Alt:
		return int64(v.number), true
	}
	return 0, false
}

// Float64 returns the value of a float kind (f d).
func (v Value) Float64() (float64, bool) {
	switch v.kind {
	case KindFloat32:
		return float64(math.Float32frombits(uint32(v.number))), true
	case KindFloat64:
		return math.Float64frombits(v.number), true
	}
	return 0, false
}

// Decimal returns a decimal: integer / 10^scale.
func (v Value) Decimal() (scale uint8, integer int32, ok bool) {
	if v.kind != KindDecimal {
		return 0, 0, false
	}
	return uint8(v.number >> 32), int32(uint32(v.number)), true
}

// Timestamp returns a timestamp in seconds since 1970.
func (v Value) Timestamp() (seconds uint64, ok bool) {
	if v.kind != KindTimestamp {
		return 0, false
	}
	return v.number, true
}

// Bytes returns the content of a string or byte array (S x), a view.
func (v Value) Bytes() ([]byte, bool) {
	if v.kind != KindString && v.kind != KindBytes {
		return nil, false
	}
	return v.view, true
}

// Table returns a nested table, a view.
func (v Value) Table() (Table, bool) {
	if v.kind != KindTable {
		return nil, false
	}
	return Table(v.view), true
}

// Array returns an array, a view.
func (v Value) Array() (Array, bool) {
	if v.kind != KindArray {
		return nil, false
	}
	return Array(v.view), true
}

// Append appends the kind byte and the encoded value.
func (v Value) Append(dst []byte) []byte {
	kind := v.Kind()
	dst = append(dst, kind)
	switch kindSizes[kind] {
	case 1:
		return append(dst, byte(v.number))
	case 2:
		return binary.BigEndian.AppendUint16(dst, uint16(v.number))
	case 4:
		return binary.BigEndian.AppendUint32(dst, uint32(v.number))
	case 5:
		dst = append(dst, byte(v.number>>32))
		return binary.BigEndian.AppendUint32(dst, uint32(v.number))
	case 8:
		return binary.BigEndian.AppendUint64(dst, v.number)
	case sizePrefixed:
		return appendLongstr(dst, v.view)
	}
	return dst
}

// cutValue splits the value off the start of buf; ok is false when there is no whole value.
func cutValue(buf []byte) (v Value, rest []byte, ok bool) {
	size, problem := valueSize(buf)
	if problem != "" {
		return Value{}, nil, false
	}
	v.kind = buf[0]
	content := buf[1:size]
	switch v.kind {
	case KindBool:
		v.number = uint64(bit(content[0] != 0, 0))
	case KindInt8:
		v.number = uint64(int8(content[0]))
	case KindUint8:
		v.number = uint64(content[0])
	case KindInt16, KindInt16Alt:
		v.number = uint64(int16(binary.BigEndian.Uint16(content)))
	case KindUint16:
		v.number = uint64(binary.BigEndian.Uint16(content))
	case KindInt32:
		v.number = uint64(int32(binary.BigEndian.Uint32(content)))
	case KindUint32, KindFloat32:
		v.number = uint64(binary.BigEndian.Uint32(content))
	case KindInt64, KindInt64Alt, KindFloat64, KindTimestamp:
		v.number = binary.BigEndian.Uint64(content)
	case KindDecimal:
		v.number = uint64(content[0])<<32 | uint64(binary.BigEndian.Uint32(content[1:]))
	case KindString, KindBytes, KindArray, KindTable:
		v.view = buf[5:size:size]
	}
	return v, buf[size:], true
}
