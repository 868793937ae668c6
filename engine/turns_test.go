package engine_test

import (
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestConsumer_GlobalPrefetchWhileTheOutputIsFull: what a consumer was given and could
// not be sent yet uses up the credit that it shares with others.
func TestConsumer_GlobalPrefetchWhileTheOutputIsFull(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher, c := open(t, e), open(t, e)
	body := strings.Repeat("x", 100<<10)
	for _, q := range []string{"a", "b"} {
		publisher.Declare(q, 0)
		for range 20 {
			publisher.Publish(1, amqptest.Message{Key: q, Body: body, FrameMax: 128 << 10})
		}
	}
	publisher.Sync(1)
	const limit = 5
	qos(c, limit, true)
	consume := amqp.AppendMethodFrame(nil, 1, c.Consume("a", "a", amqptest.NoWait))
	c.Write(amqp.AppendMethodFrame(consume, 1, c.Consume("b", "b", amqptest.NoWait)))
	for range limit {
		delivery(c)
	}
	for tag := uint64(1); tag <= 40; tag++ {
		c.WantQuiet(1)
		if c.Ack(1, tag, 0); tag+limit <= 40 {
			delivery(c)
		}
	}
}
