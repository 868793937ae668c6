package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// tracedLine is what a trace says, but for what differs from run to run.
func tracedLine(e amqptest.Event) string {
	m := e.Method.(*wire.BasicDeliver)
	h := properties(e).Headers
	text := func(name string) string {
		v, ok := h.Lookup(name)
		if !ok {
			return "-"
		}
		if b, ok := v.Bytes(); ok {
			return string(b)
		}
		if a, ok := v.Array(); ok {
			var list []string
			for v := range a.All() {
				b, _ := v.Bytes()
				list = append(list, string(b))
			}
			return "[" + strings.Join(list, " ") + "]"
		}
		n, _ := v.Int64()
		return fmt.Sprint(n)
	}
	return strings.Join([]string{string(m.RoutingKey), text("exchange_name"), text("routing_keys"), text("vhost"), text("user"), text("channel"), text("routed_queues"), text("redelivered"), string(e.Body)}, " ")
}

// isText says whether a value is text that has part in it.
func isText(v wire.Value, part string) bool {
	b, ok := v.Bytes()
	return ok && strings.Contains(string(b), part)
}

func TestTrace(t *testing.T) {
	t.Parallel()
	e := start(t)
	vh := e.Broker().VHost("/")
	c, watcher := open(t, e), open(t, e)
	for _, q := range []string{"a", "b"} {
		c.Declare(q, amqptest.Durable)
		amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	watcher.Declare("traces", 0)
	amqptest.Ask[*wire.QueueBindOk](watcher, 1, watcher.QueueBind("traces", "amq.rabbitmq.trace", "#", nil))
	watcher.Subscribe(1, "traces", "t", amqptest.NoAck)
	want := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			got := amqptest.Expect[*wire.BasicDeliver](watcher)
			if text := tracedLine(got); text != line {
				t.Fatalf("\n got %s\nwant %s", text, line)
			}
			p := properties(got)
			if v, _ := p.Headers.Lookup("connection"); !isText(v, " -> ") {
				t.Errorf("no connection: %v", p.Headers)
			}
		}
	}
	publish := func(exchange, key string, bodies ...string) {
		var raw []byte
		for _, body := range bodies {
			raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: exchange, Key: key, Body: body, Properties: &wire.Properties{Flags: wire.FlagMessageID, MessageID: []byte("id " + body[:min(len(body), 20)])}})
		}
		c.Write(raw)
		c.Sync(1)
	}
	publish("", "a", "untraced", "untraced") // learns the path for equal ones
	vh.SetTracing(true)
	publish("", "a", "1", "2")
	want("publish.  [a] / guest 1 [a] - 1", "publish.  [a] / guest 1 [a] - 2")
	publish("amq.fanout", "k", "3")
	want("publish.amq.fanout amq.fanout [k] / guest 1 [a b] - 3")
	publish("amq.direct", "nobody", "4")
	want("publish.amq.direct amq.direct [nobody] / guest 1 [] - 4")

	c.Get(1, "b", 0)
	want("deliver.b amq.fanout [k] / guest 1 - 0 3")
	c.Nack(1, 0, amqptest.Multiple|amqptest.Requeue)
	c.Get(1, "b", amqptest.NoAck)
	want("deliver.b amq.fanout [k] / guest 1 - 1 3")
	c.Subscribe(1, "a", "s", amqptest.NoAck)
	for range 5 {
		amqptest.Expect[*wire.BasicDeliver](c)
	}
	want("deliver.a  [a] / guest 1 - 0 untraced", "deliver.a  [a] / guest 1 - 0 untraced", "deliver.a  [a] / guest 1 - 0 1", "deliver.a  [a] / guest 1 - 0 2", "deliver.a amq.fanout [k] / guest 1 - 0 3")

	vh.SetTracing(false)
	publish("", "b", "untraced")
	c.Get(1, "b", amqptest.NoAck)
	watcher.WantQuiet(1)
	// Large ones come without their bodies; properties are told.
	vh.SetTracing(true)
	publish("", "b", strings.Repeat("x", 2<<20))
	got := amqptest.Expect[*wire.BasicDeliver](watcher)
	if line := tracedLine(got); line != "publish.  [b] / guest 1 [b] - " {
		t.Errorf("a large one: %.100s", line)
	}
	p := properties(got)
	v, _ := p.Headers.Lookup("properties")
	told, _ := v.Table()
	if id, _ := told.Lookup("message_id"); !isText(id, "id xx") {
		t.Errorf("properties %v", told)
	}
	if _, ok := p.Headers.Lookup("node"); !ok || vh.FindQueue("traces").Counts().Ready > 0 {
		t.Error("no node, or traces are traced")
	}
}

// TestTrace_FullOutput: a delivery that finds no room and comes again is traced
// once, and each one is.
func TestTrace_FullOutput(t *testing.T) {
	t.Parallel()
	e := start(t)
	c, watcher := open(t, e), open(t, e)
	c.Declare("q", 0)
	watcher.Declare("traces", 0)
	amqptest.Ask[*wire.QueueBindOk](watcher, 1, watcher.QueueBind("traces", "amq.rabbitmq.trace", "deliver.q", nil))
	const n = 60
	for i := range n {
		c.Publish(1, amqptest.Message{Key: "q", Body: fmt.Sprint(i, strings.Repeat("x", 60<<10))})
	}
	c.Sync(1)
	e.Broker().VHost("/").SetTracing(true)
	c.Subscribe(1, "q", "t", amqptest.NoAck)
	for range n {
		amqptest.Expect[*wire.BasicDeliver](c)
	}
	watcher.Subscribe(1, "traces", "t", amqptest.NoAck)
	for i := range n {
		got := amqptest.Expect[*wire.BasicDeliver](watcher)
		if head, _, _ := strings.Cut(string(got.Body), "x"); head != fmt.Sprint(i) {
			t.Fatalf("trace %d is of %s", i, head)
		}
	}
	watcher.WantQuiet(1)
}
