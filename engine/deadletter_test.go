package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestMaxLength_RejectPublishDLX(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	c.Declare("dead", 0)
	declareWith(c, "q", 0, "x-max-length", 2, "x-overflow", "reject-publish-dlx", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	confirmSelect(c)
	c.PublishAll(1, "q", numbered("m", 0, 4)...)
	c.Want("1 basic.ack DeliveryTag=2 Multiple=true", "1 basic.nack DeliveryTag=4 Multiple=true Requeue=false")
	for _, want := range []string{"m2", "m3"} {
		if got := getSoon(t, c, "dead"); string(got.Body) != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	c.Get(1, "q", amqptest.NoAck)
	c.PublishAll(1, "q", "m4")
	c.Want("1 basic.ack DeliveryTag=5 Multiple=false")
	if got := drain(c, "q"); !slices.Equal(got, []string{"m1", "m4"}) {
		t.Fatal(got)
	}
}

func TestDeadLetter_Headers(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("dlx", "topic", 0, nil))
	declareWith(c, "work", 0, "x-dead-letter-exchange", "dlx")
	declareWith(c, "wait", 0, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "work")
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("wait", "dlx", "#", nil))
	sent := &amqp.Properties{
		Flags: amqp.FlagHeaders | amqp.FlagExpiration | amqp.FlagMessageID, Expiration: []byte("600000"), MessageID: []byte("id"),
		Headers: table("mine", "kept"),
	}
	c.Publish(1, amqptest.Message{Key: "work", Body: "m", Properties: sent})
	reject := func(queue string) {
		var got amqptest.Event
		eventually(t, "a message in "+queue, func() bool {
			got = c.Get(1, queue, 0)
			return got.Content
		})
		c.Method(1, &amqp.BasicReject{DeliveryTag: got.Method.(*amqp.BasicGetOk).DeliveryTag})
	}
	reject("work")
	reject("wait")
	reject("work")
	got := getSoon(t, c, "wait")
	ok := got.Method.(*amqp.BasicGetOk)
	if string(ok.Exchange) != "dlx" || string(ok.RoutingKey) != "work" || ok.Redelivered {
		t.Error(got)
	}
	if p := properties(got); p.Flags&amqp.FlagExpiration != 0 || string(p.MessageID) != "id" {
		t.Errorf("%+v", p)
	}
	want := "{mine=kept" +
		" x-first-death-reason=rejected x-first-death-queue=work x-first-death-exchange=" +
		" x-last-death-reason=rejected x-last-death-queue=work x-last-death-exchange=" +
		" x-death=[{count=2 exchange= original-expiration=600000 queue=work reason=rejected routing-keys=[work] time}" +
		" {count=1 exchange=dlx queue=wait reason=rejected routing-keys=[work] time}]}"
	if h := headers(got); h != want {
		t.Errorf("\n got %s\nwant %s", h, want)
	}
}

// Messages that nobody rejected go round once, and no more.
func TestDeadLetter_Cycles(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	declareWith(c, "a", 0, "x-message-ttl", 1, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "b")
	declareWith(c, "b", 0, "x-message-ttl", 1, "x-dead-letter-exchange", "amq.fanout")
	c.Declare("seen", 0)
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("a", "amq.fanout", "", nil))
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("seen", "amq.fanout", "", nil))
	c.PublishAll(1, "a", "m")
	got := getSoon(t, c, "seen")
	if h := headers(got); !strings.Contains(h, "x-death=[{count=1 exchange= queue=b reason=expired routing-keys=[b] time} {count=1 exchange= queue=a ") {
		t.Error(h)
	}
	eventually(t, "both empty", func() bool { return ready(c, "a") == 0 && ready(c, "b") == 0 })
	if n := ready(c, "seen"); n != 0 {
		t.Errorf("%d more came round", n)
	}
	// To itself.
	declareWith(c, "self", 0, "x-max-length", 1, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "self")
	c.PublishAll(1, "self", "old", "new")
	if got := drain(c, "self"); !slices.Equal(got, []string{"new"}) {
		t.Error(got)
	}
	// A missing exchange loses them.
	declareWith(c, "lost", 0, "x-max-length", 0, "x-dead-letter-exchange", "nowhere")
	c.PublishAll(1, "lost", "m")
	if n := ready(c, "lost"); n != 0 {
		t.Error(n)
	}
}

func TestDeliveryLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("dead", amqptest.Durable)
	arguments := []any{"x-queue-type", "quorum", "x-delivery-limit", 3, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead"}
	declareWith(c, "q", amqptest.Durable, arguments...)
	confirmSelect(c)
	c.Publish(1, amqptest.Message{Key: "q", Body: "poison", Persistent: true})
	amqptest.Expect[*amqp.BasicAck](c)
	c.OpenChannel(2)
	get := func(want string) uint64 {
		t.Helper()
		got := c.Get(2, "q", 0)
		if string(got.Body) != "poison" || headers(got) != want {
			t.Fatalf("%s %s, want %s", got, headers(got), want)
		}
		return got.Method.(*amqp.BasicGetOk).DeliveryTag
	}
	c.Nack(2, get("{}"), amqptest.Requeue)
	get("{x-delivery-count=1}")
	amqptest.Ask[*amqp.ChannelCloseOk](c, 2, &amqp.ChannelClose{}) // counts, too
	c.OpenChannel(2)
	get("{x-delivery-count=2}")
	c.Method(2, &amqp.BasicRecover{Requeue: true})
	amqptest.Expect[*amqp.BasicRecoverOk](c)

	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = startIn(t, dir)
	c = open(t, e)
	c.OpenChannel(2)
	c.Nack(2, get("{x-delivery-count=3}"), amqptest.Requeue)
	if n := ready(c, "q"); n != 0 {
		t.Fatal(n)
	}
	got := getSoon(t, c, "dead")
	if h := headers(got); !strings.Contains(h, "reason=delivery_limit") || string(got.Body) != "poison" {
		t.Fatal(h)
	}
}

// TestDeliveryLimit_HeaderOfThePublisher: where the broker counts, nobody else says
// how often a message came back; elsewhere the header is one like others.
func TestDeliveryLimit_HeaderOfThePublisher(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	declareWith(c, "counts", 0, "x-delivery-limit", 3)
	c.Declare("plain", 0)
	c.OpenChannel(2)
	publish := func(queue, body string) {
		c.Publish(1, amqptest.Message{Key: queue, Body: body, Properties: &amqp.Properties{
			Flags: amqp.FlagHeaders | amqp.FlagDeliveryMode, DeliveryMode: 2, Headers: table("x-delivery-count", 77, "n", 1),
		}})
		c.Sync(1)
	}
	for _, body := range []string{"small", strings.Repeat("large", 300_000)} {
		publish("plain", body)
		if got := headers(c.Get(2, "plain", amqptest.NoAck)); got != "{x-delivery-count=77 n=1}" {
			t.Errorf("a queue that does not count: %s", got)
		}
		publish("counts", body)
		got := c.Get(2, "counts", 0)
		if h := headers(got); h != "{n=1}" {
			t.Errorf("got for the first time: %s", h)
		}
		c.Nack(2, got.Method.(*amqp.BasicGetOk).DeliveryTag, amqptest.Requeue)
		c.Sync(2)
		publish("counts", body)
		c.Subscribe(2, "counts", "t", 0)
		for _, want := range []string{"{n=1 x-delivery-count=1}", "{n=1}"} {
			got := c.Read()
			if h := headers(got); h != want || string(got.Body) != body {
				t.Errorf("consumed: %s, want %s", h, want)
			}
			c.Ack(2, got.Method.(*amqp.BasicDeliver).DeliveryTag, 0)
		}
		amqptest.Ask[*amqp.BasicCancelOk](c, 2, &amqp.BasicCancel{ConsumerTag: []byte("t")})
	}
}

// Dead letters with a body in a file of its own: the file moves on.
func TestDeadLetter_Large(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	for _, strategy := range []string{"at-most-once", "at-least-once"} {
		c := open(t, e)
		c.Prefix = strategy
		c.Declare("$d1", amqptest.Durable)
		c.Declare("$d2", 0)
		amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("$x", "fanout", 0, nil))
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("$d1", "$x", "", nil))
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("$d2", "$x", "", nil))
		declareWith(c, "$q", amqptest.Durable, "x-dead-letter-exchange", c.Name("$x"), "x-dead-letter-strategy", strategy)
		c.Publish(1, large("$q", 1, true))
		c.Publish(1, amqptest.Message{Key: "$q", Body: "small"})
		c.Publish(1, large("$q", 2, false))
		c.OpenChannel(2)
		c.Subscribe(2, "$q", "t", 0)
		for range 3 {
			delivery(c)
		}
		c.Nack(2, 3, amqptest.Multiple)
		for _, q := range []string{"$d1", "$d2"} {
			for _, want := range []string{largeBody(1), "small", largeBody(2)} {
				if got := getSoon(t, c, q); string(got.Body) != want || !strings.Contains(headers(got), "x-death") {
					t.Fatalf("%s: %d bytes", q, len(got.Body))
				}
			}
		}
		wantFiles(t, dir, 0, 0)
	}
}
