package broker

import (
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// ExchangeDeclare is what exchange.declare asks for.
type ExchangeDeclare struct {
	Name                                   string
	Type                                   string
	Passive, Durable, AutoDelete, Internal bool
	Arguments                              amqp.Table
	By                                     Permitter // nil: everything is permitted
}

// DeclareExchange creates an exchange or checks that the existing one is
// equivalent. Errors: 403 reserved name, 404 passive, 406 inequivalent or
// invalid arguments, 503 unknown type.
func (vh *VHost) DeclareExchange(d ExchangeDeclare) (seq uint64, err error) {
	vh.mu.Lock()
	defer vh.unlock()
	if d.Name == "" {
		return 0, amqp.Errorf(amqp.CodeAccessRefused, 0, "operation not permitted on the default exchange")
	}
	e := vh.exchanges[d.Name]
	if d.Type == typeDelayedToo {
		d.Type = typeDelayed
	}
	if d.Passive {
		if e == nil {
			return 0, vh.noExchange(d.Name)
		}
		return 0, nil
	}
	if d.Type == "" {
		return 0, amqp.Errorf(amqp.CodeCommandInvalid, 0, "invalid exchange type ''")
	}
	if !knownType(d.Type) {
		return 0, amqp.Errorf(amqp.CodeCommandInvalid, 0, "unknown exchange type '%s'", d.Type)
	}
	if vh.deleted.Load() {
		return 0, vh.gone()
	}
	if err := permit(d.By, access.Configure, "exchange", d.Name); err != nil {
		return 0, err
	}
	if e != nil {
		if e.Durable {
			seq = vh.broker.pendingSeq()
		}
		return seq, vh.sameExchange(e, &d)
	}
	if strings.HasPrefix(d.Name, "amq.") {
		return 0, amqp.Errorf(amqp.CodeAccessRefused, 0, "exchange name '%s' contains reserved prefix 'amq.*'", d.Name)
	}
	if err := vh.validateExchange(&d); err != nil {
		return 0, err
	}
	if target, ok := AlternateExchange(d.Arguments); ok {
		if err := permitForwarding(d.By, "exchange", d.Name, target); err != nil {
			return 0, err
		}
	}
	if e, err = vh.newExchange(d); err != nil {
		return 0, err
	}
	if e.Durable {
		seq = vh.broker.record(exchangeRecord(recExchangeDeclare, vh, e))
	}
	return seq, nil
}

// newExchange makes an exchange that has been checked. Errors: 541.
func (vh *VHost) newExchange(d ExchangeDeclare) (*Exchange, error) {
	e := vh.addExchange(d)
	if err := vh.openHidden(e); err != nil {
		delete(vh.exchanges, e.Name)
		return nil, amqp.Errorf(amqp.CodeInternalError, 0, "cannot open the log of exchange '%s' in vhost '%s': %v", e.Name, vh.Name, err)
	}
	if e.dedup != nil && e.Durable {
		e.dedup.id = vh.broker.newLogID()
		if err := e.dedup.open(nil); err != nil {
			vh.dropExchange(e)
			return nil, amqp.Errorf(amqp.CodeInternalError, 0, "cannot open the log of exchange '%s' in vhost '%s': %v", e.Name, vh.Name, err)
		}
	}
	return e, nil
}

func (vh *VHost) addExchange(d ExchangeDeclare) *Exchange {
	kind := exchangeKind(d.Type, d.Arguments)
	e := &Exchange{
		Name: d.Name, Type: d.Type, kind: kind, Durable: d.Durable, AutoDelete: d.AutoDelete, Internal: d.Internal,
		Arguments: append(amqp.Table(nil), d.Arguments...), index: newIndex(kind, d.Arguments),
		spread: newSpread(kind, d.Arguments),
	}
	e.argAlternate, e.hasArgAlternate = AlternateExchange(e.Arguments)
	e.dedup = vh.newDeduplicator(e, 0)
	e.applied = vh.policies.match(ApplyToExchanges, e.Name)
	vh.exchanges[d.Name] = e
	vh.version.Add(1)
	return e
}

func (vh *VHost) sameExchange(e *Exchange, d *ExchangeDeclare) error {
	where := "exchange '" + e.Name + "' in vhost '" + vh.Name + "'"
	switch {
	case e.Type != d.Type:
		return inequivalent("type", where, d.Type, e.Type)
	case e.Durable != d.Durable:
		return inequivalentBool("durable", where, d.Durable, e.Durable)
	case e.AutoDelete != d.AutoDelete:
		return inequivalentBool("auto_delete", where, d.AutoDelete, e.AutoDelete)
	case e.Internal != d.Internal:
		return inequivalentBool("internal", where, d.Internal, e.Internal)
	}
	return sameArguments(where, comparedArguments(e.Type, e.kind), e.Arguments, d.Arguments)
}

// DeleteExchange removes an exchange and its bindings; a missing one is no
// error (RabbitMQ since 3.2). Errors: 403 predeclared, 406 in use.
func (vh *VHost) DeleteExchange(name string, ifUnused bool) (seq uint64, err error) {
	vh.mu.Lock()
	defer vh.unlock()
	if name == "" {
		return 0, amqp.Errorf(amqp.CodeAccessRefused, 0, "operation not permitted on the default exchange")
	}
	if strings.HasPrefix(name, "amq.") {
		return 0, amqp.Errorf(amqp.CodeAccessRefused, 0, "deletion of system exchange '%s' in vhost '%s' not allowed", name, vh.Name)
	}
	e := vh.exchanges[name]
	if e == nil {
		return vh.broker.pendingSeq(), nil
	}
	if ifUnused && e.index.Len() > 0 {
		return 0, amqp.Errorf(amqp.CodePreconditionFailed, 0, "exchange '%s' in vhost '%s' in use", name, vh.Name)
	}
	return vh.dropExchange(e), nil
}

// dropExchange removes e, the bindings from it and those to it; auto-delete
// exchanges that lose their last binding by that go too.
func (vh *VHost) dropExchange(e *Exchange) (seq uint64) {
	if e.deleted {
		return 0
	}
	e.deleted = true
	delete(vh.exchanges, e.Name)
	vh.version.Add(1)
	for b := range e.index.All() {
		if q := b.Destination.Queue; q != nil {
			delete(q.bound, e)
		} else {
			delete(b.Destination.Exchange.incoming, e)
		}
	}
	if e.Durable {
		seq = vh.broker.record(exchangeRecord(recExchangeDelete, vh, e))
	}
	for _, h := range e.hidden() {
		h.markDeleted()
		vh.dropped = append(vh.dropped, h)
	}
	if e.dedup != nil {
		vh.droppedValues = append(vh.droppedValues, e.dedup)
	}
	for source := range e.incoming {
		seq = max(seq, vh.unbindAll(source, Dest{Exchange: e}))
	}
	return seq
}
