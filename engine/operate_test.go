package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// operating is a broker with a client.
func operating(t *testing.T, change ...func(*engine.Config)) (*engine.Engine, *amqptest.Client, *broker.VHost) {
	t.Helper()
	e := start(t, change...)
	return e, open(t, e), e.Broker().VHost("/")
}

// TestPost_Routes: what is routed, and how that is found out.
func TestPost_Routes(t *testing.T) {
	t.Parallel()
	e, c, vh := operating(t)
	c.Declare("q", amqptest.Durable)
	full := func(name, overflow string) {
		amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare(name, 0, table("x-max-length", 1, "x-overflow", overflow)))
	}
	full("full", "reject-publish")
	full("dropping", "drop-head")
	amqptest.Ask[*wire.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("fan", "fanout", 0, nil))
	amqptest.Ask[*wire.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("internal", "fanout", amqptest.Internal, nil))
	amqptest.Ask[*wire.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("once", "fanout", 0, table("x-message-deduplication", true)))
	amqptest.Ask[*wire.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("later", "x-delayed-message", 0, table("x-delayed-type", "fanout")))
	for _, exchange := range []string{"fan", "once"} {
		amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind("q", exchange, "", nil))
	}
	persistent := wire.Properties{Flags: wire.FlagDeliveryMode, DeliveryMode: 2}
	with := func(pairs ...any) wire.Properties {
		return wire.Properties{Flags: wire.FlagHeaders, Headers: table(pairs...)}
	}
	for _, step := range []struct {
		exchange, key string
		properties    wire.Properties
		routed        bool
		err           string // part of it
	}{
		{"", "q", wire.Properties{}, true, ""},
		{"", "q", persistent, true, ""},
		{"fan", "whatever", persistent, true, ""},
		{"", "nowhere", persistent, false, ""},
		{"amq.topic", "a.b", persistent, false, ""},
		{"", "full", persistent, true, ""},
		{"", "full", persistent, false, ""},
		{"", "dropping", persistent, true, ""},
		{"", "dropping", persistent, true, ""},
		{"", "nowhere", with("CC", []any{"q"}), true, ""},
		{"once", "", with("x-deduplication-header", "v"), true, ""},
		{"once", "", with("x-deduplication-header", "v"), false, ""},
		{"later", "", with("x-delay", 3_600_000), true, ""},
		{"later", "", wire.Properties{}, false, ""},
		{"nope", "", persistent, false, "404 NOT_FOUND - no exchange 'nope' in vhost '/'"},
		{"internal", "", persistent, false, "403"},
		{"", "q", wire.Properties{Flags: wire.FlagDeliveryMode, DeliveryMode: 7}, false, "{delivery_mode_unknown,7}"},
		{"", "q", wire.Properties{Flags: wire.FlagExpiration, Expiration: []byte("soon")}, false, "invalid expiration 'soon'"},
		{"", "q", wire.Properties{Flags: wire.FlagReplyTo, ReplyTo: []byte("amq.rabbitmq.reply-to")}, false, "fast reply consumer does not exist"},
		{"", "q", with("CC", 7), false, "unacceptable_type_in_header"},
		{"", "q", wire.Properties{Flags: wire.FlagUserID, UserID: []byte("anybody")}, true, ""},
	} {
		routed, err := e.AMQP().Post(t.Context(), vh, &amqp.Posting{Exchange: step.exchange, RoutingKey: step.key, Properties: step.properties, Body: []byte("body")})
		if routed != step.routed || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%q %q: %v, %v; want %v, %q", step.exchange, step.key, routed, err, step.routed, step.err)
		}
	}
	guest, err := e.Broker().Identify([]byte("guest"), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"guest": true, "another": false} {
		p := &amqp.Posting{RoutingKey: "nowhere", User: guest.User, Properties: wire.Properties{Flags: wire.FlagUserID, UserID: []byte(name)}}
		if _, err := e.AMQP().Post(t.Context(), vh, p); (err == nil) != want {
			t.Errorf("guest publishes as %s: %v", name, err)
		}
	}
	counts, exchanges := vh.MessageCounts(), map[string]uint64{}
	for _, x := range vh.SortedExchanges() {
		n := x.MessageCounts()
		exchanges[x.Name] = n[stats.PublishIn]*100 + n[stats.PublishOut]
	}
	if counts[stats.Publish] != 16 || counts[stats.ReturnUnroutable] != 4 || exchanges["fan"] != 101 || exchanges["once"] != 202 || exchanges["amq.topic"] != 100 {
		t.Errorf("%v, %v", counts, exchanges)
	}
	if _, err := vh.FindQueue("q").Collect(t.Context(), 2, 10, broker.PutBack); err != nil {
		t.Fatal(err)
	}
	if n := vh.MessageCounts(); n[stats.Get] != 2 || n[stats.BytesOut] != 8 || n[stats.Redeliver] != 0 {
		t.Errorf("%v", n)
	}
	if n := c.Declare("q", amqptest.Durable).MessageCount; n != 6 {
		t.Errorf("%d messages in the queue, want 6", n)
	}
}

// TestPost_ToConsumers: a message goes to a consumer with its properties, to a
// client that waits for a reply, and to large queues alike.
func TestPost_ToConsumers(t *testing.T) {
	t.Parallel()
	e, c, vh := operating(t)
	c.Declare("q", amqptest.Durable)
	waiting(c, "q", "tag", amqptest.NoAck)
	big := strings.Repeat("x", 3<<20)
	for _, body := range []string{"", "small", big} {
		routed, err := e.AMQP().Post(t.Context(), vh, &amqp.Posting{RoutingKey: "q", Body: []byte(body), Properties: wire.Properties{Flags: wire.FlagType | wire.FlagDeliveryMode, Type: []byte("t"), DeliveryMode: 2}})
		if !routed || err != nil {
			t.Fatal(routed, err)
		}
		got := c.Read()
		p, err := wire.DecodeProperties(got.Properties)
		if string(got.Body) != body || err != nil || string(p.Type) != "t" {
			t.Fatalf("%d bytes arrive, %+v, %v", len(got.Body), p, err)
		}
	}
	c.OpenChannel(2)
	c.Subscribe(2, "amq.rabbitmq.reply-to", "replies", amqptest.NoAck)
	c.Publish(2, amqptest.Message{Key: "requests", Properties: &wire.Properties{Flags: wire.FlagReplyTo, ReplyTo: []byte("amq.rabbitmq.reply-to")}})
	c.Declare("requests", 0)
	c.Publish(2, amqptest.Message{Key: "requests", Properties: &wire.Properties{Flags: wire.FlagReplyTo, ReplyTo: []byte("amq.rabbitmq.reply-to")}})
	request := c.Get(2, "requests", amqptest.NoAck)
	p, err := wire.DecodeProperties(request.Properties)
	if err != nil {
		t.Fatal(err)
	}
	routed, err := e.AMQP().Post(t.Context(), vh, &amqp.Posting{RoutingKey: string(p.ReplyTo), Body: []byte("answer")})
	if got := c.Read(); !routed || err != nil || got.Channel != 2 || string(got.Body) != "answer" {
		t.Errorf("%v, %v, %v", routed, err, got)
	}
	routed, err = e.AMQP().Post(t.Context(), vh, &amqp.Posting{RoutingKey: string(p.ReplyTo) + "x", Body: []byte("answer")})
	if routed || err != nil {
		t.Errorf("a reply to nobody: %v, %v", routed, err)
	}
}

// TestPost_Alarm: while the disk is full operators do not publish either.
func TestPost_Alarm(t *testing.T) {
	t.Parallel()
	e, _, vh := operating(t)
	e.AMQP().SetAlarm("low on disk: a test")
	_, err := e.AMQP().Post(t.Context(), vh, &amqp.Posting{RoutingKey: "q"})
	if !errors.Is(err, amqp.ErrBlocked) || !strings.Contains(err.Error(), "low on disk: a test") {
		t.Error(err)
	}
	if err := e.AMQP().Alive(t.Context(), vh); !errors.Is(err, amqp.ErrBlocked) {
		t.Error(err)
	}
	e.AMQP().SetAlarm("")
	for range 2 {
		if err := e.AMQP().Alive(t.Context(), vh); err != nil {
			t.Error(err)
		}
	}
	if q := vh.FindQueue("aliveness-test"); q == nil || q.Counts().Ready != 0 {
		t.Error("the test's queue is not there, or not empty")
	}
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
