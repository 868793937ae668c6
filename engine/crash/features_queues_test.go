package crash

import (
	"fmt"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

var queueFeatures = []feature{
	{"times to live", func(l *life) {
		l.queue("ttl.dead")
		l.queue("ttl.q", "x-message-ttl", 1000, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "ttl.dead", "x-dead-letter-strategy", "at-least-once")
		l.queue("ttl.long", "x-message-ttl", 3_600_000)
		l.queue("ttl.own", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "ttl.dead", "x-dead-letter-strategy", "at-least-once")
		l.send("", "ttl.q", "m1")
		l.send("", "ttl.long", "stays")
		l.publish("", "ttl.own", "m2", func(p *amqp.Properties) { p.Flags, p.Expiration = p.Flags|amqp.FlagExpiration, []byte("1500") })
		l.queue("ttl.expires", "x-expires", 800)
	}, func(l *life) {
		l.until("both expire", func() bool { return l.ready("ttl.dead") == 2 })
		for _, want := range []string{"m1 ttl.q", "m2 ttl.own"} {
			got := l.Get(1, "ttl.dead", amqptest.NoAck)
			if s := string(got.Body) + " " + headerOf(l.t, got, "x-first-death-queue"); s != want || headerOf(l.t, got, "x-last-death-reason") != "expired" {
				l.t.Errorf("got %s, want %s", s, want)
			}
		}
		l.want("ttl.long", "stays")
		l.until("the unused queue goes", func() bool {
			return !strings.Contains(l.administer("GET", "/api/queues/%2F", ""), `"ttl.expires"`)
		})
	}},
	{"limits", func(l *life) {
		l.queue("limit.drop", "x-max-length", 3)
		l.queue("limit.bytes", "x-max-length-bytes", 10)
		l.queue("limit.reject", "x-max-length", 2, "x-overflow", "reject-publish")
		l.queue("limit.dead")
		l.queue("limit.dlx", "x-max-length", 1, "x-overflow", "reject-publish-dlx", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "limit.dead")
		l.send("", "limit.drop", "1", "2", "3")
		l.send("", "limit.bytes", "aaaa", "bbbb")
		l.send("", "limit.reject", "1", "2")
		l.send("", "limit.dlx", "in")
	}, func(l *life) {
		l.send("", "limit.drop", "4", "5")
		l.want("limit.drop", "3", "4", "5")
		l.send("", "limit.bytes", "cccc")
		l.want("limit.bytes", "bbbb", "cccc")
		if l.publish("", "limit.reject", "3") || l.publish("", "limit.dlx", "out") {
			l.t.Error("a full queue took a message")
		}
		l.want("limit.reject", "1", "2")
		l.want("limit.dlx", "in")
		l.until("what was refused is a dead letter", func() bool { return l.ready("limit.dead") == 1 })
	}},
	{"dead letters", func(l *life) {
		l.exchange("dlx", "direct")
		l.queue("dlx.dead")
		l.bind("dlx.dead", "dlx", "dead")
		l.queue("dlx.q", "x-dead-letter-exchange", "dlx", "x-dead-letter-routing-key", "dead", "x-dead-letter-strategy", "at-least-once")
		l.send("", "dlx.q", "m1", "m2")
		l.Get(1, "dlx.q", 0)
		l.Nack(1, 1, 0)
		l.until("it is a dead letter", func() bool { return l.ready("dlx.dead") == 1 })
	}, func(l *life) {
		// The move is one transaction: m1 is in one of the two, and only there.
		bodies := map[string]bool{}
		for l.ready("dlx.q") > 0 {
			l.Nack(1, l.Get(1, "dlx.q", 0).Method.(*amqp.BasicGetOk).DeliveryTag, 0)
			l.Sync(1)
		}
		l.until("both are dead letters", func() bool { return l.ready("dlx.dead") == 2 })
		for range 2 {
			got := l.Get(1, "dlx.dead", amqptest.NoAck)
			bodies[string(got.Body)] = headerOf(l.t, got, "x-first-death-queue") == "dlx.q" && headerOf(l.t, got, "x-first-death-reason") == "rejected"
		}
		if !bodies["m1"] || !bodies["m2"] {
			l.t.Errorf("%v", bodies)
		}
	}},
	{"delivery limit", func(l *life) {
		l.queue("count.dead")
		l.queue("count.q", "x-delivery-limit", 3, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "count.dead")
		l.send("", "count.q", "m")
		for range 2 {
			comeBack(l, "count.q")
		}
	}, func(l *life) {
		if got := comeBack(l, "count.q"); got != "2" && !(l.killed && (got == "1" || got == "")) {
			l.t.Errorf("x-delivery-count %q after the restart", got)
		}
		before := "2"
		for l.ready("count.dead") == 0 {
			if l.ready("count.q") == 0 {
				continue
			}
			if before = comeBack(l, "count.q"); before > "3" {
				l.t.Fatalf("delivered with count %s", before)
			}
		}
		if got := l.Get(1, "count.dead", amqptest.NoAck); before != "3" || headerOf(l.t, got, "x-last-death-reason") != "delivery_limit" {
			l.t.Errorf("the last count was %s; %s", before, got)
		}
	}},
	{"priorities", func(l *life) {
		l.queue("prio.q", "x-max-priority", 5)
		for _, n := range []uint8{1, 5, 3, 9} {
			l.publish("", "prio.q", fmt.Sprint("p", n), rank(n))
		}
	}, func(l *life) {
		l.publish("", "prio.q", "p4", rank(4))
		l.publish("", "prio.q", "none")
		got := plain(l.drain("prio.q"))
		if !slices.Equal(got, []string{"p5", "p9", "p4", "p3", "p1", "none"}) {
			l.t.Errorf("%q", got)
		}
	}},
	{"single active consumer, unacknowledged messages", func(l *life) {
		l.queue("sac.q", "x-single-active-consumer", true)
		l.send("", "sac.q", "1", "2", "3")
		amqptest.Ask[*amqp.BasicQosOk](l.Client, 1, &amqp.BasicQos{PrefetchCount: 2})
		l.Subscribe(1, "sac.q", "first", 0)
		for range 2 {
			amqptest.Expect[*amqp.BasicDeliver](l.Client)
		}
		l.Subscribe(1, "sac.q", "second", 0)
	}, func(l *life) {
		amqptest.Ask[*amqp.BasicQosOk](l.Client, 1, &amqp.BasicQos{PrefetchCount: 2})
		take := func(tag, want string) {
			got := amqptest.Expect[*amqp.BasicDeliver](l.Client)
			d := got.Method.(*amqp.BasicDeliver)
			if l.killed {
				want = strings.TrimSuffix(want, "!") + "!"
			}
			if string(d.ConsumerTag) != tag || show(got) != want {
				l.t.Errorf("%s got %s, want %s %s", d.ConsumerTag, show(got), tag, want)
			}
		}
		l.Subscribe(1, "sac.q", "one", 0)
		take("one", "1!")
		take("one", "2!")
		l.Subscribe(1, "sac.q", "two", 0)
		amqptest.Ask[*amqp.BasicCancelOk](l.Client, 1, &amqp.BasicCancel{ConsumerTag: []byte("one")})
		take("two", "3")
	}},
	{"transactions", func(l *life) {
		for _, name := range []string{"tx.a", "tx.b", "tx.src"} {
			l.queue(name)
		}
		l.send("", "tx.src", "1", "2")
		l.OpenChannel(2)
		amqptest.Ask[*amqp.TxSelectOk](l.Client, 2, &amqp.TxSelect{})
		inTx(l, "committed")
		amqptest.Ask[*amqp.TxCommitOk](l.Client, 2, &amqp.TxCommit{})
		inTx(l, "never committed")
		l.Sync(2)
	}, func(l *life) {
		l.want("tx.a", "committed")
		l.want("tx.b", "committed")
		if got := l.drain("tx.src"); !slices.Equal(got, []string{"2!"}) {
			l.t.Errorf("tx.src has %q", got)
		}
	}},
	{"what survives", func(l *life) {
		l.queue("plain.durable")
		l.Declare("plain.transient", 0)
		l.send("", "plain.durable", "persistent", strings.Repeat("large ", 400_000))
		l.send("", "plain.transient", "gone")
		amqptest.Ask[*amqp.QueueDeclareOk](l.Client, 1, l.QueueDeclare("plain.exclusive", amqptest.Durable|amqptest.Exclusive, nil))
	}, func(l *life) {
		l.want("plain.durable", "persistent", strings.Repeat("large ", 400_000))
		names := l.administer("GET", "/api/queues/%2F", "")
		if strings.Contains(names, `"plain.transient"`) || strings.Contains(names, `"plain.exclusive"`) {
			l.t.Error("what is not durable is there")
		}
		// Arguments are compared with what was declared before.
		l.Method(1, l.QueueDeclare("limit.drop", amqptest.Durable, args("x-max-length", 4)))
		if got := amqptest.Expect[*amqp.ChannelClose](l.Client).Method.(*amqp.ChannelClose); got.ReplyCode != amqp.CodePreconditionFailed {
			l.t.Errorf("%d %s", got.ReplyCode, got.ReplyText)
		}
	}},
}

// comeBack gets the message of a queue and gives it back; it returns the count
// that it carried.
func comeBack(l *life, queue string) string {
	l.t.Helper()
	got := l.Get(1, queue, 0)
	l.Nack(1, got.Method.(*amqp.BasicGetOk).DeliveryTag, amqptest.Requeue)
	l.Sync(1)
	return headerOf(l.t, got, "x-delivery-count")
}

// inTx acknowledges a message of tx.src and publishes to two queues, on channel 2.
func inTx(l *life, body string) {
	l.Ack(2, l.Get(2, "tx.src", 0).Method.(*amqp.BasicGetOk).DeliveryTag, 0)
	for _, name := range []string{"tx.a", "tx.b"} {
		l.Publish(2, amqptest.Message{Key: name, Body: body, Persistent: true})
	}
}
