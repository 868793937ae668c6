package amqp

import (
	"bytes"
	"cmp"
	"slices"
)

// Equal compares two values the way argument equivalence wants it: integers
// and floats of any width by their number (NaN equals NaN), S and x by their
// bytes, tables as maps, arrays in order, decimals by their number among
// themselves; everything else by kind and value.
func Equal(a, b Value) bool {
	if numberA, ok := a.Int64(); ok {
		return equalInteger(numberA, b)
	}
	if numberA, ok := a.Float64(); ok {
		if integerB, ok := b.Int64(); ok {
			return equalInteger(integerB, a)
		}
		numberB, ok := b.Float64()
		return ok && (numberA == numberB || numberA != numberA && numberB != numberB)
	}
	if bytesA, ok := a.Bytes(); ok {
		bytesB, ok := b.Bytes()
		return ok && bytes.Equal(bytesA, bytesB)
	}
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.kind {
	case KindTable:
		return TableEqual(a.view, b.view)
	case KindArray:
		return arrayEqual(a.view, b.view)
	case KindDecimal:
		return normalizeDecimal(a.number) == normalizeDecimal(b.number)
	}
	return a.number == b.number
}

// equalInteger compares exactly: a float equals an integer only if it is that integer.
func equalInteger(integer int64, v Value) bool {
	if other, ok := v.Int64(); ok {
		return integer == other
	}
	float, ok := v.Float64()
	// 2^63 itself is out of range, and converting it would be undefined.
	return ok && float >= -1<<63 && float < 1<<63 && float == float64(int64(float)) && int64(float) == integer
}

// normalizeDecimal strips trailing zeros, so that 1.50 and 1.5 are the same; 0 has no scale.
func normalizeDecimal(number uint64) uint64 {
	scale, integer := uint8(number>>32), int32(uint32(number))
	if integer == 0 {
		return 0
	}
	for scale > 0 && integer%10 == 0 {
		scale--
		integer /= 10
	}
	return uint64(scale)<<32 | uint64(uint32(integer))
}

func arrayEqual(a, b Array) bool {
	if bytes.Equal(a, b) {
		return true
	}
	for {
		valueA, restA, okA := cutValue(a)
		valueB, restB, okB := cutValue(b)
		if !okA || !okB {
			return okA == okB
		}
		if !Equal(valueA, valueB) {
			return false
		}
		a, b = restA, restB
	}
}

// smallTableFields is up to how many fields tables are compared by walking;
// beyond that names are sorted, so that a hostile table of 40,000 fields costs
// n log n and not n².
const smallTableFields = 16

// TableEqual compares tables as maps, values by Equal. Of repeated names the first counts.
func TableEqual(a, b Table) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if a.Len() > smallTableFields || b.Len() > smallTableFields {
		return largeTableEqual(a, b)
	}
	namesA := 0
	for rest := a; ; {
		pos := len(a) - len(rest)
		name, v, after, ok := cutField(rest)
		if !ok {
			break
		}
		rest = after
		if lookupPosition(a, name) != pos {
			continue // repeated
		}
		namesA++
		posB := lookupPosition(b, name)
		if posB < 0 {
			return false
		}
		if _, other, _, _ := cutField(b[posB:]); !Equal(v, other) {
			return false
		}
	}
	return namesA == distinctNames(b)
}

func distinctNames(t Table) int {
	n := 0
	for rest := t; ; {
		pos := len(t) - len(rest)
		name, _, after, ok := cutField(rest)
		if !ok {
			return n
		}
		rest = after
		if lookupPosition(t, name) == pos {
			n++
		}
	}
}

func largeTableEqual(a, b Table) bool {
	positionsA, positionsB := sortedPositions(a), sortedPositions(b)
	if len(positionsA) != len(positionsB) {
		return false
	}
	for i := range positionsA {
		nameA, valueA, _, _ := cutField(a[positionsA[i]:])
		nameB, valueB, _, _ := cutField(b[positionsB[i]:])
		if !bytes.Equal(nameA, nameB) || !Equal(valueA, valueB) {
			return false
		}
	}
	return true
}

// sortedPositions are the positions of the fields of t, by name, without repeated ones.
func sortedPositions(t Table) []uint32 {
	positions := make([]uint32, 0, t.Len())
	for rest := t; ; {
		pos := len(t) - len(rest)
		_, _, after, ok := cutField(rest)
		if !ok {
			break
		}
		positions = append(positions, uint32(pos))
		rest = after
	}
	name := func(pos uint32) []byte { return t[pos+1 : pos+1+uint32(t[pos])] }
	slices.SortFunc(positions, func(x, y uint32) int {
		return cmp.Or(bytes.Compare(name(x), name(y)), cmp.Compare(x, y))
	})
	return slices.CompactFunc(positions, func(x, y uint32) bool { return bytes.Equal(name(x), name(y)) })
}
