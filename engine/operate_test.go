package engine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// operating is a broker with a client.
func operating(t *testing.T, change ...func(*engine.Config)) (*engine.Engine, *amqptest.Client, *broker.VHost) {
	t.Helper()
	e := start(t, change...)
	return e, open(t, e), e.Broker().VHost("/")
}

// TestUnacked: who has what, of queues with levels and streams too.
func TestUnacked(t *testing.T) {
	t.Parallel()
	e, c, vh := operating(t)
	c.Declare("q", 0)
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare("levels", 0, table("x-max-priority", 3)))
	c.PublishAll(1, "q", "a", "b", "c", "d")
	c.Publish(1, amqptest.Message{Key: "levels", Properties: &wire.Properties{Flags: wire.FlagPriority, Priority: 2}})
	qos(c, 2, false)
	c.Subscribe(1, "q", "tag", 0)
	for range 2 {
		delivery(c)
	}
	c.OpenChannel(2)
	if got := c.Get(2, "q", 0); !got.Content {
		t.Fatal(got)
	}
	if got := c.Get(2, "levels", 0); !got.Content {
		t.Fatal(got)
	}
	list := func(queue string, limit int) (out []string) {
		t.Helper()
		all, err := e.AMQP().Unacked(t.Context(), vh.FindQueue(queue), limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			if u.ChannelName != fmt.Sprintf("%s (%d)", u.Connection, u.Channel) || u.DeliveredAt == 0 || u.Seconds < 0 {
				t.Errorf("%+v", u)
			}
			out = append(out, fmt.Sprintf("%d %s %d @%d", u.Channel, u.ConsumerTag, u.DeliveryTag, u.Offset))
		}
		return out
	}
	if got := list("q", 100); !slices.Equal(got, []string{"1 tag 1 @0", "1 tag 2 @1", "2  1 @2"}) {
		t.Errorf("%q", got)
	}
	if got := list("q", 1); len(got) != 1 {
		t.Errorf("%q with a limit of 1", got)
	}
	if got := list("levels", 100); !slices.Equal(got, []string{"2  2 @0"}) {
		t.Errorf("%q", got)
	}
	c.Ack(1, 1, 0)
	delivery(c) // the next
	if got := list("q", 100); !slices.Equal(got, []string{"1 tag 2 @1", "1 tag 3 @3", "2  1 @2"}) {
		t.Errorf("%q", got)
	}
}

// TestCancelConsumer: the client is told, and keeps what it has unacknowledged;
// an auto-delete queue goes with its last consumer.
func TestCancelConsumer(t *testing.T) {
	t.Parallel()
	e, c, vh := operating(t)
	c.Declare("q", amqptest.AutoDelete)
	c.PublishAll(1, "q", "a")
	c.Subscribe(1, "q", "one", 0)
	delivery(c)
	c.Subscribe(1, "q", "two", 0)
	connections, err := e.AMQP().Connections(t.Context())
	if err != nil || len(connections) != 1 {
		t.Fatal(connections, err)
	}
	name := connections[0].Name
	cancel := func(connection string, channel uint16, tag string, want bool) {
		t.Helper()
		found, err := e.AMQP().CancelConsumer(t.Context(), vh, connection, channel, tag)
		if found != want || err != nil {
			t.Errorf("cancel %s %d %s: %v, %v", connection, channel, tag, found, err)
		}
	}
	cancel(name, 1, "three", false)
	cancel(name, 2, "one", false)
	cancel("nobody", 1, "one", false)
	cancel(name, 1, "one", true)
	c.Want("1 basic.cancel ConsumerTag=one NoWait=true")
	cancel(name, 1, "one", false)
	c.Ack(1, 1, 0)
	c.PublishAll(1, "q", "b")
	if m, body := delivery(c); body != "b" || string(m.ConsumerTag) != "two" {
		t.Errorf("%s to %s", body, m.ConsumerTag)
	}
	cancel(name, 1, "two", true)
	c.Want("1 basic.cancel ConsumerTag=two NoWait=true")
	if vh.FindQueue("q") != nil {
		t.Error("an auto-delete queue without consumers")
	}
}

// TestSetPrefetch: it counts at once, for consumers that there are and for those
// to come.
func TestSetPrefetch(t *testing.T) {
	t.Parallel()
	e, c, _ := operating(t)
	c.Declare("q", 0)
	c.PublishAll(1, "q", "1", "2", "3", "4", "5")
	qos(c, 1, false)
	c.Subscribe(1, "q", "tag", 0)
	delivery(c)
	c.WantQuiet(1)
	connections, err := e.AMQP().Connections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := connections[0].Name
	set := func(channel, n uint16, want bool) {
		t.Helper()
		if found, err := e.AMQP().SetPrefetch(t.Context(), name, channel, n); found != want || err != nil {
			t.Errorf("channel %d: %v, %v", channel, found, err)
		}
	}
	set(7, 3, false)
	set(1, 3, true)
	delivery(c)
	delivery(c)
	c.WantQuiet(1)
	set(1, 1, true) // nothing more until all but one are acknowledged
	c.Ack(1, 2, amqptest.Multiple)
	c.WantQuiet(1)
	set(1, 0, true)
	delivery(c)
	delivery(c)
	list, err := e.AMQP().Channels(t.Context())
	if err != nil || len(list) != 1 || list[0].Prefetch != 0 {
		t.Error(list, err)
	}
	qos(c, 5, false)
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare("s", amqptest.Durable, table("x-queue-type", "stream")))
	c.Subscribe(1, "s", "stream", 0)
	if _, err := e.AMQP().SetPrefetch(t.Context(), name, 1, 0); err == nil || !strings.Contains(err.Error(), "must not be 0") {
		t.Error(err)
	}
}

// TestPause_Clients: consumers of a paused queue wait, basic.get finds nothing,
// publishing goes on, and everything comes in order afterwards.
func TestPause_Clients(t *testing.T) {
	t.Parallel()
	_, c, vh := operating(t)
	c.Declare("q", 0)
	waiting(c, "q", "tag", 0)
	pause := func(paused bool) {
		t.Helper()
		if _, err := vh.PauseQueue(vh.FindQueue("q"), paused); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		pause(true)
		c.PublishAll(1, "q", fmt.Sprint(round, "a"), fmt.Sprint(round, "b"))
		c.OpenChannel(2)
		if got := c.Get(2, "q", 0); got.Content {
			t.Errorf("round %d: %v", round, got)
		}
		amqptest.Ask[*wire.ChannelCloseOk](c, 2, &wire.ChannelClose{})
		c.WantQuiet(1)
		pause(false)
		for _, want := range []string{"a", "b"} {
			if m, got := delivery(c); got != fmt.Sprint(round, want) || m.Redelivered {
				t.Errorf("round %d: %s, redelivered %v", round, got, m.Redelivered)
			}
		}
	}
}

// TestMove_UnderLoad: messages move while others are published and consumed at
// both ends, and each is consumed exactly once.
func TestMove_UnderLoad(t *testing.T) {
	t.Parallel()
	e, publisher, vh := operating(t)
	consumer := open(t, e)
	publisher.Declare("from", amqptest.Durable)
	publisher.Declare("to", amqptest.Durable)
	waiting(consumer, "to", "tag", amqptest.NoAck)
	const n = 2000
	seen := make(chan string, n)
	go func() {
		for range n {
			event, err := consumer.Next()
			if err != nil {
				break
			}
			seen <- string(event.Body)
		}
		close(seen)
	}()
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("m", i))
	}
	for i := 0; i < n; i += 100 {
		publisher.PublishAll(1, "from", want[i:i+100]...)
	}
	moved := uint64(0)
	for moved < n {
		m, err := e.Broker().Move(context.Background(), vh.FindQueue("from"), vh.FindQueue("to"), broker.MoveMax, 0)
		if err != nil {
			t.Fatal(err)
		}
		moved += m.Messages
	}
	var got []string
	for body := range seen {
		got = append(got, body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d messages arrive, in order: %v", len(got), slices.IsSorted(got))
	}
}

// TestMove_StopMeanwhile: a stop of the broker in the middle of a move loses
// nothing and doubles nothing.
func TestMove_StopMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := engine.Config{DataDir: dir, Loops: 1, IO: os.Getenv(ioVariable)}
	e, err := engine.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("from", amqptest.Durable)
	c.Declare("to", amqptest.Durable)
	const n = 30_000
	for i := 0; i < n; i += 1000 {
		c.PublishAll(1, "from", numbered("m", i, i+1000)...)
	}
	c.Sync(1)
	c.Abort()
	vh := e.Broker().VHost("/")
	from, to := vh.FindQueue("from"), vh.FindQueue("to")
	ctx, cancel := context.WithTimeout(t.Context(), amqptest.Patience)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for { // until the broker takes no more
			if moved, err := e.Broker().Move(ctx, from, to, 100, 0); err != nil || moved.Messages == 0 {
				return
			}
		}
	}()
	eventually(t, "some have moved", func() bool { return to.Counts().Ready > 0 })
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	if e, err = engine.Start(config); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}()
	vh = e.Broker().VHost("/")
	seen := map[string]int{}
	for _, name := range []string{"from", "to"} {
		for q := vh.FindQueue(name); ; {
			list, err := q.Collect(t.Context(), 5000, 100, broker.Ack)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				seen[string(m.Body)]++
			}
			if len(list) == 0 {
				break
			}
		}
	}
	for body, times := range seen {
		if times != 1 {
			t.Fatalf("%s is there %d times", body, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d messages are there, want %d", len(seen), n)
	}
}
