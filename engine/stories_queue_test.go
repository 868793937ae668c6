package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Tests of bugs that other brokers had; docs/stories.md says which.

// A long connection may use any number of exclusive queues that go by
// themselves, as callers do: it keeps none of them.
func TestExclusiveQueues_LongConnectionKeepsNone(t *testing.T) {
	t.Parallel()
	e := start(t)
	for _, end := range []struct {
		name      string
		arguments amqp.Table
		do        func(c *amqptest.Client, queue string)
	}{
		{"consumer cancelled", nil, func(c *amqptest.Client, queue string) {
			c.Subscribe(2, queue, "t", amqptest.NoAck)
			amqptest.Ask[*amqp.BasicCancelOk](c, 2, &amqp.BasicCancel{ConsumerTag: []byte("t")})
		}},
		{"channel closed", nil, func(c *amqptest.Client, queue string) {
			c.Subscribe(2, queue, "t", amqptest.NoAck)
			amqptest.Ask[*amqp.ChannelCloseOk](c, 2, &amqp.ChannelClose{})
			c.OpenChannel(2)
		}},
		{"expired", table("x-expires", 1), func(c *amqptest.Client, queue string) {}},
		{"deleted", nil, func(c *amqptest.Client, queue string) {
			amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte(queue)})
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			c := open(t, e)
			c.OpenChannel(2)
			vh := e.Broker().VHost("/")
			find := func(name string) *broker.Queue {
				for _, q := range vh.Queues() {
					if q.Name == name {
						return q
					}
				}
				return nil
			}
			stays := end.name + " stays"
			c.Declare(stays, amqptest.Exclusive)
			var gone []weak.Pointer[broker.Queue]
			for i := range 300 {
				name := fmt.Sprint(end.name, i)
				amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(name, amqptest.Exclusive|amqptest.AutoDelete, end.arguments))
				if q := find(name); q != nil { // not expired already
					gone = append(gone, weak.Make(q))
				}
				end.do(c, name)
				eventually(t, name+" goes", func() bool { return find(name) == nil })
			}
			alive := 0
			eventually(t, "the queues are garbage", func() bool {
				runtime.GC()
				alive = 0
				for _, q := range gone {
					if q.Value() != nil {
						alive++
					}
				}
				return alive < 20
			})
			c.Declare(stays, amqptest.Passive|amqptest.Exclusive)
			c.Abort()
			eventually(t, "what stayed goes with the connection", func() bool { return find(stays) == nil })
		})
	}
}

// An exclusive queue that is declared again before the broker has told of the
// end of the first is the connection's as well: it goes with it.
func TestExclusiveQueues_DeclaredAgainAtOnce(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	c.OpenChannel(2)
	declare := c.QueueDeclare("q", amqptest.Exclusive, nil)
	for range 20 {
		amqptest.Ask[*amqp.QueueDeclareOk](c, 1, declare)
		c.Subscribe(2, "q", "t", amqptest.NoAck)
		raw := amqp.AppendMethodFrame(nil, 1, &amqp.QueueDelete{Queue: []byte("q"), NoWait: true})
		c.Write(amqp.AppendMethodFrame(raw, 1, declare))
		for range 2 { // in any order
			switch m := c.Read().Method.(type) {
			case *amqp.QueueDeclareOk, *amqp.BasicCancel:
			default:
				t.Fatalf("%T", m)
			}
		}
	}
	c.Abort()
	eventually(t, "it goes with the connection", func() bool { return len(e.Broker().VHost("/").Queues()) == 0 })
}

// An auto-delete queue goes while its messages are on their way to the socket
// of its only consumer, who does not read.
func TestAutoDelete_WhileItsMessagesAreBeingSent(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher := open(t, e)
	body := strings.Repeat("x", 200_000)
	for range 10 {
		slow := open(t, e)
		slow.Declare("q", amqptest.AutoDelete)
		slow.Subscribe(1, "q", "t", 0)
		publisher.PublishAll(1, "q", slices.Repeat([]string{body}, 50)...)
		publisher.Sync(1)
		slow.Abort()
		eventually(t, "the queue goes with its consumer", func() bool { return !exists(e, "q") })
	}
	publisher.WantQuiet(1)
}

// What was acknowledged stays away, also when the broker starts again without
// anybody touching the queue in between.
func TestAcknowledged_StayAwayThroughRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 4 {
		e, stop := startOnce(t, dir)
		c := open(t, e)
		if round == 0 {
			c.Declare("q", amqptest.Durable)
			confirmSelect(c)
			for i := range 20 {
				c.Publish(1, amqptest.Message{Key: "q", Body: fmt.Sprint(i), Persistent: true})
			}
			ackedTo(c, 20)
			for range 20 {
				got := c.Get(1, "q", 0)
				if tag := got.Method.(*amqp.BasicGetOk).DeliveryTag; tag%3 != 0 {
					c.Ack(1, tag, 0)
				}
			}
			c.Sync(1)
		} else {
			want := []string{"2", "5", "8", "11", "14", "17"}
			c.Subscribe(1, "q", "t", 0)
			for _, body := range want {
				// They had been delivered before: redelivered says so, also after a
				// restart.
				if d, got := delivery(c); got != body || !d.Redelivered {
					t.Fatalf("start %d: %s redelivered %v, want %s", round, got, d.Redelivered, body)
				}
			}
			c.WantQuiet(1)
		}
		c.Abort()
		stop()
	}
}

// Messages that go back and forth all the time take no more room than once.
func TestRequeue_CostsNoSpace(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	confirmSelect(c)
	for i := range 10 {
		c.Publish(1, amqptest.Message{Key: "q", Body: fmt.Sprint(i), Persistent: true})
	}
	ackedTo(c, 10)
	q, err := e.Broker().VHost("/").Queue([]byte("q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		for i := range 10 {
			if got := c.Get(1, "q", 0); string(got.Body) != fmt.Sprint(i) {
				t.Fatalf("%s, want %d", got, i)
			}
		}
		c.Method(1, &amqp.BasicNack{Multiple: true, Requeue: true})
	}
	c.Sync(1)
	if next := q.Log().Next(); next != 10 {
		t.Errorf("the log has %d records", next)
	}
	wantDrained(t, c, "q", numbered("", 0, 10)...)
}

// Expiration goes on after a message that lives for ever has been at the head,
// and after a purge.
func TestTTL_BehindOneThatLivesForEver(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	c.Declare("q", 0)
	c.OpenChannel(2)
	for range 3 {
		c.Publish(1, amqptest.Message{Key: "q", Body: "for ever"})
		c.Publish(1, amqptest.Message{Key: "q", Body: "short", Properties: expiring("20")})
		c.Sync(1)
		if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != "for ever" {
			t.Fatal(got)
		}
		eventually(t, "the one behind expires", func() bool { return ready(c, "q") == 0 })
	}
	// What is purged takes nothing with it that comes back later.
	var got amqptest.Event
	eventually(t, "a message is got in time", func() bool {
		c.Publish(1, amqptest.Message{Key: "q", Body: "held", Properties: expiring("50")})
		got = c.Get(2, "q", 0)
		return got.Content
	})
	c.Publish(1, amqptest.Message{Key: "q", Body: "purged", Properties: expiring("600000")})
	amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: []byte("q")})
	c.Nack(2, got.Method.(*amqp.BasicGetOk).DeliveryTag, amqptest.Requeue)
	c.Publish(1, amqptest.Message{Key: "q", Body: "stays"})
	c.Sync(2)
	eventually(t, "what came back expires", func() bool { return ready(c, "q") == 1 })
	wantDrained(t, c, "q", "stays")
}

// A dead letter goes through any number of queues, and queues that dead-letter
// into each other end no broker.
func TestDeadLetter_LongChain(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	const length = 300
	for i := range length {
		declareWith(c, fmt.Sprint("q", i), 0, "x-message-ttl", 0, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", fmt.Sprint("q", i+1))
	}
	c.Declare(fmt.Sprint("q", length), 0)
	c.PublishAll(1, "q0", "m")
	got := getSoon(t, c, fmt.Sprint("q", length))
	if n := strings.Count(headers(got), "reason=expired"); n < length {
		t.Errorf("x-death has %d entries", n)
	}
}

// The place in a cycle is judged for each queue that a dead letter goes to: the
// others get it.
func TestDeadLetter_CyclesAreJudgedForEachQueue(t *testing.T) {
	t.Parallel()
	c := open(t, start(t))
	declareWith(c, "a", 0, "x-message-ttl", 1, "x-dead-letter-exchange", "amq.fanout")
	declareWith(c, "b", 0, "x-message-ttl", 1, "x-dead-letter-exchange", "amq.fanout")
	for _, q := range []string{"a", "b", "end"} {
		c.Declare("end", 0)
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	// From a it goes to b and end, not to a. From b it goes to end only.
	c.PublishAll(1, "a", "m")
	for range 2 {
		if got := getSoon(t, c, "end"); string(got.Body) != "m" {
			t.Fatal(got)
		}
	}
	eventually(t, "both are empty", func() bool { return ready(c, "a") == 0 && ready(c, "b") == 0 })
	if n := ready(c, "end"); n != 0 {
		t.Errorf("%d more", n)
	}
}

// Damage to one queue's files is that queue's: the others have everything, and
// the damaged one goes on with what is left.
func TestDamagedSegment_IsItsQueuesOwn(t *testing.T) {
	t.Parallel()
	for _, damage := range []struct {
		name string
		do   func(data []byte) []byte
		most int // messages that may be left
	}{
		{"bad bytes", func(data []byte) []byte {
			for i := 1000; i < 2000; i++ {
				data[i] ^= 0x5a
			}
			return data
		}, 99},
		{"cut", func(data []byte) []byte { return data[:len(data)/2] }, 99},
		{"only a header", func(data []byte) []byte { return data[:64] }, 0},
		{"empty", func(data []byte) []byte { return nil }, 0},
	} {
		t.Run(damage.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, stop := startOnce(t, dir)
			c := open(t, e)
			confirmSelect(c)
			for i, name := range []string{"damaged", "sound"} {
				c.Declare(name, amqptest.Durable)
				for n := range 100 {
					c.Publish(1, amqptest.Message{Key: name, Body: strings.Repeat(fmt.Sprint(n%10), 20_000), Persistent: true})
				}
				ackedTo(c, uint64(100*(i+1)))
			}
			q, err := e.Broker().VHost("/").Queue([]byte("damaged"), nil)
			if err != nil {
				t.Fatal(err)
			}
			pattern := filepath.Join(dir, "logs", fmt.Sprintf("%016x", q.ID), "*.seg")
			c.Abort()
			stop()
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %v, %v", pattern, files, err)
			}
			data, err := os.ReadFile(files[0])
			if err == nil {
				err = os.WriteFile(files[0], damage.do(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			c = open(t, startIn(t, dir))
			if got := drain(c, "sound"); len(got) != 100 {
				t.Errorf("the sound queue has %d messages", len(got))
			}
			if got := drain(c, "damaged"); len(got) > damage.most {
				t.Errorf("the damaged queue has %d messages", len(got))
			}
			c.PublishAll(1, "damaged", "goes on")
			wantDrained(t, c, "damaged", "goes on")
		})
	}
}
