package broker

import (
	"cmp"
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
	slow     bool           // does not come to take for now
	share    []*coreMessage // dealt to it, and not fetched
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
	q.unshare(c)
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

// unshare makes ready what a consumer was dealt. The last that was taken of a level
// is as before, all else counts as delivered.
func (q *coreQueue) unshare(c *coreConsumer) {
	for _, msg := range c.share {
		if l := msg.level; len(c.share) == 1 && !msg.came && msg.offset+1 == l.cursor {
			l.cursor--
		} else {
			msg.came = true
		}
		q.insert(msg)
	}
	c.share = nil
}

// stall has a consumer not come to take for a while: its loop is busy, or its
// connection cannot send, which the queue is told.
func (m *coreModel) stall() {
	q := m.pick("queue")
	if len(q.consumers) == 0 || q.exacting() {
		return
	}
	c := q.consumers[rapid.IntRange(0, len(q.consumers)-1).Draw(m.t, "consumer")]
	if c.slow {
		c.slow = false
		m.fill(q, c)
		return
	}
	c.slow = true
	m.arriveWhileSlow(q)
	if m.chance("blocked", 2) && c.entered {
		if !q.base.Stall(&c.Consumer, true) {
			m.t.Fatalf("%s: %s has not left", q.name, c.Tag)
		}
		c.entered = false
		m.tidy(q)
	}
}

// exacting says that a queue refuses what it has no room for and has levels: which
// messages a consumer that has not come yet will take is only known when it comes.
func (q *coreQueue) exacting() bool { return q.max > 0 && q.set.rejects() }

// hurry has slow consumers of such queues come.
func (m *coreModel) hurry() {
	for _, name := range m.names() {
		q := m.queues[name]
		for _, c := range slices.Clone(q.consumers) {
			if c.slow && q.exacting() {
				c.slow = false
				m.fill(q, c)
			}
		}
	}
}

// arriveWhileSlow publishes so that slow consumers are dealt something.
func (m *coreModel) arriveWhileSlow(q *coreQueue) {
	if m.chance("and messages come", 2) {
		m.publishTo("", q.name)
		m.serve()
	}
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
				if !c.slow && c.owner.isTold() {
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
	for !c.slow {
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
			if len(c.share) > 0 {
				m.t.Fatalf("%s: %s did not get its share: %s", q.name, c.Tag, m.state())
			}
			return
		}
		m.took(q, c, run, credit)
	}
}

// took checks who took what.
func (m *coreModel) took(q *coreQueue, c *coreConsumer, run Run, credit uint64) {
	if len(c.share) == 0 {
		m.dealt(q, c, run.Count, credit)
	}
	share := c.share
	c.share = nil
	if run.Count != uint64(len(share)) {
		m.t.Fatalf("%s: %s took %+v, want %d: %s", q.name, c.Tag, run, len(share), m.state())
	}
	for i, msg := range share {
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

// dealt is that c, whose turn it must be, has come to take: it gets what it likes
// if it is alone, else the messages are dealt strictly in turn, as many as there is
// room for.
func (m *coreModel) dealt(q *coreQueue, c *coreConsumer, count, credit uint64) {
	next := q.next()
	if next != c {
		m.t.Fatalf("%s: %s took %d, but it is the turn of %+v: %s", q.name, c.Tag, count, next, m.state())
	}
	sharers := q.sharers()
	k := uint64(len(sharers))
	n := uint64(0) // messages of one kind that follow each other
	for n < uint64(len(q.ready)) && q.ready[n].level == q.ready[0].level && q.ready[n].offset == q.ready[0].offset+n && q.ready[n].came == q.ready[0].came {
		n++
	}
	if k == 1 {
		if n = min(n, count); count > credit {
			m.t.Fatalf("%s: %s took %d with credit for %d", q.name, c.Tag, count, credit)
		}
	}
	for j := uint64(0); j < min(k, n); j++ {
		room := sharers[j].room
		switch {
		case j == 0:
			room = credit
		case len(sharers[j].share) > 0:
			room = 0
		}
		n = min(n, min(room, 1<<32)*k+j)
	}
	for j := range n {
		to := sharers[j%k]
		to.share = append(to.share, q.pop(0))
		if to != c {
			to.room--
		}
	}
	for _, o := range sharers[:n%k] {
		m.joined(o)
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

// sharers are those who take turns, in their order.
func (q *coreQueue) sharers() (list []*coreConsumer) {
	for _, c := range q.consumers {
		if q.inRing(c) && c.Priority == q.next().Priority {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *coreConsumer) int { return cmp.Compare(a.turn, b.turn) })
	return list
}
