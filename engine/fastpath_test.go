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
