package broker

import (
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// vhostPlan is the part of an import that concerns one virtual host, whose lock
// is held.
type vhostPlan struct {
	vh    *VHost
	isNew bool
	spec  VHostSpec

	policies, policiesBefore *policySet

	// To be made, in order; the maps have them by name.
	exchanges   []ExchangeDeclare
	exchangesBy map[string]*Exchange // as far as checks need
	queues      []QueueDeclare
	queuesBy    map[string]*Queue
	bindings    []Binding
	bound       map[bindingEnds]map[string]bool // see isBound

	madeExchanges []*Exchange
	madeQueues    []*Queue
	exchangesWere []*Exchange
	queuesWere    []*Queue
}

type bindingEnds struct {
	source, destination string
	toExchange          bool
}

func newVHostPlan(vh *VHost, isNew bool) *vhostPlan {
	return &vhostPlan{
		vh: vh, isNew: isNew, spec: vh.Spec(),
		policies: vh.policies, policiesBefore: vh.policies,
		exchangesBy: map[string]*Exchange{}, queuesBy: map[string]*Queue{}, bound: map[bindingEnds]map[string]bool{},
	}
}

// specRecords are the record of the virtual host as it is to be, and as it is.
func (v *vhostPlan) specRecords() (record, before []byte) {
	if !v.isNew {
		now := v.vh.Spec()
		before = vhostRecord(&now)
	}
	return vhostRecord(&v.spec), before
}

func (v *vhostPlan) exchange(d ExchangeDeclare) error {
	if d.Name == "" {
		return amqp.Errorf(amqp.CodeAccessRefused, 0, "the exchange has no name")
	}
	if len(d.Name) > 255 {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "the name of the exchange has %d bytes; 255 are possible", len(d.Name))
	}
	if !knownType(d.Type) {
		return amqp.Errorf(amqp.CodeCommandInvalid, 0, "unknown exchange type '%s'", d.Type)
	}
	e := v.vh.exchanges[d.Name]
	if e == nil {
		e = v.exchangesBy[d.Name]
	}
	if e != nil {
		return v.vh.sameExchange(e, &d)
	}
	if strings.HasPrefix(d.Name, "amq.") {
		return amqp.Errorf(amqp.CodeAccessRefused, 0, "exchange name '%s' contains reserved prefix 'amq.*'", d.Name)
	}
	if err := v.vh.validateExchange(&d); err != nil {
		return err
	}
	v.exchanges = append(v.exchanges, d)
	v.exchangesBy[d.Name] = &Exchange{Name: d.Name, Type: d.Type, kind: exchangeKind(d.Type, d.Arguments), Durable: d.Durable, AutoDelete: d.AutoDelete, Internal: d.Internal, Arguments: d.Arguments}
	return nil
}

func (v *vhostPlan) queue(d QueueDeclare) error {
	if d.Name == "" {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "the queue has no name")
	}
	if len(d.Name) > 255 {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "the name of the queue has %d bytes; 255 are possible", len(d.Name))
	}
	q := v.vh.queues[d.Name]
	if q == nil {
		q = v.queuesBy[d.Name]
	}
	v.vh.withDefaultType(&d, q)
	if q != nil {
		return v.vh.sameQueue(q, &d, nil)
	}
	if err := v.vh.checkQueueArguments(&d); err != nil {
		return err
	}
	if err := v.checkQueueLimit(d.Name); err != nil {
		return err
	}
	v.queues = append(v.queues, d)
	v.queuesBy[d.Name] = &Queue{Name: d.Name, VHost: v.vh, Durable: d.Durable, AutoDelete: d.AutoDelete, Arguments: d.Arguments}
	return nil
}

func (v *vhostPlan) checkQueueLimit(name string) error {
	limit, limited := v.spec.Limits.Get(access.MaxQueues)
	if limited && int64(len(v.vh.queues)+len(v.queues)) >= limit {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, v.vh.Name, limit)
	}
	return nil
}

func (v *vhostPlan) binding(b Binding) error {
	if b.Source == "" && !b.ToExchange && b.RoutingKey == b.Queue && (v.vh.queues[b.Queue] != nil || v.queuesBy[b.Queue] != nil) {
		return nil // every queue has it
	}
	if len(b.RoutingKey) > 255 {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "the routing key has %d bytes; 255 are possible", len(b.RoutingKey))
	}
	source := v.exchangesBy[b.Source]
	destination := b.Queue
	there := v.queuesBy[b.Queue] != nil
	if b.ToExchange {
		destination, there = b.Exchange, v.exchangesBy[b.Exchange] != nil
	}
	if source == nil || !there {
		// At least one end has to be there already.
		probe := b
		if source != nil {
			probe.Source = "amq.direct"
		}
		if there {
			probe.ToExchange, probe.Exchange = true, "amq.direct"
		}
		e, _, err := v.vh.ends(&probe, nil)
		if err != nil {
			return err
		}
		if source == nil {
			source = e
		}
	}
	if err := source.validateBinding(&b); err != nil {
		return err
	}
	if v.isBound(bindingEnds{b.Source, destination, b.ToExchange}, &b) {
		return nil
	}
	v.bindings = append(v.bindings, b)
	return nil
}

// isBound says whether a binding is there or planned, and notes that it is
// from now on. Arguments are compared as JSON: a file cannot say more of them.
func (v *vhostPlan) isBound(ends bindingEnds, b *Binding) bool {
	known := v.bound[ends]
	if known == nil {
		known = map[string]bool{}
		v.bound[ends] = known
		d := Dest{Queue: v.vh.queues[ends.destination]}
		if ends.toExchange {
			d = Dest{Exchange: v.vh.exchanges[ends.destination]}
		}
		if source := v.vh.exchanges[ends.source]; source != nil && d != (Dest{}) {
			for _, other := range source.index.ForDestination(d) {
				known[bindingText(other.RoutingKey, other.Arguments)] = true
			}
		}
	}
	text := bindingText(b.RoutingKey, b.Arguments)
	was := known[text]
	known[text] = true
	return was
}

func bindingText(key string, arguments amqp.Table) string {
	return key + "\x00" + string(tablejson.Append(nil, arguments))
}

// create makes exchanges, queues and bindings, and returns the records of those
// that survive.
func (v *vhostPlan) create() (records [][]byte, err error) {
	vh := v.vh
	for _, e := range vh.exchanges {
		v.exchangesWere = append(v.exchangesWere, e)
	}
	for _, q := range vh.queues {
		v.queuesWere = append(v.queuesWere, q)
	}
	vh.policies = v.policies
	for _, d := range v.exchanges {
		e, err := vh.newExchange(d)
		if err != nil {
			return nil, err
		}
		v.madeExchanges = append(v.madeExchanges, e)
		if e.Durable {
			records = append(records, exchangeRecord(recExchangeDeclare, vh, e))
		}
	}
	for _, d := range v.queues {
		q, err := vh.addQueue(d, nil, vh.broker.newLogID())
		if err != nil {
			return nil, err
		}
		v.madeQueues = append(v.madeQueues, q)
		if q.Durable {
			records = append(records, queueRecord(recQueueDeclare, vh, q))
		}
	}
	for i := range v.bindings {
		source, d, err := vh.ends(&v.bindings[i], nil)
		if err != nil {
			return nil, err
		}
		if source.Durable && d.durable() {
			records = append(records, bindingRecord(recBind, vh, &v.bindings[i]))
		}
	}
	return records, nil
}

// undo takes create back. Nothing was recorded, and nobody has seen it.
func (v *vhostPlan) undo() {
	vh := v.vh
	vh.policies = v.policiesBefore
	for _, q := range v.madeQueues {
		q.markDeleted()
		delete(vh.queues, q.Name)
		vh.dropped = append(vh.dropped, q)
	}
	for _, e := range v.madeExchanges {
		e.deleted = true
		delete(vh.exchanges, e.Name)
		for _, h := range e.hidden() {
			h.markDeleted()
			vh.dropped = append(vh.dropped, h)
		}
		if e.dedup != nil {
			vh.droppedValues = append(vh.droppedValues, e.dedup)
		}
	}
	vh.version.Add(1)
}

// commit does what cannot fail.
func (v *vhostPlan) commit() {
	v.vh.spec.Store(&v.spec)
	for i := range v.bindings {
		if source, d, err := v.vh.ends(&v.bindings[i], nil); err == nil {
			v.vh.bind(source, d, &v.bindings[i])
		}
	}
}

// applyPolicies applies changed policies to what was there before, without the
// lock.
func (v *vhostPlan) applyPolicies() {
	if v.policies != v.policiesBefore {
		v.vh.broker.applyToQueues(v.policies, v.queuesWere)
		v.vh.applyToExchanges(v.policies, v.exchangesWere)
	}
}
