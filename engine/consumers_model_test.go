package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// consumersModel is a queue with a single active consumer beside the broker's:
// so it is determined who gets what, whatever the others do with the messages
// they still hold.
type consumersModel struct {
	queue    string
	ready    []modelMessage // by position
	next     int
	channels []*consumingChannel
	waiting  []*consumingChannel // consumers in the order in which they came; the first is active
}

type consumingChannel struct {
	client   *amqptest.Client
	prefetch int
	tag      uint64
	unacked  []modelDelivery
	from     uint64 // first tag of the present consumer: what earlier ones hold does not count in its prefetch
	on       bool
}

func (m *consumersModel) giveBack(deliveries []modelDelivery) {
	for _, d := range deliveries {
		d.message.redelivered = true
		m.ready = append(m.ready, d.message)
	}
	slices.SortFunc(m.ready, func(a, b modelMessage) int { return a.position - b.position })
}

// deliver reads what the active consumer must get now, and nothing else.
func (m *consumersModel) deliver(t *rapid.T) {
	if len(m.waiting) > 0 {
		ch := m.waiting[0]
		for len(m.ready) > 0 {
			used := 0
			for _, d := range ch.unacked {
				if d.tag >= ch.from {
					used++
				}
			}
			if used == ch.prefetch {
				break
			}
			want := m.ready[0]
			m.ready = m.ready[1:]
			ch.tag++
			got := amqptest.Expect[*amqp.BasicDeliver](ch.client)
			d := got.Method.(*amqp.BasicDeliver)
			if string(got.Body) != want.body || d.DeliveryTag != ch.tag || d.Redelivered != want.redelivered {
				t.Fatalf("got %s, want tag %d %q redelivered %v", got, ch.tag, want.body, want.redelivered)
			}
			ch.unacked = append(ch.unacked, modelDelivery{tag: ch.tag, message: want})
		}
	}
	for _, ch := range m.channels {
		ch.client.WantQuiet(1)
	}
}

func (m *consumersModel) publish(t *rapid.T) {
	var bodies []string
	for range rapid.IntRange(1, 4).Draw(t, "count") {
		bodies = append(bodies, fmt.Sprint("m", m.next))
		m.ready = append(m.ready, modelMessage{position: m.next, body: bodies[len(bodies)-1]})
		m.next++
	}
	m.channels[0].client.PublishAll(1, m.queue, bodies...)
}

func (m *consumersModel) consume(t *rapid.T) {
	ch := rapid.SampledFrom(m.channels).Draw(t, "channel")
	if ch.on {
		return
	}
	c := ch.client
	ch.prefetch = rapid.IntRange(1, 5).Draw(t, "prefetch")
	qos(c, uint16(ch.prefetch), false)
	c.Subscribe(1, m.queue, "t", 0)
	ch.on, ch.from = true, ch.tag+1
	m.waiting = append(m.waiting, ch)
}

func (m *consumersModel) stopped(ch *consumingChannel) {
	ch.on = false
	m.waiting = slices.DeleteFunc(m.waiting, func(o *consumingChannel) bool { return o == ch })
}

func (m *consumersModel) cancel(t *rapid.T) {
	ch := rapid.SampledFrom(m.channels).Draw(t, "channel")
	amqptest.Ask[*amqp.BasicCancelOk](ch.client, 1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
	m.stopped(ch)
}

// conclude acknowledges, rejects or requeues one or several.
func (m *consumersModel) conclude(t *rapid.T) {
	ch := rapid.SampledFrom(m.channels).Draw(t, "channel")
	if len(ch.unacked) == 0 {
		return
	}
	i := rapid.IntRange(0, len(ch.unacked)-1).Draw(t, "which")
	tag := ch.unacked[i].tag
	taken := ch.unacked[i : i+1]
	flags := amqptest.Flags(0)
	how := rapid.SampledFrom([]string{"ack", "nack", "requeue", "reject", "reject and requeue"}).Draw(t, "how")
	if how[:3] != "rej" && rapid.Bool().Draw(t, "multiple") {
		flags |= amqptest.Multiple
		taken = ch.unacked[:i+1]
	}
	taken = slices.Clone(taken)
	ch.unacked = slices.DeleteFunc(ch.unacked, func(d modelDelivery) bool {
		return slices.ContainsFunc(taken, func(o modelDelivery) bool { return o.tag == d.tag })
	})
	c := ch.client
	switch how {
	case "ack":
		c.Ack(1, tag, flags)
		return
	case "nack":
		c.Nack(1, tag, flags)
		return
	case "requeue":
		c.Nack(1, tag, flags|amqptest.Requeue)
	default:
		c.Method(1, &amqp.BasicReject{DeliveryTag: tag, Requeue: how != "reject"})
		if how == "reject" {
			return
		}
	}
	m.giveBack(taken)
}

func (m *consumersModel) recover(t *rapid.T) {
	ch := rapid.SampledFrom(m.channels).Draw(t, "channel")
	m.giveBack(ch.unacked)
	ch.unacked = nil
	ch.client.Method(1, &amqp.BasicRecover{Requeue: true})
	// The answer comes before what the channel gets again.
	amqptest.Expect[*amqp.BasicRecoverOk](ch.client)
}

func (m *consumersModel) close(t *rapid.T) {
	ch := rapid.SampledFrom(m.channels).Draw(t, "channel")
	c := ch.client
	amqptest.Ask[*amqp.ChannelCloseOk](c, 1, &amqp.ChannelClose{})
	c.OpenChannel(1)
	m.giveBack(ch.unacked)
	ch.unacked, ch.tag = nil, 0
	m.stopped(ch)
}

// TestConsumers_Model: what comes back goes to its original place, all of it
// before anybody gets the next message; the active consumer gets the messages
// in order, up to its prefetch and no further, from its first delivery to its
// last.
func TestConsumers_Model(t *testing.T) {
	t.Parallel()
	e := start(t)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		m := &consumersModel{queue: fmt.Sprint("q", number)}
		for range 3 {
			c := open(t, e)
			defer c.Abort()
			m.channels = append(m.channels, &consumingChannel{client: c})
		}
		first := m.channels[0].client
		declareWith(first, m.queue, 0, "x-single-active-consumer", true)
		rt.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "publish2": m.publish, "consume": m.consume, "consume2": m.consume, "cancel": m.cancel,
			"conclude": m.conclude, "conclude2": m.conclude, "conclude3": m.conclude, "recover": m.recover, "close": m.close,
			"": m.deliver,
		})
	})
}
