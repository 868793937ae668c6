package crash

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

var streamFeatures = []feature{
	{"streams", func(l *life) {
		l.queue("stream", "x-queue-type", "stream", "x-max-length-bytes", 1<<20)
		l.send("", "stream", numbers(0, 10)...)
		consume(l, "tracker", 10)
		for range 10 {
			amqptest.Expect[*amqp.BasicDeliver](l.Client)
		}
		l.Ack(1, 5, amqptest.Multiple)
		l.Sync(1)
	}, func(l *life) {
		l.send("", "stream", numbers(10, 12)...)
		consume(l, "other", 100, "x-stream-offset", 3)
		last := int64(-1)
		for i := 3; i < 12; i++ {
			got := amqptest.Expect[*amqp.BasicDeliver](l.Client)
			offset, _ := strconv.ParseInt(headerOf(l.t, got, "x-stream-offset"), 10, 64)
			// After a crash offsets go on higher; none means two messages.
			if string(got.Body) != fmt.Sprint(i) || (i < 10 || !l.killed) && offset != int64(i) || offset <= last {
				l.t.Errorf("%s at %d, want %d", got.Body, offset, i)
			}
			last = offset
		}
		amqptest.Ask[*amqp.BasicCancelOk](l.Client, 1, &amqp.BasicCancel{ConsumerTag: []byte("other")})
		consume(l, "tracker", 1)
		got := amqptest.Expect[*amqp.BasicDeliver](l.Client)
		if n, _ := strconv.Atoi(string(got.Body)); n != 5 && !(l.killed && n < 5) {
			l.t.Errorf("the tracked consumer goes on with %s", got.Body)
		}
	}},
}

// consume starts a consumer of the stream.
func consume(l *life, tag string, prefetch uint16, pairs ...any) {
	amqptest.Ask[*amqp.BasicQosOk](l.Client, 1, &amqp.BasicQos{PrefetchCount: prefetch})
	m := l.Consume("stream", tag, 0)
	if len(pairs) == 0 {
		pairs = []any{"x-stream-automatic-offset-tracking", true, "x-stream-offset", "first"}
	}
	m.Arguments = args(pairs...)
	amqptest.Ask[*amqp.BasicConsumeOk](l.Client, 1, m)
}

var adminFeatures = []feature{
	{"policies", func(l *life) {
		l.administer("PUT", "/api/policies/%2F/two", `{"pattern":"^policy\\.","apply-to":"queues","definition":{"max-length":4}}`)
		l.administer("PUT", "/api/operator-policies/%2F/one", `{"pattern":"^policy\\.","apply-to":"queues","definition":{"max-length":2}}`)
		l.queue("policy.q")
		l.send("", "policy.q", "1", "2", "3")
	}, func(l *life) {
		l.send("", "policy.q", "4")
		l.want("policy.q", "3", "4")
		l.administer("DELETE", "/api/operator-policies/%2F/one", "")
		l.send("", "policy.q", numbers(0, 6)...)
		l.want("policy.q", numbers(2, 6)...)
	}},
	{"virtual hosts, users, permissions", func(l *life) {
		l.administer("PUT", "/api/vhosts/other", `{}`)
		l.administer("PUT", "/api/users/limited", `{"password":"secret","tags":""}`)
		l.administer("PUT", "/api/permissions/other/limited", `{"configure":"^perm","write":"^(perm|amq\\.topic)","read":"^perm"}`)
		l.administer("PUT", "/api/topic-permissions/other/limited", `{"exchange":"amq.topic","write":"^good","read":".*"}`)
		l.administer("PUT", "/api/vhost-limits/other/max-queues", `{"value":1}`)
		l.open(amqptest.Options{User: "limited", Password: "secret", VHost: "other"})
		l.queue("perm.q")
		l.send("amq.topic", "good.key", "unrouted")
	}, func(l *life) {
		limited := amqptest.Options{User: "limited", Password: "secret", VHost: "other"}
		refused := func(what string, code uint16, m amqp.Method) {
			l.t.Helper()
			l.open(limited)
			if l.Method(1, m); m.ID() == amqp.BasicPublishID {
				l.Write(amqptest.AppendHeader(nil, 1, 60, 0))
			}
			if got := amqptest.Expect[*amqp.ChannelClose](l.Client).Method.(*amqp.ChannelClose); got.ReplyCode != code {
				l.t.Errorf("%s: %d %s", what, got.ReplyCode, got.ReplyText)
			}
		}
		refused("another name", amqp.CodeAccessRefused, l.QueueDeclare("name", amqptest.Durable, nil))
		refused("a second queue", amqp.CodePreconditionFailed, l.QueueDeclare("perm.2", amqptest.Durable, nil))
		refused("a topic", amqp.CodeAccessRefused, &amqp.BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("bad.key")})
		l.open(limited)
		l.send("amq.topic", "good.key", "unrouted")
		if _, err := amqptest.Open(l.addr.Addr, amqptest.Options{User: "limited", Password: "secret"}); err == nil {
			l.t.Error("it may use another virtual host")
		}
		if text := l.administer("GET", "/api/queues/other", ""); !strings.Contains(text, `"perm.q"`) {
			l.t.Errorf("queues of the virtual host: %s", text)
		}
	}},
}
