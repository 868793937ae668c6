package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// identified is a persistent message with a value to be told apart by; "" is one
// without.
func identified(exchange, id string) amqptest.Message {
	p := &amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	if id != "" {
		p.Flags |= amqp.FlagHeaders
		p.Headers = table("x-deduplication-header", id)
	}
	return amqptest.Message{Exchange: exchange, Body: id, Properties: p}
}

// dedupExchange declares a fanout that deduplicates, with the queues bound to it.
func dedupExchange(c *amqptest.Client, f amqptest.Flags, queues []string, pairs ...any) {
	pairs = append([]any{"x-message-deduplication", true}, pairs...)
	amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("x", "fanout", f, table(pairs...)))
	for _, q := range queues {
		c.Declare(q, f)
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "x", "", nil))
	}
}

// ackedTo waits for the confirm of a channel's first n publishes.
func ackedTo(c *amqptest.Client, n uint64) {
	for last := uint64(0); last < n; {
		last = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
	}
}

// outcomes reads the confirms of publishes from the number first to last: "+" or
// "-" for each.
func outcomes(c *amqptest.Client, first, last uint64) (all string) {
	for first <= last {
		switch m := c.Read().Method.(type) {
		case *amqp.BasicAck:
			all += strings.Repeat("+", int(m.DeliveryTag-first+1))
			first = m.DeliveryTag + 1
		case *amqp.BasicNack:
			all += strings.Repeat("-", int(m.DeliveryTag-first+1))
			first = m.DeliveryTag + 1
		}
	}
	return all
}

// startOnce runs a broker that the test stops.
func startOnce(t *testing.T, dir string) (e *engine.Engine, stop func()) {
	t.Helper()
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 2, IO: os.Getenv(ioVariable)})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			if err := e.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return e, stop
}

func wantDrained(t *testing.T, c *amqptest.Client, queue string, want ...string) {
	t.Helper()
	if got := drain(c, queue); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", queue, got, want)
	}
}

// An exchange takes each value once, whatever way it comes, and remembers it
// through a restart.
func TestExchangeDedup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, stop := startOnce(t, dir)
	c := open(t, e)
	dedupExchange(c, amqptest.Durable, []string{"q1", "q2"}, "x-cache-size", 4)
	confirmSelect(c)
	var raw []byte
	for _, id := range []string{"a", "b", "a", "", "", "b", "b", "b", "c"} {
		raw = amqptest.AppendPublish(raw, 1, identified("x", id))
	}
	c.Write(raw)
	ackedTo(c, 9)
	for _, q := range []string{"q1", "q2"} {
		wantDrained(t, c, q, "a", "b", "", "", "c")
	}
	// Duplicates have been taken, but go nowhere.
	m := identified("x", "a")
	m.Mandatory = true
	for range 2 {
		c.Publish(1, m)
		c.Want(`1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange=x RoutingKey= "a"`)
		amqptest.Expect[*amqp.BasicAck](c)
	}
	m.Properties = identified("x", "d").Properties
	c.Publish(1, m)
	amqptest.Expect[*amqp.BasicAck](c)
	c.Publish(1, m)
	if got := c.Read(); !got.Content {
		t.Fatal(got)
	}
	amqptest.Expect[*amqp.BasicAck](c)
	wantDrained(t, c, "q1", "a")
	drain(c, "q2")
	c.Abort()
	stop()

	e = startIn(t, dir)
	c = open(t, e)
	for _, id := range []string{"a", "b", "c", "d", "e", "a", "b"} { // a goes for e, and then b for a
		c.Publish(1, identified("x", id))
		c.Sync(1)
	}
	wantDrained(t, c, "q1", "e", "a", "b")
	// With the exchange its values go.
	amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte("x")})
	dedupExchange(c, amqptest.Durable, []string{"q1"})
	c.Publish(1, identified("x", "e"))
	wantDrained(t, c, "q1", "e")
}

// A duplicate is confirmed at once, also when nothing is left to be made durable:
// after a restart nobody else may be publishing.
func TestQueueDedup_DuplicateIsConfirmedAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, stop := startOnce(t, dir)
	publish := func(e *engine.Engine) (c *amqptest.Client) {
		c = open(t, e)
		confirmSelect(c)
		m := identified("", "a")
		m.Key = "q"
		c.Publish(1, m)
		ackedTo(c, 1)
		return c
	}
	declareWith(open(t, e), "q", amqptest.Durable, "x-message-deduplication", true)
	publish(e)
	stop()
	e = startIn(t, dir)
	publish(e)
	wantDrained(t, publish(e), "q", "a")
}

// What was not taken is not remembered: its publisher will say it again.
func TestExchangeDedup_RefusedIsNotRemembered(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	dedupExchange(c, 0, nil)
	declareWith(c, "q", 0, "x-max-length", 2, "x-overflow", "reject-publish")
	publish := func(ids ...string) {
		var raw []byte
		for _, id := range ids {
			raw = amqptest.AppendPublish(raw, 1, identified("x", id))
		}
		c.Write(raw)
	}
	publish("a") // nobody is bound
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("q", "x", "", nil))
	confirmSelect(c)
	publish("a", "a", "b", "c", "c", "b", "d", "a")
	if got := outcomes(c, 1, 8); got != "+++--+-+" {
		t.Error(got)
	}
	wantDrained(t, c, "q", "a", "b")
	publish("d", "a", "c")
	if got := outcomes(c, 9, 11); got != "+++" {
		t.Error(got)
	}
	wantDrained(t, c, "q", "d", "c")
}

func TestExchangeDedup_Transactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, stop := startOnce(t, dir)
	c := open(t, e)
	dedupExchange(c, amqptest.Durable, []string{"q"})
	c.OpenChannel(2)
	amqptest.Ask[*amqp.TxSelectOk](c, 2, &amqp.TxSelect{})
	c.Publish(2, identified("x", "a"))
	amqptest.Ask[*amqp.TxRollbackOk](c, 2, &amqp.TxRollback{})
	for range 2 {
		c.Publish(2, identified("x", "a"))
		c.Publish(2, amqptest.Message{Key: "q", Body: "plain", Persistent: true})
		c.Publish(2, identified("x", "a"))
	}
	amqptest.Ask[*amqp.TxCommitOk](c, 2, &amqp.TxCommit{})
	c.Abort()
	stop()
	c = open(t, startIn(t, dir))
	c.Publish(1, identified("x", "a"))
	wantDrained(t, c, "q", "a", "plain", "plain")
}

// Dead letters come back through the exchange they came from.
func TestExchangeDedup_DeadLettersPass(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	dedupExchange(c, 0, []string{"seen"})
	declareWith(c, "retry", 0, "x-message-ttl", 1, "x-dead-letter-exchange", "x")
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("retry", "amq.fanout", "", nil))
	c.Publish(1, identified("x", "a"))
	m := identified("", "a")
	m.Key = "retry"
	c.Publish(1, m)
	for range 2 {
		if got := getSoon(t, c, "seen"); string(got.Body) != "a" {
			t.Fatal(got)
		}
	}
}

// The bodies of large duplicates leave no files.
func TestExchangeDedup_Large(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, startIn(t, dir))
	dedupExchange(c, amqptest.Durable, []string{"q1", "q2"})
	confirmSelect(c)
	for i := range 3 {
		m := identified("x", "a")
		m.Body, m.Mandatory = largeBody(1), i == 2
		c.Publish(1, m)
		if i == 2 {
			if got := c.Read(); !got.Content || string(got.Body) != largeBody(1) {
				t.Fatal(got.Method)
			}
		}
		amqptest.Expect[*amqp.BasicAck](c)
	}
	for _, q := range []string{"q1", "q2"} {
		wantDrained(t, c, q, largeBody(1))
	}
	wantFiles(t, dir, 0, 0)
}

// However many publish the same at once, it is there once, in each queue.
func TestExchangeDedup_Concurrently(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	dedupExchange(c, 0, []string{"q1", "q2"}, "x-cache-size", 1000)
	var publishers []*amqptest.Client
	for range 4 {
		publisher := open(t, e)
		confirmSelect(publisher)
		publishers = append(publishers, publisher)
	}
	for i := range 20 { // the loops take them at the same time
		for _, publisher := range publishers {
			var raw []byte
			for n := range 10 {
				raw = amqptest.AppendPublish(raw, 1, identified("x", fmt.Sprint(10*i+n)))
			}
			publisher.Write(raw)
		}
	}
	for _, publisher := range publishers {
		ackedTo(publisher, 200)
	}
	for _, q := range []string{"q1", "q2"} {
		if n := ready(c, q); n != 200 {
			t.Errorf("%s: %d messages", q, n)
		}
	}
}

func TestExchangeDedup_Arguments(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	dedupExchange(c, 0, nil, "x-cache-ttl", 50)
	declare := func(pairs ...any) func(c *amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.ExchangeDeclare("x", "fanout", 0, table(pairs...))) }
	}
	fresh := func(pairs ...any) func(c *amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.ExchangeDeclare("$new", "fanout", 0, table(pairs...))) }
	}
	runRows(t, e, []row{
		{name: "same", do: declare("x-message-deduplication", true, "x-cache-ttl", 50), want: []string{"1 exchange.declare-ok"}},
		{name: "without", do: declare(), want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - inequivalent arg 'x-message-deduplication' for exchange 'x' in vhost '/': received none but current is the value 'true' of type 'bool'"}},
		{name: "other time", do: declare("x-message-deduplication", true, "x-cache-ttl", 51), want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - inequivalent arg 'x-cache-ttl' for exchange 'x' in vhost '/': received '51' but current is '50'"}},
		{name: "no bool", do: fresh("x-message-deduplication", "yes"), want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - invalid arg 'x-message-deduplication' for exchange 'r3-new' in vhost '/': {unacceptable_type,longstr}"}},
		{name: "negative size", do: fresh("x-message-deduplication", true, "x-cache-size", -1), want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - invalid arg 'x-cache-size' for exchange 'r4-new' in vhost '/': {value_negative,-1}"}},
		{name: "too large", do: fresh("x-message-deduplication", true, "x-cache-size", 10_000_001), want: []string{"1 channel.close 406 (40,10) PRECONDITION_FAILED - invalid arg 'x-cache-size' for exchange 'r5-new' in vhost '/': {max_value_exceeded,10000001}"}},
	})
}
