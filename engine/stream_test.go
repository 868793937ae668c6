package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// stream declares a stream.
func stream(c *amqptest.Client, name string, pairs ...any) *amqp.QueueDeclareOk {
	return declareWith(c, name, amqptest.Durable, append([]any{"x-queue-type", "stream"}, pairs...)...)
}

// subscribeStream consumes from a stream with a prefetch.
func subscribeStream(c *amqptest.Client, channel uint16, name, tag string, prefetch uint16, pairs ...any) {
	amqptest.Ask[*amqp.BasicQosOk](c, channel, &amqp.BasicQos{PrefetchCount: prefetch})
	m := c.Consume(name, tag, 0)
	m.Arguments = table(pairs...)
	amqptest.Ask[*amqp.BasicConsumeOk](c, channel, m)
}

// offsetOf is the offset that a delivery carries.
func offsetOf(t testing.TB, got amqptest.Event) int64 {
	t.Helper()
	v, ok := properties(got).Headers.Lookup("x-stream-offset")
	n, isInt := v.Int64()
	if !ok || !isInt {
		t.Fatalf("%s has no offset: %s", got, headers(got))
	}
	return n
}

// wantStream reads deliveries and compares bodies and offsets ("body@offset").
func wantStream(t testing.TB, c *amqptest.Client, want ...string) (lastTag uint64) {
	t.Helper()
	for _, w := range want {
		got := c.Read()
		d, ok := got.Method.(*amqp.BasicDeliver)
		if !ok {
			t.Fatalf("got %s, want %s", got, w)
		}
		if s := fmt.Sprintf("%s@%d", got.Body, offsetOf(t, got)); s != w || d.Redelivered {
			t.Fatalf("got %s, redelivered %t, want %s", s, d.Redelivered, w)
		}
		lastTag = d.DeliveryTag
	}
	return lastTag
}

// streamed makes "m<first>@<first>" and so on.
func streamed(first, end int) (want []string) {
	for i := first; i < end; i++ {
		want = append(want, fmt.Sprintf("m%d@%d", i, i))
	}
	return want
}

// fillStream publishes m<first> to m<end-1>, confirmed.
func fillStream(c *amqptest.Client, name string, first, end int) {
	var bodies []string
	for i := first; i < end; i++ {
		bodies = append(bodies, fmt.Sprintf("m%d", i))
	}
	c.PublishAll(1, name, bodies...)
	c.Sync(1)
}

func TestStream_DeclareAndRefusals(t *testing.T) {
	t.Parallel()
	e := start(t)
	const where = " for queue 's' in vhost '/' of queue type rabbit_stream_queue"
	for _, row := range []struct {
		flags amqptest.Flags
		pairs []any
		want  string
	}{
		{0, nil, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid property 'non-durable' for queue 's' in vhost '/'"},
		{amqptest.Durable | amqptest.Exclusive, nil, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 's' in vhost '/'"},
		{amqptest.Durable | amqptest.AutoDelete, nil, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid property 'auto-delete' for queue 's' in vhost '/'"},
		{amqptest.Durable, []any{"x-message-ttl", 1}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-message-ttl'" + where},
		{amqptest.Durable, []any{"x-dead-letter-exchange", ""}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-dead-letter-exchange'" + where},
		{amqptest.Durable, []any{"x-max-length", 1}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-max-length'" + where},
		{amqptest.Durable, []any{"x-delivery-limit", 1}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-delivery-limit'" + where},
		{amqptest.Durable, []any{"x-max-age", "1w"}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 's' in vhost '/': invalid_max_age"},
		{amqptest.Durable, []any{"x-max-age", 5}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 's' in vhost '/': {unacceptable_type,signedint}"},
		{amqptest.Durable, []any{"x-max-length-bytes", -1}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - invalid arg 'x-max-length-bytes' for queue 's' in vhost '/': {value_negative,-1}"},
		{amqptest.Durable, []any{"x-stream-filter-size-bytes", 15}, "1 channel.close 406 (50,10) PRECONDITION_FAILED - Invalid value for  x-stream-filter-size-bytes"},
	} {
		c := open(t, e)
		c.Method(1, c.QueueDeclare("s", row.flags, table(append([]any{"x-queue-type", "stream"}, row.pairs...)...)))
		c.Want(row.want)
	}
	c := open(t, e)
	stream(c, "s", "x-max-age", "7D", "x-max-length-bytes", 1000)
	if ok := stream(c, "s", "x-max-age", "7D", "x-max-length-bytes", 1000); ok.MessageCount != 0 {
		t.Fatal(ok)
	}
	c.Method(1, c.QueueDeclare("s", amqptest.Durable, table("x-queue-type", "stream", "x-max-age", "8D", "x-max-length-bytes", 1000)))
	c.Want("1 channel.close 406 (50,10) PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 's' in vhost '/': received '8D' but current is '7D'")

	for _, row := range []struct {
		do   func(c *amqptest.Client)
		want string
	}{
		{func(c *amqptest.Client) { c.Method(1, c.Consume("s", "t", 0)) },
			"1 channel.close 406 (60,20) PRECONDITION_FAILED - consumer prefetch count is not set for 'queue 's' in vhost '/''"},
		{func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1})
			c.Method(1, c.Consume("s", "t", amqptest.NoAck))
		}, "0 connection.close 540 (60,20) NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue 's' in vhost '/'"},
		{func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1})
			amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1, Global: true})
			c.Method(1, c.Consume("s", "t", 0))
		}, "0 connection.close 540 (60,20) NOT_IMPLEMENTED - queue 's' in vhost '/' does not support global qos"},
		{func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1})
			m := c.Consume("s", "t", 0)
			m.Arguments = table("x-stream-offset", "yesterday")
			c.Method(1, m)
		}, "1 channel.close 406 (60,20) PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 's' in vhost '/': invalid_offset_arg"},
		{func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte("s")}) },
			"0 connection.close 540 (60,70) NOT_IMPLEMENTED - basic.get not supported by stream queues queue 's' in vhost '/'"},
		{func(c *amqptest.Client) { c.Method(1, &amqp.QueuePurge{Queue: []byte("s")}) },
			"0 connection.close 540 (50,30) NOT_IMPLEMENTED - queue.purge not supported by stream queues queue 's' in vhost '/'"},
	} {
		c := open(t, e)
		row.do(c)
		c.Want(row.want)
	}

	c = open(t, e)
	c.PublishAll(1, "s", "m0")
	subscribeStream(c, 1, "s", "t", 1, "x-stream-offset", "first")
	tag := wantStream(t, c, "m0@0")
	c.Nack(1, tag, amqptest.Requeue)
	const rejects = "NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues queue 's' in vhost '/'"
	c.Want("0 connection.close 540 (60,120) " + rejects)
	for _, row := range []struct {
		m      amqp.Method
		number string
	}{
		{&amqp.BasicReject{DeliveryTag: 2}, "90"},
		{&amqp.BasicNack{DeliveryTag: 2, Multiple: true}, "120"},
		{&amqp.BasicNack{Multiple: true, Requeue: true}, "120"},
		{&amqp.BasicRecover{Requeue: true}, "110"},
	} {
		c := open(t, e)
		c.Declare("classic", 0)
		c.PublishAll(1, "classic", "x")
		c.Get(1, "classic", 0)
		subscribeStream(c, 1, "s", "t", 1, "x-stream-offset", "first")
		wantStream(t, c, "m0@0")
		c.Nack(1, 1, 0) // of the classic queue: no harm
		c.Method(1, row.m)
		c.Want("0 connection.close 540 (60," + row.number + ") " + rejects)
	}
}

func TestStream_Offsets(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s")
	fillStream(c, "s", 0, 3)
	fillStream(c, "s", 3, 6)
	if n := ready(c, "s"); n != 6 {
		t.Fatal(n)
	}
	var readers []*amqptest.Client
	for _, row := range []struct {
		offset any
		first  int
	}{
		{"first", 0}, {0, 0}, {int64(3), 3}, {-2, 4}, {-100, 0}, {99, 6}, {"next", 6}, {nil, 6},
		{"1h", 0}, {time.Now().Add(-time.Hour), 0}, {time.Now().Add(time.Hour), 6}, {"last", 3},
	} {
		r := open(t, e)
		var pairs []any
		if row.offset != nil {
			pairs = []any{"x-stream-offset", row.offset}
		}
		subscribeStream(r, 1, "s", "t", 100, pairs...)
		wantStream(t, r, streamed(row.first, 6)...)
		r.WantQuiet(1)
		readers = append(readers, r)
	}
	fillStream(c, "s", 6, 7)
	for _, r := range readers {
		wantStream(t, r, "m6@6")
	}
}

// Acknowledgements give credit back; the messages stay for everybody, as often as
// one likes.
func TestStream_CreditAndManyConsumers(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s")
	fillStream(c, "s", 0, 10)
	var readers []*amqptest.Client
	for i := range 5 {
		r := open(t, e)
		subscribeStream(r, 1, "s", "t", 3, "x-stream-offset", int64(i))
		wantStream(t, r, streamed(i, i+3)...)
		r.WantQuiet(1)
		readers = append(readers, r)
	}
	for i, r := range readers {
		r.Ack(1, 2, amqptest.Multiple)
		wantStream(t, r, streamed(i+3, i+5)...)
		r.Ack(1, 4, 0)
		wantStream(t, r, streamed(i+5, i+6)...)
		r.Ack(1, 0, amqptest.Multiple)
		tag := wantStream(t, r, streamed(i+6, min(i+9, 10))...)
		r.Ack(1, tag, amqptest.Multiple)
		wantStream(t, r, streamed(min(i+9, 10), 10)...)
		r.Ack(1, 0, amqptest.Multiple)
	}
	// One publish wakes all that wait (a peer once woke one only).
	fillStream(c, "s", 10, 11)
	for _, r := range readers {
		wantStream(t, r, "m10@10")
	}
	if n := ready(c, "s"); n != 11 {
		t.Fatal(n)
	}
}

// A late ack after the stream was deleted is no error (a peer closed the
// connection).
func TestStream_LateAckAfterDelete(t *testing.T) {
	t.Parallel()
	e := start(t)
	c, other := open(t, e), open(t, e)
	stream(c, "s")
	fillStream(c, "s", 0, 2)
	subscribeStream(c, 1, "s", "me", 10)
	fillStream(other, "s", 2, 4)
	tag := wantStream(t, c, streamed(2, 4)...)
	amqptest.Ask[*amqp.QueueDeleteOk](other, 1, &amqp.QueueDelete{Queue: []byte("s")})
	c.Want("1 basic.cancel ConsumerTag=me NoWait=true")
	c.Ack(1, tag, amqptest.Multiple)
	c.Sync(1)
}

func TestStream_TrackedOffsets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	stream(c, "s")
	fillStream(c, "s", 0, 10)
	subscribeStream(c, 1, "s", "me", 5, "x-stream-offset", "first", "x-stream-automatic-offset-tracking", true)
	wantStream(t, c, streamed(0, 5)...)
	// The oldest that is not acknowledged counts, not where the reader stands.
	c.Ack(1, 1, 0)
	c.Ack(1, 2, 0)
	c.Ack(1, 4, 0)
	wantStream(t, c, streamed(5, 8)...)
	c.Sync(1)
	c.Abort()
	c = open(t, e)
	subscribeStream(c, 1, "s", "me", 3)
	tag := wantStream(t, c, streamed(2, 5)...)
	c.Ack(1, tag, amqptest.Multiple)
	wantStream(t, c, streamed(5, 8)...)
	c.Sync(1)
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = startIn(t, dir)
	c = open(t, e)
	if n := ready(c, "s"); n != 10 {
		t.Fatalf("%d messages after a restart", n)
	}
	subscribeStream(c, 1, "s", "me", 100)
	wantStream(t, c, streamed(5, 10)...)
	fillStream(open(t, e), "s", 10, 11)
	wantStream(t, c, "m10@10")
	// Nobody else is concerned: generated tags, or tracking turned off.
	c = open(t, e)
	subscribeStream(c, 1, "s", "", 100)
	subscribeStream(c, 1, "s", "me", 100, "x-stream-automatic-offset-tracking", "false")
	c.WantQuiet(1)
}

func TestStream_Filter(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s")
	values := []string{"a", "b", "", "a,b", "c"}
	publish := func(i int) {
		b := amqp.NewTableBuilder(nil)
		if v := values[i%len(values)]; v != "" {
			b.SetString("x-stream-filter-value", v)
		}
		b.SetInt64("n", int64(i%3))
		c.Publish(1, amqptest.Message{Key: "s", Body: fmt.Sprintf("m%d", i), Properties: &amqp.Properties{Flags: amqp.FlagHeaders, Headers: b.Table()}})
	}
	for i := range 30 {
		publish(i)
	}
	c.Sync(1)
	pick := func(from, to int, f func(value string, n int) bool) (want []string) {
		for i := from; i < to; i++ {
			if f(values[i%len(values)], i%3) {
				want = append(want, fmt.Sprintf("m%d@%d", i, i))
			}
		}
		return want
	}
	nTable := func(n int) amqp.Value { return amqp.TableValue(table("n", fmt.Sprint(n))) }
	type filter struct {
		pairs []any
		want  func(value string, n int) bool
	}
	var readers []*amqptest.Client
	filters := []filter{
		{[]any{"x-stream-filter", "a"}, func(v string, _ int) bool { return strings.HasPrefix(v, "a") }},
		{[]any{"x-stream-filter", []any{"c", "b"}}, func(v string, _ int) bool { return v == "c" || strings.HasSuffix(v, "b") }},
		{[]any{"x-stream-filter", "c", "x-stream-match-unfiltered", true}, func(v string, _ int) bool { return v == "c" || v == "" }},
		{[]any{"x-stream-filter", "nobody"}, func(string, int) bool { return false }},
		{[]any{"x-stream-filter", nTable(1)}, func(_ string, n int) bool { return n == 1 }},
		{[]any{"x-stream-filter", []any{"c", nTable(1)}}, func(v string, n int) bool { return v == "c" && n == 1 }},
		{[]any{"x-stream-filter", []any{"c", nTable(1)}, "x-filter-match-type", "any"}, func(v string, n int) bool { return v == "c" || n == 1 }},
	}
	for _, f := range filters {
		r := open(t, e)
		subscribeStream(r, 1, "s", "t", 2, append([]any{"x-stream-offset", "first"}, f.pairs...)...)
		want := pick(0, 30, f.want)
		for len(want) > 0 { // what is passed over takes no credit
			n := min(2, len(want))
			tag := wantStream(t, r, want[:n]...)
			r.Ack(1, tag, amqptest.Multiple)
			want = want[n:]
		}
		r.WantQuiet(1)
		readers = append(readers, r)
	}
	for i := 30; i < 36; i++ {
		publish(i)
	}
	for i, r := range readers {
		for _, w := range pick(30, 36, filters[i].want) {
			r.Ack(1, wantStream(t, r, w), 0)
		}
	}
	m := c.Consume("s", "t", 0)
	amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 2})
	m.Arguments = table("x-stream-filter", 5)
	c.Method(1, m)
	c.Want("1 channel.close 406 (60,20) PRECONDITION_FAILED - invalid arg 'x-stream-filter' for queue 's' in vhost '/': {unacceptable_type,signedint}")
}

func TestStream_SingleActiveConsumer(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s", "x-single-active-consumer", true)
	fillStream(c, "s", 0, 6)
	first, second := open(t, e), open(t, e)
	subscribeStream(first, 1, "s", "first", 3, "x-stream-offset", "first")
	subscribeStream(second, 1, "s", "second", 3, "x-stream-offset", "first")
	wantStream(t, first, streamed(0, 3)...)
	first.Ack(1, 1, 0)
	wantStream(t, first, streamed(3, 4)...)
	second.WantQuiet(1)
	first.Abort()
	wantStream(t, second, streamed(1, 4)...) // where the group was
	second.Ack(1, 0, amqptest.Multiple)
	wantStream(t, second, streamed(4, 6)...)
}

// TestStream_SingleActiveConsumer_NothingAcknowledged: who follows goes on where
// the one before began, if that has acknowledged nothing: not where an earlier
// group got to, and not where its own arguments say.
func TestStream_SingleActiveConsumer_NothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	stream(c, "s", "x-single-active-consumer", true)
	fillStream(c, "s", 0, 6)
	before := open(t, e)
	subscribeStream(before, 1, "s", "before", 10, "x-stream-offset", "first")
	before.Ack(1, wantStream(t, before, streamed(0, 6)...), amqptest.Multiple)
	before.Sync(1)
	amqptest.Ask[*amqp.BasicCancelOk](before, 1, &amqp.BasicCancel{ConsumerTag: []byte("before")})

	first, second := open(t, e), open(t, e)
	subscribeStream(first, 1, "s", "first", 3, "x-stream-offset", 1)
	subscribeStream(second, 1, "s", "second", 3, "x-stream-offset", "next")
	wantStream(t, first, streamed(1, 4)...)
	second.WantQuiet(1)
	first.Abort()
	wantStream(t, second, streamed(1, 4)...)
	second.Ack(1, 0, amqptest.Multiple)
	wantStream(t, second, streamed(4, 6)...)
	second.Ack(1, 0, amqptest.Multiple)
	second.Sync(1)
	amqptest.Ask[*amqp.BasicCancelOk](second, 1, &amqp.BasicCancel{ConsumerTag: []byte("second")})

	// A group whose first consumer says nothing begins with the next message, and
	// is there even if it has never acknowledged one.
	stream(c, "new", "x-single-active-consumer", true)
	fillStream(c, "new", 0, 2)
	waiting := open(t, e)
	subscribeStream(waiting, 1, "new", "waiting", 3)
	fillStream(c, "new", 2, 4)
	wantStream(t, waiting, streamed(2, 4)...)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	c = open(t, startIn(t, dir))
	subscribeStream(c, 1, "new", "another", 3)
	wantStream(t, c, streamed(2, 4)...)
	subscribeStream(c, 1, "s", "another too", 3)
	c.WantQuiet(1)
}
