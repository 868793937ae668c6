package broker

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// declare makes a random topology.
func (m *coreModel) declare() {
	m.routes.kinds, m.routes.alternates, m.delays = map[string]string{}, map[string]string{}, map[string]bool{}
	m.policies = map[string]amqp.Table{}
	m.safely = m.chance("at least once", 3)
	for _, name := range coreExchanges {
		kind := rapid.SampledFrom([]string{typeDirect, typeFanout, typeTopic}).Draw(m.t, name)
		d := ExchangeDeclare{Name: name, Type: kind, Durable: true}
		var b amqp.TableBuilder
		if m.delays[name] = name[0] == 'd'; m.delays[name] {
			d.Type = typeDelayed
			m.delayed[name] = map[uint64]*delayedMessage{}
			b.SetString(argDelayedType, kind)
		}
		if m.chance("has alternate", 3) {
			other := rapid.SampledFrom([]string{"e0", "e1", "e2", ""}).Draw(m.t, "alternate")
			b.SetString(argAlternate, other)
			m.routes.alternates[name] = other
		}
		d.Arguments = b.Table()
		m.c.exchange(d)
		m.routes.kinds[name] = kind
	}
	for _, name := range coreQueues {
		q := &coreQueue{name: name, levels: map[uint8]*coreLevel{}, holders: map[*coreMessage]*coreConsumer{}}
		b := new(amqp.TableBuilder)
		m.drawSettings(b, "x-")
		if m.chance("priorities", 3) {
			q.max = rapid.Uint8Range(1, 3).Draw(m.t, "x-max-priority")
			b.SetInt64("x-max-priority", int64(q.max))
		}
		if q.single = m.chance("single", 4); q.single {
			b.SetBool("x-single-active-consumer", true)
		}
		q.arguments = b.Table()
		q.base = m.c.queue(QueueDeclare{Name: name, Durable: true, Arguments: q.arguments}, nil)
		m.queues[name] = q
		m.reset(q)
	}
	for range rapid.IntRange(2, 10).Draw(m.t, "bindings") {
		m.bind()
	}
}

// drawSettings adds what policies can say, too.
func (m *coreModel) drawSettings(b *amqp.TableBuilder, prefix string) {
	some := func(n int, name string, from, to int64) {
		if m.chance(name, n) {
			b.SetInt64(prefix+name, rapid.Int64Range(from, to).Draw(m.t, name+" value"))
		}
	}
	some(3, "message-ttl", 0, 40)
	some(3, "max-length", 0, 6)
	some(4, "max-length-bytes", 0, 60)
	some(4, "delivery-limit", 0, 3)
	if !m.safely && m.chance("overflow", 2) {
		b.SetString(prefix+"overflow", rapid.SampledFrom([]string{"drop-head", "reject-publish", "reject-publish-dlx"}).Draw(m.t, "overflow value"))
	}
	if m.chance("dead letters", 2) {
		b.SetString(prefix+"dead-letter-exchange", rapid.SampledFrom([]string{"", "e0", "e1", "e2"}).Draw(m.t, "dead letter exchange"))
		if m.chance("with key", 2) {
			b.SetString(prefix+"dead-letter-routing-key", rapid.SampledFrom(coreKeys).Draw(m.t, "dead letter key"))
		}
		if m.safely && m.chance("strategy", 2) {
			b.SetString(prefix+"dead-letter-strategy", "at-least-once")
		}
	}
}

// policy sets or clears a policy: what is in the queues is judged by it at once.
func (m *coreModel) policy() {
	i := rapid.IntRange(0, len(corePatterns)-1).Draw(m.t, "policy")
	pattern := corePatterns[i]
	if m.policies[pattern] != nil && m.chance("clear", 2) {
		m.c.must(m.c.broker.ClearPolicy("/", pattern))
		delete(m.policies, pattern)
	} else {
		b := new(amqp.TableBuilder)
		m.drawSettings(b, "")
		if len(b.Table()) == 0 {
			return
		}
		m.policies[pattern] = b.Table()
		m.c.must(m.c.broker.SetPolicy(Policy{VHost: "/", Name: pattern, Pattern: pattern, Definition: b.Table()}))
	}
	for _, name := range m.names() {
		q := m.queues[name]
		m.reset(q)
		m.sized(q)
		m.judgeCounts(q)
		m.tidy(q)
	}
}

func (m *coreModel) bind() {
	// No exchange leads to a delayed one: the model of routes knows no waiting.
	b := Binding{Source: rapid.SampledFrom(coreExchanges).Draw(m.t, "source"), RoutingKey: rapid.SampledFrom(coreKeys).Draw(m.t, "key")}
	if b.ToExchange = m.chance("to", 4); b.ToExchange {
		b.Exchange = rapid.SampledFrom([]string{"e0", "e1", "e2"}).Draw(m.t, "destination")
	} else {
		b.Queue = rapid.SampledFrom(coreQueues).Draw(m.t, "queue")
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

func (m *coreModel) unbind() {
	if len(m.routes.bindings) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.routes.bindings)-1).Draw(m.t, "binding")
	if _, err := m.c.vh.Unbind(m.routes.bindings[i], nil); err != nil {
		m.t.Fatal(err)
	}
	m.routes.bindings = slices.Delete(m.routes.bindings, i, i+1)
}

// route is where a message goes from an exchange at once.
func (m *coreModel) route(exchange, key string) []*coreQueue {
	names := []string{key}
	if exchange != "" {
		names = m.routes.route(exchange, key, "")
	}
	var queues []*coreQueue
	for _, name := range names {
		if q := m.queues[name]; q != nil {
			queues = append(queues, q)
		}
	}
	return queues
}
