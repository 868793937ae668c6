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
	ms := 20
	for consuming := false; !consuming; ms *= 4 { // it may have expired before it is consumed from
		c.OpenChannel(2)
		raw := amqp.AppendMethodFrame(nil, 2, c.QueueDeclare("used", 0, table("x-expires", ms)))
		c.Write(amqp.AppendMethodFrame(raw, 2, c.Consume("used", "t", 0)))
		amqptest.Expect[*amqp.QueueDeclareOk](c)
		if _, consuming = c.Read().Method.(*amqp.BasicConsumeOk); !consuming {
			c.Method(2, closeOk)
		}
	}
	declareWith(c, "brief", 0, "x-expires", ms) // longer than the other has
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
