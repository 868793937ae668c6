package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// modelMessage is a message of the model's one queue; position orders them.
type modelMessage struct {
	position    int
	body        string
	redelivered bool
}

// modelDelivery is what a channel holds unacknowledged.
type modelDelivery struct {
	tag     uint64
	message modelMessage
	requeue bool // staged in a transaction: what becomes of it
}

// modelChannel is one channel of one of two connections.
type modelChannel struct {
	client  *amqptest.Client
	number  uint16
	tag     uint64
	unacked []modelDelivery // by tag
	tx      bool
	staged  []string        // bodies published in the transaction
	settled []modelDelivery // acknowledged in the transaction
}

// model is a plain queue beside the broker's. Nobody consumes: all is got, so
// that every answer is determined.
type model struct {
	queue    string
	ready    []modelMessage // by position
	next     int
	bodies   int
	channels []*modelChannel
}

func (m *model) append(body string) {
	m.ready = append(m.ready, modelMessage{position: m.next, body: body})
	m.next++
}

func (m *model) giveBack(deliveries []modelDelivery) {
	for _, d := range deliveries {
		d.message.redelivered = true
		m.ready = append(m.ready, d.message)
	}
	slices.SortFunc(m.ready, func(a, b modelMessage) int { return a.position - b.position })
}

// conclude ends deliveries: at once, or with the transaction.
func (m *model) conclude(ch *modelChannel, tag uint64, multiple, requeue bool) {
	var taken, kept []modelDelivery
	for _, d := range ch.unacked {
		if d.tag == tag || multiple && (tag == 0 || d.tag < tag) {
			d.requeue = requeue
			taken = append(taken, d)
		} else {
			kept = append(kept, d)
		}
	}
	ch.unacked = kept
	switch {
	case ch.tx:
		ch.settled = append(ch.settled, taken...)
	case requeue:
		m.giveBack(taken)
	}
}

func (m *model) commit(ch *modelChannel) {
	for _, body := range ch.staged {
		m.append(body)
	}
	for _, d := range ch.settled {
		if d.requeue {
			m.giveBack([]modelDelivery{d})
		}
	}
	ch.staged, ch.settled = nil, nil
}

func (ch *modelChannel) rollback() {
	ch.unacked = append(ch.unacked, ch.settled...)
	slices.SortFunc(ch.unacked, func(a, b modelDelivery) int { return int(a.tag) - int(b.tag) })
	ch.staged, ch.settled = nil, nil
}

// TestModel plays random histories of publishes, gets, acks, transactions and
// channel ends on two connections against a plain model of a queue.
func TestModel(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := open(t, e), open(t, e)
	for _, c := range []*amqptest.Client{first, second} {
		c.OpenChannel(2)
		c.OpenChannel(3)
		amqptest.Ask[*amqp.ChannelCloseOk](c, 1, &amqp.ChannelClose{})
	}
	histories := 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		m := &model{queue: fmt.Sprint("q", histories)}
		for _, c := range []*amqptest.Client{first, second} {
			for number := uint16(2); number <= 3; number++ {
				amqptest.Ask[*amqp.ChannelCloseOk](c, number, &amqp.ChannelClose{})
				c.OpenChannel(number)
				m.channels = append(m.channels, &modelChannel{client: c, number: number})
			}
		}
		flags := amqptest.Flags(0)
		if rapid.Bool().Draw(t, "durable") {
			flags = amqptest.Durable
		}
		amqptest.Ask[*amqp.QueueDeclareOk](first, 2, first.QueueDeclare(m.queue, flags, nil))
		for range 8 { // one Repeat is some twenty actions
			t.Repeat(m.actions())
		}
		amqptest.Ask[*amqp.QueueDeleteOk](first, 2, &amqp.QueueDelete{Queue: []byte(m.queue)})
	})
}

func (m *model) actions() map[string]func(*rapid.T) {
	channel := func(t *rapid.T) *modelChannel { return rapid.SampledFrom(m.channels).Draw(t, "channel") }
	holder := func(t *rapid.T) *modelChannel {
		ch := channel(t)
		if len(ch.unacked) == 0 {
			t.Skip("holds nothing")
		}
		return ch
	}
	inTx := func(t *rapid.T) *modelChannel {
		ch := channel(t)
		if !ch.tx {
			t.Skip("no transaction")
		}
		return ch
	}
	conclude := func(t *rapid.T, nack bool) {
		ch := holder(t)
		multiple := rapid.Bool().Draw(t, "multiple")
		tag := rapid.SampledFrom(ch.unacked).Draw(t, "delivery").tag
		if multiple && rapid.IntRange(0, 3).Draw(t, "all") == 0 {
			tag = 0
		}
		requeue := nack && rapid.Bool().Draw(t, "requeue")
		if nack {
			ch.client.Method(ch.number, &amqp.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: requeue})
		} else {
			ch.client.Method(ch.number, &amqp.BasicAck{DeliveryTag: tag, Multiple: multiple})
		}
		ch.client.Sync(ch.number)
		m.conclude(ch, tag, multiple, requeue)
	}
	actions := map[string]func(*rapid.T){
		"publish": func(t *rapid.T) {
			ch := channel(t)
			var bodies []string
			for range rapid.IntRange(1, 5).Draw(t, "count") {
				m.bodies++
				bodies = append(bodies, fmt.Sprint("body ", m.bodies))
			}
			ch.client.PublishAll(ch.number, m.queue, bodies...)
			ch.client.Sync(ch.number)
			if ch.tx {
				ch.staged = append(ch.staged, bodies...)
				return
			}
			for _, body := range bodies {
				m.append(body)
			}
		},
		"get": func(t *rapid.T) {
			ch, flags := channel(t), amqptest.Flags(0)
			if rapid.IntRange(0, 3).Draw(t, "no-ack") == 0 {
				flags = amqptest.NoAck
			}
			got, want := ch.client.Get(ch.number, m.queue, flags).String(), fmt.Sprint(ch.number, " basic.get-empty")
			if len(m.ready) > 0 {
				message := m.ready[0]
				m.ready = m.ready[1:]
				ch.tag++
				want = fmt.Sprintf("%d basic.get-ok DeliveryTag=%d Redelivered=%v Exchange= RoutingKey=%s MessageCount=%d %q",
					ch.number, ch.tag, message.redelivered, m.queue, len(m.ready), message.body)
				if flags == 0 {
					ch.unacked = append(ch.unacked, modelDelivery{tag: ch.tag, message: message})
				}
			}
			if got != want {
				t.Fatalf("\n got %s\nwant %s", got, want)
			}
		},
		"ack":  func(t *rapid.T) { conclude(t, false) },
		"nack": func(t *rapid.T) { conclude(t, true) },
		"recover": func(t *rapid.T) {
			ch := channel(t)
			amqptest.Ask[*amqp.BasicRecoverOk](ch.client, ch.number, &amqp.BasicRecover{Requeue: true})
			m.giveBack(ch.unacked)
			ch.unacked = nil
		},
		"select": func(t *rapid.T) {
			ch := channel(t)
			amqptest.Ask[*amqp.TxSelectOk](ch.client, ch.number, &amqp.TxSelect{})
			ch.tx = true
		},
		"commit": func(t *rapid.T) {
			ch := inTx(t)
			amqptest.Ask[*amqp.TxCommitOk](ch.client, ch.number, &amqp.TxCommit{})
			m.commit(ch)
		},
		"rollback": func(t *rapid.T) {
			ch := inTx(t)
			amqptest.Ask[*amqp.TxRollbackOk](ch.client, ch.number, &amqp.TxRollback{})
			ch.rollback()
		},
		"close": func(t *rapid.T) {
			ch := channel(t)
			amqptest.Ask[*amqp.ChannelCloseOk](ch.client, ch.number, &amqp.ChannelClose{})
			ch.client.OpenChannel(ch.number)
			ch.rollback()
			m.giveBack(ch.unacked)
			*ch = modelChannel{client: ch.client, number: ch.number}
		},
		"error": func(t *rapid.T) {
			ch := channel(t)
			ch.client.Ack(ch.number, ch.tag+1, 0)
			amqptest.Expect[*amqp.ChannelClose](ch.client)
			ch.client.Method(ch.number, closeOk)
			ch.client.OpenChannel(ch.number)
			ch.rollback()
			m.giveBack(ch.unacked)
			*ch = modelChannel{client: ch.client, number: ch.number}
		},
		"purge": func(t *rapid.T) {
			ch := channel(t)
			ok := amqptest.Ask[*amqp.QueuePurgeOk](ch.client, ch.number, &amqp.QueuePurge{Queue: []byte(m.queue)})
			if int(ok.MessageCount) != len(m.ready) {
				t.Fatalf("purged %d of %d", ok.MessageCount, len(m.ready))
			}
			m.ready = nil
		},
		"": func(t *rapid.T) {
			c := m.channels[0].client
			ok := amqptest.Ask[*amqp.QueueDeclareOk](c, m.channels[0].number, c.QueueDeclare(m.queue, amqptest.Passive, nil))
			if int(ok.MessageCount) != len(m.ready) {
				t.Fatalf("%d ready, want %d", ok.MessageCount, len(m.ready))
			}
		},
	}
	actions["get another"], actions["get one more"] = actions["get"], actions["get"] // the usual things are usual
	actions["publish more"] = actions["publish"]
	return actions
}
