package broker

import (
	"slices"
	"strconv"
	"sync"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Envelope is what routing looks at.
type Envelope struct {
	RoutingKey []byte
	// More are the routing keys of the headers CC and BCC: direct and topic
	// exchanges route by each of them, too.
	More [][]byte
	// Properties are the encoded ones; they are decoded only when an exchange
	// on the way asks for them.
	Properties []byte
}

// Traits say what the routes from an exchange may depend on, besides the
// routing key and the topology: which routes may be used again.
type Traits uint8

const (
	// ByProperties: on the message's properties. Equal messages have equal
	// routes.
	ByProperties Traits = 1 << iota
	// ByMessage: on nothing at all. Each message must be routed.
	ByMessage

	traitBits = 2
)

// Route appends the queues that a message goes to, each once: those bound to
// the exchange, those reached over exchanges bound to it, and where an exchange
// has no binding for the message, those of its alternate exchange. Queues that
// keep an exchange's history come last (see Nowhere). The internal flag
// of the exchange is not looked at: see CheckPublish. Errors: 404.
func (vh *VHost) Route(exchange []byte, m Envelope, dst []*Queue) ([]*Queue, error) {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	start := len(dst)
	if len(exchange) == 0 {
		if q := vh.queues[string(m.RoutingKey)]; q != nil {
			dst = append(dst, q)
		}
		for _, key := range m.More {
			if q := vh.queues[string(key)]; q != nil && !slices.Contains(dst, q) {
				dst = append(dst, q)
			}
		}
		rank(dst[start:], m.Properties)
		return dst, nil
	}
	e := vh.exchanges[string(exchange)]
	if e == nil {
		return dst, vh.noExchange(string(exchange))
	}
	return vh.routeFrom(e, m, dst), nil
}

// routeFrom is Route from an exchange that is known; the caller holds mu.
func (vh *VHost) routeFrom(e *Exchange, m Envelope, dst []*Queue) []*Queue {
	r := routers.Get().(*router)
	r.vh, r.message, r.dst, r.start = vh, m, dst, len(dst)
	r.reach(e)
	for i := 0; i < len(r.exchanges); i++ {
		r.leave(r.exchanges[i])
	}
	rank(r.dst[r.start:], m.Properties)
	dst = append(r.dst, r.keeping...)
	r.reset()
	routers.Put(r)
	return dst
}

// router is the working memory of one Route call.
type router struct {
	vh         *VHost
	message    Envelope
	properties amqp.Properties
	decoded    bool

	found     []Dest      // by one exchange
	foundMost int         // most entries that found has had
	exchanges []*Exchange // reached so far; each is left once, so cycles end
	dst       []*Queue    // those from start on are this call's
	start     int
	keeping   []*Queue
	scratch   []byte // value to hash

	// Besides the lists, once they are long.
	queuesSeen    map[*Queue]struct{}
	exchangesSeen map[*Exchange]struct{}
}

// inTurnMax is up to how many entries searching a list beats a map.
const inTurnMax = 32

// routersKeptMax bounds what a pooled router keeps of a wide route.
const routersKeptMax = 4096

var routers = sync.Pool{New: func() any { return new(router) }}

// reset drops all references, so that the pool keeps nothing alive.
func (r *router) reset() {
	if cap(r.found) > routersKeptMax || cap(r.exchanges) > routersKeptMax {
		*r = router{}
		return
	}
	clear(r.found[:r.foundMost])
	clear(r.exchanges)
	clear(r.keeping)
	*r = router{found: r.found[:0], exchanges: r.exchanges[:0], keeping: r.keeping[:0], scratch: r.scratch[:0]}
}

// reach notes an exchange that the message goes through, once.
func (r *router) reach(e *Exchange) {
	var known bool
	if r.exchangesSeen, known = seen(r.exchangesSeen, r.exchanges, e); !known {
		r.exchanges = append(r.exchanges, e)
	}
}

// add notes a queue, once.
func (r *router) add(q *Queue) {
	var known bool
	if r.queuesSeen, known = seen(r.queuesSeen, r.dst[r.start:], q); !known {
		r.dst = append(r.dst, q)
	}
}

// seen says whether one is in list, by means of set when the list is long; one
// is in set afterwards.
func seen[T comparable](set map[T]struct{}, list []T, one T) (map[T]struct{}, bool) {
	if set == nil {
		if len(list) < inTurnMax {
			return nil, slices.Contains(list, one)
		}
		set = make(map[T]struct{}, 2*len(list))
		for _, other := range list {
			set[other] = struct{}{}
		}
	}
	_, known := set[one]
	if !known {
		set[one] = struct{}{}
	}
	return set, known
}

// leave passes the message on from an exchange.
func (r *router) leave(e *Exchange) {
	if e.Name == "" { // as an alternate exchange
		if q := r.vh.queues[string(r.message.RoutingKey)]; q != nil {
			r.add(q)
		}
		for _, key := range r.message.More {
			if q := r.vh.queues[string(key)]; q != nil {
				r.add(q)
			}
		}
		return
	}
	if e.delayed != nil && r.isDelayed() {
		r.add(e.delayed)
		return
	}
	value, headers := r.message.RoutingKey, amqp.Table(nil)
	switch {
	case e.spread.by != spreadByKey:
		value = r.spreadValue(&e.spread)
	case e.kind == typeHeaders:
		headers = r.decode().Headers
	}
	if e.history != nil && !r.keepsNot() {
		r.keeping = append(r.keeping, e.history)
	}
	r.found = e.index.Route(value, headers, r.found[:0])
	if len(r.message.More) > 0 && (e.kind == typeDirect || e.kind == typeTopic) {
		for _, key := range r.message.More {
			r.found = e.index.Route(key, nil, r.found)
		}
	}
	r.foundMost = max(r.foundMost, len(r.found))
	if len(r.found) == 0 {
		if name, ok := e.alternate(); ok {
			if other := r.vh.exchanges[name]; other != nil {
				r.reach(other)
			}
		}
		return
	}
	if len(r.exchanges) == 1 && len(e.outgoing) == 0 && len(r.message.More) == 0 {
		for _, d := range r.found { // distinct already, and the first
			r.dst = append(r.dst, d.Queue)
		}
		return
	}
	for _, d := range r.found {
		if d.Exchange != nil {
			r.reach(d.Exchange)
		} else {
			r.add(d.Queue)
		}
	}
}

// decode returns the message's properties. They have been found to be sound
// when the message came.
func (r *router) decode() *amqp.Properties {
	if !r.decoded {
		r.decoded = true
		r.properties, _ = amqp.DecodeProperties(r.message.Properties)
	}
	return &r.properties
}

// spreadValue is what the message is hashed by. Messages without it all have
// the same, empty value, and so go to one destination together.
func (r *router) spreadValue(s *spread) []byte {
	p := r.decode()
	switch s.by {
	case spreadByMessageID:
		return p.MessageID
	case spreadByCorrelationID:
		return p.CorrelationID
	case spreadByTimestamp:
		if p.Flags&amqp.FlagTimestamp != 0 {
			r.scratch = strconv.AppendUint(r.scratch[:0], p.Timestamp, 10)
			return r.scratch
		}
		return nil
	}
	v, ok := p.Headers.Lookup(s.header)
	if !ok || v.Kind() == amqp.KindVoid {
		return nil
	}
	if content, ok := v.Bytes(); ok {
		return content
	}
	if n, ok := v.Int64(); ok { // whatever its width
		r.scratch = strconv.AppendInt(r.scratch[:0], n, 10)
	} else {
		r.scratch = v.Append(r.scratch[:0])
	}
	return r.scratch
}

// Entry is what a publisher has to know of the exchange it publishes to, in one
// state of the topology.
type Entry struct {
	Exchange *Exchange
	Traits   Traits
	Dedup    *Deduplicator // nil: duplicates are taken
}

// CheckPublish says whether clients may publish to an exchange, and what its
// routes may depend on. Errors: 404, 403 for internal ones.
func (vh *VHost) CheckPublish(exchange []byte) (Entry, error) {
	if len(exchange) == 0 {
		return Entry{Exchange: vh.standard}, nil
	}
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	e := vh.exchanges[string(exchange)]
	if e == nil {
		return Entry{}, vh.noExchange(string(exchange))
	}
	if e.Internal {
		return Entry{}, amqp.Errorf(amqp.CodeAccessRefused, 0, "cannot publish to internal exchange '%s' in vhost '%s'", e.Name, vh.Name)
	}
	return Entry{e, vh.traits(e), e.dedup}, nil
}

// traits collects the traits of all exchanges that a message published to e may
// come through. They are worked out once per state of the topology; the caller
// holds mu, so that state stays.
func (vh *VHost) traits(e *Exchange) Traits {
	if _, ok := e.alternate(); !ok && len(e.outgoing) == 0 {
		return e.ownTraits()
	}
	version := vh.version.Load()
	if known := e.traits.Load(); known>>traitBits == version {
		return Traits(known & (1<<traitBits - 1))
	}
	all := Traits(0)
	reached := map[*Exchange]bool{e: true}
	list := []*Exchange{e}
	reach := func(other *Exchange) {
		if other != nil && !reached[other] {
			reached[other] = true
			list = append(list, other)
		}
	}
	for i := 0; i < len(list); i++ {
		all |= list[i].ownTraits()
		for other := range list[i].outgoing {
			reach(other)
		}
		if name, ok := list[i].alternate(); ok {
			reach(vh.exchanges[name])
		}
	}
	e.traits.Store(version<<traitBits | uint64(all))
	return all
}
