package broker

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file holds the changes of a vhost's topology. Each returns the sequence
// number of its definition record, 0 when nothing needed recording: the answer
// to the client must wait until Definitions.Durable has reached it. What is
// done already (by another client perhaps, a moment ago) waits for all records
// so far: it rests on one of them.

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

// unlock ends a change: what went with it and has files is removed without the
// lock.
func (vh *VHost) unlock() {
	dropped, values := vh.dropped, vh.droppedValues
	vh.dropped, vh.droppedValues = nil, nil
	vh.mu.Unlock()
	for _, q := range dropped {
		vh.finishDelete(q, nil)
	}
	for _, x := range values {
		x.delete()
	}
}

// unbindAll removes the bindings from source to d, without records: the
// record of the deletion of d implies them.
func (vh *VHost) unbindAll(source *Exchange, d Dest) (seq uint64) {
	removed := source.index.UnbindDestination(d)
	left := source.index.Len()
	if d.Exchange != nil {
		delete(source.outgoing, d.Exchange)
	}
	if len(removed) > 0 && left == 0 && source.AutoDelete && !vh.broker.replaying() {
		return vh.dropExchange(source)
	}
	return 0
}

// QueueDeclare is what queue.declare asks for.
type QueueDeclare struct {
	Name                        string // empty: the server names it
	Passive, Durable, Exclusive bool
	AutoDelete                  bool
	Arguments                   amqp.Table
	By                          Permitter // nil: everything is permitted
}

// DeclareQueue creates a queue for the connection owner or checks that the
// existing one is equivalent. Errors: 403 reserved name, 404 passive, 405
// exclusive to another connection, 406 inequivalent.
func (vh *VHost) DeclareQueue(d QueueDeclare, owner any) (q *Queue, created bool, seq uint64, err error) {
	vh.mu.Lock()
	defer vh.mu.Unlock()
	if d.Passive || d.Name != "" {
		q = vh.queues[d.Name]
	}
	if d.Passive {
		q, err = vh.usable(q, d.Name, owner)
		if err == nil {
			q.Touch()
			vh.counts.churn.Count(stats.QueueDeclared)
		}
		return q, false, 0, err
	}
	if vh.deleted.Load() {
		return nil, false, 0, vh.gone()
	}
	generated := d.Name == ""
	if generated {
		d.Name = GeneratedName("amq.gen-")
	}
	if err := permit(d.By, access.Configure, "queue", d.Name); err != nil {
		return nil, false, 0, err
	}
	vh.withDefaultType(&d, q)
	if q != nil {
		if q.Durable {
			seq = vh.broker.pendingSeq()
		}
		err := vh.sameQueue(q, &d, owner)
		if err == nil {
			q.Touch()
			vh.counts.churn.Count(stats.QueueDeclared)
		}
		return q, false, seq, err
	}
	if !generated && strings.HasPrefix(d.Name, "amq.") {
		return nil, false, 0, amqp.Errorf(amqp.CodeAccessRefused, 0, "queue name '%s' contains reserved prefix 'amq.*'", d.Name)
	}
	if err := permitDeadLetters(&d); err != nil {
		return nil, false, 0, err
	}
	if err := vh.checkQueueLimit(d.Name); err != nil {
		return nil, false, 0, err
	}
	if err := vh.checkQueueArguments(&d); err != nil {
		return nil, false, 0, err
	}
	if q, err = vh.addQueue(d, owner, vh.broker.newLogIDs(1+levelIDs(d.Arguments))); err != nil {
		return nil, false, 0, err
	}
	if queueType(d.Arguments) == "quorum" {
		vh.broker.logger.Info("a quorum queue is declared: on this one node it is a durable classic queue that counts deliveries",
			"queue", d.Name, "vhost", vh.Name)
	}
	if q.Durable && q.Owner == nil {
		seq = vh.broker.record(queueRecord(recQueueDeclare, vh, q))
	}
	vh.counts.churn.Count(stats.QueueDeclared)
	vh.counts.churn.Count(stats.QueueCreated)
	return q, true, seq, nil
}

func (vh *VHost) addQueue(d QueueDeclare, owner any, id uint64) (*Queue, error) {
	q := newQueue(vh, &d, id)
	if d.Exclusive {
		q.Owner = owner
	}
	if queueType(q.Arguments) == "stream" {
		q.newStream()
	}
	options := q.logOptions(true)
	options.Transient = options.Transient || d.Exclusive
	log, err := vh.broker.store.OpenLog(id, options)
	if err != nil {
		return nil, amqp.Errorf(amqp.CodeInternalError, 0, "cannot open the log of queue '%s' in vhost '%s': %v", d.Name, vh.Name, err)
	}
	q.log = log
	q.applied.Store(vh.policies.match(queueKind(q.Arguments), q.Name))
	q.recover(true) // a new log
	q.applyArguments()
	if err := vh.openDedup(q); err != nil {
		return nil, err
	}
	vh.queues[q.Name] = q
	vh.version.Add(1)
	return q, nil
}

func (vh *VHost) sameQueue(q *Queue, d *QueueDeclare, owner any) error {
	if q.Owner != nil && q.Owner != owner || d.Exclusive != q.Exclusive() {
		return vh.locked(q.Name)
	}
	where := "queue '" + q.Name + "' in vhost '" + vh.Name + "'"
	switch {
	case q.Durable != d.Durable:
		return inequivalentBool("durable", where, d.Durable, q.Durable)
	case q.AutoDelete != d.AutoDelete:
		return inequivalentBool("auto_delete", where, d.AutoDelete, q.AutoDelete)
	}
	return sameArguments(where, queueArguments, q.Arguments, d.Arguments)
}

// DeleteQueue removes a queue; messages counts the ready ones that went with
// it. A missing queue is no error (RabbitMQ since 3.2). Errors: 405, 406.
func (vh *VHost) DeleteQueue(name []byte, ifUnused, ifEmpty bool, owner any) (messages, seq uint64, err error) {
	vh.mu.Lock()
	q := vh.queues[string(name)]
	if q == nil {
		vh.mu.Unlock()
		return 0, vh.broker.pendingSeq(), nil
	}
	if _, err := vh.usable(q, q.Name, owner); err != nil {
		vh.mu.Unlock()
		return 0, 0, err
	}
	counts := q.Counts()
	switch {
	case ifUnused && counts.Consumers > 0:
		err = amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' in use", q.Name, vh.Name)
	case ifEmpty && counts.Ready > 0:
		err = amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' not empty", q.Name, vh.Name)
	}
	if err != nil {
		vh.mu.Unlock()
		return 0, 0, err
	}
	messages, consumers, seq := vh.dropQueue(q)
	vh.unlock()
	vh.finishDelete(q, consumers)
	return messages, seq, nil
}

// dropQueue removes q, which must be there, from the name space; the caller
// holds mu, and calls finishDelete after releasing it.
func (vh *VHost) dropQueue(q *Queue) (ready uint64, consumers []*Consumer, seq uint64) {
	delete(vh.queues, q.Name)
	vh.version.Add(1)
	vh.counts.churn.Count(stats.QueueDeleted)
	ready, consumers = q.markDeleted()
	if q.Durable && q.Owner == nil {
		seq = vh.broker.record(queueRecord(recQueueDelete, vh, q))
	}
	for source := range q.bound {
		seq = max(seq, vh.unbindAll(source, Dest{Queue: q}))
	}
	q.bound = nil
	return ready, consumers, seq
}

func (vh *VHost) finishDelete(q *Queue, consumers []*Consumer) {
	for _, l := range q.family() {
		vh.deleteFiles(l)
	}
	for _, c := range consumers {
		c.Owner.Cancelled()
	}
}

// deleteFiles deletes what a queue, or a level of one, has on disk.
func (vh *VHost) deleteFiles(q *Queue) {
	if err := q.log.Delete(); err != nil {
		vh.broker.logger.Error("cannot delete the files of a queue", "queue", q.Name, "vhost", vh.Name, "err", err)
	}
	side := q.sides() // nobody changes them any more
	_, scheduleLog := q.schedules()
	for _, log := range []*segstore.Log{side.countsLog, side.dedupLog, scheduleLog} {
		if log == nil {
			continue
		}
		if err := log.Delete(); err != nil {
			vh.broker.logger.Error("cannot delete what is kept beside a queue", "queue", q.Name, "vhost", vh.Name, "log", log.ID(), "err", err)
		}
	}
	if b := vh.broker.bodies; b != nil {
		b.RemoveDir(q.BodyDir())
	}
}

// removeIf removes q if it is still there and keep does not object.
func (vh *VHost) removeIf(q *Queue, keep func() bool) {
	vh.mu.Lock()
	if vh.queues[q.Name] != q || keep() {
		vh.mu.Unlock()
		return
	}
	_, consumers, _ := vh.dropQueue(q)
	vh.unlock()
	vh.finishDelete(q, consumers)
}

// remove deletes the exclusive queue of a connection that has ended.
func (vh *VHost) remove(q *Queue) {
	vh.removeIf(q, func() bool { return false })
}

// deleteUnused removes an auto-delete queue whose last consumer has gone,
// unless another came meanwhile.
func (vh *VHost) deleteUnused(q *Queue) {
	vh.removeIf(q, func() bool { return q.Counts().Consumers > 0 })
}

// GeneratedName returns prefix followed by 22 random characters.
func GeneratedName(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
