package engine_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestPressure_SlowConsumer: a consumer that never reads holds nobody up, and
// what waits for it is bounded: messages stay in their queue.
func TestPressure_SlowConsumer(t *testing.T) {
	t.Parallel()
	e := start(t, func(c *engine.Config) { c.Loops = 1 })
	slow, healthy, publisher := open(t, e), open(t, e), open(t, e)
	publisher.Declare("slow", amqptest.Durable)
	publisher.Declare("shared", 0)
	publisher.Declare("healthy", 0)
	slow.Subscribe(1, "slow", "t", amqptest.NoAck)
	slow.Method(1, slow.Consume("shared", "s", amqptest.NoAck))
	amqptest.Expect[*amqp.BasicConsumeOk](slow)
	confirmSelect(publisher)
	healthy.Subscribe(1, "healthy", "t", amqptest.NoAck)
	const rounds, perRound = 40, 100
	body := strings.Repeat("x", 10_000)
	for round := range rounds {
		var raw []byte
		for range perRound { // 1 MB a round, for the slow one
			raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "slow", Body: body, FrameMax: 131072})
		}
		raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "healthy", Body: fmt.Sprint(round)})
		publisher.Write(raw)
		if _, got := delivery(healthy); got != fmt.Sprint(round) {
			t.Fatalf("round %d: %s", round, got)
		}
		for acked := uint64(round * (perRound + 1)); acked < uint64((round+1)*(perRound+1)); {
			acked = amqptest.Expect[*amqp.BasicAck](publisher).Method.(*amqp.BasicAck).DeliveryTag
		}
	}
	// A second consumer of the shared queue gets what the slow one cannot take.
	healthy.Subscribe(1, "shared", "s", amqptest.NoAck)
	publisher.PublishAll(1, "shared", "to any")
	if d, got := delivery(healthy); string(d.ConsumerTag) != "s" || got != "to any" {
		t.Fatalf("%s to %s", got, d.ConsumerTag)
	}
	memoryBelow(t, e, 16<<20)
	// The slow one wakes up: nothing is lost, nothing out of order.
	for tag := uint64(1); tag <= rounds*perRound; tag++ {
		if d, got := delivery(slow); d.DeliveryTag != tag || len(got) != len(body) {
			t.Fatalf("tag %d: %d bytes, want tag %d", d.DeliveryTag, len(got), tag)
		}
	}
	memoryBelow(t, e, 2<<20)
}

// TestPressure_RequestsWithoutReading: a peer that sends requests and never
// reads the answers is not read from any more, so that nothing piles up. Not in
// parallel to others: the heap is the process's.
func TestPressure_RequestsWithoutReading(t *testing.T) {
	e := start(t)
	watcher := open(t, e)
	watcher.Declare("q", 0)
	watcher.PublishAll(1, "q", strings.Repeat("x", 3000))
	watcher.Publish(1, amqptest.Message{Key: "q", Body: strings.Repeat("y", 600_000), FrameMax: 131072})
	watcher.Sync(1)
	for _, r := range []struct {
		name string
		m    amqp.Method
		wait bool // for this answer per request, in the end
	}{
		{"declares", &amqp.QueueDeclare{Queue: []byte("q"), Passive: true}, true},
		{"gets and recovers", nil, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := open(t, e)
			var burst []byte
			const perBurst = 1000
			for range perBurst {
				if r.m != nil {
					burst = amqp.AppendMethodFrame(burst, 1, r.m)
					continue
				}
				burst = amqp.AppendMethodFrame(burst, 1, &amqp.BasicGet{Queue: []byte("q")})
				burst = amqp.AppendMethodFrame(burst, 1, &amqp.BasicGet{Queue: []byte("q")})
				burst = amqp.AppendMethodFrame(burst, 1, &amqp.BasicRecoverAsync{Requeue: true})
			}
			sent := 0
			for { // until the broker reads no more
				_ = c.Socket.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
				n, err := c.Socket.Write(burst)
				sent += n
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if sent > 1<<30 {
					t.Fatal("the broker reads and reads")
				}
			}
			memoryBelow(t, e, 8<<20)
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			if memory.HeapAlloc > 64<<20 {
				t.Errorf("%d bytes of heap in use", memory.HeapAlloc)
			}
			watcher.WantQuiet(1)
			if !r.wait {
				return // the connection is dropped with everything under way
			}
			whole := sent / (len(burst) / perBurst)
			for range whole {
				amqptest.Expect[*amqp.QueueDeclareOk](c)
			}
		})
	}
	memoryBelow(t, e, 3<<20)
	eventually(t, "the messages are back", func() bool {
		return amqptest.Ask[*amqp.QueueDeclareOk](watcher, 1, watcher.QueueDeclare("q", amqptest.Passive, nil)).MessageCount == 2
	})
}
