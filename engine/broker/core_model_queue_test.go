package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// publish sends some messages that are alike but for their bodies, as one batch.
func (m *coreModel) publish() {
	exchange := rapid.SampledFrom(append(coreExchanges, "", "")).Draw(m.t, "exchange")
	m.publishTo(exchange, rapid.SampledFrom(coreKeys).Draw(m.t, "key"))
}

func (m *coreModel) publishTo(exchange, key string) {
	msg := coreMessage{key: key, ttl: unlimited}
	p := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	if m.chance("has priority", 2) {
		msg.priority = rapid.Uint8Range(0, 4).Draw(m.t, "priority")
		p.Flags |= amqp.FlagPriority
		p.Priority = msg.priority
	}
	if m.chance("expiration", 4) {
		msg.ttl = rapid.Int64Range(0, 50).Draw(m.t, "expiration value")
		p.Flags |= amqp.FlagExpiration
		p.Expiration = strconv.AppendInt(nil, msg.ttl, 10)
	}
	delay := max(0, rapid.Int64Range(-30, 25).Draw(m.t, "delay"))
	if delay > 0 {
		b := new(amqp.TableBuilder)
		b.SetInt64(headerDelay, delay)
		p.Headers = b.Table()
		p.Flags |= amqp.FlagHeaders
	}
	var sent []*coreMessage
	for range rapid.IntRange(1, 5).Draw(m.t, "messages") {
		m.number++
		one := msg
		one.body = fmt.Sprintf("%d%*s", m.number, rapid.IntRange(0, 20).Draw(m.t, "size"), "")
		sent = append(sent, &one)
	}
	refused := m.post(exchange, msg.key, &p, sent)
	if m.delays[exchange] && delay > 0 {
		log := m.c.vh.exchanges[exchange].delayed.log
		for i, one := range sent {
			w := &delayedMessage{*one, m.now + delay}
			m.waiting[exchange] = append(m.waiting[exchange], w)
			m.delayed[exchange][log.Next()-uint64(len(sent)-i)] = w
		}
		slices.SortStableFunc(m.waiting[exchange], func(a, b *delayedMessage) int { return cmp.Compare(a.due, b.due) })
		return
	}
	var want []int
	for _, q := range m.route(exchange, msg.key) {
		for i, one := range sent {
			if m.arrive(q, one) == refusedOne {
				want = append(want, i)
			}
		}
		m.tidy(q)
	}
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(refused, want) {
		m.t.Fatalf("%v were refused, want %v: %s", refused, want, m.state())
	}
}

// post publishes as a connection does and returns who was refused.
func (m *coreModel) post(exchange, key string, p *amqp.Properties, sent []*coreMessage) (refused []int) {
	properties := p.Append(nil)
	queues, err := m.c.vh.Route([]byte(exchange), Envelope{RoutingKey: []byte(key), Properties: properties}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	b := segstore.NewBatch(m.c.pool)
	defer b.Release()
	b.Reset(m.now)
	template := b.Template([]byte(exchange), []byte(key), properties)
	for _, one := range sent {
		b.Add(template, []byte(one.body))
	}
	for _, q := range queues {
		if p.Flags&amqp.FlagExpiration != 0 {
			q.ExpectExpirations()
		}
		_, _, err := q.Publish(b, m.now)
		if full, ok := err.(*Overflow); ok {
			refused = MergeRefused(refused, full.Refused)
		} else if err != nil {
			m.t.Fatal(err)
		}
	}
	return refused
}

// What becomes of a message that arrives.
type arrival uint8

const (
	acceptedOne arrival = iota
	refusedOne          // and perhaps a dead letter
)

// arrive is a message that comes to a queue: it must be the next in its log, with
// these deaths.
func (m *coreModel) arrive(q *coreQueue, msg *coreMessage) arrival {
	one := *msg
	one.level, one.born, one.came = q.level(msg.priority), m.now, false
	refused := q.set.rejects() && m.refuses(q, &one)
	if refused && (q.set.overflow != rejectPublishDLX || !q.set.deadLetters) {
		return refusedOne
	}
	l := one.level
	if l.end >= l.log.log.Next() {
		m.t.Fatalf("at %d %s did not come to %s: %s", m.now, one.body, q.name, m.state())
	}
	if one.gone = l.isSettled(l.end); !one.gone {
		body, properties := m.c.record(l.log, l.end)
		if deaths := deathsOf(m.t, properties); body != one.body || !slices.Equal(deaths, one.deaths) {
			m.t.Fatalf("at %d %s has %q %v, want %q %v: %s", m.now, q.name, body, deaths, one.body, one.deaths, m.state())
		}
	}
	one.offset = l.end
	l.known[l.end] = &one
	l.end++
	if refused {
		one.why = maxLength
		l.dying = append(l.dying, &one)
		return refusedOne
	}
	q.insert(&one)
	return acceptedOne
}

func (l *coreLevel) isSettled(offset uint64) bool {
	first, n := l.log.log.NextUnsettled(offset, 1)
	return n == 0 || first != offset
}

// refuses says that there is no room for a message: those that consumers have
// room for count no more.
func (m *coreModel) refuses(q *coreQueue, msg *coreMessage) bool {
	var free uint64
	for _, c := range q.consumers {
		if q.inRing(c) {
			free = min(free+c.room, 1<<62)
		}
	}
	length, bytes := int64(0), int64(0)
	for i, other := range q.ready {
		if uint64(i) >= free {
			length++
			bytes += int64(len(other.body))
		}
	}
	return length+1 > q.set.maxLength || bytes+int64(len(msg.body)) > q.set.maxBytes
}

// insert puts a message where it is to be taken.
func (q *coreQueue) insert(msg *coreMessage) {
	i, _ := slices.BinarySearchFunc(q.ready, msg, func(a, b *coreMessage) int {
		if a.level != b.level {
			return cmp.Compare(b.level.priority, a.level.priority)
		}
		return cmp.Compare(a.offset, b.offset)
	})
	q.ready = slices.Insert(q.ready, i, msg)
}

// pop takes a ready message out.
func (q *coreQueue) pop(i int) *coreMessage {
	msg := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	msg.level.cursor = max(msg.level.cursor, msg.offset+1)
	return msg
}

// tidy drops what is over the limits, unless a consumer can take it.
func (m *coreModel) tidy(q *coreQueue) {
	if q.set.overflow != dropHead || q.servable() {
		return
	}
	for len(q.ready) > 0 && (int64(len(q.ready)) > q.set.maxLength || q.readyBytes() > q.set.maxBytes) {
		m.bury(q.pop(0), maxLength)
	}
}

// judgeCounts ends what came back more often than the limit, which is lower now.
func (m *coreModel) judgeCounts(q *coreQueue) {
	for _, l := range q.highestFirst() {
		for i := 0; i < len(q.ready); i++ {
			if msg := q.ready[i]; msg.level == l && msg.count > q.set.deliveryLimit {
				m.bury(q.pop(i), deliveryLimit)
				i--
			}
		}
	}
}

// bury is what becomes of a message that is over.
func (m *coreModel) bury(msg *coreMessage, why reason) {
	if q := msg.level.q; q.set.deadLetters {
		msg.why = why
		msg.level.dying = append(msg.level.dying, msg)
		return
	}
	msg.settled = true
}

// letter is what is made of a dying message, and where it goes.
func (m *coreModel) letter(msg *coreMessage) (letter *coreMessage, targets []*coreQueue) {
	q := msg.level.q
	letter = &coreMessage{body: msg.body, key: msg.key, priority: msg.priority, ttl: unlimited}
	d := coreDeath{q.name, reasonNames[msg.why], 1}
	for _, before := range msg.deaths {
		if before.queue == d.queue && before.reason == d.reason {
			d.count += before.count
		} else {
			letter.deaths = append(letter.deaths, before)
		}
	}
	letter.deaths = slices.Insert(letter.deaths, 0, d)
	if q.set.hasDeadLetterKey {
		letter.key = q.set.deadLetterRoutingKey
	}
	for _, target := range m.route(q.set.deadLetterExchange, letter.key) {
		if msg.why == rejected || !letter.cycle(target.name) {
			targets = append(targets, target)
		}
	}
	return letter, targets
}

// cycle says that a letter was in the queue before, and nobody rejected it since.
func (l *coreMessage) cycle(queue string) bool {
	for _, d := range l.deaths {
		if d.reason == reasonNames[rejected] {
			return false
		}
		if d.queue == queue {
			return true
		}
	}
	return false
}

// over says that the time of a message at the head is over, as the keeper sees it.
func (m *coreModel) over(msg *coreMessage) bool {
	q := msg.level.q
	ttl := min(q.set.messageTTL, msg.ttl)
	if ttl == 0 {
		return !q.servable()
	}
	return ttl != unlimited && m.now-msg.born > ttl
}

// get takes one message as basic.get does.
func (m *coreModel) get() {
	q := m.pick("queue")
	run, remaining := q.base.Get()
	if len(q.ready) == 0 {
		if run.Count != 0 {
			m.t.Fatalf("%s gave %d, want nothing", q.name, run.First)
		}
		return
	}
	msg := q.pop(0)
	if run.Queue != msg.level.log || run.Count != 1 || run.First != msg.offset || run.Redelivered != msg.came || remaining != uint64(len(q.ready)) {
		m.t.Fatalf("%s gave %+v, %d remain; want %+v, %d: %s", q.name, run, remaining, *msg, len(q.ready), m.state())
	}
	m.hold(q, msg, nil)
	m.tidy(q)
}

func (m *coreModel) hold(q *coreQueue, msg *coreMessage, by *coreConsumer) {
	if n := msg.level.log.DeliveryCount(msg.offset); q.set.deliveryLimit != unlimited && int64(n) != msg.count {
		m.t.Fatalf("%s: %s came back %d times, want %d", q.name, msg.body, n, msg.count)
	}
	q.held = append(q.held, msg)
	q.holders[msg] = by
}

// release ends the holding.
func (q *coreQueue) release(msg *coreMessage) (by *coreConsumer) {
	i := slices.Index(q.held, msg)
	q.held = slices.Delete(q.held, i, i+1)
	by = q.holders[msg]
	delete(q.holders, msg)
	return by
}

// conclude ends the delivery of one message, or of all that its holder has.
func (m *coreModel) conclude() {
	q := m.pick("queue")
	if len(q.held) == 0 {
		return
	}
	some := []*coreMessage{q.held[rapid.IntRange(0, len(q.held)-1).Draw(m.t, "message")]}
	holder := q.holders[some[0]]
	if m.chance("multiple", 4) {
		some = q.heldBy(holder)
	}
	how := rapid.SampledFrom([]string{"ack", "ack", "reject", "requeue", "requeue"}).Draw(m.t, "how")
	if how == "requeue" {
		m.requeue(q, some)
	}
	for _, msg := range some {
		switch how {
		case "ack":
			q.release(msg)
			msg.level.log.Settle(msg.offset, 1)
			msg.settled = true
		case "reject":
			q.release(msg)
			msg.level.log.Reject(msg.offset, 1)
			m.bury(msg, rejected)
		}
	}
	m.reconsider(q, holder)
}

// requeue gives messages back, all at once for each log.
func (m *coreModel) requeue(q *coreQueue, some []*coreMessage) {
	for _, l := range q.highestFirst() {
		var runs []Run
		for _, msg := range some {
			if msg.level != l {
				continue
			}
			q.release(msg)
			runs = append(runs, Run{Queue: l.log, First: msg.offset, Count: 1})
			if q.set.deliveryLimit != unlimited {
				if msg.count++; msg.count > q.set.deliveryLimit {
					msg.count--
					m.bury(msg, deliveryLimit)
					continue
				}
			}
			msg.came = true
			q.insert(msg)
		}
		if len(runs) > 0 {
			l.log.Requeue(runs...)
			m.tidy(q)
		}
	}
}

// heldBy is what a consumer, or basic.get, has.
func (q *coreQueue) heldBy(c *coreConsumer) (some []*coreMessage) {
	for _, msg := range q.held {
		if q.holders[msg] == c {
			some = append(some, msg)
		}
	}
	slices.SortFunc(some, func(a, b *coreMessage) int { return cmp.Compare(a.offset, b.offset) })
	return some
}
