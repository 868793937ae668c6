package routing

import (
	"bytes"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fanoutIndex ignores routing keys (AMQP 0-9-1, 3.1.3.2). Its one group exists
// while there is a binding.
type fanoutIndex[D comparable] struct {
	store[D]
	groupID uint32
}

// NewFanout returns the index of a fanout exchange.
func NewFanout[D comparable]() Index[D] { return &fanoutIndex[D]{} }

// Bind implements Index.
func (x *fanoutIndex[D]) Bind(b Binding[D]) bool {
	b.Arguments = bytes.Clone(b.Arguments)
	if x.groupID == 0 {
		x.groupID = x.addGroup(0)
	}
	return x.bind(x.groupID, b)
}

// Unbind implements Index.
func (x *fanoutIndex[D]) Unbind(b Binding[D]) bool {
	if x.groupID == 0 {
		return false
	}
	removed, emptied := x.unbind(x.groupID, b)
	if emptied {
		x.groupID = 0
	}
	return removed
}

// UnbindDestination implements Index.
func (x *fanoutIndex[D]) UnbindDestination(value D) []Binding[D] {
	return x.unbindDestination(value, func(uint32, string) { x.groupID = 0 })
}

// Route implements Index.
func (x *fanoutIndex[D]) Route(_ []byte, _ amqp.Table, dst []D) []D {
	if x.groupID == 0 {
		return dst
	}
	return x.appendTargets(x.groupID, dst)
}
