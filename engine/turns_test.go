package engine_test

import (
	"strings"
	"sync"
	"sync/atomic"
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

// TestTurns_ShareWithoutCredit: who cannot send keeps its share, but not when an
// operator takes away the credit for it: others get the messages.
func TestTurns_ShareWithoutCredit(t *testing.T) {
	t.Parallel()
	const messages = 400
	e := start(t)
	stuck := open(t, e)
	connections, err := e.AMQP().Connections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publisher, other := open(t, e), open(t, e)
	publisher.Declare("q", 0)
	qos(stuck, messages, false)
	stuck.Subscribe(1, "q", "t", 0)
	other.Subscribe(1, "q", "t", amqptest.NoAck)
	body := strings.Repeat("x", 100<<10)
	for range messages {
		publisher.Publish(1, amqptest.Message{Key: "q", Body: body, FrameMax: 128 << 10})
	}
	publisher.Sync(1)
	q := e.Broker().VHost("/").FindQueue("q")
	var got, kept atomic.Int32
	count := func(c *amqptest.Client, n *atomic.Int32) {
		for {
			event, err := c.Next()
			if err != nil {
				return // aborted at the end
			}
			if event.Content {
				n.Add(1)
			}
		}
	}
	var group sync.WaitGroup
	defer func() {
		stuck.Abort()
		other.Abort()
		group.Wait()
	}()
	group.Go(func() { count(other, &got) })
	eventually(t, "the other one gets what is not dealt", func() bool {
		n := q.Counts()
		return n.Ready == 0 && n.Unacked+uint64(got.Load()) == messages
	})
	found, err := e.AMQP().SetPrefetch(t.Context(), connections[0].Name, 1, 1)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	group.Go(func() { count(stuck, &kept) })
	eventually(t, "the other one gets the rest", func() bool {
		return got.Load()+kept.Load() == messages && q.Counts().Unacked == uint64(kept.Load())
	})
}
