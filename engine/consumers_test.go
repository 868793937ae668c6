package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// subscribeWith consumes on channel 1 with arguments.
func subscribeWith(c *amqptest.Client, queue, tag string, f amqptest.Flags, pairs ...any) {
	m := c.Consume(queue, tag, f)
	m.Arguments = table(pairs...)
	amqptest.Ask[*amqp.BasicConsumeOk](c, 1, m)
}

// waiting is subscribeWith for an empty queue; it returns when the consumer
// can be served.
func waiting(c *amqptest.Client, queue, tag string, f amqptest.Flags, pairs ...any) {
	subscribeWith(c, queue, tag, f, pairs...)
	c.Sync(1)
}

func qos(c *amqptest.Client, count uint16, global bool) {
	amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: count, Global: global})
}

// TestConsumer_Priority: the consumer of the highest priority gets everything
// until it is out of credit; equals take turns.
func TestConsumer_Priority(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher, low, high, high2 := open(t, e), open(t, e), open(t, e), open(t, e)
	publisher.Declare("q", 0)
	waiting(low, "q", "low", amqptest.NoAck, "x-priority", -3)
	qos(high, 2, false)
	waiting(high, "q", "high", 0, "x-priority", 7)

	publisher.PublishAll(1, "q", "0", "1")
	for _, want := range []string{"0", "1"} {
		if _, got := delivery(high); got != want {
			t.Fatalf("the high priority consumer got %s, want %s", got, want)
		}
	}
	publisher.PublishAll(1, "q", "2")
	if _, got := delivery(low); got != "2" { // the other is blocked
		t.Fatal(got)
	}
	high.Ack(1, 1, 0)
	high.Sync(1)
	publisher.PublishAll(1, "q", "3")
	if _, got := delivery(high); got != "3" {
		t.Fatal(got)
	}
	low.WantQuiet(1)

	qos(high2, 0, false)
	waiting(high2, "q", "high2", 0, "x-priority", 7)
	high.Ack(1, 0, amqptest.Multiple)
	high.Sync(1)
	for i := range 2 {
		publisher.PublishAll(1, "q", strconv.Itoa(10+i))
		publisher.Sync(1)
	}
	_, first := delivery(high)
	_, second := delivery(high2)
	if got := []string{first, second}; !slices.Contains(got, "10") || !slices.Contains(got, "11") {
		t.Fatal(got)
	}
	low.WantQuiet(1)

	// And when the high ones have gone, the low one goes on.
	amqptest.Ask[*amqp.BasicCancelOk](high, 1, &amqp.BasicCancel{ConsumerTag: []byte("high")})
	amqptest.Ask[*amqp.BasicCancelOk](high2, 1, &amqp.BasicCancel{ConsumerTag: []byte("high2")})
	publisher.PublishAll(1, "q", "20")
	if _, got := delivery(low); got != "20" {
		t.Fatal(got)
	}
}

// TestConsumer_Priority_Refused: the argument must be an integer.
func TestConsumer_Priority_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	for _, test := range []struct {
		value   any
		refused string
	}{{"a", "longstr"}, {true, "bool"}, {1 << 30, ""}} {
		c := open(t, e)
		c.Declare("q", amqptest.Exclusive)
		m := c.Consume("q", "t", 0)
		m.Arguments = table("x-priority", test.value)
		c.Method(1, m)
		if test.refused == "" {
			amqptest.Expect[*amqp.BasicConsumeOk](c)
			continue
		}
		c.Want(`1 channel.close 406 (60,20) PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "expected integer, got ` + test.refused + `"`)
		amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{})
	}
}

// TestConsumer_SingleActive: one consumer gets everything; when it goes, the
// next does, highest priority first; what the first holds stays with it.
func TestConsumer_SingleActive(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher, a, b, c := open(t, e), open(t, e), open(t, e), open(t, e)
	declareWith(publisher, "q", 0, "x-single-active-consumer", true)
	qos(a, 2, false)
	waiting(a, "q", "a", 0)
	waiting(b, "q", "b", amqptest.NoAck)
	waiting(c, "q", "c", 0, "x-priority", 5) // does not push a out
	publisher.PublishAll(1, "q", numbered("", 0, 4)...)
	for _, want := range []string{"0", "1"} {
		if _, got := delivery(a); got != want {
			t.Fatal(got)
		}
	}
	b.WantQuiet(1)
	c.WantQuiet(1)
	if n := ready(publisher, "q"); n != 2 {
		t.Fatalf("%d ready", n)
	}
	// Cancelled: what it holds comes back in its place when its channel ends.
	amqptest.Ask[*amqp.BasicCancelOk](a, 1, &amqp.BasicCancel{ConsumerTag: []byte("a")})
	for _, want := range []string{"2", "3"} {
		if d, got := delivery(c); got != want || d.Redelivered {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	amqptest.Ask[*amqp.ChannelCloseOk](a, 1, &amqp.ChannelClose{})
	for _, want := range []string{"0", "1"} {
		if d, got := delivery(c); got != want || !d.Redelivered {
			t.Fatalf("%s redelivered %v, want %s", got, d.Redelivered, want)
		}
	}
	c.Nack(1, 3, amqptest.Multiple|amqptest.Requeue) // 2 3 0
	for _, want := range []string{"0", "2", "3"} {
		if _, got := delivery(c); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	b.WantQuiet(1)
	c.Abort() // everything in its original order to the last one
	for _, want := range []string{"0", "1", "2", "3"} {
		if d, got := delivery(b); got != want || !d.Redelivered {
			t.Fatalf("%s redelivered %v, want %s", got, d.Redelivered, want)
		}
	}
	other := open(t, e)
	other.Method(1, other.Consume("q", "x", amqptest.Exclusive))
	other.Want("1 channel.close 403 (60,20) ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
}

// TestConsumer_Timeout: a delivery that is not acknowledged in time closes its
// channel; the message goes to somebody else. Off unless asked for.
func TestConsumer_Timeout(t *testing.T) {
	t.Parallel()
	e := start(t)
	late := "1 channel.close 406 (0,0) PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: %d ms. " +
		"This timeout value can be configured, see consumers doc guide to learn more"
	c, patient, plain := open(t, e), open(t, e), open(t, e)
	declareWith(c, "limited", 0, "x-consumer-timeout", 2)
	plain.Declare("plain", 0)

	plain.PublishAll(1, "plain", "p")
	subscribeWith(plain, "plain", "t", 0)
	delivery(plain)
	c.PublishAll(1, "limited", "m1", "m2")
	qos(patient, 1, false)
	subscribeWith(patient, "limited", "patient", 0, "x-consumer-timeout", 0)
	delivery(patient)

	subscribeWith(c, "limited", "t", 0)
	if _, body := delivery(c); body != "m2" {
		t.Fatal(body)
	}
	c.Want(fmt.Sprintf(late, 2))
	patient.WantQuiet(1)
	plain.WantQuiet(1)
	patient.Ack(1, 1, 0)
	if d, body := delivery(patient); body != "m2" || !d.Redelivered {
		t.Fatal(body)
	}

	// A consumer's own limit, where the queue has none; and basic.get.
	own, get := open(t, e), open(t, e)
	own.Declare("own", 0)
	own.PublishAll(1, "own", "m")
	subscribeWith(own, "own", "t", 0, "x-consumer-timeout", 3)
	delivery(own)
	own.Want(fmt.Sprintf(late, 3))
	get.PublishAll(1, "limited", "m3")
	if got := get.Get(1, "limited", 0); string(got.Body) != "m3" {
		t.Fatal(got)
	}
	get.Want(fmt.Sprintf(late, 2))

	// Acknowledged in time: by an hour.
	hour := open(t, e)
	declareWith(hour, "hour", 0, "x-consumer-timeout", 3600_000)
	hour.PublishAll(1, "hour", "a", "b")
	subscribeWith(hour, "hour", "t", 0)
	delivery(hour)
	delivery(hour)
	hour.Ack(1, 2, amqptest.Multiple)
	hour.WantQuiet(1)

	refused := open(t, e)
	m := refused.Consume("own", "x", 0)
	m.Arguments = table("x-consumer-timeout", -1)
	refused.Method(1, m)
	refused.Want("1 channel.close 406 (60,20) PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'own' in vhost '/': {value_negative,-1}")
}
