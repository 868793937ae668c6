package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// far is a delay that does not end while a test runs, in ms.
const far = 1 << 30

// delayed is a message with the header x-delay.
func delayed(body string, ms int) amqptest.Message {
	return amqptest.Message{Exchange: "$d", Key: "k", Body: body, Properties: &amqp.Properties{
		Flags: amqp.FlagHeaders | amqp.FlagDeliveryMode, DeliveryMode: 2, Headers: table("x-delay", ms),
	}}
}

// TestDelayedExchange: what clients see of an exchange that delays messages.
func TestDelayedExchange(t *testing.T) {
	declare := func(c *amqptest.Client) {
		exchange(c, "$d", "x-delayed-message", 0, table("x-delayed-type", "direct"))
		c.Declare("$q", 0)
		bindQueue(c, "$q", "$d", "k")
	}
	consume := func(c *amqptest.Client) {
		c.Method(1, &amqp.BasicConsume{Queue: []byte(c.Name("$q")), ConsumerTag: []byte("c"), NoAck: true})
		c.Want("1 basic.consume-ok ConsumerTag=c")
	}
	deliver := func(tag int, body string) string {
		return fmt.Sprintf("1 basic.deliver ConsumerTag=c DeliveryTag=%d Redelivered=false Exchange=$d RoutingKey=k %q", tag, body)
	}
	const ack = "1 basic.ack DeliveryTag=1 Multiple=false"
	runRows(t, start(t), []row{
		{name: "in order of time, each on its own", do: func(c *amqptest.Client) {
			declare(c)
			consume(c)
			var raw []byte // in one write, so that their time counts from the same moment
			for _, m := range []amqptest.Message{delayed("c", 60), delayed("b", 30), delayed("a", 0)} {
				m.Exchange = c.Name(m.Exchange)
				raw = amqptest.AppendPublish(raw, 1, m)
			}
			c.Write(raw)
		}, want: []string{deliver(1, "a"), deliver(2, "b"), deliver(3, "c")}},
		{name: "confirmed when kept, not returned", do: func(c *amqptest.Client) {
			declare(c)
			confirmSelect(c)
			m := delayed("m", far)
			m.Key, m.Mandatory = "nowhere", true
			c.Publish(1, m)
		}, want: []string{ack}},
		{name: "transaction", do: func(c *amqptest.Client) {
			declare(c)
			consume(c)
			txSelect(c)
			c.Publish(1, delayed("lost", 1))
			c.Method(1, &amqp.TxRollback{})
			c.Publish(1, delayed("b", 20))
			c.Publish(1, delayed("a", 0))
			c.Method(1, &amqp.TxCommit{})
			c.Want("1 tx.rollback-ok")
		}, want: []string{"1 tx.commit-ok", deliver(1, "a"), deliver(2, "b")}},
		{name: "a large body", do: func(c *amqptest.Client) {
			declare(c)
			consume(c)
			m := delayed(strings.Repeat("x", 2<<20), 20)
			m.FrameMax = 131072
			c.Publish(1, m)
		}, want: []string{deliver(1, strings.Repeat("x", 2<<20))}},
		{name: "BCC", do: func(c *amqptest.Client) {
			declare(c)
			consume(c)
			m := delayed("m", 20)
			m.Key = "another"
			b := amqp.NewTableBuilder(m.Properties.Headers)
			b.SetValue("BCC", amqp.ArrayValue(amqp.ArrayOf(amqp.String("k"))))
			m.Properties.Headers = b.Table()
			c.Publish(1, m)
		}, want: []string{`1 basic.deliver ConsumerTag=c DeliveryTag=1 Redelivered=false Exchange=$d RoutingKey=another "m"`}},
		{name: "unknown inner type", do: func(c *amqptest.Client) {
			c.Method(1, c.ExchangeDeclare("$d", "x-delayed-message", 0, nil))
		}, want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"}},
	})
}

// A schedule survives the stop of the broker: what became due meanwhile comes at
// once, in order, and what is not yet due is kept, large bodies too.
func TestDelayedExchange_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	oneRun(t, dir, func(c *amqptest.Client) {
		exchange(c, "d", "x-delayed-message", amqptest.Durable, table("x-delayed-type", "fanout"))
		c.Declare("q", amqptest.Durable)
		bindQueue(c, "q", "d", "")
		confirmSelect(c)
		for i, m := range []amqptest.Message{delayed("third", 3), delayed("first", 1), delayed("second", 2), delayed(largeBody(1), far)} {
			m.Exchange, m.FrameMax = "d", 131072
			c.Publish(1, m)
			for acked := uint64(0); acked < uint64(i+1); {
				acked = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
			}
		}
	})
	oneRun(t, dir, func(c *amqptest.Client) {
		c.Subscribe(1, "q", "t", amqptest.NoAck)
		seen := map[string]bool{}
		for range 3 {
			_, body := delivery(c)
			seen[body] = true
		}
		if !seen["first"] || !seen["second"] || !seen["third"] {
			t.Fatalf("%v", seen)
		}
		wantFiles(t, dir, 1, 0)
		amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte("d")})
		wantFiles(t, dir, 0, 0)
	})
}
