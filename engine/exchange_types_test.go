package engine_test

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// exchange declares an exchange on channel 1.
func exchange(c *amqptest.Client, name, kind string, f amqptest.Flags, arguments amqp.Table) {
	amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare(name, kind, f, arguments))
}

func bindQueue(c *amqptest.Client, queue, source, key string) {
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(queue, source, key, nil))
}

func bindExchange(c *amqptest.Client, destination, source, key string) {
	amqptest.Ask[*amqp.ExchangeBindOk](c, 1, &amqp.ExchangeBind{
		Destination: []byte(c.Name(destination)), Source: []byte(c.Name(source)), RoutingKey: []byte(key)})
}

// oneRun is one life of a broker on a directory, with one client.
func oneRun(t *testing.T, dir string, use func(c *amqptest.Client)) {
	t.Helper()
	e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	use(c)
	c.Abort() // Stop would wait for an answer
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

// TestAlternateExchange: a message that an exchange has no binding for goes to
// its alternate. Once that takes it, it counts as routed: it is not returned,
// and it is confirmed when the queue has it.
func TestAlternateExchange(t *testing.T) {
	// setup makes $x (direct) -> alternate $y (fanout) -> queue $q.
	setup := func(c *amqptest.Client) {
		exchange(c, "$x", "direct", 0, table("alternate-exchange", c.Name("$y")))
		exchange(c, "$y", "fanout", amqptest.Internal, nil)
		c.Declare("$q", 0)
		bindQueue(c, "$q", "$y", "")
	}
	get := func(c *amqptest.Client, queue string) {
		c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name(queue)), NoAck: true})
	}
	got := func(exchange, key, body string) string {
		return fmt.Sprintf("1 basic.get-ok DeliveryTag=1 Redelivered=false Exchange=%s RoutingKey=%s MessageCount=0 %q", exchange, key, body)
	}
	publish := amqptest.Message{Exchange: "$x", Key: "k", Body: "m", Mandatory: true}
	returned := `1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange=$x RoutingKey=k "m"`
	const ack = "1 basic.ack DeliveryTag=1 Multiple=false"
	runRows(t, start(t), []row{
		{name: "takes what is not bound", do: func(c *amqptest.Client) {
			setup(c)
			c.Publish(1, publish)
			get(c, "$q")
		}, want: []string{got("$x", "k", "m")}},
		{name: "does not take what is bound", do: func(c *amqptest.Client) {
			setup(c)
			c.Declare("$other", 0)
			bindQueue(c, "$other", "$x", "k")
			c.Publish(1, publish)
			get(c, "$q")
			get(c, "$other")
		}, want: []string{"1 basic.get-empty", got("$x", "k", "m")}},
		{name: "confirms", do: func(c *amqptest.Client) {
			setup(c)
			confirmSelect(c)
			c.Publish(1, publish)
		}, want: []string{ack}},
		{name: "missing: return, then confirm", do: func(c *amqptest.Client) {
			exchange(c, "$x", "direct", 0, table("alternate-exchange", "$y"))
			confirmSelect(c)
			c.Publish(1, publish)
		}, want: []string{returned, ack}},
		{name: "nobody takes it there either", do: func(c *amqptest.Client) {
			setup(c)
			amqptest.Ask[*amqp.QueueUnbindOk](c, 1, &amqp.QueueUnbind{Queue: []byte(c.Name("$q")), Exchange: []byte(c.Name("$y"))})
			confirmSelect(c)
			c.Publish(1, publish)
		}, want: []string{returned, ack}},
		{name: "in a transaction", do: func(c *amqptest.Client) {
			setup(c)
			txSelect(c)
			c.Publish(1, publish)
			c.Method(1, &amqp.TxCommit{})
			get(c, "$q")
		}, want: []string{"1 tx.commit-ok", got("$x", "k", "m")}},
		{name: "chain", do: func(c *amqptest.Client) {
			setup(c)
			exchange(c, "$w", "topic", 0, table("alternate-exchange", c.Name("$v")))
			exchange(c, "$v", "headers", 0, table("alternate-exchange", c.Name("$x")))
			m := publish
			m.Exchange = "$w"
			c.Publish(1, m)
			get(c, "$q")
		}, want: []string{got("$w", "k", "m")}},
		{name: "loop", do: func(c *amqptest.Client) {
			exchange(c, "$x", "direct", 0, table("alternate-exchange", c.Name("$y")))
			exchange(c, "$y", "direct", 0, table("alternate-exchange", c.Name("$x")))
			c.Publish(1, publish)
		}, want: []string{returned}},
		{name: "itself", do: func(c *amqptest.Client) {
			exchange(c, "$x", "direct", 0, table("alternate-exchange", c.Name("$x")))
			c.Publish(1, publish)
		}, want: []string{returned}},
		{name: "the default exchange", do: func(c *amqptest.Client) {
			exchange(c, "$x", "direct", 0, table("alternate-exchange", ""))
			c.Declare("$q", 0)
			c.Publish(1, amqptest.Message{Exchange: "$x", Key: "$q", Body: "m", Mandatory: true})
			get(c, "$q")
		}, want: []string{got("$x", "$q", "m")}},
		{name: "of an exchange bound to", do: func(c *amqptest.Client) {
			setup(c)
			exchange(c, "$s", "fanout", 0, nil)
			bindExchange(c, "$x", "$s", "")
			m := publish
			m.Exchange = "$s"
			c.Publish(1, m)
			get(c, "$q")
		}, want: []string{got("$s", "k", "m")}},
		{name: "a queue in reach twice", do: func(c *amqptest.Client) {
			setup(c)
			exchange(c, "$s", "fanout", 0, nil)
			bindExchange(c, "$x", "$s", "")
			bindQueue(c, "$q", "$s", "")
			m := publish
			m.Exchange = "$s"
			c.Publish(1, m)
			get(c, "$q")
		}, want: []string{got("$s", "k", "m")}},
		{name: "not a string", do: func(c *amqptest.Client) {
			c.Method(1, c.ExchangeDeclare("$x", "direct", 0, table("alternate-exchange", 1)))
		}, want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange '$x' in vhost '/'"}},
		{name: "equivalent", do: func(c *amqptest.Client) {
			setup(c)
			c.Method(1, c.ExchangeDeclare("$x", "direct", 0, table("alternate-exchange", c.Name("$y"))))
		}, want: []string{"1 exchange.declare-ok"}},
		{name: "another", do: func(c *amqptest.Client) {
			setup(c)
			c.Method(1, c.ExchangeDeclare("$x", "direct", 0, table("alternate-exchange", "z")))
		}, want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '$x' in vhost '/': received 'z' but current is '$y'"}},
	})
}

// A publisher that repeats a message takes the fast path; the alternate must
// still come and go under it.
func TestAlternateExchange_UnderRepeatedPublishes(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	exchange(c, "x", "direct", 0, table("alternate-exchange", "y"))
	for _, q := range []string{"own", "other"} {
		c.Declare(q, 0)
	}
	publish := func() {
		var raw []byte
		for range 10 {
			raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "x", Key: "k", Body: "m"})
		}
		c.Write(raw)
	}
	want := func(what string, own, other uint32) {
		t.Helper()
		if n := c.Declare("own", amqptest.Passive).MessageCount; n != own {
			t.Errorf("%s: %d messages in own, want %d", what, n, own)
		}
		if n := c.Declare("other", amqptest.Passive).MessageCount; n != other {
			t.Errorf("%s: %d messages in other, want %d", what, n, other)
		}
	}
	publish()
	want("no alternate", 0, 0)
	exchange(c, "y", "fanout", 0, nil)
	bindQueue(c, "other", "y", "")
	publish()
	want("alternate", 0, 10)
	bindQueue(c, "own", "x", "k")
	publish()
	want("own binding", 10, 10)
	amqptest.Ask[*amqp.QueueUnbindOk](c, 1, &amqp.QueueUnbind{Queue: []byte("own"), Exchange: []byte("x"), RoutingKey: []byte("k")})
	publish()
	want("alternate again", 10, 20)
	amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte("y")})
	publish()
	want("alternate deleted", 10, 20)
}

// TestSpreadingExchanges: each message goes to one queue, by the rule of the
// exchange's type, from the fast path as well.
func TestSpreadingExchanges(t *testing.T) {
	t.Parallel()
	const queues, messages = 4, 400
	e := start(t)
	for _, r := range []struct {
		kind      string
		arguments amqp.Table
		message   func(i int) amqptest.Message
		spread    bool // over all queues; else to one
	}{
		{"x-random", nil, func(int) amqptest.Message { return amqptest.Message{Key: "same"} }, true},
		{"x-modulus-hash", nil, func(i int) amqptest.Message { return amqptest.Message{Key: fmt.Sprint("key", i)} }, true},
		{"x-modulus-hash", nil, func(i int) amqptest.Message { return amqptest.Message{Key: "same"} }, false},
		{"x-consistent-hash", nil, func(i int) amqptest.Message { return amqptest.Message{Key: fmt.Sprint("key", i)} }, true},
		{"x-consistent-hash", nil, func(i int) amqptest.Message { return amqptest.Message{Key: "same"} }, false},
		{"x-consistent-hash", table("x-algorithm", "jump"), func(i int) amqptest.Message { return amqptest.Message{Key: fmt.Sprint("key", i)} }, true},
		{"x-consistent-hash", table("hash-header", "customer"), func(i int) amqptest.Message {
			return amqptest.Message{Key: "same", Properties: &amqp.Properties{Flags: amqp.FlagHeaders, Headers: table("customer", i)}}
		}, true},
		{"x-consistent-hash", table("hash-header", "customer"), func(i int) amqptest.Message {
			return amqptest.Message{Key: fmt.Sprint("key", i), Properties: &amqp.Properties{Flags: amqp.FlagHeaders, Headers: table("customer", 5)}}
		}, false},
		{"x-consistent-hash", table("hash-property", "message_id"), func(i int) amqptest.Message {
			return amqptest.Message{Properties: &amqp.Properties{Flags: amqp.FlagMessageID, MessageID: fmt.Append(nil, i)}}
		}, true},
	} {
		c := open(t, e)
		exchange(c, "x", r.kind, amqptest.AutoDelete, r.arguments)
		for q := range queues {
			c.Declare(fmt.Sprint("q", q), amqptest.Exclusive)
			bindQueue(c, fmt.Sprint("q", q), "x", "2")
		}
		confirmSelect(c)
		var raw []byte
		for i := range messages {
			m := r.message(i)
			m.Exchange, m.Body = "x", "m"
			raw = amqptest.AppendPublish(raw, 1, m)
		}
		c.Write(raw)
		for acked := uint64(0); acked < messages; {
			acked = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
		}
		total, used := 0, 0
		for q := range queues {
			n := int(c.Declare(fmt.Sprint("q", q), amqptest.Passive).MessageCount)
			total += n
			if n > 0 {
				used++
			}
			amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: fmt.Append(nil, "q", q)})
		}
		if total != messages || used != map[bool]int{false: 1, true: queues}[r.spread] {
			t.Errorf("%s %v: %d messages in %d queues", r.kind, r.arguments, total, used)
		}
		if r.kind != "x-random" {
			continue
		}
		c.Method(1, c.ExchangeDeclare("x", "", amqptest.Passive, nil)) // it went with its last queue
		c.Want("1 channel.close 404 *")
	}
}

// TestHashExchange_RefusedRequests: the codes and texts.
func TestHashExchange_RefusedRequests(t *testing.T) {
	declare := func(arguments amqp.Table) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.ExchangeDeclare("$x", "x-consistent-hash", 0, arguments)) }
	}
	bind := func(key string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			exchange(c, "$x", "x-consistent-hash", 0, nil)
			c.Declare("$q", 0)
			c.Method(1, c.QueueBind("$q", "$x", key, nil))
		}
	}
	failed := func(ids, text string) []string {
		return []string{"1 channel.close 406 (" + ids + ") PRECONDITION_FAILED - " + text}
	}
	runRows(t, start(t), []row{
		{name: "both", do: declare(table("hash-header", "h", "hash-property", "message_id")), want: failed("40,10", "hash-header and hash-property are mutually exclusive")},
		{name: "property", do: declare(table("hash-property", "user_id")), want: failed("40,10", "Unsupported property: user_id")},
		{name: "key no number", do: bind("k"), want: failed("50,20", `The binding key must be an integer: <<"k">>`)},
		{name: "key empty", do: bind(""), want: failed("50,20", `The binding key must be an integer: <<>>`)},
		{name: "key 0", do: bind("0"), want: failed("50,20", "The binding key must be greater than 0")},
		{name: "key 1", do: bind("1"), want: []string{"1 queue.bind-ok"}},
		{name: "e2e key no number", do: func(c *amqptest.Client) {
			exchange(c, "$x", "x-consistent-hash", 0, nil)
			c.Method(1, &amqp.ExchangeBind{Source: []byte(c.Name("$x")), Destination: []byte("amq.fanout"), RoutingKey: []byte("k")})
		}, want: failed("40,30", `The binding key must be an integer: <<"k">>`)},
	})
}

// Hash exchanges route the same after a restart of the broker.
func TestHashExchange_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	counts := func(c *amqptest.Client) (n [5]uint32) {
		var raw []byte
		for i := range 300 {
			raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "x", Key: fmt.Sprint("key", i), Body: "m"})
		}
		c.Write(raw)
		for q := range n {
			n[q] = amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(fmt.Sprint("q", q), amqptest.Passive, nil)).MessageCount
			amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: fmt.Append(nil, "q", q)})
		}
		return n
	}
	var want, got [5]uint32
	oneRun(t, dir, func(c *amqptest.Client) {
		exchange(c, "x", "x-consistent-hash", amqptest.Durable, nil)
		for q := range 5 {
			c.Declare(fmt.Sprint("q", q), amqptest.Durable)
			bindQueue(c, fmt.Sprint("q", q), "x", fmt.Sprint(1+q))
		}
		want = counts(c)
	})
	oneRun(t, dir, func(c *amqptest.Client) { got = counts(c) })
	if got != want {
		t.Errorf("after a restart %v, before %v", got, want)
	}
}
