package broker

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// coreConsumer is a consumer on a channel of its own.
type coreConsumer struct {
	Consumer
	owner    fakeOwner
	prefetch uint64 // 0: no acknowledgements
	entered  bool
	room     uint64 // after its last take
	turn     int    // whose is the lowest is next
	gone     bool
}

// inRing says that c is served when it is its turn.
func (q *coreQueue) inRing(c *coreConsumer) bool {
	return c.entered && (!q.single || q.active == c)
}

// servable says that some consumer can take.
func (q *coreQueue) servable() bool { return slices.ContainsFunc(q.consumers, q.inRing) }

func (m *coreModel) consume() {
	q := m.pick("queue")
	if len(q.consumers) > 3 {
		return
	}
	m.tags++
	c := &coreConsumer{prefetch: rapid.Uint64Range(0, 4).Draw(m.t, "prefetch")}
	c.Consumer = Consumer{Queue: q.base, Owner: &c.owner, Tag: fmt.Sprint("c", m.tags), NoAck: c.prefetch == 0,
		Exclusive: m.chance("exclusive", 8), Priority: rapid.Int64Range(-1, 1).Draw(m.t, "consumer priority")}
	err := q.base.Attach(&c.Consumer)
	if c.Exclusive && (q.single || len(q.consumers) > 0) || len(q.consumers) > 0 && q.consumers[0].Exclusive {
		wantError(m.t, err, 403, fmt.Sprintf("ACCESS_REFUSED - queue '%s' in vhost '/' in exclusive use", q.name))
		return
	}
	wantError(m.t, err, 0, "")
	q.consumers = append(q.consumers, c)
	if q.active == nil {
		q.active = c
	}
	m.fill(q, c)
}

// cancel ends a consumer; what it holds stays with its channel, or goes back
// with that.
func (m *coreModel) cancel() {
	q := m.pick("queue")
	if len(q.consumers) == 0 {
		return
	}
	c := q.consumers[rapid.IntRange(0, len(q.consumers)-1).Draw(m.t, "consumer")]
	if m.chance("with its channel", 2) {
		m.requeue(q, q.heldBy(c))
	}
	q.base.Detach(&c.Consumer)
	c.gone, c.entered = true, false
	q.consumers = slices.Delete(q.consumers, slices.Index(q.consumers, c), slices.Index(q.consumers, c)+1)
	if q.active == c {
		q.active = nil
		for _, other := range q.consumers {
			if q.active == nil || other.Priority > q.active.Priority {
				q.active = other
			}
		}
		if q.active != nil && q.active.entered && q.single {
			m.joined(q.active)
		}
	}
	m.tidy(q)
}

// recover gives back what one channel holds.
func (m *coreModel) recover() {
	q := m.pick("queue")
	if len(q.held) == 0 {
		return
	}
	c := q.holders[q.held[rapid.IntRange(0, len(q.held)-1).Draw(m.t, "message")]]
	m.requeue(q, q.heldBy(c))
	m.reconsider(q, c)
}

func (m *coreModel) joined(c *coreConsumer) {
	m.turns++
	c.turn = m.turns
}

// reconsider is for a consumer whose credit has changed.
func (m *coreModel) reconsider(q *coreQueue, c *coreConsumer) {
	if c != nil && !c.gone {
		m.fill(q, c)
	}
}

// serve lets consumers take that were told to.
func (m *coreModel) serve() {
	for again := true; again; {
		again = false
		for _, name := range m.names() {
			q := m.queues[name]
			for _, c := range slices.Clone(q.consumers) {
				if c.owner.isTold() {
					c.owner.setTold(false)
					m.fill(q, c)
					again = true
				}
			}
		}
	}
}

// fill takes for c what it may have, as a connection does.
func (m *coreModel) fill(q *coreQueue, c *coreConsumer) {
	for {
		credit := uint64(1 << 62)
		if c.prefetch > 0 {
			credit = c.prefetch - min(c.prefetch, uint64(len(q.heldBy(c))))
		}
		if credit == 0 {
			if c.entered {
				c.entered = false
				q.base.Leave(&c.Consumer)
				m.tidy(q)
			}
			return
		}
		if !c.entered {
			c.entered = true
			q.base.Enter(&c.Consumer)
			m.joined(c)
		}
		run, _ := q.base.Take(&c.Consumer, credit, m.now)
		c.room = credit - run.Count
		if run.Count == 0 {
			return
		}
		m.took(q, c, run, credit)
	}
}

// took checks who took what.
func (m *coreModel) took(q *coreQueue, c *coreConsumer, run Run, credit uint64) {
	if next := q.next(); next != c {
		m.t.Fatalf("%s: %s took %+v, but it is the turn of %+v: %s", q.name, c.Tag, run, next, m.state())
	}
	if run.Count > credit || run.Count > uint64(len(q.ready)) {
		m.t.Fatalf("%s: %s took %+v with credit for %d, %d are ready", q.name, c.Tag, run, credit, len(q.ready))
	}
	if m.joined(c); run.Count > 1 && q.sharers() > 1 && len(q.ready) <= fairBelow*q.sharers() {
		m.t.Fatalf("%s: %s took %d of %d at once, before others", q.name, c.Tag, run.Count, len(q.ready))
	}
	for i := range run.Count {
		msg := q.pop(0)
		if run.Queue != msg.level.log || run.First+i != msg.offset || run.Redelivered != msg.came {
			m.t.Fatalf("%s: %s took %+v, number %d of it should be %+v: %s", q.name, c.Tag, run, i, *msg, m.state())
		}
		_, properties := m.c.record(msg.level.log, msg.offset)
		deadline := msg.level.log.Deadline(msg.born, properties, run.Redelivered)
		late := min(q.set.messageTTL, msg.ttl) != unlimited && m.now-msg.born > min(q.set.messageTTL, msg.ttl)
		if min(q.set.messageTTL, msg.ttl) == 0 && !msg.came {
			late = false // now or never: it is now
		}
		if (deadline <= m.now) != late {
			m.t.Fatalf("%s: the deadline of %+v is %d at %d", q.name, *msg, deadline, m.now)
		}
		switch {
		case late:
			msg.level.log.Expire(msg.offset, 1)
			m.bury(msg, expired)
		case c.NoAck:
			msg.level.log.Settle(msg.offset, 1)
			msg.settled = true
		default:
			m.hold(q, msg, c)
		}
	}
}

// next is the consumer whose turn it is: of the highest priority, the one that
// has waited longest.
func (q *coreQueue) next() (next *coreConsumer) {
	for _, c := range q.consumers {
		if q.inRing(c) && (next == nil || c.Priority > next.Priority || c.Priority == next.Priority && c.turn < next.turn) {
			next = c
		}
	}
	return next
}

// sharers is how many take turns.
func (q *coreQueue) sharers() (n int) {
	for _, c := range q.consumers {
		if q.inRing(c) && c.Priority == q.next().Priority {
			n++
		}
	}
	return n
}
