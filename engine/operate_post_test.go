package engine_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

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
	if err := e.AMQP().Alive(t.Context(), vh, nil); !errors.Is(err, amqp.ErrBlocked) {
		t.Error(err)
	}
	e.AMQP().SetAlarm("")
	for range 2 {
		if err := e.AMQP().Alive(t.Context(), vh, nil); err != nil {
			t.Error(err)
		}
	}
	if q := vh.FindQueue("aliveness-test"); q == nil || q.Counts().Ready != 0 {
		t.Error("the test's queue is not there, or not empty")
	}
}
