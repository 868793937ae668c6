package broker

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/broker/routing"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Dest is what a binding points at: exactly one of the two is set.
type Dest struct {
	Queue    *Queue
	Exchange *Exchange
}

// Exchange routes messages to queues and other exchanges.
type Exchange struct {
	Name       string
	Type       string // direct, fanout, topic, headers
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  amqp.Table

	// Guarded by VHost.mu; any number of readers may route at once.
	incoming map[*Exchange]int // bindings that end here, by source
	outgoing int               // bindings to other exchanges
	deleted  bool
	index    routing.Index[Dest]
}

// VHost is a name space of exchanges and queues.
type VHost struct {
	Name   string
	broker *Broker

	mu        sync.RWMutex
	exchanges map[string]*Exchange
	queues    map[string]*Queue

	spec        atomic.Pointer[VHostSpec]
	connections atomic.Int64
	deleted     atomic.Bool // set under mu
	recorded    bool        // by a record of its own; only while starting

	// version changes with everything that can change a route; channels cache
	// routes under it. It starts at 1.
	version atomic.Uint64
}

// predeclared are the exchanges every vhost has.
var predeclared = []struct{ name, kind string }{
	{"", "direct"},
	{"amq.direct", "direct"},
	{"amq.fanout", "fanout"},
	{"amq.topic", "topic"},
	{"amq.headers", "headers"},
	{"amq.match", "headers"},
}

func newVHost(b *Broker, name string) *VHost {
	vh := &VHost{Name: name, broker: b, exchanges: map[string]*Exchange{}, queues: map[string]*Queue{}}
	vh.version.Store(1)
	vh.spec.Store(&VHostSpec{Name: name})
	for _, p := range predeclared {
		vh.exchanges[p.name] = &Exchange{Name: p.name, Type: p.kind, Durable: true, index: newIndex(p.kind)}
	}
	return vh
}

func newIndex(kind string) routing.Index[Dest] {
	switch kind {
	case "direct":
		return routing.NewDirect[Dest]()
	case "fanout":
		return routing.NewFanout[Dest]()
	case "topic":
		return routing.NewTopic[Dest]()
	case "headers":
		return routing.NewHeaders[Dest]()
	}
	return nil
}

// Version identifies the state of the topology for route caches.
func (vh *VHost) Version() uint64 { return vh.version.Load() }

func (vh *VHost) noQueue(name string) error {
	return amqp.Errorf(amqp.CodeNotFound, 0, "no queue '%s' in vhost '%s'", name, vh.Name)
}

func (vh *VHost) noExchange(name string) error {
	return amqp.Errorf(amqp.CodeNotFound, 0, "no exchange '%s' in vhost '%s'", name, vh.Name)
}

// locked is the answer to a connection that touches another's exclusive queue.
func (vh *VHost) locked(name string) error {
	return amqp.Errorf(amqp.CodeResourceLocked, 0, "cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", name, vh.Name)
}

// Queue finds a queue that owner may use. Errors: 404, 405.
func (vh *VHost) Queue(name []byte, owner any) (*Queue, error) {
	vh.mu.RLock()
	q := vh.queues[string(name)]
	vh.mu.RUnlock()
	return vh.usable(q, string(name), owner)
}

func (vh *VHost) usable(q *Queue, name string, owner any) (*Queue, error) {
	if q == nil {
		return nil, vh.noQueue(name)
	}
	if q.Owner != nil && q.Owner != owner {
		return nil, vh.locked(name)
	}
	return q, nil
}

// Route appends the queues that a message goes to. The internal flag of the
// exchange is not looked at: see CheckPublish. Errors: 404.
func (vh *VHost) Route(exchange, routingKey []byte, headers amqp.Table, dst []*Queue) ([]*Queue, error) {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	if len(exchange) == 0 {
		if q := vh.queues[string(routingKey)]; q != nil {
			dst = append(dst, q)
		}
		return dst, nil
	}
	e := vh.exchanges[string(exchange)]
	if e == nil {
		return dst, vh.noExchange(string(exchange))
	}
	var visited []*Exchange
	return e.route(routingKey, headers, dst, &visited), nil
}

func (e *Exchange) route(routingKey []byte, headers amqp.Table, dst []*Queue, visited *[]*Exchange) []*Queue {
	var buf [8]Dest
	found := e.index.Route(routingKey, headers, buf[:0])
	for _, d := range found {
		if d.Exchange == nil {
			if len(*visited) == 0 || !slices.Contains(dst, d.Queue) {
				dst = append(dst, d.Queue)
			}
			continue
		}
		// A cycle of bindings ends where it comes back to.
		if len(*visited) == 0 {
			*visited = append(*visited, e)
		}
		if !slices.Contains(*visited, d.Exchange) {
			*visited = append(*visited, d.Exchange)
			dst = d.Exchange.route(routingKey, headers, dst, visited)
		}
	}
	return dst
}

// CheckPublish says whether clients may publish to an exchange, and whether
// its routes may depend on more than the routing key. Errors: 404, 403 for
// internal ones.
func (vh *VHost) CheckPublish(exchange []byte) (byHeaders bool, err error) {
	if len(exchange) == 0 {
		return false, nil
	}
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	e := vh.exchanges[string(exchange)]
	if e == nil {
		return false, vh.noExchange(string(exchange))
	}
	if e.Internal {
		return false, amqp.Errorf(amqp.CodeAccessRefused, 0, "cannot publish to internal exchange '%s' in vhost '%s'", e.Name, vh.Name)
	}
	return e.Type == "headers" || e.outgoing > 0, nil
}

// Queues returns a snapshot of all queues.
func (vh *VHost) Queues() []*Queue {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return slices.Collect(maps.Values(vh.queues))
}

// DeleteOwned removes the exclusive queues of a connection that has ended.
func (vh *VHost) DeleteOwned(owner any, queues []*Queue) {
	for _, q := range queues {
		if q.Owner == owner {
			vh.remove(q)
		}
	}
}
