package engine_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// open connects a client to e.
func open(t testing.TB, e *engine.Engine) *amqptest.Client {
	t.Helper()
	return amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
}

// numbered makes bodies prefix-from to prefix-(to-1).
func numbered(prefix string, from, to int) []string {
	var bodies []string
	for i := from; i < to; i++ {
		bodies = append(bodies, prefix+strconv.Itoa(i))
	}
	return bodies
}

// delivery reads a basic.deliver.
func delivery(c *amqptest.Client) (amqp.BasicDeliver, string) {
	event := amqptest.Expect[*amqp.BasicDeliver](c)
	return *event.Method.(*amqp.BasicDeliver), string(event.Body)
}

// TestDelivery_Order: the messages of one channel to one queue keep their order
// (4.7), whatever other publishers do.
func TestDelivery_Order(t *testing.T) {
	t.Parallel()
	e := start(t)
	consumer := open(t, e)
	consumer.Declare("q", 0)
	const publishers, messages = 4, 2000
	for p := range publishers {
		go func() {
			c, err := amqptest.Open(e.Addr(), amqptest.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Abort()
			for i := 0; i < messages; {
				var raw []byte
				for range 1 + i%50 {
					if i < messages {
						raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "q", Body: fmt.Sprintf("%d-%d", p, i), Persistent: i%7 == 0})
						i++
					}
				}
				if err := c.Send(raw); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := c.Call(1, &amqp.ChannelClose{}, amqp.ChannelCloseOkID); err != nil {
				t.Error(err)
			}
		}()
	}
	consumer.Subscribe(1, "q", "t", 0)
	var next [publishers]int
	for tag := uint64(1); tag <= publishers*messages; tag++ {
		d, body := delivery(consumer)
		var p, i int
		if _, err := fmt.Sscanf(body, "%d-%d", &p, &i); err != nil {
			t.Fatal(err)
		}
		if d.DeliveryTag != tag || d.Redelivered || i != next[p] {
			t.Fatalf("tag %d redelivered %v: message %d of publisher %d, want tag %d and message %d", d.DeliveryTag, d.Redelivered, i, p, tag, next[p])
		}
		next[p]++
		if tag%100 == 0 {
			consumer.Ack(1, tag, amqptest.Multiple)
		}
	}
	consumer.WantQuiet(1)
}

// TestDelivery_Requeued: what was not acknowledged goes back to its original
// place when its channel or connection ends, flagged redelivered (1.8.3.13).
func TestDelivery_Requeued(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		end  func(c *amqptest.Client)
	}{
		{"channel.close", func(c *amqptest.Client) { amqptest.Ask[*amqp.ChannelCloseOk](c, 1, &amqp.ChannelClose{}) }},
		{"channel error", func(c *amqptest.Client) {
			c.Ack(1, 999, 0)
			amqptest.Expect[*amqp.ChannelClose](c)
		}},
		{"connection.close", func(c *amqptest.Client) { amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{}) }},
		{"connection error", func(c *amqptest.Client) {
			c.Method(0, &amqp.ConnectionOpen{})
			amqptest.Expect[*amqp.ConnectionClose](c)
		}},
		{"connection lost", func(c *amqptest.Client) { c.Abort() }},
		{"recover", func(c *amqptest.Client) {
			// The consumer must not get them again at once.
			amqptest.Ask[*amqp.BasicCancelOk](c, 1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			amqptest.Ask[*amqp.BasicRecoverOk](c, 1, &amqp.BasicRecover{Requeue: true})
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			holder, other := open(t, e), open(t, e)
			holder.Declare("q", 0)
			holder.PublishAll(1, "q", numbered("m", 0, 10)...)
			amqptest.Ask[*amqp.BasicQosOk](holder, 1, &amqp.BasicQos{PrefetchCount: 4})
			holder.Subscribe(1, "q", "t", 0)
			for range 4 {
				delivery(holder)
			}
			holder.Ack(1, 2, 0) // m1 is done, m4 comes instead
			delivery(holder)
			if got := holder.Get(1, "q", 0); string(got.Body) != "m5" {
				t.Fatalf("get: %s", got)
			}
			end.end(holder)
			// Left: m0 m2 m3 m4 m5 redelivered, m6 to m9 new.
			eventually(t, "all nine are ready", func() bool {
				return amqptest.Ask[*amqp.QueueDeclareOk](other, 1, other.QueueDeclare("q", amqptest.Passive, nil)).MessageCount == 9
			})
			other.Subscribe(1, "q", "t", amqptest.NoAck)
			for i, want := range []string{"m0", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"} {
				d, body := delivery(other)
				if body != want || d.Redelivered != (i < 5) {
					t.Fatalf("delivery %d: %q redelivered %v, want %q", i, body, d.Redelivered, want)
				}
			}
			other.WantQuiet(1)
		})
	}
}

// TestDelivery_RoundRobin: consumers of a queue get its messages in turn.
func TestDelivery_RoundRobin(t *testing.T) {
	t.Parallel()
	for _, consumers := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d consumers one by one", consumers), func(t *testing.T) {
			t.Parallel()
			e := start(t)
			publisher := open(t, e)
			publisher.Declare("q", 0)
			clients := make([]*amqptest.Client, consumers)
			for i := range clients {
				clients[i] = open(t, e)
				clients[i].Subscribe(1, "q", "t", amqptest.NoAck)
				clients[i].WantQuiet(1) // in the ring now
			}
			for i := range 60 {
				publisher.PublishAll(1, "q", strconv.Itoa(i))
				if _, body := delivery(clients[i%consumers]); body != strconv.Itoa(i) {
					t.Fatalf("consumer %d got %s instead of %d", i%consumers, body, i)
				}
			}
		})
	}
	t.Run("a batch is dealt out one by one", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		publisher, a, b := open(t, e), open(t, e), open(t, e)
		publisher.Declare("q", 0)
		for _, c := range []*amqptest.Client{a, b} {
			c.Subscribe(1, "q", "t", 0)
			c.WantQuiet(1)
		}
		publisher.PublishAll(1, "q", numbered("", 0, 20)...)
		publisher.Sync(1)
		for i := range 10 {
			_, fromA := delivery(a)
			_, fromB := delivery(b)
			if fromA != strconv.Itoa(2*i) || fromB != strconv.Itoa(2*i+1) {
				t.Fatalf("turn %d: %s and %s", i, fromA, fromB)
			}
		}
	})
	t.Run("consumers of one channel", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		c, publisher := open(t, e), open(t, e)
		c.Declare("q", 0)
		c.Subscribe(1, "q", "a", amqptest.NoAck)
		c.Subscribe(1, "q", "b", amqptest.NoAck)
		c.WantQuiet(1)
		for i := range 20 {
			publisher.PublishAll(1, "q", strconv.Itoa(i))
			if d, _ := delivery(c); string(d.ConsumerTag) != []string{"a", "b"}[i%2] {
				t.Fatalf("message %d went to %s", i, d.ConsumerTag)
			}
		}
	})
}

// TestDelivery_Prefetch: basic.qos is honoured to the message (1.8.3.1, with
// RabbitMQ's meaning of global).
func TestDelivery_Prefetch(t *testing.T) {
	t.Parallel()
	e := start(t)
	type client = *amqptest.Client
	qos := func(c client, count uint16, global bool) {
		amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: count, Global: global})
	}
	filled := func(t *testing.T, n int) client {
		c := open(t, e)
		c.Prefix = t.Name()
		c.Declare("$q", amqptest.AutoDelete)
		c.PublishAll(1, "$q", numbered("", 0, n)...)
		return c
	}
	t.Run("per consumer", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 3, false)
		c.Subscribe(1, "$q", "a", 0)
		for range 3 {
			delivery(c)
		}
		c.WantQuiet(1)
		c.Subscribe(1, "$q", "b", 0)
		for range 3 {
			if d, _ := delivery(c); string(d.ConsumerTag) != "b" {
				t.Fatalf("delivery to %s", d.ConsumerTag)
			}
		}
		c.WantQuiet(1)
		c.Ack(1, 2, 0)
		if d, body := delivery(c); string(d.ConsumerTag) != "a" || body != "6" {
			t.Fatalf("%s to %s", body, d.ConsumerTag)
		}
		c.WantQuiet(1)
		c.Nack(1, 6, amqptest.Multiple) // 1 3 of a, 4 5 6 of b
		count := map[string]int{}
		for range 5 {
			d, _ := delivery(c)
			count[string(d.ConsumerTag)]++
		}
		c.WantQuiet(1)
		if count["a"] != 2 || count["b"] != 3 {
			t.Fatalf("%v", count)
		}
	})
	t.Run("a change is for new consumers", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 1, false)
		c.Subscribe(1, "$q", "a", 0)
		delivery(c)
		qos(c, 0, false)
		c.WantQuiet(1)
	})
	t.Run("global", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 3, true)
		c.Subscribe(1, "$q", "a", 0)
		for range 3 {
			delivery(c)
		}
		c.Subscribe(1, "$q", "b", 0)
		c.WantQuiet(1)
		c.Ack(1, 1, 0)
		delivery(c)
		c.WantQuiet(1)
		c.Ack(1, 4, amqptest.Multiple)
		for range 3 {
			delivery(c)
		}
		c.WantQuiet(1)
		qos(c, 5, true)
		for range 2 {
			delivery(c)
		}
		c.WantQuiet(1)
		qos(c, 0, true)
		for range 20 - 9 {
			delivery(c)
		}
		c.WantQuiet(1)
	})
	t.Run("global counts the smaller of both", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 2, false)
		qos(c, 3, true)
		c.Subscribe(1, "$q", "a", 0)
		for range 2 {
			delivery(c)
		}
		c.WantQuiet(1)
		c.Subscribe(1, "$q", "b", 0)
		if d, _ := delivery(c); string(d.ConsumerTag) != "b" {
			t.Fatalf("delivery to %s", d.ConsumerTag)
		}
		c.WantQuiet(1)
	})
	t.Run("get does not count", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 1, false)
		for range 5 {
			c.Get(1, "$q", 0)
		}
		c.Subscribe(1, "$q", "a", 0)
		if d, body := delivery(c); d.DeliveryTag != 6 || body != "5" {
			t.Fatalf("tag %d %s", d.DeliveryTag, body)
		}
		c.WantQuiet(1)
		if got := c.Get(1, "$q", 0); string(got.Body) != "6" {
			t.Fatalf("get beside a consumer without credit: %s", got)
		}
		c.WantQuiet(1)
	})
	t.Run("no-ack has no limit", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 1, false)
		qos(c, 1, true)
		c.Subscribe(1, "$q", "a", amqptest.NoAck)
		for range 20 {
			delivery(c)
		}
		c.WantQuiet(1)
	})
	t.Run("unacked deliveries of a cancelled consumer do not count", func(t *testing.T) {
		c := filled(t, 20)
		qos(c, 2, false)
		c.Subscribe(1, "$q", "a", 0)
		delivery(c)
		delivery(c)
		amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare("$other", amqptest.Exclusive, nil)) // keeps nothing alive
		c.Subscribe(1, "$q", "b", 0)
		delivery(c)
		delivery(c)
		amqptest.Ask[*amqp.BasicCancelOk](c, 1, &amqp.BasicCancel{ConsumerTag: []byte("a")})
		c.WantQuiet(1)
		c.Ack(1, 1, 0) // an ack for the cancelled one gives b no credit
		c.WantQuiet(1)
		c.Ack(1, 3, 0)
		if d, _ := delivery(c); string(d.ConsumerTag) != "b" {
			t.Fatalf("delivery to %s", d.ConsumerTag)
		}
		c.WantQuiet(1)
	})
}
