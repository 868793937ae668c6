package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// ranked is a message of a priority; negative: without the property.
func ranked(queue, body string, priority int) amqptest.Message {
	m := amqptest.Message{Key: queue, Body: body, Persistent: true}
	if priority >= 0 {
		m.Properties = &amqp.Properties{Flags: amqp.FlagPriority | amqp.FlagDeliveryMode, Priority: uint8(priority), DeliveryMode: 2}
	}
	return m
}

// TestPriority_Order: the highest first, within a priority the oldest; what is
// above the maximum counts as the maximum, what has none as 0.
func TestPriority_Order(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	if ok := declareWith(c, "q", amqptest.Durable, "x-max-priority", 5); ok.MessageCount != 0 {
		t.Fatal(ok)
	}
	for i, p := range []int{0, 3, -1, 9, 5, 3, 200, 1} {
		c.Publish(1, ranked("q", fmt.Sprint(i), p))
	}
	if n := ready(c, "q"); n != 8 {
		t.Fatal(n)
	}
	got := c.Get(1, "q", amqptest.NoAck)
	if string(got.Body) != "3" || got.Method.(*amqp.BasicGetOk).MessageCount != 7 || properties(got).Priority != 9 {
		t.Fatal(got)
	}
	if got, want := drain(c, "q"), []string{"4", "6", "1", "5", "7", "0", "2"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// TestPriority_Requeue: what comes back goes to its place within its priority.
func TestPriority_Requeue(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "q", 0, "x-max-priority", 3)
	for i, p := range []int{2, 2, 0, 1, 0} {
		c.Publish(1, ranked("q", fmt.Sprint(i), p))
	}
	qos(c, 3, false)
	c.Subscribe(1, "q", "t", 0)
	for _, want := range []string{"0", "1", "3"} {
		if d, body := delivery(c); body != want || d.Redelivered {
			t.Fatalf("%s redelivered %v", body, d.Redelivered)
		}
	}
	c.Nack(1, 2, amqptest.Requeue) // 1
	if d, body := delivery(c); body != "1" || !d.Redelivered {
		t.Fatal(body)
	}
	c.Nack(1, 0, amqptest.Multiple|amqptest.Requeue)
	for _, want := range []string{"0", "1", "3"} {
		if d, body := delivery(c); body != want || !d.Redelivered {
			t.Fatalf("%s redelivered %v", body, d.Redelivered)
		}
	}
	c.Ack(1, 0, amqptest.Multiple)
	for _, want := range []string{"2", "4"} {
		if d, body := delivery(c); body != want || d.Redelivered {
			t.Fatalf("%s redelivered %v", body, d.Redelivered)
		}
	}
	if ok := amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare("q", amqptest.Passive, nil)); ok.MessageCount != 0 || ok.ConsumerCount != 1 {
		t.Fatal(ok)
	}
}

// TestPriority_Overtakes: a consumer with a prefetch gets what came later and
// is more urgent first.
func TestPriority_Overtakes(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "q", 0, "x-max-priority", 10)
	qos(c, 1, false)
	c.Subscribe(1, "q", "t", 0)
	c.Publish(1, ranked("q", "0", 0))
	if _, body := delivery(c); body != "0" {
		t.Fatal(body)
	}
	for i, p := range []int{0, 4, 10} {
		c.Publish(1, ranked("q", fmt.Sprint(1+i), p))
	}
	for tag, want := range []string{"3", "2", "1"} {
		c.Ack(1, uint64(tag+1), 0)
		if _, body := delivery(c); body != want {
			t.Fatalf("%s, want %s", body, want)
		}
	}
}

// TestPriority_Restart: levels survive with their order, and only what was
// delivered is flagged.
func TestPriority_Restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	declareWith(c, "q", amqptest.Durable, "x-max-priority", 255, "x-delivery-limit", 5)
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	confirmed := uint64(0)
	for i, p := range []int{7, 0, 255, 7, 0} {
		c.Publish(1, ranked("q", fmt.Sprint(i), p))
		for confirmed < uint64(i+1) {
			confirmed = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
		}
	}
	for _, want := range []string{"2", "0"} {
		if got := c.Get(1, "q", 0); string(got.Body) != want {
			t.Fatal(got)
		}
	}
	c.Ack(1, 1, 0)
	c.Nack(1, 2, amqptest.Requeue)
	c.Sync(1)
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}

	e = startIn(t, dir)
	c = open(t, e)
	if ok := declareWith(c, "q", amqptest.Durable, "x-max-priority", 255, "x-delivery-limit", 5); ok.MessageCount != 4 {
		t.Fatal(ok)
	}
	for i, want := range []string{"0", "3", "1", "4"} {
		got := c.Get(1, "q", amqptest.NoAck)
		if string(got.Body) != want || got.Method.(*amqp.BasicGetOk).Redelivered != (i == 0) {
			t.Fatalf("%s, want %s", got, want)
		}
		if counted := headers(got); (counted == "{x-delivery-count=1}") != (i == 0) {
			t.Fatal(counted)
		}
	}
	// The name is free for another queue; nothing of the old one comes back.
	c.Publish(1, ranked("q", "old", 9))
	if ok := amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("q")}); ok.MessageCount != 1 {
		t.Fatal(ok)
	}
	declareWith(c, "q", amqptest.Durable, "x-max-priority", 255)
	if n := ready(c, "q"); n != 0 {
		t.Fatal(n)
	}
}

// TestPriority_Limits: the limit is the family's; the head goes, which is the
// oldest of the highest priority.
func TestPriority_Limits(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "drop", 0, "x-max-priority", 5, "x-max-length", 3, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	declareWith(c, "dead", 0, "x-max-priority", 5)
	for i, p := range []int{2, 1, 2, 0, 1} {
		c.Publish(1, ranked("drop", fmt.Sprint(i), p))
	}
	if got, want := drain(c, "drop"), []string{"1", "4", "3"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for _, want := range []string{"0", "2"} {
		if got := getSoon(t, c, "dead"); string(got.Body) != want || properties(got).Priority != 2 {
			t.Fatal(got)
		}
	}
	declareWith(c, "bytes", 0, "x-max-priority", 5, "x-max-length-bytes", 6)
	for _, m := range []struct {
		body     string
		priority int
	}{{"aaa", 0}, {"bb", 4}, {"c", 2}, {"d", 1}} {
		c.Publish(1, ranked("bytes", m.body, m.priority))
	}
	if got, want := drain(c, "bytes"), []string{"c", "d", "aaa"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}

	declareWith(c, "reject", 0, "x-max-priority", 5, "x-max-length", 2, "x-overflow", "reject-publish")
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	for i, p := range []int{0, 5, 3} {
		c.Publish(1, ranked("reject", fmt.Sprint(i), p))
		if i < 2 {
			amqptest.Expect[*amqp.BasicAck](c)
		} else {
			amqptest.Expect[*amqp.BasicNack](c)
		}
	}
	if ok := amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: []byte("reject")}); ok.MessageCount != 2 {
		t.Fatal(ok)
	}
}

// TestPriority_Expiry: a message that has expired goes, whatever is in front
// of it.
func TestPriority_Expiry(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "q", 0, "x-max-priority", 5, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
	c.Declare("dead", 0)
	c.Publish(1, ranked("q", "urgent", 5))
	m := ranked("q", "short", 1)
	m.Properties.Flags |= amqp.FlagExpiration
	m.Properties.Expiration = []byte("1")
	c.Publish(1, m)
	if got := getSoon(t, c, "dead"); string(got.Body) != "short" {
		t.Fatal(got)
	}
	if got := drain(c, "q"); !slices.Equal(got, []string{"urgent"}) {
		t.Fatal(got)
	}
}

// TestPriority_Transaction: publishes of several priorities and acks of several
// levels are one transaction.
func TestPriority_Transaction(t *testing.T) {
	t.Parallel()
	e := start(t)
	c, other := open(t, e), open(t, e)
	declareWith(c, "q", amqptest.Durable, "x-max-priority", 5)
	c.Publish(1, ranked("q", "a", 5))
	c.Publish(1, ranked("q", "b", 0))
	amqptest.Ask[*amqp.TxSelectOk](c, 1, &amqp.TxSelect{})
	c.Get(1, "q", 0)
	c.Get(1, "q", 0)
	c.Ack(1, 0, amqptest.Multiple)
	c.Publish(1, ranked("q", "c", 1))
	c.Publish(1, ranked("q", "d", 3))
	if n := ready(other, "q"); n != 0 {
		t.Fatal(n)
	}
	amqptest.Ask[*amqp.TxCommitOk](c, 1, &amqp.TxCommit{})
	if got := drain(other, "q"); !slices.Equal(got, []string{"d", "c"}) {
		t.Fatal(got)
	}
}

// TestPriority_Large: bodies in files belong to the level, also after a restart.
func TestPriority_Large(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Version: "test", Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	declareWith(c, "q", amqptest.Durable, "x-max-priority", 2)
	big := string(make([]byte, 3<<20))
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	for i, p := range []int{0, 2, 1} {
		c.Publish(1, ranked("q", fmt.Sprint(big, i), p))
		amqptest.Expect[*amqp.BasicAck](c)
	}
	want := func(c *amqptest.Client, end string) {
		t.Helper()
		if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != big+end {
			t.Fatalf("%d bytes, not those that end with %s", len(got.Body), end)
		}
	}
	want(c, "1")
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = startIn(t, dir)
	c = open(t, e)
	want(c, "2")
	want(c, "0")
	eventually(t, "no body is left", func() bool {
		_, durable, _ := bodyFiles(t, dir)
		return durable == 0
	})
}

// TestPriority_Deduplicates: a value counts once for all priorities.
func TestPriority_Deduplicates(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	declareWith(c, "q", 0, "x-max-priority", 5, "x-message-deduplication", true)
	for i, p := range []int{1, 4, 0} {
		m := ranked("q", fmt.Sprint(i), p)
		m.Properties.Flags |= amqp.FlagHeaders
		m.Properties.Headers = table("x-deduplication-header", "same")
		c.Publish(1, m)
	}
	if got := drain(c, "q"); !slices.Equal(got, []string{"0"}) {
		t.Fatal(got)
	}
}
