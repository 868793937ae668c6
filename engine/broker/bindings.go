package broker

import (
	"errors"

	"github.com/basaltmq/basaltmq/engine/broker/routing"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file holds the changes of bindings; see topology.go for what they return.

// Binding is what queue.bind and exchange.bind ask for, and their opposites.
type Binding struct {
	Source     string
	Queue      string // destination: one of the two
	Exchange   string
	ToExchange bool
	RoutingKey string
	Arguments  amqp.Table
}

// Bind adds a binding; an identical one stays single. Errors: 403 default
// exchange, 404, 405, 406 for what the exchange's type refuses. It may wait for
// the disk if the source Replays.
func (vh *VHost) Bind(b Binding, owner any) (seq uint64, err error) {
	if vh.Replays(b.Source) {
		return vh.bindReplaying(b, owner)
	}
	vh.mu.Lock()
	defer vh.mu.Unlock()
	source, d, err := vh.ends(&b, owner)
	if err != nil {
		return 0, err
	}
	if err := source.validateBinding(&b); err != nil {
		return 0, err
	}
	return vh.bindRecorded(source, d, &b), nil
}

// bindRecorded adds a binding and its record.
func (vh *VHost) bindRecorded(source *Exchange, d Dest, b *Binding) (seq uint64) {
	if !vh.bind(source, d, b) {
		return vh.broker.pendingSeq()
	}
	if source.Durable && d.durable() {
		seq = vh.broker.record(bindingRecord(recBind, vh, b))
	}
	return seq
}

func (vh *VHost) bind(source *Exchange, d Dest, b *Binding) bool {
	added := source.index.Bind(routing.Binding[Dest]{RoutingKey: b.RoutingKey, Arguments: append(amqp.Table(nil), b.Arguments...), Destination: d})
	if !added {
		return false
	}
	if d.Queue != nil {
		if d.Queue.bound == nil {
			d.Queue.bound = map[*Exchange]int{}
		}
		d.Queue.bound[source]++
	} else {
		if d.Exchange.incoming == nil {
			d.Exchange.incoming = map[*Exchange]int{}
		}
		d.Exchange.incoming[source]++
		if source.outgoing == nil {
			source.outgoing = map[*Exchange]int{}
		}
		source.outgoing[d.Exchange]++
	}
	vh.version.Add(1)
	return true
}

// Unbind removes a binding; that it, or one of its ends, is missing is no error
// (RabbitMQ since 3.2). Errors: 403 default exchange, 405 for an existing one.
func (vh *VHost) Unbind(b Binding, owner any) (seq uint64, err error) {
	vh.mu.Lock()
	defer vh.unlock()
	source, d, err := vh.ends(&b, owner)
	if err != nil {
		var e *amqp.Error
		if errors.As(err, &e) && (e.Code == amqp.CodeNotFound || e.Code == amqp.CodeResourceLocked && !vh.isBound(source, Dest{Queue: vh.queues[b.Queue]}, &b)) {
			return vh.broker.pendingSeq(), nil
		}
		return 0, err
	}
	return vh.unbind(source, d, &b), nil
}

// isBound says whether the binding b from source to d is there.
func (vh *VHost) isBound(source *Exchange, d Dest, b *Binding) bool {
	for _, other := range source.index.ForDestination(d) {
		if other.RoutingKey == b.RoutingKey && amqp.TableEqual(other.Arguments, b.Arguments) {
			return true
		}
	}
	return false
}

func (vh *VHost) unbind(source *Exchange, d Dest, b *Binding) (seq uint64) {
	removed := source.index.Unbind(routing.Binding[Dest]{RoutingKey: b.RoutingKey, Arguments: b.Arguments, Destination: d})
	left := source.index.Len()
	if !removed {
		return vh.broker.pendingSeq()
	}
	counts := d.bindingCounts()
	if counts[source]--; counts[source] == 0 {
		delete(counts, source)
	}
	if d.Exchange != nil {
		if source.outgoing[d.Exchange]--; source.outgoing[d.Exchange] == 0 {
			delete(source.outgoing, d.Exchange)
		}
	}
	vh.version.Add(1)
	if source.Durable && d.durable() {
		seq = vh.broker.record(bindingRecord(recUnbind, vh, b))
	}
	if left == 0 && source.AutoDelete && !vh.broker.replaying() {
		seq = max(seq, vh.dropExchange(source))
	}
	return seq
}

// ends finds both ends of a binding.
func (vh *VHost) ends(b *Binding, owner any) (*Exchange, Dest, error) {
	if b.Source == "" || b.ToExchange && b.Exchange == "" {
		return nil, Dest{}, amqp.Errorf(amqp.CodeAccessRefused, 0, "operation not permitted on the default exchange")
	}
	source := vh.exchanges[b.Source]
	if source == nil {
		return nil, Dest{}, vh.noExchange(b.Source)
	}
	if b.ToExchange {
		e := vh.exchanges[b.Exchange]
		if e == nil {
			return nil, Dest{}, vh.noExchange(b.Exchange)
		}
		return source, Dest{Exchange: e}, nil
	}
	q, err := vh.usable(vh.queues[b.Queue], b.Queue, owner)
	return source, Dest{Queue: q}, err
}

func (d Dest) durable() bool {
	if d.Queue != nil {
		return d.Queue.Durable && d.Queue.Owner == nil
	}
	return d.Exchange.Durable
}

func (d Dest) bindingCounts() map[*Exchange]int {
	if d.Queue != nil {
		return d.Queue.bound
	}
	return d.Exchange.incoming
}
