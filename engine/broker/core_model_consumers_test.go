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
	out      bool   // passed over: it was out of credit, and has not come back yet
	room     uint64 // after its last take
	share    []*coreMessage
	turn     int // whose is the lowest is next
	gone     bool
}

// inRing says that c is served when it is its turn.
func (q *coreQueue) inRing(c *coreConsumer) bool {
	return c.entered && !c.out && (!q.single || q.active == c)
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
				c.entered, c.out = false, false
				q.base.Leave(&c.Consumer)
				m.tidy(q)
			}
			return
		}
		if !c.entered {
			c.entered, c.out, c.room = true, false, 1
			m.joined(c)
			q.base.Enter(&c.Consumer)
			m.dealt(q)
		}
		if c.out {
			c.out = false
			m.joined(c)
		}
		c.room = credit - uint64(len(c.share))
		run, _ := q.base.Take(&c.Consumer, credit, m.now)
		m.taking = c
		m.dealt(q)
		m.taking = nil
		if run.Count == 0 {
			if len(c.share) > 0 {
				m.t.Fatalf("%s: %s did not get its share: %s", q.name, c.Tag, m.state())
			}
			return
		}
		m.took(q, c, run, credit)
		m.tidy(q)
	}
}

// dealt goes through what has been dealt of q, message by message: whoever has
// waited longest among the consumers of the highest priority gets the next one.
func (m *coreModel) dealt(q *coreQueue) {
	for len(q.deals.events) > 0 {
		e := q.deals.events[0]
		next := q.next()
		switch e.step {
		case stepDealt:
			l := m.of(e.of)
			if l.end <= e.offset {
				return // the model will hear of the message
			}
			if next == nil || &next.Consumer != e.c || q.sharers() < 2 {
				m.t.Fatalf("%s: %d went to %s out of turn: %s", q.name, e.offset, e.c.Tag, m.state())
			}
			if len(q.ready) == 0 || q.ready[0].level != l || q.ready[0].offset != e.offset || next.room == 0 {
				m.t.Fatalf("%s: %d went to %s, which had room for %d, before others: %s", q.name, e.offset, e.c.Tag, next.room, m.state())
			}
			next.room--
			next.share = append(next.share, q.pop(0))
			m.joined(next)
		case stepExpelled:
			if next == nil || &next.Consumer != e.c || next.room > 0 || len(next.share) > 0 && next != m.taking {
				m.t.Fatalf("%s: %s was passed over: %s", q.name, e.c.Tag, m.state())
			}
			next.out = true
		case stepUnsent:
			m.t.Fatalf("%s: %d came back: %s", q.name, e.offset, m.state())
		}
		q.deals.events = q.deals.events[1:]
	}
}

// took checks who took what: its share, or all it wants where it is alone.
func (m *coreModel) took(q *coreQueue, c *coreConsumer, run Run, credit uint64) {
	var list []*coreMessage
	if n := min(int(run.Count), len(c.share)); n > 0 {
		list, c.share = c.share[:n], c.share[n:]
	} else {
		if q.next() != c || q.sharers() > 1 {
			m.t.Fatalf("%s: %s took %+v out of turn: %s", q.name, c.Tag, run, m.state())
		}
		for len(list) < int(run.Count) && len(q.ready) > 0 {
			list = append(list, q.pop(0))
		}
		c.room = credit - run.Count
	}
	if run.Count > credit || int(run.Count) != len(list) {
		m.t.Fatalf("%s: %s took %+v with credit for %d: %s", q.name, c.Tag, run, credit, m.state())
	}
	for i, msg := range list {
		if run.Queue != msg.level.log || run.offset(uint64(i)) != msg.offset || run.Redelivered != msg.came {
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
