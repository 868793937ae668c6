package crash

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// consumer takes messages of one queue and acks them in various ways.
type consumer struct {
	queue    string
	prefetch uint16

	c       *client
	order   map[uint16]uint64
	held    []held
	waiting [][]messageID // acks sent before each marker that is not answered yet
	batch   int           // act when so many are held
}

type held struct {
	tag uint64
	id  messageID
}

// run consumes until the connection ends.
func (k *consumer) run(s *Session, r *rand.Rand) (err error) {
	if k.c, err = s.connect(); err != nil {
		return err
	}
	defer s.watch(k.c)()
	// Whatever ends the worker before the broker: another consumer may get these.
	defer func() { k.giveBackAll(s) }()
	if err := k.subscribe(); err != nil {
		return err
	}
	k.batch = 1 + r.IntN(int(k.prefetch))
	for {
		event, ok, err := k.c.poll(len(k.held) > 0)
		if err != nil {
			return err
		}
		if !ok {
			if err := k.settle(s, r); err != nil {
				return err
			}
			continue
		}
		if err := k.event(s, r, event); err != nil {
			return err
		}
	}
}

func (k *consumer) subscribe() error {
	k.order = map[uint16]uint64{}
	if _, err := k.c.Call(1, &amqp.BasicQos{PrefetchCount: k.prefetch}, amqp.BasicQosOkID); err != nil {
		return err
	}
	_, err := k.c.Call(1, &amqp.BasicConsume{Queue: []byte(k.queue), ConsumerTag: []byte("c")}, amqp.BasicConsumeOkID)
	return err
}

func (k *consumer) event(s *Session, r *rand.Rand, event amqptest.Event) error {
	if isMarker(event) && len(k.waiting) > 0 {
		s.ledger.acked(k.queue, false, k.waiting[0]...)
		k.waiting = k.waiting[1:]
		return nil
	}
	m, ok := event.Method.(*amqp.BasicDeliver)
	if !ok {
		return fmt.Errorf("consumer of %s got %q", k.queue, event)
	}
	id, err := identify(event)
	if err != nil {
		return fmt.Errorf("invariant 4: queue %s: %w", k.queue, err)
	}
	s.ledger.deliver(k.queue, id, m.Redelivered, k.order)
	k.held = append(k.held, held{tag: m.DeliveryTag, id: id})
	if len(k.held) < k.batch {
		return nil
	}
	k.batch = 1 + r.IntN(int(k.prefetch))
	return k.settle(s, r)
}

// settle acks or gives back some of what is held, and asks for an answer.
func (k *consumer) settle(s *Session, r *rand.Rand) error {
	var raw []byte
	var acked []messageID
	if r.IntN(100) == 0 {
		return k.reopen(s)
	}
	switch n := len(k.held); r.IntN(8) {
	case 0, 1, 2: // all at once, or the older ones
		if r.IntN(2) == 0 {
			n = 1 + r.IntN(n)
		}
		for _, h := range k.held[:n] {
			acked = append(acked, h.id)
		}
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicAck{DeliveryTag: k.held[n-1].tag, Multiple: true})
		k.held = k.held[n:]
	case 3, 4, 5, 6: // one by one, in any order
		r.Shuffle(n, func(i, j int) { k.held[i], k.held[j] = k.held[j], k.held[i] })
		for _, h := range k.held {
			acked = append(acked, h.id)
			if r.IntN(10) == 0 {
				raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicReject{DeliveryTag: h.tag})
			} else {
				raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicAck{DeliveryTag: h.tag})
			}
		}
		k.held = k.held[:0]
	default: // one back to its queue
		h := k.held[0]
		k.held = k.held[1:]
		s.ledger.giveBack(k.queue, h.id)
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicNack{DeliveryTag: h.tag, Requeue: true})
	}
	s.ledger.acking(k.queue, acked...)
	k.waiting = append(k.waiting, acked)
	return k.c.Send(amqp.AppendMethodFrame(raw, 1, &amqp.BasicCancel{ConsumerTag: []byte(marker)}))
}

func (k *consumer) giveBackAll(s *Session) {
	for _, h := range k.held {
		s.ledger.giveBack(k.queue, h.id)
	}
	k.held = k.held[:0]
}

// reopen closes the channel, which gives back what is held, and subscribes on a
// new one.
func (k *consumer) reopen(s *Session) error {
	k.giveBackAll(s)
	if err := k.c.reopen(); err != nil {
		return err
	}
	for _, ids := range k.waiting {
		s.ledger.acked(k.queue, false, ids...)
	}
	k.waiting = nil
	return k.subscribe()
}

// poll returns the next event. When the caller has something else to do it
// waits only a moment: ok is false then.
func (c *client) poll(shortly bool) (event amqptest.Event, ok bool, err error) {
	if !shortly {
		event, err = c.NextBefore(time.Now().Add(time.Hour)) // the cut ends it
		return event, err == nil, err
	}
	event, err = c.NextBefore(time.Now().Add(pause))
	if isTimeout(err) {
		return event, false, nil
	}
	return event, err == nil, err
}
