package broker

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// Lists for operators. A list takes the virtual host's lock for a copy of
// pointers, and then for one object at a time: what changes meanwhile may or may
// not be in it, and nobody waits for it.

// SortedQueues returns all queues by name.
func (vh *VHost) SortedQueues() []*Queue {
	queues := vh.Queues()
	slices.SortFunc(queues, func(a, b *Queue) int { return strings.Compare(a.Name, b.Name) })
	return queues
}

// FindQueue finds a queue, whoever it belongs to; nil if there is none.
func (vh *VHost) FindQueue(name string) *Queue {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return vh.queues[name]
}

// HasExchange says whether there is an exchange.
func (vh *VHost) HasExchange(name string) bool {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return vh.exchanges[name] != nil
}

// FindExchange finds an exchange; nil if there is none.
func (vh *VHost) FindExchange(name string) *Exchange {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return vh.exchanges[name]
}

// EachBindingToQueue visits the bindings that end at a queue, but for that of the
// default exchange.
func (vh *VHost) EachBindingToQueue(q *Queue, visit func(b Binding)) {
	vh.eachBindingTo(Dest{Queue: q}, Binding{Queue: q.Name}, visit)
}

// EachBindingToExchange visits the bindings that end at an exchange.
func (vh *VHost) EachBindingToExchange(e *Exchange, visit func(b Binding)) {
	vh.eachBindingTo(Dest{Exchange: e}, Binding{Exchange: e.Name, ToExchange: true}, visit)
}

// SingleActive says whether the queue serves one consumer only, the others wait.
func (q *Queue) SingleActive() bool { return q.single }

// QueueType is the type that arguments of a queue ask for.
func QueueType(arguments amqp.Table) string { return queueType(arguments) }

// UserConnections is the number of a user's open connections.
func (b *Broker) UserConnections(name string) int64 {
	u := b.users.User([]byte(name))
	if u == nil {
		return 0
	}
	connections, _ := u.Counts()
	return connections
}

// SortedExchanges returns all exchanges by name, predeclared ones and the
// default one (with an empty name) included.
func (vh *VHost) SortedExchanges() []*Exchange {
	vh.mu.RLock()
	exchanges := slices.Collect(maps.Values(vh.exchanges))
	vh.mu.RUnlock()
	slices.SortFunc(exchanges, func(a, b *Exchange) int { return strings.Compare(a.Name, b.Name) })
	return exchanges
}

// Predeclared says whether every virtual host has the exchange.
func (e *Exchange) Predeclared() bool { return isPredeclared(e.Name) }

// EachBinding visits all bindings but the implicit ones of the default exchange:
// destinations by name, first queues, then exchanges, and within a destination
// by source, key and arguments.
func (vh *VHost) EachBinding(visit func(b Binding, toExclusive bool)) {
	for _, q := range vh.SortedQueues() {
		vh.eachBindingTo(Dest{Queue: q}, Binding{Queue: q.Name}, func(b Binding) { visit(b, q.Exclusive()) })
	}
	for _, e := range vh.SortedExchanges() {
		vh.eachBindingTo(Dest{Exchange: e}, Binding{Exchange: e.Name, ToExchange: true}, func(b Binding) { visit(b, false) })
	}
}

func (vh *VHost) eachBindingTo(d Dest, b Binding, visit func(b Binding)) {
	var list []Binding
	vh.mu.RLock()
	for source := range d.bindingCounts() {
		for _, found := range source.index.ForDestination(d) {
			b.Source, b.RoutingKey, b.Arguments = source.Name, found.RoutingKey, found.Arguments
			list = append(list, b)
		}
	}
	vh.mu.RUnlock()
	slices.SortFunc(list, func(a, b Binding) int {
		if c := cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.RoutingKey, b.RoutingKey)); c != 0 {
			return c
		}
		return compareTables(a.Arguments, b.Arguments)
	})
	for _, b := range list {
		visit(b)
	}
}

func compareTables(a, b amqp.Table) int {
	if len(a) == 0 && len(b) == 0 {
		return 0
	}
	return slices.Compare(tablejson.Append(nil, a), tablejson.Append(nil, b))
}

// ExchangeType is a type that exchanges can have.
type ExchangeType struct{ Name, Description string }

// ExchangeTypes lists them.
func ExchangeTypes() []ExchangeType {
	return []ExchangeType{
		{typeDirect, "AMQP direct exchange, as per the AMQP specification"},
		{typeFanout, "AMQP fanout exchange, as per the AMQP specification"},
		{typeHeaders, "AMQP headers exchange, as per the AMQP specification"},
		{typeTopic, "AMQP topic exchange, as per the AMQP specification"},
		{typeConsistentHash, "Consistent hashing exchange"},
		{typeDelayed, "Delayed message exchange"},
		{typeModulusHash, "Modulus hashing exchange"},
		{typeRandom, "Random exchange"},
		{typeRecentHistory, "Recent history exchange"},
	}
}
