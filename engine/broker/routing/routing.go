package routing

import (
	"iter"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Binding connects an exchange to a destination (AMQP 0-9-1, queue.bind).
type Binding[D comparable] struct {
	// RoutingKey is at most 255 bytes on the wire; the indexes themselves
	// set no limit.
	RoutingKey string
	// Arguments is the encoded binding table; nil means empty.
	Arguments amqp.Table
	// Destination is whatever the binding points at.
	Destination D
}

// Index is the set of bindings of one exchange.
type Index[D comparable] interface {
	// Bind adds a binding and reports whether it was new. The arguments are
	// copied; the caller may reuse their bytes.
	Bind(b Binding[D]) (added bool)
	// Unbind removes a binding and reports whether it was there.
	Unbind(b Binding[D]) (removed bool)
	// UnbindDestination removes all bindings of one destination and returns
	// them. It costs time in proportion to what it returns.
	UnbindDestination(destination D) []Binding[D]
	// Route appends to dst every destination the message goes to, each once
	// (what dst held before is not looked at), and returns it. It allocates
	// only to grow dst. routingKey and headers are not kept.
	Route(routingKey []byte, headers amqp.Table, dst []D) []D
	// Len returns the number of bindings.
	Len() int
	// All yields every binding, in no particular order. The index must not
	// be changed meanwhile. The arguments belong to the index: read only.
	All() iter.Seq[Binding[D]]
	// ForDestination returns the bindings of one destination, nil when it
	// has none. The arguments belong to the index: read only.
	ForDestination(destination D) []Binding[D]
}
