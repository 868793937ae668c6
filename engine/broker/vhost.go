package broker

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// VHost is a name space of exchanges and queues.
type VHost struct {
	Name   string
	broker *Broker

	mu        sync.RWMutex
	exchanges map[string]*Exchange
	queues    map[string]*Queue
	standard  *Exchange  // the default exchange; never changes
	policies  *policySet // nil: none
	// Gone, but their files are still there; see unlock.
	dropped       []*Queue
	droppedValues []*Deduplicator

	spec        atomic.Pointer[VHostSpec]
	connections atomic.Int64
	counts      *vhostCounts
	tracing     atomic.Bool // see emit.go
	deleted     atomic.Bool // set under mu
	recorded    bool        // by a record of its own; only while starting

	// version changes with everything that can change a route; channels cache
	// routes under it. It starts at 1.
	version atomic.Uint64
}

// predeclared are the exchanges every vhost has.
var predeclared = []struct {
	name, kind string
	internal   bool
}{
	{"", "direct", false},
	{"amq.direct", "direct", false},
	{"amq.fanout", "fanout", false},
	{"amq.topic", "topic", false},
	{"amq.headers", "headers", false},
	{"amq.match", "headers", false},
	{TraceExchange, "topic", true},
}

func newVHost(b *Broker, name string) *VHost {
	vh := &VHost{Name: name, broker: b, exchanges: map[string]*Exchange{}, queues: map[string]*Queue{}, counts: new(vhostCounts)}
	vh.version.Store(1)
	vh.spec.Store(&VHostSpec{Name: name})
	for _, p := range predeclared {
		vh.predeclare(p.name, p.kind, p.internal)
	}
	if b.logExchange && name == DefaultVHost {
		vh.predeclare(LogExchange, typeTopic, true)
	}
	vh.standard = vh.exchanges[""]
	return vh
}

func (vh *VHost) predeclare(name, kind string, internal bool) {
	vh.exchanges[name] = &Exchange{Name: name, Type: kind, kind: kind, Durable: true, Internal: internal, index: newIndex(kind, nil)}
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

// Queues returns a snapshot of all queues.
func (vh *VHost) Queues() []*Queue { return vh.AppendQueues(nil) }

// AppendQueues appends a snapshot of all queues to a list.
func (vh *VHost) AppendQueues(list []*Queue) []*Queue {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return slices.AppendSeq(slices.Grow(list, len(vh.queues)), maps.Values(vh.queues))
}

// DeleteOwned removes the exclusive queues of a connection that has ended.
func (vh *VHost) DeleteOwned(owner any, queues []*Queue) {
	for _, q := range queues {
		if q.Owner == owner {
			vh.remove(q)
		}
	}
}
