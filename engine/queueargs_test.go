package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// declareWith declares a queue with arguments on channel 1.
func declareWith(c *amqptest.Client, name string, f amqptest.Flags, pairs ...any) *amqp.QueueDeclareOk {
	return amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(name, f, table(pairs...)))
}

// ready is how many messages a queue has ready.
func ready(c *amqptest.Client, name string) uint32 {
	return amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(name, amqptest.Passive, nil)).MessageCount
}

// exists says whether there is a queue, without using it.
func exists(e *engine.Engine, name string) bool {
	_, err := e.Broker().VHost("/").Queue([]byte(name), nil)
	return err == nil
}

// drain gets and acknowledges everything that is ready.
func drain(c *amqptest.Client, name string) (bodies []string) {
	for {
		got := c.Get(1, name, amqptest.NoAck)
		if !got.Content {
			return bodies
		}
		bodies = append(bodies, string(got.Body))
	}
}

// getSoon gets a message that is about to come.
func getSoon(t testing.TB, c *amqptest.Client, name string) (got amqptest.Event) {
	t.Helper()
	eventually(t, "a message in "+name, func() bool {
		got = c.Get(1, name, amqptest.NoAck)
		return got.Content
	})
	return got
}

// show renders a value with its field names, times left out.
func show(v amqp.Value) string {
	if t, ok := v.Table(); ok {
		var parts []string
		for name, field := range t.All() {
			if _, ok := field.Timestamp(); ok {
				parts = append(parts, string(name))
				continue
			}
			parts = append(parts, string(name)+"="+show(field))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	if a, ok := v.Array(); ok {
		var parts []string
		for item := range a.All() {
			parts = append(parts, show(item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	if n, ok := v.Int64(); ok {
		return fmt.Sprint(n)
	}
	if s, ok := v.Bytes(); ok {
		return string(s)
	}
	return string(v.Kind())
}

func properties(got amqptest.Event) amqp.Properties {
	p, err := amqp.DecodeProperties(got.Properties)
	if err != nil {
		panic(err)
	}
	return p
}

func headers(got amqptest.Event) string { return show(amqp.TableValue(properties(got).Headers)) }

func expiring(ms string) *amqp.Properties {
	return &amqp.Properties{Flags: amqp.FlagExpiration, Expiration: []byte(ms)}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "ttl", 0, "x-message-ttl", 30, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	c.Declare("dead", 0)
	c.PublishAll(1, "ttl", "m1", "m2")
	for _, want := range []string{"m1", "m2"} {
		if got := getSoon(t, c, "dead"); string(got.Body) != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	if n := ready(c, "ttl"); n != 0 {
		t.Fatal(n)
	}

	// The lower of the two, in a queue of any kind; a message behind one that
	// lives longer waits for its turn.
	c.Declare("plain", 0)
	c.Publish(1, amqptest.Message{Key: "plain", Body: "long", Properties: expiring("600000")})
	c.Publish(1, amqptest.Message{Key: "plain", Body: "short", Properties: expiring("1")})
	c.Publish(1, amqptest.Message{Key: "plain", Body: "for ever"})
	if got := drain(c, "plain"); len(got) < 2 || got[0] != "long" || got[len(got)-1] != "for ever" {
		t.Fatal(got)
	}
	c.Publish(1, amqptest.Message{Key: "plain", Body: "short", Properties: expiring("5")})
	c.Publish(1, amqptest.Message{Key: "plain", Body: "for ever"})
	eventually(t, "the expiration at the head", func() bool { return ready(c, "plain") == 1 })

	// Consumers that can take nothing keep nothing from expiring.
	c.Declare("held", 0)
	c.OpenChannel(2)
	amqptest.Ask[*amqp.BasicQosOk](c, 2, &amqp.BasicQos{PrefetchCount: 1})
	c.Subscribe(2, "held", "t", 0)
	c.PublishAll(1, "held", "taken")
	if _, body := delivery(c); body != "taken" {
		t.Fatal(body)
	}
	for range 3 {
		c.Publish(1, amqptest.Message{Key: "held", Body: "late", Properties: expiring("5")})
	}
	eventually(t, "what the consumer has no room for expires", func() bool { return ready(c, "held") == 0 })
	c.Ack(2, 1, 0)
	c.WantQuiet(2)

	// What comes back after its time goes, too.
	c.Declare("back", 0)
	c.Declare("clock", 0)
	var got amqptest.Event
	eventually(t, "a message is got in time", func() bool {
		c.Publish(1, amqptest.Message{Key: "back", Body: "b", Properties: expiring("20")})
		c.Publish(1, amqptest.Message{Key: "clock", Properties: expiring("40")})
		got = c.Get(2, "back", 0)
		return got.Content
	})
	eventually(t, "its time is over", func() bool { return ready(c, "clock") == 0 })
	c.Nack(2, got.Method.(*amqp.BasicGetOk).DeliveryTag, amqptest.Requeue)
	if got := c.Get(2, "back", 0); got.Content {
		t.Fatal(got)
	}
}

// A time to live of 0 means: to a consumer that waits, or nowhere.
func TestTTL_Zero(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	declareWith(c, "now", 0, "x-message-ttl", 0)
	c.PublishAll(1, "now", "nobody is there")
	eventually(t, "it expires", func() bool { return ready(c, "now") == 0 })
	c.OpenChannel(2)
	c.Subscribe(2, "now", "t", amqptest.NoAck)
	for i := range 50 {
		c.PublishAll(1, "now", fmt.Sprint(i))
		if _, body := delivery(c); body != fmt.Sprint(i) {
			t.Fatal(body)
		}
	}
}

func TestQueueExpires(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "brief", 0, "x-expires", 20)
	c.OpenChannel(2)
	raw := amqp.AppendMethodFrame(nil, 2, c.QueueDeclare("used", 0, table("x-expires", 20)))
	c.Write(amqp.AppendMethodFrame(raw, 2, c.Consume("used", "t", 0)))
	amqptest.Expect[*amqp.QueueDeclareOk](c)
	amqptest.Expect[*amqp.BasicConsumeOk](c)
	c.PublishAll(1, "brief", "publishing is no use")
	eventually(t, "an unused queue goes", func() bool { return !exists(e, "brief") })
	if !exists(e, "used") {
		t.Fatal("a queue with a consumer went")
	}
	amqptest.Ask[*amqp.BasicCancelOk](c, 2, &amqp.BasicCancel{ConsumerTag: []byte("t")})
	eventually(t, "and when its consumer has gone", func() bool { return !exists(e, "used") })
}

func TestMaxLength_DropHead(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	c.Declare("dead", 0)
	declareWith(c, "q", 0, "x-max-length", 3, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	c.PublishAll(1, "q", numbered("m", 0, 10)...)
	if got := drain(c, "q"); !slices.Equal(got, []string{"m7", "m8", "m9"}) {
		t.Fatal(got)
	}
	for i := range 7 {
		got := getSoon(t, c, "dead")
		if string(got.Body) != fmt.Sprint("m", i) || !strings.Contains(headers(got), "reason=maxlen") {
			t.Fatalf("%s %s", got, headers(got))
		}
	}
	// What consumers hold does not count; what comes back does.
	c.PublishAll(1, "q", "a", "b", "c")
	c.Get(1, "q", 0)
	c.PublishAll(1, "q", "d")
	if n := ready(c, "q"); n != 3 {
		t.Fatal(n)
	}
	c.Sync(1)
	c.Method(1, &amqp.BasicRecover{Requeue: true})
	amqptest.Expect[*amqp.BasicRecoverOk](c)
	if got := drain(c, "q"); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Fatal(got)
	}
	declareWith(c, "bytes", 0, "x-max-length-bytes", 100)
	c.PublishAll(1, "bytes", strings.Repeat("a", 60), strings.Repeat("b", 50), "c", strings.Repeat("d", 49))
	if got := drain(c, "bytes"); len(got) != 3 || got[0][0] != 'b' {
		t.Fatal(got)
	}
	c.PublishAll(1, "bytes", strings.Repeat("a", 101))
	if n := ready(c, "bytes"); n != 0 {
		t.Fatal(n)
	}
}

// A queue at its limit refuses: exactly as many as do not fit, told by nacks.
func TestMaxLength_RejectPublish(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	declareWith(c, "q", 0, "x-max-length", 5, "x-overflow", "reject-publish")
	c.Declare("both", 0)
	for _, q := range []string{"q", "both"} {
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	confirmSelect(c)
	acks := func(n int) (acked, nacked int) {
		for acked+nacked < n {
			switch m := c.Read().Method.(type) {
			case *amqp.BasicAck:
				acked = int(m.DeliveryTag) - nacked
			case *amqp.BasicNack:
				nacked = int(m.DeliveryTag) - acked
			}
		}
		return acked, nacked
	}
	c.PublishAll(1, "q", numbered("m", 0, 100)...)
	if acked, nacked := acks(100); acked != 5 || nacked != 95 {
		t.Fatal(acked, nacked)
	}
	if got := drain(c, "q"); !slices.Equal(got, numbered("m", 0, 5)) {
		t.Fatal(got)
	}
	// One queue refuses, the other takes: a nack all the same.
	c.OpenChannel(3)
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 3, &amqp.ConfirmSelect{})
	var raw []byte
	for i := range 7 {
		raw = amqptest.AppendPublish(raw, 3, amqptest.Message{Exchange: "amq.fanout", Body: fmt.Sprint(i)})
	}
	c.Write(raw)
	if acked, nacked := acks(7); acked != 5 || nacked != 2 {
		t.Fatal(acked, nacked)
	}
	if n := ready(c, "both"); n != 7 {
		t.Fatal(n)
	}
	// Without confirms nobody is told.
	c.OpenChannel(4)
	c.PublishAll(4, "q", "x")
	c.WantQuiet(4)
	if n := ready(c, "q"); n != 5 {
		t.Fatal(n)
	}
}

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

func TestCarbonCopies(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	for _, q := range []string{"to", "cc1", "cc2", "bcc"} {
		c.Declare(q, 0)
	}
	list := func(keys ...string) amqp.Value {
		var values []amqp.Value
		for _, key := range keys {
			values = append(values, amqp.String(key))
		}
		return amqp.ArrayValue(amqp.ArrayOf(values...))
	}
	var b amqp.TableBuilder
	b.SetValue("CC", list("cc1", "cc2", "to", "nowhere"))
	b.SetValue("BCC", list("bcc"))
	p := &amqp.Properties{Flags: amqp.FlagHeaders, Headers: b.Table()}
	for range 3 { // the second and third are recognised by their bytes
		c.Publish(1, amqptest.Message{Key: "to", Body: "m", Properties: p})
	}
	for _, q := range []string{"to", "cc1", "cc2", "bcc"} {
		for range 3 {
			got := c.Get(1, q, amqptest.NoAck)
			if string(got.Body) != "m" || headers(got) != "{CC=[cc1 cc2 to nowhere]}" {
				t.Errorf("%s: %s %s", q, got, headers(got))
			}
		}
		if n := ready(c, q); n != 0 {
			t.Errorf("%s: %d more", q, n)
		}
	}
	p.Headers = table("CC", "to")
	c.Publish(1, amqptest.Message{Key: "to", Properties: p})
	c.Want(`1 channel.close 406 (60,40) PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`)
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

// With SetTimestamp messages get the time of their arrival, but for those that
// have a time.
func TestSetTimestamp(t *testing.T) {
	t.Parallel()
	c := open(t, start(t, func(config *engine.Config) { config.SetTimestamp, config.Tuning.MessageBytesMax = true, 10 }))
	c.Declare("q", 0)
	c.PublishAll(1, "q", "m1", "m2")
	c.Publish(1, amqptest.Message{Key: "q", Properties: &amqp.Properties{Flags: amqp.FlagTimestamp, Timestamp: 7}})
	for i := range 3 {
		p := properties(c.Get(1, "q", amqptest.NoAck))
		if p.Flags&amqp.FlagTimestamp == 0 || (p.Timestamp == 7) != (i == 2) {
			t.Errorf("message %d: %+v", i, p)
		}
	}
	c.Publish(1, amqptest.Message{Key: "q", Body: "eleven byte"})
	c.Want("1 channel.close 406 (60,40) PRECONDITION_FAILED - message size 11 is larger than configured max size 10")
}
