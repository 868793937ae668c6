package routing

import (
	"bytes"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// directIndex compares routing keys byte for byte (AMQP 0-9-1, 3.1.3.1).
type directIndex[D comparable] struct {
	store[D]
	groupIDs map[string]uint32 // routing key -> group
}

// NewDirect returns the index of a direct exchange.
func NewDirect[D comparable]() Index[D] { return &directIndex[D]{} }

// Bind implements Index.
func (x *directIndex[D]) Bind(b Binding[D]) bool {
	b.Arguments = bytes.Clone(b.Arguments)
	groupID := x.groupIDs[b.RoutingKey]
	if groupID == 0 {
		if x.groupIDs == nil {
			x.groupIDs = make(map[string]uint32)
		}
		groupID = x.addGroup(0)
		x.groupIDs[b.RoutingKey] = groupID
	}
	return x.bind(groupID, b)
}

// Unbind implements Index.
func (x *directIndex[D]) Unbind(b Binding[D]) bool {
	groupID := x.groupIDs[b.RoutingKey]
	if groupID == 0 {
		return false
	}
	removed, emptied := x.unbind(groupID, b)
	if emptied {
		x.forget(b.RoutingKey)
	}
	return removed
}

func (x *directIndex[D]) forget(routingKey string) {
	delete(x.groupIDs, routingKey)
	if len(x.groupIDs) == 0 {
		x.groupIDs = nil // a Go map never shrinks
	}
}

// UnbindDestination implements Index.
func (x *directIndex[D]) UnbindDestination(value D) []Binding[D] {
	return x.unbindDestination(value, func(_ uint32, routingKey string) { x.forget(routingKey) })
}

// Route implements Index. Looking up an unknown key adds nothing to the map.
func (x *directIndex[D]) Route(routingKey []byte, _ amqp.Table, dst []D) []D {
	groupID := x.groupIDs[string(routingKey)] // the compiler copies nothing here
	if groupID == 0 {
		return dst
	}
	return x.appendTargets(groupID, dst)
}
