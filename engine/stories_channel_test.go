package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Bodies of several frames that go to several queues come out whole from each.
func TestBodies_SeveralFramesToSeveralQueues(t *testing.T) {
	t.Parallel()
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{FrameMax: 4096})
	queues := []string{"q1", "q2", "q3"}
	for i, q := range queues {
		c.Declare(q, []amqptest.Flags{0, amqptest.Durable, 0}[i])
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	sizes := []int{0, 1, 4088, 4089, 9000, 200_000, 1_200_000}
	for _, size := range sizes {
		c.Publish(1, amqptest.Message{Exchange: "amq.fanout", Body: string(randomBody(size)), Persistent: size%2 == 0, FrameMax: 4096})
	}
	for _, q := range queues {
		for _, size := range sizes {
			if got := getSoon(t, c, q); string(got.Body) != string(randomBody(size)) {
				t.Errorf("%s: size %d came as %d bytes", q, size, len(got.Body))
			}
		}
	}
}

// Deliveries of a queue that has been deleted may be acknowledged, rejected and
// recovered like any others: there is nothing left to do, and no error.
func TestAck_AfterTheQueueIsGone(t *testing.T) {
	t.Parallel()
	e := start(t)
	settle := map[string]func(c *amqptest.Client){
		"ack":     func(c *amqptest.Client) { c.Ack(1, 2, amqptest.Multiple) },
		"nack":    func(c *amqptest.Client) { c.Nack(1, 2, amqptest.Multiple) },
		"requeue": func(c *amqptest.Client) { c.Nack(1, 2, amqptest.Multiple|amqptest.Requeue) },
		"reject":  func(c *amqptest.Client) { c.Method(1, &amqp.BasicReject{DeliveryTag: 1}) },
		"recover": func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicRecoverOk](c, 1, &amqp.BasicRecover{Requeue: true})
		},
	}
	for name, do := range settle {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, other := open(t, e), open(t, e)
			c.Prefix, other.Prefix = name, name
			declareWith(c, "$q", 0, "x-dead-letter-exchange", "", "x-delivery-limit", 1)
			c.PublishAll(1, "$q", "1", "2")
			c.Get(1, "$q", 0)
			c.Get(1, "$q", 0)
			amqptest.Ask[*amqp.QueueDeleteOk](other, 1, &amqp.QueueDelete{Queue: []byte(other.Name("$q"))})
			do(c)
			c.WantQuiet(1)
		})
	}
}

// What a client sends on a channel before it hears that the channel is closed
// is passed over, and nothing more.
func TestSettlement_RacesWithAChannelClose(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	c.Declare("q", 0)
	c.PublishAll(1, "q", "1", "2", "3")
	c.OpenChannel(2)
	for range 3 {
		c.Get(2, "q", 0)
	}
	raw := amqp.AppendMethodFrame(nil, 2, &amqp.QueuePurge{Queue: []byte("missing")})
	for _, m := range []amqp.Method{
		&amqp.BasicAck{DeliveryTag: 1}, &amqp.BasicNack{DeliveryTag: 2}, &amqp.BasicReject{DeliveryTag: 3}, &amqp.BasicAck{DeliveryTag: 99},
		&amqp.BasicRecover{Requeue: true}, &amqp.BasicCancel{ConsumerTag: []byte("t")}, &amqp.TxSelect{},
	} {
		raw = amqp.AppendMethodFrame(raw, 2, m)
	}
	raw = amqptest.AppendPublish(raw, 2, amqptest.Message{Key: "q", Body: "too late"})
	c.Write(amqp.AppendMethodFrame(raw, 2, closeOk))
	c.Want("2 channel.close 404 (50,30) NOT_FOUND - no queue 'missing' in vhost '/'")
	c.WantQuiet(1)
	wantDrained(t, c, "q", "1", "2", "3")
}

// basic.get and publishes that race with the deletion of their queue are
// answered in the ordinary way: a message, none, or 404.
func TestGet_RacesWithDelete(t *testing.T) {
	t.Parallel()
	e := start(t)
	getter, owner := open(t, e), open(t, e)
	const rounds = 300
	body := strings.Repeat("x", 5000)
	// Neither waits for the other's answers.
	for i := range rounds {
		channel := uint16(i + 2)
		raw := amqp.AppendMethodFrame(nil, channel, &amqp.ChannelOpen{})
		for range 3 {
			raw = amqp.AppendMethodFrame(raw, channel, &amqp.BasicGet{Queue: []byte("q"), NoAck: i%2 == 0})
		}
		raw = amqptest.AppendPublish(raw, channel, amqptest.Message{Key: "q", Body: "from the getter"})
		getter.Write(raw)
		raw = amqp.AppendMethodFrame(nil, 1, owner.QueueDeclare("q", amqptest.NoWait, nil))
		raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "q", Body: body, FrameMax: 131072})
		owner.Write(amqp.AppendMethodFrame(raw, 1, &amqp.QueueDelete{Queue: []byte("q"), NoWait: true}))
	}
	owner.WantQuiet(1)
	open, closed := map[uint16]int{}, 0 // answers to the gets of each channel
	for done := 0; done < rounds; {
		event := getter.Read()
		switch m := event.Method.(type) {
		case *amqp.ChannelOpenOk:
			open[event.Channel] = 0
		case *amqp.BasicGetOk, *amqp.BasicGetEmpty:
			if open[event.Channel]++; open[event.Channel] == 3 {
				done++
			}
		case *amqp.ChannelClose:
			if m.ReplyCode != amqp.CodeNotFound {
				t.Fatal(event)
			}
			closed++
			done++
		default:
			t.Fatal(event)
		}
	}
	if closed == rounds {
		t.Log("no get came while there was a queue")
	}
	owner.WantQuiet(1)
}

// Names and keys of 255 bytes are as good as any.
func TestNames_Of255Bytes(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	exchange, key, queue := strings.Repeat("x", 255), strings.Repeat("k", 255), strings.Repeat("q", 255)
	for _, kind := range []string{"direct", "topic"} {
		amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare(exchange, kind, 0, nil))
		c.Declare(queue, 0)
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(queue, exchange, key, nil))
		for range 2 {
			c.Publish(1, amqptest.Message{Exchange: exchange, Key: key, Body: kind, Mandatory: true})
			c.Publish(1, amqptest.Message{Key: queue, Body: "by name"})
		}
		c.Sync(1)
		tag := strings.Repeat("t", 255)
		c.Subscribe(1, queue, tag, amqptest.NoAck)
		for i := range 4 {
			d, body := delivery(c)
			want := []string{exchange, key, kind}
			if i%2 == 1 {
				want = []string{"", queue, "by name"}
			}
			if got := []string{string(d.Exchange), string(d.RoutingKey), body}; !slices.Equal(got, want) || string(d.ConsumerTag) != tag {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		amqptest.Ask[*amqp.BasicCancelOk](c, 1, &amqp.BasicCancel{ConsumerTag: []byte(tag)})
		amqptest.Ask[*amqp.QueueUnbindOk](c, 1, &amqp.QueueUnbind{Queue: []byte(queue), Exchange: []byte(exchange), RoutingKey: []byte(key)})
		c.Publish(1, amqptest.Message{Exchange: exchange, Key: key, Body: "back", Mandatory: true})
		c.Want(fmt.Sprintf("1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange=%s RoutingKey=%s %q", exchange, key, "back"))
		amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte(exchange)})
	}
}

// A queue that is bound to a hash exchange twice with one weight keeps the other
// binding when one goes.
func TestHashExchange_OneOfTwoBindingsGoes(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	for _, algorithm := range []string{"ring", "jump"} {
		amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare(algorithm, "x-consistent-hash", 0, table("x-algorithm", algorithm)))
		c.Declare("q", 0)
		for i := range 2 {
			amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("q", algorithm, "2", table("n", i)))
		}
		unbind := func(n int) {
			amqptest.Ask[*amqp.QueueUnbindOk](c, 1, &amqp.QueueUnbind{Queue: []byte("q"), Exchange: []byte(algorithm), RoutingKey: []byte("2"), Arguments: table("n", n)})
		}
		publish := func() {
			for i := range 20 {
				c.Publish(1, amqptest.Message{Exchange: algorithm, Key: fmt.Sprint("key", i)})
			}
		}
		unbind(0)
		publish()
		if n := ready(c, "q"); n != 20 {
			t.Errorf("%s: %d messages by the binding that is left", algorithm, n)
		}
		unbind(1)
		publish()
		if n := ready(c, "q"); n != 20 {
			t.Errorf("%s: %d messages, without a binding", algorithm, n)
		}
		amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: []byte("q")})
	}
}
