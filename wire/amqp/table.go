package amqp

import "iter"

// Table is the encoded content of a field table, without its 4-byte length.
// Names may repeat on the wire; the first one counts.
type Table []byte

// Array is the encoded content of a field array, without its 4-byte length.
type Array []byte

// cutField splits the first field off t; ok is false at the end or where t is broken.
func cutField(t Table) (name []byte, v Value, rest Table, ok bool) {
	if len(t) == 0 {
		return nil, Value{}, nil, false
	}
	nameEnd := 1 + int(t[0])
	if nameEnd > len(t) {
		return nil, Value{}, nil, false
	}
	v, after, ok := cutValue(t[nameEnd:])
	return t[1:nameEnd:nameEnd], v, after, ok
}

// Lookup returns the value of the first field called name. It allocates
// nothing and costs a walk over the fields before it.
func (t Table) Lookup(name string) (Value, bool) {
	pos := lookupPosition(t, name)
	if pos < 0 {
		return Value{}, false
	}
	v, _, ok := cutValue(t[pos+1+len(name):])
	return v, ok
}

// lookupPosition is the position of the first field called name, -1 when there is none.
func lookupPosition[T ~string | ~[]byte](t Table, name T) int {
	rest := t
	for len(rest) > 0 {
		nameEnd := 1 + int(rest[0])
		if nameEnd > len(rest) {
			return -1
		}
		size, problem := valueSize(rest[nameEnd:])
		if problem != "" {
			return -1
		}
		if nameEnd-1 == len(name) && string(rest[1:nameEnd]) == string(name) {
			return len(t) - len(rest)
		}
		rest = rest[nameEnd+size:]
	}
	return -1
}

// AppendWithout appends the fields of t that are not called name, as they are, to
// dst; a broken end of t is left out.
func (t Table) AppendWithout(dst []byte, name string) []byte {
	for {
		field, _, rest, ok := cutField(t)
		if !ok {
			return dst
		}
		if string(field) != name {
			dst = append(dst, t[:len(t)-len(rest)]...)
		}
		t = rest
	}
}

// All iterates over the fields in wire order, repeated names included. Names
// and values are views.
func (t Table) All() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		for rest := t; ; {
			name, v, after, ok := cutField(rest)
			if !ok || !yield(name, v) {
				return
			}
			rest = after
		}
	}
}

// Len returns the number of fields, repeated names included.
func (t Table) Len() int {
	n := 0
	for rest := t; len(rest) > 0; n++ {
		nameEnd := 1 + int(rest[0])
		if nameEnd > len(rest) {
			return n
		}
		size, problem := valueSize(rest[nameEnd:])
		if problem != "" {
			return n
		}
		rest = rest[nameEnd+size:]
	}
	return n
}

// All iterates over the values in order.
func (a Array) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for rest := []byte(a); ; {
			v, after, ok := cutValue(rest)
			if !ok || !yield(v) {
				return
			}
			rest = after
		}
	}
}

// Len returns the number of values.
func (a Array) Len() int {
	n := 0
	for rest := []byte(a); ; n++ {
		size, problem := valueSize(rest)
		if problem != "" {
			return n
		}
		rest = rest[size:]
	}
}

// ArrayOf encodes values as an array.
func ArrayOf(values ...Value) Array {
	var a Array
	for _, v := range values {
		a = v.Append(a)
	}
	return a
}
