package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// churner declares, binds and deletes durable queues and exchanges that carry
// no messages, several requests under way at a time.
type churner struct {
	answered topology // what the broker has answered for
	tip      topology // when all requests under way are carried out
	pending  []operation
}

// topology is a set of names: "q:NAME", "x:NAME" and "b:EXCHANGE>QUEUE".
type topology map[string]bool

const (
	churnQueues    = 6
	churnExchanges = 4
	churnWindow    = 12
)

type operation struct {
	verb     string // declare, delete, bind, unbind
	exchange string // of exchanges and bindings
	queue    string // of queues and bindings
	sent     time.Time
}

func (o operation) String() string {
	return strings.TrimSpace(o.verb + " " + o.exchange + " " + o.queue)
}

// apply carries an operation out.
func (t topology) apply(o operation) {
	switch o.verb {
	case "declare":
		t[o.object()] = true
	case "bind":
		t[o.object()] = true
	case "unbind":
		delete(t, o.object())
	case "delete":
		delete(t, o.object())
		for name := range t {
			// With an end goes the binding.
			if source, destination, ok := strings.Cut(strings.TrimPrefix(name, "b:"), ">"); ok && (source == o.exchange || destination == o.queue) {
				delete(t, name)
			}
		}
	}
}

func (o operation) object() string {
	switch {
	case o.exchange == "":
		return "q:" + o.queue
	case o.queue == "":
		return "x:" + o.exchange
	}
	return "b:" + o.exchange + ">" + o.queue
}

func exchangeType(exchange string) string {
	if strings.HasSuffix(exchange, "0") {
		return "topic"
	}
	return "direct"
}

// bindingKey is different for each binding, so that a probe tells them apart.
func bindingKey(exchange, queue string) string { return exchange + "." + queue }

// method is the request, and the id of its answer.
func (o operation) method() (amqp.Method, uint32) {
	queue, exchange := []byte(o.queue), []byte(o.exchange)
	key := []byte(bindingKey(o.exchange, o.queue))
	switch {
	case o.verb == "bind":
		return &amqp.QueueBind{Queue: queue, Exchange: exchange, RoutingKey: key}, amqp.QueueBindOkID
	case o.verb == "unbind":
		return &amqp.QueueUnbind{Queue: queue, Exchange: exchange, RoutingKey: key}, amqp.QueueUnbindOkID
	case o.verb == "declare" && o.exchange == "":
		return &amqp.QueueDeclare{Queue: queue, Durable: true}, amqp.QueueDeclareOkID
	case o.verb == "declare":
		return &amqp.ExchangeDeclare{Exchange: exchange, Type: []byte(exchangeType(o.exchange)), Durable: true}, amqp.ExchangeDeclareOkID
	case o.exchange == "":
		return &amqp.QueueDelete{Queue: queue}, amqp.QueueDeleteOkID
	default:
		return &amqp.ExchangeDelete{Exchange: exchange}, amqp.ExchangeDeleteOkID
	}
}

// choose makes an operation that is valid in t.
func (t topology) choose(r *rand.Rand) operation {
	exchange := fmt.Sprintf("churn.x%d", r.IntN(churnExchanges))
	queue := fmt.Sprintf("churn.q%d", r.IntN(churnQueues))
	switch n := r.IntN(10); {
	case n == 0 || !t["q:"+queue]:
		if t["q:"+queue] {
			return operation{verb: "delete", queue: queue}
		}
		return operation{verb: "declare", queue: queue}
	case n == 1 || !t["x:"+exchange]:
		if t["x:"+exchange] {
			return operation{verb: "delete", exchange: exchange}
		}
		return operation{verb: "declare", exchange: exchange}
	default:
		o := operation{verb: "bind", exchange: exchange, queue: queue}
		if t[o.object()] {
			o.verb = "unbind"
		}
		return o
	}
}

// run changes the topology until the connection ends.
func (h *churner) run(s *Session, r *rand.Rand) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer s.watch(c)()
	for {
		var raw []byte
		for len(h.pending) < 1+r.IntN(churnWindow) {
			o := h.tip.choose(r)
			o.sent = time.Now()
			h.tip.apply(o)
			h.pending = append(h.pending, o)
			m, _ := o.method()
			raw = amqp.AppendMethodFrame(raw, 1, m)
		}
		if len(raw) > 0 {
			if err := c.Send(raw); err != nil {
				return err
			}
		}
		_, want := h.pending[0].method()
		event, _, err := c.poll(false)
		if err != nil {
			return err
		}
		if event.Method == nil || event.Method.ID() != want {
			return fmt.Errorf("%s: got %q", h.pending[0], event)
		}
		if !s.ledger.answered(h.pending[0].sent, true, h.pending[0].String()) {
			return errStopped // it stays pending
		}
		h.answered.apply(h.pending[0])
		h.pending = h.pending[1:]
		s.ledger.declared()
	}
}

func (l *ledger) declared() {
	l.mu.Lock()
	l.counts.Declares++
	l.mu.Unlock()
}

// observe finds out what the broker has.
func observe(c *client) (topology, error) {
	found := topology{}
	var queues []string
	for i := range churnQueues {
		name := fmt.Sprintf("churn.q%d", i)
		ok, err := c.exists(&amqp.QueueDeclare{Queue: []byte(name), Passive: true}, amqp.QueueDeclareOkID)
		if err != nil {
			return nil, err
		}
		if ok {
			found["q:"+name] = true
			queues = append(queues, name)
		}
	}
	bindings := map[string]int{}
	for i := range churnExchanges {
		name := fmt.Sprintf("churn.x%d", i)
		ok, err := c.exists(&amqp.ExchangeDeclare{Exchange: []byte(name), Passive: true}, amqp.ExchangeDeclareOkID)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		found["x:"+name] = true
		if err := probe(c, name, found, bindings); err != nil {
			return nil, err
		}
	}
	// Each probe must have gone to the queue that its key names, and nowhere else.
	for _, queue := range queues {
		event, err := c.Call(1, &amqp.QueuePurge{Queue: []byte(queue)}, amqp.QueuePurgeOkID)
		if err != nil {
			return nil, err
		}
		if n := int(event.Method.(*amqp.QueuePurgeOk).MessageCount); n != bindings[queue] {
			return nil, fmt.Errorf("invariant 8: queue %s got %d probes, its bindings should give %d", queue, n, bindings[queue])
		}
	}
	return found, redeclare(c, found)
}

// probe publishes one message per possible binding: those that come back say
// that it is not there.
func probe(c *client, exchange string, found topology, bindings map[string]int) error {
	var raw []byte
	for i := range churnQueues {
		queue := fmt.Sprintf("churn.q%d", i)
		found["b:"+exchange+">"+queue] = true
		bindings[queue]++
		raw = appendPublish(raw, exchange, bindingKey(exchange, queue), messageID{}, 0, false)
	}
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicCancel{ConsumerTag: []byte(marker)})
	if err := c.Send(raw); err != nil {
		return err
	}
	for {
		event, err := c.Next()
		if err != nil || isMarker(event) {
			return err
		}
		m, ok := event.Method.(*amqp.BasicReturn)
		if !ok {
			return fmt.Errorf("probing %s: got %q", exchange, event)
		}
		queue := strings.TrimPrefix(string(m.RoutingKey), exchange+".")
		delete(found, "b:"+exchange+">"+queue)
		bindings[queue]--
	}
}

// redeclare makes sure that what is there has the attributes it was declared
// with.
func redeclare(c *client, found topology) error {
	for name := range found {
		o := operation{verb: "declare"}
		switch kind, rest, _ := strings.Cut(name, ":"); kind {
		case "q":
			o.queue = rest
		case "x":
			o.exchange = rest
		default:
			continue
		}
		m, want := o.method()
		if _, err := c.Call(1, m, want); err != nil {
			return fmt.Errorf("invariant 8: declaring %s again: %w", name, err)
		}
	}
	return nil
}

// check compares what the broker has with what it may have, and goes on from
// there.
func (h *churner) check(found topology) error {
	want := maps.Clone(h.answered)
	matches := maps.Equal(want, found)
	for _, o := range h.pending {
		if matches {
			break
		}
		want.apply(o)
		matches = maps.Equal(want, found)
	}
	var err error
	if !matches {
		err = fmt.Errorf("invariant 8: the topology is %v; answered was %v, then %v were asked for", sorted(found), sorted(h.answered), h.pending)
	}
	h.answered, h.tip, h.pending = found, maps.Clone(found), nil
	return err
}

func sorted(t topology) []string { return slices.Sorted(maps.Keys(t)) }
