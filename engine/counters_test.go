package engine_test

import (
	"context"
	"maps"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// counted is what a list of counters holds besides zeros.
type counted map[stats.Kind]uint64

func nonzero(c stats.Counts) counted {
	all := counted{}
	for k, n := range c {
		if n > 0 {
			all[stats.Kind(k)] = n
		}
	}
	return all
}

func wantCounts(t *testing.T, what string, got stats.Counts, want counted) {
	t.Helper()
	if has := nonzero(got); !maps.Equal(has, want) {
		t.Errorf("%s counts %v, want %v", what, has, want)
	}
}

// channelCounts returns those of all channels together.
func channelCounts(t *testing.T, e *engine.Engine) (n stats.Counts) {
	t.Helper()
	list, err := e.AMQP().Channels(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, ch := range list {
		n.Add(&ch.Counts)
	}
	return n
}

func exchangeCounts(vh *broker.VHost, name string) stats.Counts {
	for _, x := range vh.SortedExchanges() {
		if x.Name == name {
			return x.MessageCounts()
		}
	}
	return stats.Counts{}
}

func TestCounters_PublishGetAck(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	vh := e.Broker().VHost("/")
	for _, q := range []string{"a", "b"} {
		c.Declare(q, amqptest.Durable)
		amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	amqptest.Ask[*wire.ConfirmSelectOk](c, 1, &wire.ConfirmSelect{})
	// Equal ones take the fast path, others do not; two exchanges share a batch.
	var raw []byte
	for range 10 {
		raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "amq.fanout", Key: "k", Body: "12345"})
	}
	for i := range 3 {
		raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "a", Body: "123"[:i]})
	}
	raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "amq.direct", Key: "nobody", Body: "1"})
	raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Exchange: "amq.direct", Key: "nobody", Body: "12", Mandatory: true})
	c.Write(raw)
	confirmed := uint64(0)
	for confirmed < 15 {
		switch m := c.Read().Method.(type) {
		case *wire.BasicAck:
			confirmed = m.DeliveryTag
		case *wire.BasicReturn:
		default:
			t.Fatalf("%T", m)
		}
	}
	for range 4 {
		c.Get(1, "a", 0)
	}
	c.Get(1, "b", amqptest.NoAck)
	c.Ack(1, 3, amqptest.Multiple)
	c.Nack(1, 4, amqptest.Requeue)
	c.Get(1, "a", amqptest.NoAck)
	c.Declare("empty", 0)
	c.Get(1, "empty", 0)
	c.Sync(1)

	wantCounts(t, "the queue a", vh.FindQueue("a").MessageCounts(), counted{
		stats.Publish: 13, stats.BytesIn: 53, stats.Get: 4, stats.GetNoAck: 1, stats.Redeliver: 1, stats.Ack: 3, stats.BytesOut: 25,
	})
	wantCounts(t, "the queue b", vh.FindQueue("b").MessageCounts(), counted{stats.Publish: 10, stats.BytesIn: 50, stats.GetNoAck: 1, stats.BytesOut: 5})
	wantCounts(t, "the empty queue", vh.FindQueue("empty").MessageCounts(), counted{stats.GetEmpty: 1})
	wantCounts(t, "amq.fanout", exchangeCounts(vh, "amq.fanout"), counted{stats.PublishIn: 10, stats.PublishOut: 20, stats.BytesIn: 50})
	wantCounts(t, "the default exchange", exchangeCounts(vh, ""), counted{stats.PublishIn: 3, stats.PublishOut: 3, stats.BytesIn: 3})
	wantCounts(t, "amq.direct", exchangeCounts(vh, "amq.direct"), counted{stats.PublishIn: 2, stats.DropUnroutable: 2, stats.BytesIn: 3})
	channel := counted{
		stats.Publish: 15, stats.BytesIn: 56, stats.Confirm: 15, stats.ReturnUnroutable: 1, stats.DropUnroutable: 1,
		stats.Get: 4, stats.GetNoAck: 2, stats.GetEmpty: 1, stats.Redeliver: 1, stats.Ack: 3, stats.Reject: 1, stats.BytesOut: 30,
	}
	wantCounts(t, "the channel", channelCounts(t, e), channel)
	channel[stats.PublishOut] = 23
	wantCounts(t, "the virtual host", vh.MessageCounts(), channel)
	totals, churn := e.Broker().Totals()
	wantCounts(t, "the broker", totals, channel)
	if want := [stats.Events]uint64{stats.ConnectionCreated: 1, stats.ChannelCreated: 1, stats.QueueDeclared: 3, stats.QueueCreated: 3}; churn != want {
		t.Errorf("events %v, want %v", churn, want)
	}
}

// declareKind declares a durable queue of a kind.
func declareKind(c *amqptest.Client, name, kind string) {
	var arguments wire.TableBuilder
	switch kind {
	case "priority":
		arguments.SetInt64("x-max-priority", 3)
	case "stream":
		arguments.SetString("x-queue-type", "stream")
	case "limited":
		arguments.SetInt64("x-max-length", 100)
	}
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare(name, amqptest.Durable, arguments.Table()))
}

// TestCounters_Deliveries: with and without acknowledgements, from a plain queue,
// a priority queue and a stream; what is taken and not sent does not count.
func TestCounters_Deliveries(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "priority", "stream"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			c := open(t, e)
			declareKind(c, "q", kind)
			c.PublishAll(1, "q", "1", "22", "333", "4444")
			amqptest.Ask[*wire.BasicQosOk](c, 1, &wire.BasicQos{PrefetchCount: 2})
			if kind == "stream" {
				var from wire.TableBuilder
				from.SetString("x-stream-offset", "first")
				m := c.Consume("q", "t", 0)
				m.Arguments = from.Table()
				amqptest.Ask[*wire.BasicConsumeOk](c, 1, m)
			} else {
				c.Subscribe(1, "q", "t", 0)
			}
			amqptest.Expect[*wire.BasicDeliver](c)
			amqptest.Expect[*wire.BasicDeliver](c)
			q := e.Broker().VHost("/").FindQueue("q")
			want := counted{stats.Publish: 4, stats.BytesIn: 10, stats.Deliver: 2, stats.BytesOut: 3}
			eventually(t, "two deliveries are counted", func() bool { return maps.Equal(nonzero(q.MessageCounts()), want) })
			c.Ack(1, 1, 0)
			amqptest.Expect[*wire.BasicDeliver](c)
			want[stats.Deliver], want[stats.BytesOut], want[stats.Ack] = 3, 6, 1
			eventually(t, "the third and its ack are counted", func() bool { return maps.Equal(nonzero(q.MessageCounts()), want) })
			amqptest.Ask[*wire.ChannelCloseOk](c, 1, &wire.ChannelClose{})
			if kind == "stream" {
				return
			}
			c.OpenChannel(1)
			c.Subscribe(1, "q", "t", amqptest.NoAck)
			for range 3 {
				amqptest.Expect[*wire.BasicDeliver](c)
			}
			want[stats.DeliverNoAck], want[stats.Redeliver], want[stats.BytesOut] = 3, 2, 15
			eventually(t, "the deliveries without acks are counted", func() bool { return maps.Equal(nonzero(q.MessageCounts()), want) })
		})
	}
}

// TestCounters_DeletedVHost: totals do not go down when a virtual host goes.
func TestCounters_DeletedVHost(t *testing.T) {
	t.Parallel()
	e := start(t)
	b := e.Broker()
	if _, err := b.AddVHost(broker.VHostSpec{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetPermissions("guest", "v", access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{VHost: "v"})
	c.Declare("q", 0)
	c.PublishAll(1, "q", "x", "y")
	c.Sync(1)
	before, _ := b.Totals()
	if before[stats.Publish] != 2 {
		t.Fatalf("published %d", before[stats.Publish])
	}
	if _, err := b.DeleteVHost("v"); err != nil {
		t.Fatal(err)
	}
	amqptest.Expect[*wire.ConnectionClose](c)
	c.FinishClose()
	want := [stats.Events]uint64{stats.ConnectionCreated: 1, stats.ConnectionClosed: 1, stats.ChannelCreated: 1, stats.ChannelClosed: 1, stats.QueueDeclared: 1, stats.QueueCreated: 1, stats.QueueDeleted: 1}
	eventually(t, "the connection is counted as closed", func() bool { _, churn := b.Totals(); return churn == want })
	after, _ := b.Totals()
	again, _ := b.Totals()
	if after != before || again != before {
		t.Errorf("totals %v, then %v, then %v", before, after, again)
	}
}
