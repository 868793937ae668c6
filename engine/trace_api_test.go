package engine_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestTrace_API: what is published and got by the management API is traced, and
// what becomes a dead letter is not published anew: the same requests in the same
// order had these traces on RabbitMQ 3.10.8 (where the connection is a process).
func TestTrace_API(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := start(t, func(c *engine.Config) {
		c.DataDir = dir
		c.HTTP = netip.MustParseAddrPort("127.0.0.1:0")
	})
	vh := e.Broker().VHost("/")
	c, watcher := open(t, e), open(t, e)
	for _, q := range []string{"a", "b"} {
		c.Declare(q, amqptest.Durable)
		amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare("ttl", amqptest.Durable, table("x-message-ttl", 1, "x-dead-letter-exchange", "amq.fanout")))
	watcher.Declare("traces", 0)
	amqptest.Ask[*wire.QueueBindOk](watcher, 1, watcher.QueueBind("traces", "amq.rabbitmq.trace", "#", nil))
	watcher.Subscribe(1, "traces", "t", amqptest.NoAck)
	vh.SetTracing(true)
	post := func(path, body, answer string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, "http://"+e.HTTPAddr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("guest", "guest")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var text bytes.Buffer
		if _, err := text.ReadFrom(response.Body); err != nil || response.StatusCode != http.StatusOK || !strings.Contains(text.String(), answer) {
			t.Fatalf("%s %s: %d %s", path, body, response.StatusCode, text.String())
		}
	}
	publish := func(exchange, key, payload string) {
		t.Helper()
		post("/api/exchanges/%2F/"+exchange+"/publish", fmt.Sprintf(`{"properties":{"message_id":"id"},"routing_key":%q,"payload":%q,"payload_encoding":"string"}`, key, payload), "routed")
	}
	get := func(queue, mode, more, answer string) {
		t.Helper()
		post("/api/queues/%2F/"+queue+"/get", fmt.Sprintf(`{"count":2,"ackmode":%q,"encoding":"auto"%s}`, mode, more), answer)
	}
	want := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			got := amqptest.Expect[*wire.BasicDeliver](watcher)
			if text := tracedLine(got); text != line {
				t.Fatalf("\n got %s\nwant %s", text, line)
			}
			if v, _ := properties(got).Headers.Lookup("connection"); !isText(v, "management API") {
				t.Errorf("connection: %v", properties(got).Headers)
			}
			if v, _ := properties(got).Headers.Lookup("properties"); !strings.Contains(line, "aliveness") {
				told, _ := v.Table()
				if id, _ := told.Lookup("message_id"); !isText(id, "id") {
					t.Errorf("properties: %v", told)
				}
			}
		}
	}
	publish("amq.default", "ttl", "dies")
	want("publish.  [ttl] / guest 1 [ttl] - dies")
	eventually(t, "the dead letter is in both queues", func() bool {
		return vh.FindQueue("a").Counts().Ready == 1 && vh.FindQueue("b").Counts().Ready == 1
	})
	publish("amq.fanout", "k", "hello")
	publish("amq.direct", "nobody", "lost")
	want("publish.amq.fanout amq.fanout [k] / guest 1 [a b] - hello", "publish.amq.direct amq.direct [nobody] / guest 1 [] - lost")
	// What is cut in the answer is whole in the trace.
	get("a", "ack_requeue_true", `,"truncate":2`, `"payload":"he"`)
	want("deliver.a amq.fanout [ttl] / guest 1 - 0 dies", "deliver.a amq.fanout [k] / guest 1 - 0 hello")
	get("a", "reject_requeue_false", "", "hello")
	want("deliver.a amq.fanout [ttl] / guest 1 - 1 dies", "deliver.a amq.fanout [k] / guest 1 - 1 hello")
	get("b", "ack_requeue_false", "", "hello")
	want("deliver.b amq.fanout [ttl] / guest 1 - 0 dies", "deliver.b amq.fanout [k] / guest 1 - 0 hello")

	// By the control socket: the operator.
	if status, text := ask(t, dir, "GET", "/api/aliveness-test/%2F", ""); status != 200 {
		t.Fatal(status, text)
	}
	want("publish.  [aliveness-test] / rmq-internal 1 [aliveness-test] - test_message", "deliver.aliveness-test  [aliveness-test] / rmq-internal 1 - 0 test_message")

	// Bodies in files are left out, whatever the answer has of them; traces that
	// are got are not traced.
	c.Declare("large", 0)
	c.Publish(1, amqptest.Message{Key: "large", Body: strings.Repeat("x", 2<<20), Properties: &wire.Properties{Flags: wire.FlagMessageID, MessageID: []byte("id")}})
	c.Sync(1)
	amqptest.Expect[*wire.BasicDeliver](watcher)
	get("large", "ack_requeue_false", "", "xxx")
	want("deliver.large  [large] / guest 1 - 0 ")
	c.Declare("more", 0)
	amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind("more", broker.TraceExchange, "publish.amq.fanout", nil))
	publish("amq.fanout", "k", "again")
	want("publish.amq.fanout amq.fanout [k] / guest 1 [a b] - again")
	get("more", "ack_requeue_false", "", "again")
	vh.SetTracing(false)
	publish("amq.fanout", "k", "untraced")
	get("a", "ack_requeue_false", "", "untraced")
	watcher.WantQuiet(1)
}
