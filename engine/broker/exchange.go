package broker

import (
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/broker/routing"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Dest is what a binding points at: exactly one of the two is set.
type Dest struct {
	Queue    *Queue
	Exchange *Exchange
}

// name tells destinations apart, the same after a restart: what is spread by a
// hash depends on it.
func (d Dest) name() string {
	if d.Queue != nil {
		return "queue " + d.Queue.Name
	}
	return "exchange " + d.Exchange.Name
}

// Exchange routes messages to queues and other exchanges.
type Exchange struct {
	Name       string
	Type       string // one of the types below
	kind       string // likewise; that of a delayed exchange is what it routes as
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  amqp.Table

	// What its arguments come to.
	argAlternate    string
	hasArgAlternate bool
	spread          spread

	// Guarded by VHost.mu; any number of readers may route at once.
	incoming map[*Exchange]int // bindings that end here, by source
	outgoing map[*Exchange]int // bindings to other exchanges, by destination
	deleted  bool
	index    routing.Index[Dest]
	applied  *applied // policies; nil: none

	// history keeps the last messages; nil: none are kept. See history.go.
	history *Queue
	// delayed keeps messages that are not due yet; nil: none are. See delayed.go.
	delayed *Queue

	// dedup remembers the messages published here; nil: duplicates are taken.
	// See dedupexchange.go.
	dedup *Deduplicator

	counts atomic.Pointer[stats.Exchange] // nil: never published to

	traits atomic.Uint64 // vhost version << traitBits | Traits; see VHost.traits
}

// Types of exchanges. A delayed one wraps another: see exchangeKind.
const (
	typeDirect         = "direct"
	typeFanout         = "fanout"
	typeTopic          = "topic"
	typeHeaders        = "headers"
	typeConsistentHash = "x-consistent-hash"
	typeModulusHash    = "x-modulus-hash"
	typeRandom         = "x-random"
	typeRecentHistory  = "x-recent-history"
	typeDelayed        = "x-delayed-message"
	typeDelayedToo     = "x-delayed-exchange" // LavinMQ's name
)

// newIndex makes the bindings of an exchange; nil for an unknown type.
func newIndex(kind string, arguments amqp.Table) routing.Index[Dest] {
	switch kind {
	case typeDirect:
		return routing.NewDirect[Dest]()
	case typeFanout, typeRecentHistory:
		return routing.NewFanout[Dest]()
	case typeTopic:
		return routing.NewTopic[Dest]()
	case typeHeaders:
		return routing.NewHeaders[Dest]()
	case typeConsistentHash:
		if algorithm, _ := arguments.Lookup(argAlgorithm); isString(algorithm, algorithmJump) {
			return routing.NewJump(Dest.name)
		}
		return routing.NewRing(Dest.name)
	case typeModulusHash:
		return routing.NewModulus(Dest.name)
	case typeRandom:
		return routing.NewRandom[Dest]()
	}
	return nil
}

func knownType(kind string) bool { return isDelayedType(kind) || newIndex(kind, nil) != nil }

// validateBinding checks a binding that starts at e. Errors: 406.
func (e *Exchange) validateBinding(b *Binding) error {
	switch e.kind {
	case typeHeaders:
		return routing.ValidateHeadersArguments(b.Arguments)
	case typeConsistentHash:
		return routing.ValidateWeight(b.RoutingKey)
	}
	return nil
}

// ownTraits are the traits of e without those of the exchanges behind it.
func (e *Exchange) ownTraits() Traits {
	switch {
	case e.kind == typeRandom:
		return ByMessage
	case e.kind == typeHeaders || e.delayed != nil || e.history != nil || e.spread.by != spreadByKey:
		return ByProperties
	}
	return 0
}

// alternate returns the name of the exchange that takes the messages for which
// e has no binding. This is the one place that says so: the argument counts,
// and where it is missing, a policy. The caller holds VHost.mu.
func (e *Exchange) alternate() (name string, ok bool) {
	if e.hasArgAlternate || e.applied == nil {
		return e.argAlternate, e.hasArgAlternate
	}
	return e.applied.alternate()
}

// spread says what a hash exchange spreads messages by.
type spread struct {
	by     uint8
	header string
}

const (
	spreadByKey uint8 = iota
	spreadByHeader
	spreadByMessageID
	spreadByCorrelationID
	spreadByTimestamp
)
