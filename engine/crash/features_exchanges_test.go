package crash

import (
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

var exchangeFeatures = []feature{
	{"alternate exchange", func(l *life) {
		l.exchange("ae.alt", "fanout")
		l.exchange("ae", "direct", "alternate-exchange", "ae.alt")
		l.queue("ae.q")
		l.bind("ae.q", "ae.alt", "")
		l.send("ae", "nowhere", "m1")
	}, func(l *life) {
		l.send("ae", "nowhere", "m2")
		l.want("ae.q", "m1", "m2")
	}},
	{"bindings between exchanges, topics, headers", func(l *life) {
		l.exchange("e2e.topic", "topic")
		l.exchange("e2e.headers", "headers")
		l.queue("e2e.q")
		amqptest.Ask[*amqp.ExchangeBindOk](l.Client, 1, &amqp.ExchangeBind{Source: []byte("e2e.topic"), Destination: []byte("e2e.headers"), RoutingKey: []byte("a.#")})
		l.bind("e2e.q", "e2e.headers", "", "x-match", "all", "kind", "good")
		for _, kind := range []string{"good", "bad"} {
			l.publish("e2e.topic", "a.b", kind+"1", header("kind", kind))
		}
	}, func(l *life) {
		for _, kind := range []string{"good", "bad"} {
			l.publish("e2e.topic", "a", kind+"2", header("kind", kind))
		}
		l.publish("e2e.topic", "b", "good3", header("kind", "good"))
		l.want("e2e.q", "good1", "good2")
	}},
	hashFeature("x-consistent-hash"), hashFeature("x-modulus-hash"),
	{"random exchange", func(l *life) {
		l.exchange("random", "x-random")
		for i := range 3 {
			l.queue(fmt.Sprint("random.", i))
			l.bind(fmt.Sprint("random.", i), "random", "")
		}
		l.send("random", "", numbers(0, 30)...)
	}, func(l *life) {
		l.send("random", "", numbers(30, 60)...)
		if n := l.ready("random.0") + l.ready("random.1") + l.ready("random.2"); n != 60 {
			l.t.Errorf("%d messages, want 60", n)
		}
	}},
	{"delayed messages", func(l *life) {
		l.exchange("delay", "x-delayed-message", "x-delayed-type", "fanout")
		l.queue("delay.q")
		l.bind("delay.q", "delay", "")
		l.send("delay", "", "now")
		l.publish("delay", "", "later", header("x-delay", 900))
		l.publish("delay", "", "much later", header("x-delay", 3_600_000))
		l.publish("delay", "", "soon", header("x-delay", 300))
	}, func(l *life) {
		l.publish("delay", "", "last", header("x-delay", 1200))
		l.until("four are released", func() bool { return l.ready("delay.q") == 4 })
		l.want("delay.q", "now", "soon", "later", "last")
	}},
	{"deduplicating exchange and queue", func(l *life) {
		l.exchange("dedup", "fanout", "x-message-deduplication", true)
		l.queue("dedup.q")
		l.bind("dedup.q", "dedup", "")
		l.queue("dedup.own", "x-message-deduplication", true)
		for _, id := range []string{"a", "b", "a"} {
			l.publish("dedup", "", id, header("x-deduplication-header", id))
			l.publish("", "dedup.own", id, header("x-deduplication-header", id))
		}
	}, func(l *life) {
		for _, id := range []string{"a", "c", "c"} {
			l.publish("dedup", "", id, header("x-deduplication-header", id))
			l.publish("", "dedup.own", id, header("x-deduplication-header", id))
		}
		for _, name := range []string{"dedup.q", "dedup.own"} {
			got := plain(l.drain(name))
			forgot := l.killed && slices.Equal(got, []string{"a", "b", "a", "c"})
			if !forgot && !slices.Equal(got, []string{"a", "b", "c"}) {
				l.t.Errorf("%s: %q", name, got)
			}
		}
	}},
	{"recent history", func(l *life) {
		l.exchange("history", "x-recent-history", "x-recent-history-length", 3)
		l.send("history", "", "1", "2", "3", "4")
	}, func(l *life) {
		l.send("history", "", "5")
		l.queue("history.q")
		l.bind("history.q", "history", "")
		l.until("the history has come", func() bool { return l.ready("history.q") == 3 })
		got := plain(l.drain("history.q"))
		if slices.Sort(got); !slices.Equal(got, []string{"3", "4", "5"}) {
			l.t.Errorf("%q", got)
		}
	}},
	{"direct reply-to", func(l *life) { reply(l) }, func(l *life) { reply(l) }},
}

func numbers(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// hashFeature: the same keys go to the same queues after the restart.
func hashFeature(kind string) feature {
	name := func(i int) string { return fmt.Sprint(kind, ".", i) }
	publish := func(l *life) {
		for i := range 60 {
			l.send(kind, fmt.Sprint("key ", i), fmt.Sprint(i))
		}
	}
	return feature{kind, func(l *life) {
		l.exchange(kind, kind)
		for i := range 3 {
			l.queue(name(i))
			l.bind(name(i), kind, fmt.Sprint(i+1))
		}
		publish(l)
	}, func(l *life) {
		publish(l)
		for i := range 3 {
			got := plain(l.drain(name(i)))
			if half := len(got) / 2; half == 0 || !slices.Equal(got[:half], got[half:]) {
				l.t.Errorf("%s got %q", name(i), got)
			}
		}
	}}
}

// reply asks and answers by way of the pseudo queue, and leaves a question open:
// the name in it leads nowhere after the restart.
func reply(l *life) {
	const pseudo = "amq.rabbitmq.reply-to"
	ask := func(question string) {
		l.publish("", "reply.requests", question, func(p *amqp.Properties) { p.Flags, p.ReplyTo = p.Flags|amqp.FlagReplyTo, []byte(pseudo) })
	}
	answer := func() (what string) {
		got := l.Get(1, "reply.requests", amqptest.NoAck)
		p, err := amqp.DecodeProperties(got.Properties)
		if err != nil || !got.Content {
			l.t.Fatalf("%s, %v", got, err)
		}
		l.Publish(1, amqptest.Message{Key: string(p.ReplyTo), Body: "answer to " + string(got.Body), Mandatory: true})
		l.published++
		for confirmed := false; !confirmed || what == ""; {
			switch event := l.Read(); event.Method.(type) {
			case *amqp.BasicDeliver, *amqp.BasicReturn:
				what += fmt.Sprintf("%T %s", event.Method, event.Body)
			case *amqp.BasicAck:
				confirmed = true
			}
		}
		return what
	}
	l.queue("reply.requests")
	l.Subscribe(1, pseudo, "replies", amqptest.NoAck)
	if l.ready("reply.requests") == 1 {
		if got := answer(); got != "*amqp.BasicReturn answer to old question" {
			l.t.Error(got)
		}
	}
	ask("question")
	if got := answer(); got != "*amqp.BasicDeliver answer to question" {
		l.t.Error(got)
	}
	ask("old question")
}
