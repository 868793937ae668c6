package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestCore_Model runs random histories of a whole virtual host, without sockets and
// with a clock that only the test moves, against a model that keeps each message
// by itself: exchanges of several types, bound to queues and to each other, with
// alternates; delayed ones; queues with times to live and dead letters into
// any exchange, in circles too; gets, acks, rejects, requeues, purges; stops
// and restarts. It holds who gets what, in which order, flagged how, with which
// deaths. What a queue does by itself, limits included, is in TestUpkeep_Model, consumers in
// TestQueue_Model. Dead letters go at most once: the others wait for a route.
func TestCore_Model(t *testing.T) {
	for i := range 20 { // rapid's hundred histories each, if the command line says nothing
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, coreHistory)
		})
	}
}

func coreHistory(rt *rapid.T) {
	m := &coreModel{disk: sim.New(sim.Options{Seed: 1}), now: 1_000_000, routes: &routeModel{}, queues: map[string]*coreQueue{}}
	m.open(rt)
	defer func() { m.c.crash() }()
	m.declare(rt)
	rt.Repeat(map[string]func(*rapid.T){
		"publish":  m.publish,
		"publish2": m.publish,
		"publish3": m.publish,
		"get":      m.get,
		"get2":     m.get,
		"ack":      func(t *rapid.T) { m.conclude(t, "ack") },
		"reject":   func(t *rapid.T) { m.conclude(t, "reject") },
		"requeue":  func(t *rapid.T) { m.conclude(t, "requeue") },
		"bind":     m.bind,
		"unbind":   m.unbind,
		"wait":     m.wait,
		"seldom":   m.seldom,
	})
}

// coreMessage is one message in one queue, or on its way there.
type coreMessage struct {
	body   string
	key    string
	deaths []coreDeath // the last one first
	delay  int64       // it is to wait for; negative: it has waited

	offset uint64
	born   int64
	came   bool
}

type coreDeath struct {
	queue, reason string
	count         int64
}

// coreQueue is the model of a queue.
type coreQueue struct {
	name      string
	arguments amqp.Table
	set       settings
	q         *Queue

	ready  []*coreMessage
	held   []*coreMessage
	end    uint64                    // offsets below are known
	coming map[string][]*coreMessage // dead letters that must come, by the queue they died in
}

// waiting is a message in a delayed exchange.
type waiting struct {
	coreMessage
	exchange string
	due      int64
}

type coreModel struct {
	disk    *sim.Disk
	c       *clocked
	now     int64
	routes  *routeModel
	delays  map[string]bool
	queues  map[string]*coreQueue
	waiting []waiting
	number  int
}

var (
	coreExchanges = []string{"e0", "e1", "e2", "d0", "d1"}
	coreQueues    = []string{"q0", "q1", "q2"}
	coreKeys      = []string{"a", "b", "q0", "q2"}
)

func (m *coreModel) open(t tb) {
	m.c = openClocked(t, m.disk, m.now)
	for name, q := range m.queues {
		q.q = m.c.vh.queues[name]
	}
}

func (m *coreModel) names() []string { return slices.Sorted(maps.Keys(m.queues)) }

// declare makes a random topology.
func (m *coreModel) declare(t *rapid.T) {
	m.routes.kinds, m.routes.alternates, m.delays = map[string]string{}, map[string]string{}, map[string]bool{}
	for _, name := range coreExchanges {
		kind := rapid.SampledFrom([]string{typeDirect, typeFanout, typeTopic}).Draw(t, name)
		d := ExchangeDeclare{Name: name, Type: kind, Durable: true}
		var b amqp.TableBuilder
		if m.delays[name] = name[0] == 'd'; m.delays[name] {
			d.Type = typeDelayed
			b.SetString(argDelayedType, kind)
		}
		if rapid.IntRange(0, 2).Draw(t, "has alternate") == 0 {
			other := rapid.SampledFrom([]string{"e0", "e1", "e2", ""}).Draw(t, "alternate")
			b.SetString(argAlternate, other)
			m.routes.alternates[name] = other
		}
		d.Arguments = b.Table()
		m.c.exchange(d)
		m.routes.kinds[name] = kind
	}
	for _, name := range coreQueues {
		q := &coreQueue{name: name, coming: map[string][]*coreMessage{}}
		var b amqp.TableBuilder
		if rapid.Bool().Draw(t, name) {
			b.SetInt64("x-message-ttl", rapid.Int64Range(1, 40).Draw(t, "ttl"))
		}
		if rapid.IntRange(0, 3).Draw(t, "dead letters") > 0 {
			b.SetString("x-dead-letter-exchange", rapid.SampledFrom([]string{"", "e0", "e1", "e2"}).Draw(t, "dead letter exchange"))
			if rapid.Bool().Draw(t, "with key") {
				b.SetString("x-dead-letter-routing-key", rapid.SampledFrom(coreKeys).Draw(t, "dead letter key"))
			}
		}
		q.arguments = b.Table()
		q.set = plainSettings
		if s := effective(q.arguments, nil, nil); s != nil {
			q.set = *s
		}
		q.q = m.c.queue(QueueDeclare{Name: name, Durable: true, Arguments: q.arguments}, nil)
		m.queues[name] = q
	}
	for range rapid.IntRange(2, 10).Draw(t, "bindings") {
		m.bind(t)
	}
}

func (m *coreModel) bind(t *rapid.T) {
	m.c.t = t
	// No exchange leads to a delayed one: the model of routes knows no waiting.
	b := Binding{Source: rapid.SampledFrom(coreExchanges).Draw(t, "source"), RoutingKey: rapid.SampledFrom(coreKeys).Draw(t, "key")}
	if b.ToExchange = rapid.IntRange(0, 3).Draw(t, "to") == 0; b.ToExchange {
		b.Exchange = rapid.SampledFrom([]string{"e0", "e1", "e2"}).Draw(t, "destination")
	} else {
		b.Queue = rapid.SampledFrom(coreQueues).Draw(t, "queue")
	}
	m.c.bind(b)
	if m.place(b) < 0 {
		m.routes.bindings = append(m.routes.bindings, b)
	}
}

func (m *coreModel) place(b Binding) int {
	return slices.IndexFunc(m.routes.bindings, func(o Binding) bool {
		return o.Source == b.Source && o.RoutingKey == b.RoutingKey && o.Queue == b.Queue && o.Exchange == b.Exchange
	})
}

func (m *coreModel) unbind(t *rapid.T) {
	m.c.t = t
	if len(m.routes.bindings) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.routes.bindings)-1).Draw(t, "binding")
	if _, err := m.c.vh.Unbind(m.routes.bindings[i], nil); err != nil {
		t.Fatal(err)
	}
	m.routes.bindings = slices.Delete(m.routes.bindings, i, i+1)
}

// route is where a message goes from an exchange at once.
func (m *coreModel) route(exchange, key string) []string {
	if exchange == "" {
		if m.queues[key] != nil {
			return []string{key}
		}
		return nil
	}
	return m.routes.route(exchange, key, "")
}

func (m *coreModel) publish(t *rapid.T) {
	m.c.t = t
	exchange := rapid.SampledFrom(append(coreExchanges, "")).Draw(t, "exchange")
	key := rapid.SampledFrom(coreKeys).Draw(t, "key")
	for range rapid.IntRange(1, 5).Draw(t, "messages") {
		m.number++
		msg := coreMessage{body: fmt.Sprint(m.number), key: key, delay: max(0, rapid.Int64Range(-10, 25).Draw(t, "delay"))}
		properties := noProperties
		if msg.delay > 0 {
			properties = delayedBy(msg.delay)
		}
		m.c.post(exchange, key, properties, msg.body)
		if m.delays[exchange] && msg.delay > 0 {
			m.waiting = append(m.waiting, waiting{msg, exchange, m.now + msg.delay})
			continue
		}
		for _, name := range m.route(exchange, key) {
			m.expect("publisher", name, &msg)
		}
	}
	m.settle(t)
}

// expect notes that a message must come to a queue.
func (m *coreModel) expect(from, to string, msg *coreMessage) {
	copied := *msg
	m.queues[to].coming[from] = append(m.queues[to].coming[from], &copied)
}

// bury is what becomes of a message that is over.
func (m *coreModel) bury(q *coreQueue, msg *coreMessage, why reason) {
	if !q.set.deadLetters {
		return
	}
	letter := &coreMessage{body: msg.body, key: msg.key, delay: msg.delay}
	d := coreDeath{q.name, reasonNames[why], 1}
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
	for _, name := range m.route(q.set.deadLetterExchange, letter.key) {
		if why == rejected || !letter.cycle(name) {
			m.expect(q.name, name, letter)
		}
	}
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

// tidy ends what has expired.
func (m *coreModel) tidy(q *coreQueue) {
	for len(q.ready) > 0 && q.set.messageTTL != unlimited && m.now-q.ready[0].born > q.set.messageTTL {
		msg := q.ready[0]
		q.ready = q.ready[1:]
		m.bury(q, msg, expired)
	}
}

// get takes one message as basic.get does.
func (m *coreModel) get(t *rapid.T) {
	q := m.queues[rapid.SampledFrom(coreQueues).Draw(t, "queue")]
	run, remaining := q.q.Get()
	if len(q.ready) == 0 {
		if run.Count != 0 {
			t.Fatalf("%s gave %d, want nothing", q.name, run.First)
		}
		return
	}
	msg := q.ready[0]
	q.ready = q.ready[1:]
	if run.Count != 1 || run.First != msg.offset || run.Redelivered != msg.came || remaining != uint64(len(q.ready)) {
		t.Fatalf("%s gave %+v, %d remain; want %+v, %d", q.name, run, remaining, *msg, len(q.ready))
	}
	q.held = append(q.held, msg)
	m.settle(t)
}

func (m *coreModel) conclude(t *rapid.T, how string) {
	q := m.queues[rapid.SampledFrom(coreQueues).Draw(t, "queue")]
	if len(q.held) == 0 {
		return
	}
	i := rapid.IntRange(0, len(q.held)-1).Draw(t, "message")
	msg := q.held[i]
	q.held = slices.Delete(q.held, i, i+1)
	switch how {
	case "ack":
		q.q.Settle(msg.offset, 1)
	case "reject":
		q.q.Reject(msg.offset, 1)
		m.bury(q, msg, rejected)
	case "requeue":
		q.q.Requeue(Run{First: msg.offset, Count: 1})
		m.giveBack(q, msg)
	}
	m.settle(t)
}

func (m *coreModel) giveBack(q *coreQueue, msg *coreMessage) {
	msg.came = true
	i, _ := slices.BinarySearchFunc(q.ready, msg, func(a, b *coreMessage) int { return cmp.Compare(a.offset, b.offset) })
	q.ready = slices.Insert(q.ready, i, msg)
	m.tidy(q)
}

// wait moves the clock, a millisecond at a time.
func (m *coreModel) wait(t *rapid.T) {
	for range rapid.IntRange(1, 15).Draw(t, "ms") {
		m.now++
		slices.SortStableFunc(m.waiting, func(a, b waiting) int { return cmp.Compare(a.due, b.due) })
		for len(m.waiting) > 0 && m.waiting[0].due <= m.now {
			w := m.waiting[0]
			m.waiting = m.waiting[1:]
			w.delay = -w.delay
			for _, name := range m.route(w.exchange, w.key) {
				m.expect("exchange "+w.exchange, name, &w.coreMessage)
			}
		}
		for _, name := range m.names() {
			m.tidy(m.queues[name])
		}
		m.settle(t)
	}
}

func (m *coreModel) seldom(t *rapid.T) {
	m.c.t = t
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		q := m.queues[rapid.SampledFrom(coreQueues).Draw(t, "queue")]
		if n := q.q.Purge(); n != uint64(len(q.ready)) {
			t.Fatalf("%d messages of %s purged, want %d", n, q.name, len(q.ready))
		}
		q.ready = nil
	case 1:
		m.c.close()
		m.disk = m.disk.Kill()
		m.open(t)
		for _, name := range m.names() {
			q := m.queues[name]
			slices.SortFunc(q.held, func(a, b *coreMessage) int { return cmp.Compare(a.offset, b.offset) })
			held := q.held
			q.held = nil
			for _, msg := range held {
				msg.came = true
				i, _ := slices.BinarySearchFunc(q.ready, msg, func(a, b *coreMessage) int { return cmp.Compare(a.offset, b.offset) })
				q.ready = slices.Insert(q.ready, i, msg)
			}
			m.tidy(q)
		}
		m.settle(t)
	}
}
