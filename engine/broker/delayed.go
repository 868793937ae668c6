package broker

import (
	"math"
	"strconv"

	"github.com/basaltmq/basaltmq/engine/broker/schedule"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A delayed exchange keeps a message whose header x-delay is a positive number
// of milliseconds for that long, and routes it then, by the bindings of that
// time, as the type does that its argument x-delayed-type names. Messages
// without the header are routed at once.
//
// What it keeps them in is a queue that is in no name space: Route gives it
// instead of what is bound, so publishing, confirms, transactions and large
// bodies need to know nothing of it. When each message is due is kept by package
// schedule, in a log beside the queue's own; the keeper releases what is due
// (release.go). The time counts from when the message was appended, which is
// what its record says; so all can be found again from the messages alone.
//
// A released message carries the delay negated: no exchange delays it again.

const headerDelay = "x-delay"

func isDelayedType(exchangeType string) bool {
	return exchangeType == typeDelayed || exchangeType == typeDelayedToo
}

// isDelayed says whether an exchange declared so delays messages.
func isDelayed(exchangeType string, arguments amqp.Table) bool {
	if isDelayedType(exchangeType) {
		return true
	}
	v, _ := arguments.Lookup(argDelayedToo)
	on, ok := v.Bool()
	return ok && on
}

// exchangeKind is the type that an exchange declared so routes as.
func exchangeKind(exchangeType string, arguments amqp.Table) string {
	if !isDelayedType(exchangeType) {
		return exchangeType
	}
	v, _ := arguments.Lookup(argDelayedType)
	kind, _ := v.Bytes()
	return string(kind)
}

// validateDelayed checks what a delayed exchange is to route as. Errors: 406.
func (vh *VHost) validateDelayed(d *ExchangeDeclare) error {
	if !isDelayed(d.Type, d.Arguments) {
		return nil
	}
	if err := vh.stringArguments(d, argDelayedType); err != nil {
		return err
	}
	switch kind := exchangeKind(d.Type, d.Arguments); {
	case newIndex(kind, d.Arguments) == nil:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "Invalid argument, '%s' must be an existing exchange type", argDelayedType)
	case kind == typeRecentHistory:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "exchange '%s' in vhost '%s' cannot both delay messages and keep a history: bind an exchange of type '%s' to a delayed one",
			d.Name, vh.Name, typeRecentHistory)
	}
	return nil
}

// delayOf is the delay that headers ask for, in ms; 0: none. Like RabbitMQ's
// plugin it takes integers, and numbers in the form of floats and strings.
func delayOf(headers amqp.Table) int64 {
	v, ok := headers.Lookup(headerDelay)
	if !ok {
		return 0
	}
	delay, ok := v.Int64()
	if !ok {
		if f, isFloat := v.Float64(); isFloat && f > 0 {
			delay = int64(min(f, 1<<62))
		} else if v.Kind() == amqp.KindString {
			text, _ := v.Bytes()
			delay, _ = strconv.ParseInt(string(text), 10, 64)
		}
	}
	return max(delay, 0)
}

// delayIn is delayOf for encoded properties.
func delayIn(properties []byte) int64 {
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil || p.Flags&amqp.FlagHeaders == 0 {
		return 0
	}
	return delayOf(p.Headers)
}

// isDelayed says that the message is to wait at a delayed exchange.
func (r *router) isDelayed() bool {
	p := r.decode()
	return p.Flags&amqp.FlagHeaders != 0 && delayOf(p.Headers) > 0
}

// newDelayed makes the queue of a delayed exchange, without logs.
func (vh *VHost) newDelayed(e *Exchange, id, scheduleID uint64) *Queue {
	q := newQueue(vh, &QueueDeclare{Name: "delayed messages of exchange " + e.Name, Durable: e.Durable}, id)
	q.hidden = &hidden{scheduleID: scheduleID, source: e}
	return q
}

// openDelayed opens the logs of e's delayed messages.
func (vh *VHost) openDelayed(e *Exchange) (err error) {
	q, b := e.delayed, vh.broker
	o := segstore.LogOptions{Transient: !q.Durable}
	if q.log, err = b.store.OpenLog(q.ID, o); err != nil {
		return err
	}
	if q.hidden.scheduleLog, err = b.store.OpenLog(q.hidden.scheduleID, o); err != nil {
		return err
	}
	q.mu.Lock()
	q.needUpkeep()
	q.mu.Unlock()
	if err = q.partUnread(); err == nil {
		err = q.adoptDelayed()
	}
	if err != nil {
		q.shut(err)
	}
	return nil
}

// adoptDelayed finds out when the messages in q's logs are due. It waits for the
// disk.
func (q *Queue) adoptDelayed() error {
	b := q.VHost.broker
	delays, err := schedule.Open(schedule.Options{
		Store: b.store, Messages: q.log, Index: q.hidden.scheduleLog, Logger: b.logger,
		Wake: func() { b.keeper.arm(q, 0) },
		Due: func(rec *segstore.Record, t segstore.Template) int64 {
			return due(rec.Timestamp, delayIn(t.Properties))
		},
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		delays.Close()
		return nil
	}
	q.end, q.hidden.delays, q.unread = q.log.Next(), delays, nil
	q.mu.Unlock()
	b.keeper.arm(q, delays.First())
	return nil
}

// due is when a message is due that came at a time and is to be delayed.
func due(came, delay int64) int64 {
	if delay >= schedule.Never-came {
		return schedule.Never - 1
	}
	return came + delay
}

// schedule notes when the messages of a batch are due; the caller, who has just
// appended it, holds mu.
func (q *Queue) schedule(base uint64, b *segstore.Batch) {
	k := &q.VHost.broker.keeper
	now, first := k.now(), int64(math.MaxInt64)
	bytes := uint64(b.Size() / b.Count())
	full := q.hidden.delays.Full()
	var last *byte // of the properties that delay is of
	var delay int64
	b.Each(func(i int, t segstore.Template, _ []byte) {
		if p := &t.Properties[0]; p != last {
			last, delay = p, delayIn(t.Properties)
		}
		e := schedule.Entry{Due: due(now, delay), Offset: base + uint64(i)}
		q.hidden.delays.Add(e, bytes)
		first = min(first, e.Due)
	})
	if !full && q.hidden.delays.Full() {
		first = now
	}
	k.arm(q, first)
}

// openHidden gives a new exchange what it keeps messages in, if it does.
func (vh *VHost) openHidden(e *Exchange) error {
	switch {
	case e.Type == typeRecentHistory:
		e.history = vh.newHistory(e, vh.broker.newLogID())
		return vh.openHistory(e)
	case isDelayed(e.Type, e.Arguments):
		e.delayed = vh.newDelayed(e, vh.broker.newLogID(), vh.broker.newLogID())
		return vh.openDelayed(e)
	}
	return nil
}

// hidden lists what e keeps messages in.
func (e *Exchange) hidden() (queues []*Queue) {
	for _, q := range [...]*Queue{e.history, e.delayed} {
		if q != nil && q.log != nil {
			queues = append(queues, q)
		}
	}
	return queues
}

// closeDelayed closes the schedules; the keeper has ended.
func (k *keeper) closeDelayed() {
	k.broker.mu.RLock()
	defer k.broker.mu.RUnlock()
	for _, vh := range k.broker.vhosts {
		vh.mu.RLock()
		for _, e := range vh.exchanges {
			if e.delayed != nil {
				e.delayed.upkeep.move.close()
				e.delayed.mu.Lock()
				delays := e.delayed.hidden.delays
				e.delayed.mu.Unlock()
				if delays != nil {
					delays.Close()
				}
			}
		}
		vh.mu.RUnlock()
	}
}
