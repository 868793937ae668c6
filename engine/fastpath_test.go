package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A publish that goes nowhere used to leave the fast path in place, prepared
// for the publish before it, but with the route of the one that went nowhere:
// what followed and repeated the earlier one was lost.
func TestPublishAfterAnUnroutableOneGoesWhereItShould(t *testing.T) {
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{})
	c.Declare("q", 0)
	routed, lost := amqptest.Message{Key: "q", Body: "m"}, amqptest.Message{Key: "nowhere", Body: "m"}
	var raw []byte
	for _, m := range []amqptest.Message{routed, lost, routed, routed, lost, routed} {
		raw = amqptest.AppendPublish(raw, 1, m)
	}
	c.Write(raw)
	c.Sync(1)
	if n := c.Declare("q", amqptest.Passive).MessageCount; n != 4 {
		t.Fatalf("%d of 4 messages arrived", n)
	}
}

// The fast path used to be checked against the topology once per receive
// buffer: a binding changed without waiting for the answer did not count for
// the equal publishes behind it in the same buffer.
func TestPublishRightAfterABindingChangedGoesTheNewWay(t *testing.T) {
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{})
	c.Declare("first", 0)
	c.Declare("second", 0)
	publish := amqptest.Message{Exchange: "amq.direct", Key: "k", Body: "m"}
	var raw []byte
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueBind{Queue: []byte("first"), Exchange: []byte("amq.direct"), RoutingKey: []byte("k"), NoWait: true})
	raw = amqptest.AppendPublish(raw, 1, publish)
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueBind{Queue: []byte("second"), Exchange: []byte("amq.direct"), RoutingKey: []byte("k"), NoWait: true})
	raw = amqptest.AppendPublish(raw, 1, publish)
	raw = amqptest.AppendPublish(raw, 1, publish)
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueDelete{Queue: []byte("first"), NoWait: true})
	raw = amqptest.AppendPublish(raw, 1, publish)
	c.Write(raw)
	c.Sync(1)
	if n := c.Declare("second", amqptest.Passive).MessageCount; n != 3 {
		t.Errorf("%d of 3 messages went to the queue bound in their midst", n)
	}
	raw = amqptest.AppendPublish(raw[:0], 1, publish)
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueUnbind{Queue: []byte("second"), Exchange: []byte("amq.direct"), RoutingKey: []byte("k")})
	raw = amqptest.AppendPublish(raw, 1, publish)
	c.Write(raw)
	amqptest.Expect[*amqp.QueueUnbindOk](c)
	c.Sync(1)
	if n := c.Declare("second", amqptest.Passive).MessageCount; n != 4 {
		t.Errorf("%d messages are in the queue, expected the 4 from before its unbinding", n)
	}
}

// Each channel repeats its own publishes, with its own route, also when several
// take turns within one receive buffer: not those of another channel, nor what it
// sent before its route, its transaction or itself changed.
func TestChannelsThatTakeTurnsRepeatTheirOwnPublishes(t *testing.T) {
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{})
	for _, name := range []string{"one", "two", "three"} {
		c.Declare(name, 0)
	}
	c.Method(2, &amqp.ChannelOpen{})
	amqptest.Expect[*amqp.ChannelOpenOk](c)
	c.Method(3, &amqp.ChannelOpen{})
	amqptest.Expect[*amqp.ChannelOpenOk](c)
	var raw []byte
	want := map[string]string{}
	publish := func(channel uint16, key, body string, persistent bool) {
		raw = amqptest.AppendPublish(raw, channel, amqptest.Message{Key: key, Body: body, Persistent: persistent})
		want[key] += body
	}
	for range 3 { // the first publish of a channel is learned, later ones are recalled
		publish(1, "one", "a", false)
		publish(1, "one", "b", false)
		publish(2, "two", "c", true)
		publish(3, "three", "d", false)
		publish(3, "three", "", false)
		publish(3, "three", "e", true)
	}
	publish(2, "one", "f", true)
	publish(1, "one", "g", false)
	publish(2, "two", "h", true)
	publish(2, "nowhere", "i", true)
	publish(1, "one", "j", false)
	publish(2, "two", "k", true)
	raw = amqp.AppendMethodFrame(raw, 2, &amqp.ChannelClose{})
	publish(1, "one", "l", false)
	raw = amqp.AppendMethodFrame(raw, 2, &amqp.ChannelOpen{})
	publish(2, "two", "m", true)
	raw = amqp.AppendMethodFrame(raw, 3, &amqp.TxSelect{})
	publish(1, "one", "n", false)
	kept := want["three"]
	publish(3, "three", "staged", true)
	want["three"] = kept
	publish(1, "one", "o", false)
	c.Write(raw)
	amqptest.Expect[*amqp.ChannelCloseOk](c)
	amqptest.Expect[*amqp.ChannelOpenOk](c)
	amqptest.Expect[*amqp.TxSelectOk](c)
	c.Sync(1)
	for _, name := range []string{"one", "two", "three"} {
		got := ""
		for n := c.Declare(name, amqptest.Passive).MessageCount; n > 0; n-- {
			c.Method(1, &amqp.BasicGet{Queue: []byte(name), NoAck: true})
			got += string(c.Read().Body)
		}
		if got != want[name] {
			t.Errorf("queue %s has %q, want %q", name, got, want[name])
		}
	}
}
