package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
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
