package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestInterrupted_LargeDelivery: what ends a channel or a consumer while a
// large content is on its way out does not cut into the content (4.2.6), but
// for the end of the connection.
func TestInterrupted_LargeDelivery(t *testing.T) {
	t.Parallel()
	e := start(t, func(c *engine.Config) { c.Loops = 1 })
	body := string(randomBody(12 << 20)) // more than any socket buffer takes
	for _, r := range []struct {
		name string
		m    amqp.Method
		on   uint16
		want []string // behind the delivery
		cut  bool     // the delivery itself need not be completed
	}{
		{"channel.close", &amqp.ChannelClose{}, 1, []string{"1 channel.close-ok"}, false},
		{"cancel", &amqp.BasicCancel{ConsumerTag: []byte("t")}, 1, []string{"1 basic.cancel-ok ConsumerTag=t"}, false},
		{"channel error", &amqp.BasicAck{DeliveryTag: 99}, 1, []string{"1 channel.close 406 *"}, false},
		{"queue deleted", &amqp.QueueDelete{Queue: []byte("$q")}, 2, []string{"2 queue.delete-ok *", "1 basic.cancel *"}, false},
		{"request on another channel", &amqp.BasicQos{}, 2, []string{"2 basic.qos-ok"}, false},
		{"connection.close", &amqp.ConnectionClose{}, 0, []string{"0 connection.close-ok"}, true},
		{"connection error", &amqp.ConnectionOpen{}, 0, []string{"0 connection.close 504 *"}, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			c, other := open(t, e), open(t, e)
			c.Prefix, other.Prefix = r.name+"-", r.name+"-"
			c.OpenChannel(2)
			c.Declare("$q", 0)
			confirmSelect(other)
			other.Publish(1, amqptest.Message{Key: "$q", Body: body, FrameMax: 131072})
			amqptest.Expect[*amqp.BasicAck](other)
			m := r.m
			if d, ok := m.(*amqp.QueueDelete); ok {
				m = &amqp.QueueDelete{Queue: []byte(c.Name(string(d.Queue)))}
			}
			c.Method(1, c.Consume("$q", "t", 0))
			head, err := c.Raw(200_000) // on its way
			if err != nil {
				t.Fatal(err)
			}
			c.Unread(head)
			c.Method(r.on, m)
			c.Want("1 basic.consume-ok ConsumerTag=t")
			if r.cut {
				c.AllowCut()
			}
			event := c.Read()
			if event.Content {
				if string(event.Body) != body {
					t.Fatalf("delivery of %d bytes", len(event.Body))
				}
				event = c.Read()
			} else if !r.cut {
				t.Fatalf("got %s", event)
			}
			for i, want := range r.want {
				if i > 0 {
					event = c.Read()
				}
				if !amqptest.Matches(event.String(), want) {
					t.Fatalf("got %s, want %s", event, want)
				}
			}
			if r.on == 0 {
				if r.name == "connection error" {
					c.Method(0, &amqp.ConnectionCloseOk{})
				}
				c.WantClosed()
			}
			amqptest.Ask[*amqp.QueueDeleteOk](other, 1, &amqp.QueueDelete{Queue: []byte(other.Name("$q"))})
			c.Abort()
		})
	}
	memoryBelow(t, e, 2<<20)
}

// TestInterrupted_SlowConsumer: the messages of a consumer that stopped reading
// are all there when it goes, in order; redelivered is set for those that were
// sent, which are the oldest.
func TestInterrupted_SlowConsumer(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		name string
		end  func(c *amqptest.Client)
	}{
		{"connection lost", func(c *amqptest.Client) { c.Abort() }},
		{"channel.close", func(c *amqptest.Client) { c.Method(1, &amqp.ChannelClose{}) }},
		{"cancel and recover", func(c *amqptest.Client) {
			c.Method(1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			c.Method(1, &amqp.BasicRecover{Requeue: true})
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			slow, other := open(t, e), open(t, e)
			other.Declare("q", 0)
			const messages = 12_000
			padding := strings.Repeat(" ", 1000)
			slow.Subscribe(1, "q", "t", 0)
			for i := 0; i < messages; i += 100 {
				var raw []byte
				for j := range 100 {
					raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "q", Body: fmt.Sprint(i+j) + padding})
				}
				other.Write(raw)
			}
			other.Sync(1)
			count := func() int {
				return int(amqptest.Ask[*amqp.QueueDeclareOk](other, 1, other.QueueDeclare("q", amqptest.Passive, nil)).MessageCount)
			}
			if n := count(); n == 0 {
				t.Fatal("the consumer's socket took everything: the test needs more messages")
			}
			r.end(slow)
			if r.name != "connection lost" { // the request is read only when there is room for answers
				go func() {
					for {
						if _, err := slow.Next(); err != nil {
							return
						}
					}
				}()
			}
			eventually(t, "all messages are ready", func() bool { return count() == messages })
			other.Subscribe(1, "q", "t", amqptest.NoAck)
			before := true
			for i := range messages {
				d, body := delivery(other)
				if body != fmt.Sprint(i)+padding {
					t.Fatalf("message %d is %.10q", i, body)
				}
				if d.Redelivered && !before {
					t.Fatalf("message %d is redelivered, those before it are not", i)
				}
				before = d.Redelivered
			}
			other.WantQuiet(1)
			slow.Abort()
		})
	}
}
