package broker

import (
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

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
	case ifEmpty && q.Unread() != nil:
		err = amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' cannot be read, and may not be empty", q.Name, vh.Name)
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
