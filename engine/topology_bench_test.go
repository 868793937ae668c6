package engine_test

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// pipelineBindings sends count queue.bind requests at once and reads the answers.
func pipelineBindings(c *amqptest.Client, round, count int) {
	done := make(chan error, 1)
	go func() {
		var raw []byte
		for i := range count {
			raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueBind{
				Queue: fmt.Append(nil, "q", i%100), Exchange: []byte("x"), RoutingKey: fmt.Appendf(nil, "region%d.device%d.*", round, i)})
			if len(raw) > 64<<10 || i == count-1 {
				if err := c.Send(raw); err != nil {
					done <- err
					return
				}
				raw = raw[:0]
			}
		}
		done <- nil
	}()
	for range count {
		amqptest.Expect[*amqp.QueueBindOk](c)
	}
	if err := <-done; err != nil {
		panic(err)
	}
}

func bindingsClient(t testing.TB, f amqptest.Flags) *amqptest.Client {
	c := open(t, start(t))
	exchange(c, "x", "topic", f, nil)
	for i := range 100 {
		c.Declare(fmt.Sprint("q", i), f)
	}
	return c
}

// TestPipelinedBindings is the benchmark's small size.
func TestPipelinedBindings(t *testing.T) {
	t.Parallel()
	c := bindingsClient(t, amqptest.Durable)
	pipelineBindings(c, 0, 1000)
	c.Publish(1, amqptest.Message{Exchange: "x", Key: "region0.device777.temperature", Body: "m"})
	if m, ok := c.Get(1, "q77", amqptest.NoAck).Method.(*amqp.BasicGetOk); !ok || string(m.Exchange) != "x" {
		t.Errorf("q77 has nothing: %v", m)
	}
}

// BenchmarkBindingsOverTheWire: bindings a second of one client that does not
// wait for each answer; the durable ones are synced before they are answered.
func BenchmarkBindingsOverTheWire(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(fmt.Sprint("durable=", durable), func(b *testing.B) {
			f := amqptest.Flags(0)
			if durable {
				f = amqptest.Durable
			}
			c := bindingsClient(b, f)
			round := 0
			const count = 10_000
			for b.Loop() {
				round++
				pipelineBindings(c, round, count)
			}
			b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "bindings/s")
			c.Abort()
		})
	}
}
