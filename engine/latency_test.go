package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestLatencies: a publish whose confirm is waited for is timed, and so is one
// message of each run that a consumer takes; what is redelivered is not.
func TestLatencies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "priority", "limited"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			c := open(t, e)
			declareKind(c, "q", kind)
			amqptest.Ask[*wire.ConfirmSelectOk](c, 1, &wire.ConfirmSelect{})
			for i := range 3 {
				c.Publish(1, amqptest.Message{Key: "q", Body: "x", Persistent: true})
				if ack := amqptest.Expect[*wire.BasicAck](c); ack.Method.(*wire.BasicAck).DeliveryTag != uint64(i+1) {
					t.Fatal(ack)
				}
			}
			if confirm, delivery := e.AMQP().Latencies(); confirm.Count() != 3 || confirm.Sum == 0 || delivery.Count() != 0 {
				t.Errorf("%d confirms in %d ns, %d deliveries", confirm.Count(), confirm.Sum, delivery.Count())
			}
			c.Subscribe(1, "q", "t", 0)
			for range 3 {
				amqptest.Expect[*wire.BasicDeliver](c)
			}
			runs := func() uint64 { _, delivery := e.AMQP().Latencies(); return delivery.Count() }
			if n := runs(); n < 1 || n > 3 {
				t.Errorf("%d deliveries timed of one run or several", n)
			}
			before := runs()
			for i := range uint64(3) { // to a consumer that waits, one at a time
				c.Publish(1, amqptest.Message{Key: "q", Body: "y"})
				c.Read()
				c.Read() // the delivery and the confirm, in any order
				if n := runs(); n != before+i+1 {
					t.Fatalf("%d deliveries timed, want %d", n, before+i+1)
				}
			}
			before = runs()
			c.Nack(1, 0, amqptest.Multiple|amqptest.Requeue)
			for range 6 {
				amqptest.Expect[*wire.BasicDeliver](c)
			}
			if n := runs(); n != before {
				t.Errorf("%d redeliveries were timed", n-before)
			}
		})
	}
}
