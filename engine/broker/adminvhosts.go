package broker

import (
	"maps"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Administration of virtual hosts; see adminusers.go for what all changes have
// in common.

// VHostSpec is what is set of a virtual host.
type VHostSpec struct {
	Name        string
	Description string
	Tags        []string
	// DefaultQueueType is what a durable, shared queue declared without
	// x-queue-type gets for it; empty: nothing.
	DefaultQueueType string
	Limits           access.Limits // of access.VHostLimits
}

// queueTypes are those that can be a default.
var queueTypes = []string{"classic", "quorum", "stream"}

// descriptionBytesMax bounds a description.
const descriptionBytesMax = 4096

func (s *VHostSpec) check() (err error) {
	if err := access.CheckName("virtual host", s.Name); err != nil {
		return err
	}
	if len(s.Description) > descriptionBytesMax {
		return access.Errorf(access.Invalid, "a description of %d bytes is too long; %d are possible", len(s.Description), descriptionBytesMax)
	}
	if t := s.DefaultQueueType; t != "" && !slices.Contains(queueTypes, t) {
		return access.Errorf(access.Invalid, "'%s' is not a queue type: it is one of %s", t, strings.Join(queueTypes, ", "))
	}
	if s.Tags, err = access.CheckTags(s.Tags); err != nil {
		return err
	}
	s.Limits, err = access.CheckLimits(access.VHostLimits, s.Limits)
	return err
}

func noVHost(name string) error {
	return access.Errorf(access.NotFound, "there is no virtual host '%s'", name)
}

func (b *Broker) checkVHost(name string) error {
	if b.VHost(name) == nil {
		return noVHost(name)
	}
	return nil
}

// AddVHost creates a virtual host. Nobody has permissions in it. Errors: Exists,
// Invalid.
func (b *Broker) AddVHost(s VHostSpec) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := s.check(); err != nil {
			return nil, err
		}
		if b.VHost(s.Name) != nil {
			return nil, access.Errorf(access.Exists, "virtual host '%s' exists", s.Name)
		}
		vh := newVHost(b, s.Name)
		vh.spec.Store(&s)
		b.mu.Lock()
		b.vhosts[s.Name] = vh
		b.mu.Unlock()
		return vhostRecord(&s), nil
	})
}

// UpdateVHost changes a virtual host by f, which gets a copy; the name stays.
// Errors: NotFound, Invalid.
func (b *Broker) UpdateVHost(name string, f func(s *VHostSpec)) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		vh := b.VHost(name)
		if vh == nil {
			return nil, noVHost(name)
		}
		s := vh.Spec()
		f(&s)
		s.Name = name
		if err := s.check(); err != nil {
			return nil, err
		}
		vh.spec.Store(&s)
		return vhostRecord(&s), nil
	})
}

// SetVHostLimit sets one of access.VHostLimits; a negative value removes it.
// What is there already stays. Errors: NotFound, Invalid.
func (b *Broker) SetVHostLimit(name, limit string, value int64) (seq uint64, err error) {
	vh := b.VHost(name)
	if vh == nil {
		return 0, noVHost(name)
	}
	if _, err := vh.Spec().Limits.With(access.VHostLimits, limit, value); err != nil {
		return 0, err
	}
	return b.UpdateVHost(name, func(s *VHostSpec) {
		s.Limits, _ = s.Limits.With(access.VHostLimits, limit, value) // checked above
	})
}

// VHosts returns all virtual hosts by name.
func (b *Broker) VHosts() []VHostSpec {
	b.mu.RLock()
	defer b.mu.RUnlock()
	specs := make([]VHostSpec, 0, len(b.vhosts))
	for _, name := range slices.Sorted(maps.Keys(b.vhosts)) {
		specs = append(specs, b.vhosts[name].Spec())
	}
	return specs
}

// DeleteVHost removes a virtual host with all that is in it, the permissions,
// and its connections (320). After a crash it is there with everything or not at
// all. Errors: NotFound.
func (b *Broker) DeleteVHost(name string) (seq uint64, err error) {
	var vh *VHost
	var queues []droppedQueue
	seq, err = b.administer(func() ([]byte, error) {
		if vh = b.VHost(name); vh == nil {
			return nil, noVHost(name)
		}
		b.users.DropVHost(name)
		b.dropParameters(name)
		b.mu.Lock()
		b.totals.retire(vh)
		delete(b.vhosts, name)
		b.mu.Unlock()
		// From here on nothing of it is recorded any more, so the record that
		// follows is its last.
		queues = vh.dropAll()
		return fields{recVHostDelete}.str(name), nil
	})
	if err != nil {
		return 0, err
	}
	b.revoke()
	for _, d := range queues {
		vh.finishDelete(d.queue, d.consumers)
	}
	vh.mu.Lock()
	vh.unlock()
	return seq, nil
}

// droppedQueue is a queue that is not in its virtual host any more.
type droppedQueue struct {
	queue     *Queue
	consumers []*Consumer
}

// dropAll empties a virtual host for good; the caller finishes the deletion of
// the queues, and of the rest by unlock.
func (vh *VHost) dropAll() (queues []droppedQueue) {
	vh.mu.Lock()
	defer vh.mu.Unlock()
	vh.deleted.Store(true)
	for _, q := range vh.queues {
		_, consumers := q.markDeleted()
		q.bound = nil
		vh.counts.churn.Count(stats.QueueDeleted)
		queues = append(queues, droppedQueue{q, consumers})
	}
	for _, e := range vh.exchanges {
		e.deleted = true
		for _, h := range e.hidden() {
			h.markDeleted()
			queues = append(queues, droppedQueue{queue: h})
		}
		if e.dedup != nil {
			vh.droppedValues = append(vh.droppedValues, e.dedup)
		}
	}
	clear(vh.queues)
	clear(vh.exchanges)
	vh.version.Add(1)
	return queues
}

// gone is the error for what cannot be done in a deleted virtual host; its
// connections are about to be closed with the same words.
func (vh *VHost) gone() error {
	return amqp.Errorf(amqp.CodeConnectionForced, 0, "vhost '%s' is deleted", vh.Name)
}

// Deleted says that the virtual host is not there any more.
func (vh *VHost) Deleted() bool { return vh.deleted.Load() }

// Spec returns what is set; its slices and maps are not to be changed.
func (vh *VHost) Spec() VHostSpec { return *vh.spec.Load() }

// AddConnection counts a connection, unless that would be more than limit.
func (vh *VHost) AddConnection() (limit int64, ok bool) {
	limit, limited := vh.spec.Load().Limits.Get(access.MaxConnections)
	if n := vh.connections.Add(1); limited && n > limit {
		vh.connections.Add(-1)
		return limit, false
	}
	return 0, true
}

// RemoveConnection takes AddConnection back.
func (vh *VHost) RemoveConnection() { vh.connections.Add(-1) }

// Connections is the number of open connections.
func (vh *VHost) Connections() int64 { return vh.connections.Load() }

// checkQueueLimit refuses one queue more than the limit (406); the caller holds
// mu.
func (vh *VHost) checkQueueLimit(name string) error {
	if limit, limited := vh.spec.Load().Limits.Get(access.MaxQueues); limited && int64(len(vh.queues)) >= limit {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, vh.Name, limit)
	}
	return nil
}

// withDefaultType adds the virtual host's default queue type to a declaration
// that says nothing of it. A queue that exists keeps what it has.
func (vh *VHost) withDefaultType(d *QueueDeclare, existing *Queue) {
	kind := vh.spec.Load().DefaultQueueType
	if kind == "" || !d.Durable || d.Exclusive || d.AutoDelete {
		return
	}
	if _, said := given(d.Arguments, "x-queue-type"); said {
		return
	}
	if existing != nil {
		v, ok := given(existing.Arguments, "x-queue-type")
		if !ok {
			return
		}
		text, _ := v.Bytes()
		kind = string(text)
	}
	b := amqp.NewTableBuilder(d.Arguments)
	b.Delete("x-queue-type") // a void one
	b.SetString("x-queue-type", kind)
	d.Arguments = b.Table()
}

// IsTopic says whether an exchange routes as one of type topic.
func (vh *VHost) IsTopic(exchange []byte) bool {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	e := vh.exchanges[string(exchange)]
	return e != nil && e.kind == typeTopic
}
