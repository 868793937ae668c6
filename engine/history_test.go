package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestRecentHistory: what clients see of an exchange that keeps messages.
func TestRecentHistory(t *testing.T) {
	get := func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name("$q")), NoAck: true}) }
	got := func(tag, left int, body string) string {
		return fmt.Sprintf("1 basic.get-ok DeliveryTag=%d Redelivered=false Exchange=$h RoutingKey=k MessageCount=%d %q", tag, left, body)
	}
	declare := func(c *amqptest.Client) {
		exchange(c, "$h", "x-recent-history", 0, table("x-recent-history-length", 2))
		c.Declare("$q", 0)
	}
	message := func(body string) amqptest.Message { return amqptest.Message{Exchange: "$h", Key: "k", Body: body} }
	mandatory := func(body string) amqptest.Message {
		m := message(body)
		m.Mandatory = true
		return m
	}
	bind := func(c *amqptest.Client) { c.Method(1, c.QueueBind("$q", "$h", "", nil)) }
	const bindOk, empty, ack = "1 queue.bind-ok", "1 basic.get-empty", "1 basic.ack DeliveryTag=1 Multiple=false"
	returned := `1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange=$h RoutingKey=k "a"`
	runRows(t, start(t), []row{
		{name: "a new binding gets the last two", do: func(c *amqptest.Client) {
			declare(c)
			for _, body := range []string{"a", "b", "c"} {
				c.Publish(1, message(body))
			}
			bind(c)
			for range 3 {
				get(c)
			}
		}, want: []string{bindOk, got(1, 1, "b"), got(2, 0, "c"), empty}},
		{name: "everything in one write, in order", do: func(c *amqptest.Client) {
			declare(c)
			h, q := []byte(c.Name("$h")), []byte(c.Name("$q"))
			publish := func(raw []byte, body string) []byte {
				return amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: string(h), Key: "k", Body: body})
			}
			raw := publish(nil, "a")
			raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueBind{Queue: q, Exchange: h, NoWait: true})
			raw = publish(raw, "b")
			raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueUnbind{Queue: q, Exchange: h})
			raw = amqp.AppendMethodFrame(raw, 1, &amqp.QueueBind{Queue: q, Exchange: h, RoutingKey: []byte("again")})
			raw = publish(raw, "c")
			c.Write(raw)
			for range 5 {
				get(c)
			}
		}, want: []string{"1 queue.unbind-ok", bindOk, got(1, 4, "a"), got(2, 3, "b"), got(3, 2, "a"), got(4, 1, "b"), got(5, 0, "c")}},
		{name: "no-store", do: func(c *amqptest.Client) {
			declare(c)
			m := message("secret")
			m.Properties = &amqp.Properties{Flags: amqp.FlagHeaders, Headers: table("x-recent-history-no-store", true)}
			c.Publish(1, m)
			c.Publish(1, message("a"))
			bind(c)
			get(c)
			get(c)
		}, want: []string{bindOk, got(1, 0, "a"), empty}},
		{name: "confirmed when kept", do: func(c *amqptest.Client) {
			declare(c)
			confirmSelect(c)
			c.Publish(1, message("a"))
		}, want: []string{ack}},
		{name: "returned, confirmed, and kept all the same", do: func(c *amqptest.Client) {
			declare(c)
			confirmSelect(c)
			c.Publish(1, mandatory("a"))
			c.Want(returned, ack)
			bind(c)
			get(c)
		}, want: []string{bindOk, got(1, 0, "a")}},
		{name: "mandatory and routed", do: func(c *amqptest.Client) {
			declare(c)
			bind(c)
			c.Want(bindOk)
			confirmSelect(c)
			c.Publish(1, mandatory("a"))
		}, want: []string{ack}},
		{name: "transaction", do: func(c *amqptest.Client) {
			declare(c)
			txSelect(c)
			c.Publish(1, message("lost"))
			c.Method(1, &amqp.TxRollback{})
			c.Publish(1, mandatory("a"))
			c.Method(1, &amqp.TxCommit{})
			bind(c)
			get(c)
			get(c)
		}, want: []string{"1 tx.rollback-ok", returned, "1 tx.commit-ok", bindOk, got(1, 0, "a"), empty}},
		{name: "exchange.bind", do: func(c *amqptest.Client) {
			declare(c)
			exchange(c, "$d", "direct", 0, nil)
			bindQueue(c, "$q", "$d", "k")
			c.Publish(1, message("a"))
			c.Method(1, &amqp.ExchangeBind{Source: []byte(c.Name("$h")), Destination: []byte(c.Name("$d"))})
			get(c)
		}, want: []string{"1 exchange.bind-ok", got(1, 0, "a")}},
		{name: "bind a missing queue", do: func(c *amqptest.Client) {
			declare(c)
			c.Method(1, c.QueueBind("$none", "$h", "", nil))
		}, want: []string{"1 channel.close 404 (50,20) NOT_FOUND - no queue '$none' in vhost '/'"}},
		{name: "bind to a missing exchange", do: func(c *amqptest.Client) {
			declare(c)
			c.Method(1, &amqp.ExchangeBind{Source: []byte(c.Name("$h")), Destination: []byte(c.Name("$none"))})
		}, want: []string{"1 channel.close 404 (40,30) NOT_FOUND - no exchange '$none' in vhost '/'"}},
		{name: "length", do: func(c *amqptest.Client) {
			c.Method(1, c.ExchangeDeclare("$h", "x-recent-history", 0, table("x-recent-history-length", 0)))
		}, want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - Invalid argument, 'x-recent-history-length' must be a positive integer"}},
		{name: "goes with its last binding", do: func(c *amqptest.Client) {
			exchange(c, "$h", "x-recent-history", amqptest.AutoDelete, nil)
			c.Declare("$q", 0)
			c.Publish(1, message("a"))
			bind(c)
			c.Want(bindOk)
			c.Method(1, &amqp.QueueDelete{Queue: []byte(c.Name("$q"))})
			c.Method(1, c.ExchangeDeclare("$h", "", amqptest.Passive, nil))
		}, want: []string{"1 queue.delete-ok MessageCount=1", "1 channel.close 404 *"}},
	})
}

// A history of ordinary and of large messages outlives the broker, the
// publishers' queue and the messages' other owners; then it comes from disk.
func TestRecentHistory_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(use func(c *amqptest.Client)) { oneRun(t, dir, use) }
	body := func(i int) string {
		switch {
		case i%5 == 4:
			return largeBody(i)
		case i%5 == 3:
			return strings.Repeat(fmt.Sprint(i, "-"), 30_000)
		}
		return fmt.Sprint("small", i)
	}
	const total, kept = 30, 12
	run(func(c *amqptest.Client) {
		exchange(c, "h", "x-recent-history", amqptest.Durable, table("x-recent-history-length", kept))
		c.Declare("passing", amqptest.Durable)
		bindQueue(c, "passing", "h", "")
		confirmSelect(c)
		for i := range total {
			c.Publish(1, amqptest.Message{Exchange: "h", Key: "k", Body: body(i), Persistent: true, FrameMax: 131072})
		}
		for acked := uint64(0); acked < total; {
			acked = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
		}
		amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("passing")})
		wantFiles(t, dir, 3, 0) // the history's: three of twelve are large
	})
	for round := range 2 {
		run(func(c *amqptest.Client) {
			c.Declare("q", amqptest.Durable)
			bindQueue(c, "q", "h", fmt.Sprint(round))
			c.Subscribe(1, "q", "t", amqptest.NoAck)
			for i := total - kept; i < total; i++ {
				if _, got := delivery(c); got != body(i) {
					t.Fatalf("round %d: instead of message %d came %.20q (%d bytes)", round, i, got, len(got))
				}
			}
			amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("q")})
			c.Want("1 basic.cancel *")
			wantFiles(t, dir, 3, 0)
		})
	}
	run(func(c *amqptest.Client) {
		amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte("h")})
		wantFiles(t, dir, 0, 0)
	})
}

// Connections that end, and a broker that stops, while a history is on its way.
func TestRecentHistory_Interrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setup := func() *engine.Engine {
		e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 1})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := setup()
	c := open(t, e)
	exchange(c, "h", "x-recent-history", amqptest.Durable, table("x-recent-history-length", 5000))
	var raw []byte
	for i := range 5000 {
		raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "h", Key: fmt.Sprint(i), Body: strings.Repeat("x", 1000), Persistent: true})
	}
	c.Write(raw)
	c.Sync(1)
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = setup()
	for i := range 5 {
		c := open(t, e)
		c.Declare(fmt.Sprint("q", i), amqptest.Exclusive)
		c.Method(1, c.QueueBind(fmt.Sprint("q", i), "h", "", nil))
		c.Abort()
	}
	eventually(t, "all connections are gone", func() bool { return e.Connections() == 0 })
	c = open(t, e)
	c.Declare("q", amqptest.Durable)
	c.Method(1, c.QueueBind("q", "h", "", nil))
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestRecentHistory_Expiration: what a history brings a new binding expires there,
// though nobody consumes.
func TestRecentHistory_Expiration(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	exchange(c, "h", "x-recent-history", 0, nil)
	declareWith(c, "q", amqptest.Durable, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	c.Declare("dead", 0)
	p := amqp.Properties{Flags: amqp.FlagExpiration, Expiration: []byte("1")}
	c.Publish(1, amqptest.Message{Exchange: "h", Body: "m", Properties: &p})
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("q", "h", "", nil))
	if got := getSoon(t, c, "dead"); string(got.Body) != "m" {
		t.Fatalf("got %s", got)
	}
}
