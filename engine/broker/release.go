package broker

import (
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker/schedule"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file releases delayed messages: those that are due, in the order of their
// times and then of their publishing, a batch at a time. Appending them to the
// queues they go to and settling them is one transaction of the store, if the
// exchange is durable: after a crash either both have happened or neither has. What
// has no route then is dropped, like any message without mandatory; so is what a
// queue at its limit refuses. A queue whose log is fenced holds all up until it
// is restarted: what was confirmed is not lost.

// releaseSettings are what linkBody looks at.
var releaseSettings = settings{atLeastOnce: true}

// commitWait is how long the keeper leaves a schedule that waits for the disk, ms.
const commitWait = 5

// release releases what is due and returns when to come back.
func (k *keeper) release(q *Queue, now int64) (again int64) {
	m, s := &q.upkeep.move, q.hidden.delays
	again = k.removeDoomed(q)
	state := schedule.Idle
	switch {
	case m.retryAt > now:
		again = min(again, m.retryAt)
		state = s.Maintain()
	case k.broker.store.Pressured():
		return min(again, now+pressureInterval)
	default:
		state = s.Take(now)
		if len(s.Taken()) > 0 {
			return min(again, k.releaseTaken(q, now))
		}
		if state == schedule.Idle {
			m.close()
			state = s.Maintain()
		}
	}
	switch state {
	case schedule.Busy:
		return now
	case schedule.Reading: // Wake arms
		return again
	case schedule.Waiting:
		again = min(again, now+commitWait)
	case schedule.Failed:
		m.retryAt = now + retryInterval
	}
	return min(again, max(s.First(), m.retryAt))
}

// releaseTaken releases the first of what is taken, as far as it goes to the
// same queues.
func (k *keeper) releaseTaken(q *Queue, now int64) (again int64) {
	m := &q.upkeep.move
	if m.reader == nil {
		m.reader = q.log.NewReader()
	}
	if m.builder == nil {
		m.builder = k.broker.store.NewBatch()
	}
	taken := q.hidden.delays.Taken()
	switch k.gatherTaken(q, taken) {
	case reading:
		return unlimited
	case failed:
		m.retryAt = now + retryInterval
		return m.retryAt
	}
	b := m.builder
	b.Reset(now)
	var rec segstore.Record
	var current *letter
	var body bodies.Ref
	external, n := false, 0
	for ; n < len(taken) && !external && b.Size() < segstore.BatchBytesTarget; n++ {
		template, content, ok := m.gather.get(taken[n].Offset)
		if !ok {
			switch k.readTaken(q, taken[n].Offset, &rec) {
			case absent:
				continue // it is settled with the others
			case reading:
				if n == 0 {
					return unlimited
				}
				return k.finishRelease(q, current, taken[:n], nil, now)
			case failed:
				m.retryAt = now + retryInterval
				return m.retryAt
			}
			template, content = m.reader.Template(rec.Template), rec.Body
		}
		next := current
		if current == nil || !current.same(template) {
			next = k.dueLetter(q, template)
		}
		if current != nil && b.Count() > 0 && (!slices.Equal(next.targets, current.targets) || IsExternal(next.properties)) {
			break
		}
		if current != nil && b.Count() > 0 {
			next.expiring = next.expiring || current.expiring // those of the batch so far
		}
		current = next
		if len(current.targets) == 0 {
			continue
		}
		t := b.Template(current.exchange, current.key, current.properties)
		if t < 0 {
			break
		}
		if external = IsExternal(current.properties); external {
			if n > 0 && b.Count() == 0 {
				// Those before it go nowhere and are done first.
				return k.finishRelease(q, nil, taken[:n], nil, now)
			}
			if state := k.linkBody(q, &releaseSettings, current, &segstore.Record{Offset: taken[n].Offset, Body: content}); state != found {
				return k.afterDueLink(q, taken[:1], state, now)
			}
			body = m.link.ref
			content = body.Append(nil)
			m.link = nil
		}
		b.Add(t, content)
	}
	var refs []BodyAt
	if external {
		refs = []BodyAt{{Index: 0, Ref: body}}
	}
	return k.finishRelease(q, current, taken[:n], refs, now)
}

// readTaken reads the message at an offset; often it is the next one.
func (k *keeper) readTaken(q *Queue, offset uint64, rec *segstore.Record) sought {
	m := &q.upkeep.move
	if rec.Offset > 0 && offset == rec.Offset+1 && m.reader.Next(rec) {
		if rec.Offset == offset {
			return found
		}
	}
	state, _ := k.seek(q, m.reader, offset)
	if state == found && !m.reader.Next(rec) {
		return absent
	}
	return state
}

// dueLetter prepares the messages of one template.
func (k *keeper) dueLetter(q *Queue, t segstore.Template) *letter {
	t = segstore.Template{Exchange: slices.Clone(t.Exchange), RoutingKey: slices.Clone(t.RoutingKey), Properties: slices.Clone(t.Properties)}
	l := &letter{exchange: t.Exchange, key: t.RoutingKey, properties: t.Properties, of: t}
	p, err := amqp.DecodeProperties(clearMarks(t.Properties))
	if err != nil {
		k.broker.logger.Error("a delayed message with unreadable properties cannot be routed", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
		return l
	}
	l.expiring = p.Flags&amqp.FlagExpiration != 0
	copies, headers, err := CarbonCopies(p.Headers)
	if err == nil {
		p.Headers = headers
	}
	if delay := delayOf(p.Headers); delay > 0 {
		b := amqp.NewTableBuilder(p.Headers)
		if int64(int32(delay)) == delay {
			b.SetInt32(headerDelay, int32(-delay))
		} else {
			b.SetInt64(headerDelay, -delay)
		}
		p.Headers = b.Table()
	}
	l.properties = p.Append(nil)
	plain := l.properties
	if IsExternal(t.Properties) {
		plain = slices.Clone(plain)
		MarkExternal(l.properties)
	}
	vh := q.VHost
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	if !q.hidden.source.deleted {
		l.targets = vh.routeFrom(q.hidden.source, Envelope{RoutingKey: l.key, More: copies, Properties: plain}, nil)
	}
	return l
}

// finishRelease appends the batch to its queues and settles the messages.
func (k *keeper) finishRelease(q *Queue, l *letter, taken []schedule.Entry, refs []BodyAt, now int64) (again int64) {
	m := &q.upkeep.move
	if len(taken) == 0 {
		return now
	}
	var targets []*Queue
	if l != nil && m.builder.Count() > 0 {
		targets = l.targets
	}
	first := false
	for _, target := range targets {
		if err := target.log.Err(); err != nil && !errors.Is(err, segstore.ErrDeleted) {
			k.heldUp(q, target, err, now)
			return m.retryAt
		}
		if l.expiring {
			first = target.ExpectExpirations() || first
		}
	}
	var tx *segstore.Tx
	if q.Durable || first {
		tx = k.broker.store.Begin()
	}
	done := true
	for _, target := range targets {
		end, _, err := target.Publish(m.builder, now, refs...)
		inLog := uint64(m.builder.Count())
		var full *Overflow
		if errors.As(err, &full) {
			inLog, err = uint64(full.Appended), nil
		}
		if tx != nil && err == nil && end > 0 && inLog > 0 {
			tx.Appended(target.log, end-inLog, end)
		}
		if err != nil {
			k.heldUp(q, target, err, now)
			done = false
		}
	}
	var ids []uint64
	if done {
		m.told = false
		ids = q.settleReleased(tx, taken)
		q.hidden.delays.Done(tx, len(taken))
	}
	if tx == nil {
		q.RemoveBodies(ids)
	} else if ticket := tx.End(); len(ids) > 0 {
		m.doomed = append(m.doomed, doomedBodies{ids, ticket})
	}
	return max(now, m.retryAt)
}

// heldUp says that a queue that can't be written holds the others up.
func (k *keeper) heldUp(q, target *Queue, err error, now int64) {
	m := &q.upkeep.move
	m.retryAt = now + retryInterval
	if !m.told {
		m.told = true
		k.broker.logger.Error("a queue takes no messages: what the exchange delays for it and others stays until the queue or its exchange is restarted",
			"from", q.Name, "to", target.Name, "vhost", q.VHost.Name, "err", err)
	}
}

// settleReleased settles messages and returns their external bodies.
func (q *Queue) settleReleased(tx *segstore.Tx, taken []schedule.Entry) (ids []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil
	}
	for i := 0; i < len(taken); {
		first, count := taken[i].Offset, uint64(1)
		for i++; i < len(taken) && taken[i].Offset == first+count; i++ {
			count++
		}
		ids = append(ids, q.settle(first, count)...)
		if tx != nil {
			tx.Settled(q.log, first, count)
		}
	}
	return ids
}

// afterDueLink says how it goes on when a body is not linked.
func (k *keeper) afterDueLink(q *Queue, taken []schedule.Entry, state sought, now int64) (again int64) {
	m := &q.upkeep.move
	if state == reading {
		return unlimited
	}
	var err error = bodies.ErrDamaged
	if m.link != nil {
		err = m.link.err
	}
	m.link = nil
	k.broker.logger.Error("the body of a delayed message cannot be named for its queues", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
	if state == failed {
		m.retryAt = now + retryInterval
		return m.retryAt
	}
	return k.finishRelease(q, nil, taken, nil, now)
}
