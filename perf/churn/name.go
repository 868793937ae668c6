package churn

import "strconv"

// nameSeries builds names that differ in a number, without allocating: each
// call overwrites the name before.
type nameSeries struct {
	buffer []byte
	fixed  int // length of what all names have in common
}

// newNames returns names that start with prefix and what belongs to one kind
// and connection.
func newNames(prefix, kind string, connection int) *nameSeries {
	fixed := prefix + "-"
	if kind != "" {
		fixed += kind + "-"
	}
	fixed += strconv.Itoa(connection) + "-"
	return &nameSeries{buffer: append(make([]byte, 0, len(fixed)+20), fixed...), fixed: len(fixed)}
}

// number returns the name with that number, in hexadecimal.
func (n *nameSeries) number(number uint64) []byte {
	n.buffer = strconv.AppendUint(n.buffer[:n.fixed], number, 16)
	return n.buffer
}
