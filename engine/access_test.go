package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// must ends the test when an administrative change is refused.
func must(t testing.TB, _ uint64, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addUser makes a user with password "secret" and permissions in "/".
func addUser(t testing.TB, e *engine.Engine, name string, p access.Permissions, tags ...string) amqptest.Options {
	t.Helper()
	b := e.Broker()
	seq, err := b.AddUser(access.Spec{Name: name, Password: access.HashPassword([]byte("secret")), Tags: tags})
	must(t, seq, err)
	seq, err = b.SetPermissions(name, "/", p)
	must(t, seq, err)
	return amqptest.Options{User: name, Password: "secret"}
}

// letters grants what the letters behind the colon of a resource's name say:
// "q:cr" may be configured and read.
var letters = access.Permissions{Configure: ":[a-z]*c", Write: ":[a-z]*w", Read: ":[a-z]*r"}

var everything = access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}

// TestPermissions: which operation needs what, as RabbitMQ's access control
// documentation has it, and in which order.
func TestPermissions(t *testing.T) {
	e := start(t)
	joe := addUser(t, e, "joe", letters)
	admin := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	refused := func(ids, what string) []string {
		return []string{"1 channel.close 403 (" + ids + ") ACCESS_REFUSED - " + what + " in vhost '/' refused for user 'joe'"}
	}
	// there declares, as guest, what a row needs to exist.
	there := func(c *amqptest.Client, queues []string, exchanges ...string) {
		admin := admin.With(t)
		admin.Prefix = c.Prefix
		for _, q := range queues {
			admin.Declare(q, 0)
		}
		for _, x := range exchanges {
			amqptest.Ask[*amqp.ExchangeDeclareOk](admin, 1, admin.ExchangeDeclare(x, "direct", 0, nil))
		}
	}
	name := func(c *amqptest.Client, s string) []byte { return []byte(c.Name(s)) }
	q := func(names ...string) []string { return names }
	exchange := func(x string, f amqptest.Flags, ae string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			var arguments amqp.Table
			if ae != "" {
				arguments = table("alternate-exchange", c.Name(ae))
			}
			c.Method(1, c.ExchangeDeclare(x, "direct", f, arguments))
		}
	}
	queue := func(name string, f amqptest.Flags, dlx string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			var arguments amqp.Table
			if dlx != "" {
				arguments = table("x-dead-letter-exchange", c.Name(dlx))
			}
			c.Method(1, c.QueueDeclare(name, f, arguments))
		}
	}
	bindQueue := func(queue, x string) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.QueueBind(queue, x, "k", nil)) }
	}
	unbindQueue := func(queue, x string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.QueueUnbind{Queue: name(c, queue), Exchange: name(c, x), RoutingKey: []byte("k")})
		}
	}
	bindExchange := func(to, from string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeBind{Destination: name(c, to), Source: name(c, from)})
		}
	}
	unbindExchange := func(to, from string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeUnbind{Destination: name(c, to), Source: name(c, from)})
		}
	}
	publish := func(x string) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Publish(1, amqptest.Message{Exchange: x, Key: "$q:", Body: "m"}) }
	}
	with := func(queues []string, exchanges []string, do func(*amqptest.Client)) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			there(c, queues, exchanges...)
			do(c)
		}
	}
	const noExchange = "NOT_FOUND - no exchange '$x:w' in vhost '/'"
	rows := []row{
		{name: "exchange.declare", do: exchange("$x:c", 0, ""), want: []string{"1 exchange.declare-ok"}},
		{name: "exchange.declare without configure", do: exchange("$x:rw", 0, ""), want: refused("40,10", "configure access to exchange '$x:rw'")},
		{name: "exchange.declare again without configure", do: with(nil, q("$x:rw"), exchange("$x:rw", 0, "")), want: refused("40,10", "configure access to exchange '$x:rw'")},
		{name: "exchange.declare of an unknown type without configure", do: func(c *amqptest.Client) { c.Method(1, c.ExchangeDeclare("$x:", "nope", 0, nil)) }, want: []string{"0 connection.close 503 (40,10) *"}},
		{name: "exchange.declare passive needs nothing", do: with(nil, q("$x:"), exchange("$x:", amqptest.Passive, "")), want: []string{"1 exchange.declare-ok"}},
		{name: "alternate exchange", do: exchange("$x:cr", 0, "$ae:w"), want: []string{"1 exchange.declare-ok"}},
		{name: "alternate exchange without read of the exchange", do: exchange("$x:c", 0, "$ae:w"), want: refused("40,10", "read access to exchange '$x:c'")},
		{name: "alternate exchange without write to it", do: exchange("$x:cr", 0, "$ae:cr"), want: refused("40,10", "write access to exchange '$ae:cr'")},
		{name: "exchange.delete", do: with(nil, q("$x:c"), func(c *amqptest.Client) { c.Method(1, &amqp.ExchangeDelete{Exchange: name(c, "$x:c")}) }), want: []string{"1 exchange.delete-ok"}},
		{name: "exchange.delete without configure", do: func(c *amqptest.Client) { c.Method(1, &amqp.ExchangeDelete{Exchange: name(c, "$x:rw")}) }, want: refused("40,20", "configure access to exchange '$x:rw'")},
		{name: "exchange.delete of amq.direct", do: func(c *amqptest.Client) { c.Method(1, &amqp.ExchangeDelete{Exchange: []byte("amq.direct")}) }, want: []string{"1 channel.close 403 (40,20) ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"}},
		{name: "exchange.bind", do: with(nil, q("$d:w", "$s:r"), bindExchange("$d:w", "$s:r")), want: []string{"1 exchange.bind-ok"}},
		{name: "exchange.bind without write", do: bindExchange("$d:cr", "$s:r"), want: refused("40,30", "write access to exchange '$d:cr'")},
		{name: "exchange.bind without read", do: bindExchange("$d:w", "$s:cw"), want: refused("40,30", "read access to exchange '$s:cw'")},
		{name: "exchange.bind to the default exchange", do: bindExchange("", "$s:r"), want: refused("40,30", "write access to exchange 'amq.default'")},
		{name: "exchange.bind from the default exchange", do: bindExchange("$d:w", ""), want: []string{"1 channel.close 403 (40,30) ACCESS_REFUSED - operation not permitted on the default exchange"}},
		{name: "exchange.unbind", do: unbindExchange("$d:w", "$s:r"), want: []string{"1 exchange.unbind-ok"}},
		{name: "exchange.unbind without write", do: unbindExchange("$d:cr", "$s:r"), want: refused("40,40", "write access to exchange '$d:cr'")},
		{name: "exchange.unbind without read", do: unbindExchange("$d:w", "$s:cw"), want: refused("40,40", "read access to exchange '$s:cw'")},

		{name: "queue.declare", do: queue("$q:c", 0, ""), want: []string{"1 queue.declare-ok Queue=$q:c *"}},
		{name: "queue.declare without configure", do: queue("$q:rw", 0, ""), want: refused("50,10", "configure access to queue '$q:rw'")},
		{name: "queue.declare again without configure", do: with(q("$q:rw"), nil, queue("$q:rw", 0, "")), want: refused("50,10", "configure access to queue '$q:rw'")},
		{name: "queue.declare passive needs nothing", do: with(q("$q:"), nil, queue("$q:", amqptest.Passive, "")), want: []string{"1 queue.declare-ok Queue=$q: *"}},
		{name: "queue.declare without a name", do: queue("", 0, ""), want: []string{"1 channel.close 403 (50,10) ACCESS_REFUSED - configure access to queue 'amq.gen-*"}},
		{name: "dead letter exchange", do: queue("$q:cr", 0, "$dlx:w"), want: []string{"1 queue.declare-ok Queue=$q:cr *"}},
		{name: "dead letter exchange without read of the queue", do: queue("$q:c", 0, "$dlx:w"), want: refused("50,10", "read access to queue '$q:c'")},
		{name: "dead letter exchange without write to it", do: queue("$q:cr", 0, "$dlx:cr"), want: refused("50,10", "write access to exchange '$dlx:cr'")},
		{name: "default dead letter exchange", do: func(c *amqptest.Client) {
			c.Method(1, c.QueueDeclare("$q:cr", 0, table("x-dead-letter-exchange", "")))
		}, want: refused("50,10", "write access to exchange 'amq.default'")},
		{name: "queue.delete", do: func(c *amqptest.Client) { c.Method(1, &amqp.QueueDelete{Queue: name(c, "$q:c")}) }, want: []string{"1 queue.delete-ok MessageCount=0"}},
		{name: "queue.delete without configure", do: with(q("$q:rw"), nil, func(c *amqptest.Client) { c.Method(1, &amqp.QueueDelete{Queue: name(c, "$q:rw")}) }), want: refused("50,40", "configure access to queue '$q:rw'")},
		{name: "queue.bind", do: with(q("$q:w"), q("$x:r"), bindQueue("$q:w", "$x:r")), want: []string{"1 queue.bind-ok"}},
		{name: "queue.bind without write", do: bindQueue("$q:cr", "$x:r"), want: refused("50,20", "write access to queue '$q:cr'")},
		{name: "queue.bind without read", do: bindQueue("$q:w", "$x:cw"), want: refused("50,20", "read access to exchange '$x:cw'")},
		{name: "queue.bind to the default exchange", do: bindQueue("$q:w", ""), want: []string{"1 channel.close 403 (50,20) ACCESS_REFUSED - operation not permitted on the default exchange"}},
		{name: "queue.unbind", do: unbindQueue("$q:w", "$x:r"), want: []string{"1 queue.unbind-ok"}},
		{name: "queue.unbind without write", do: unbindQueue("$q:cr", "$x:r"), want: refused("50,50", "write access to queue '$q:cr'")},
		{name: "queue.unbind without read", do: unbindQueue("$q:w", "$x:cw"), want: refused("50,50", "read access to exchange '$x:cw'")},
		{name: "queue.purge", do: with(q("$q:r"), nil, func(c *amqptest.Client) { c.Method(1, &amqp.QueuePurge{Queue: name(c, "$q:r")}) }), want: []string{"1 queue.purge-ok MessageCount=0"}},
		{name: "queue.purge without read", do: func(c *amqptest.Client) { c.Method(1, &amqp.QueuePurge{Queue: name(c, "$q:cw")}) }, want: refused("50,30", "read access to queue '$q:cw'")},

		{name: "basic.get", do: with(q("$q:r"), nil, func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: name(c, "$q:r")}) }), want: []string{"1 basic.get-empty*"}},
		{name: "basic.get without read", do: func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: name(c, "$q:cw")}) }, want: refused("60,70", "read access to queue '$q:cw'")},
		{name: "basic.consume", do: with(q("$q:r"), nil, func(c *amqptest.Client) { c.Method(1, c.Consume("$q:r", "t", 0)) }), want: []string{"1 basic.consume-ok ConsumerTag=t"}},
		{name: "basic.consume without read", do: func(c *amqptest.Client) { c.Method(1, c.Consume("$q:cw", "t", 0)) }, want: refused("60,20", "read access to queue '$q:cw'")},
		{name: "basic.publish", do: with(nil, q("$x:w"), publish("$x:w"))},
		{name: "basic.publish without write", do: with(nil, q("$x:cr"), publish("$x:cr")), want: refused("60,40", "write access to exchange '$x:cr'")},
		{name: "basic.publish without write to nowhere", do: publish("$x:cr"), want: refused("60,40", "write access to exchange '$x:cr'")},
		{name: "basic.publish to nowhere", do: publish("$x:w"), want: []string{"1 channel.close 404 (60,40) " + noExchange}},
		{name: "basic.publish to the default exchange", do: publish(""), want: refused("60,40", "write access to exchange 'amq.default'")},
		{name: "basic.publish in a transaction", do: func(c *amqptest.Client) {
			amqptest.Ask[*amqp.TxSelectOk](c, 1, &amqp.TxSelect{})
			publish("$x:cr")(c)
		}, want: refused("60,40", "write access to exchange '$x:cr'")},
		{name: "one exchange after the other", do: with(nil, q("$a:w", "$b:cr"), func(c *amqptest.Client) {
			publish("$a:w")(c)
			publish("$a:w")(c)
			publish("$b:cr")(c)
		}), want: refused("60,40", "write access to exchange '$b:cr'")},
	}
	for i := range rows {
		rows[i].options = joe
	}
	runRows(t, e, rows)
}

// TestPermissions_UserID: only an impersonator speaks for others.
func TestPermissions_UserID(t *testing.T) {
	e := start(t)
	joe, agent := addUser(t, e, "joe", everything), addUser(t, e, "agent", everything, access.TagImpersonator)
	root := addUser(t, e, "root", everything, access.TagAdministrator)
	publish := func(as string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Publish(1, amqptest.Message{Key: "nowhere", Properties: &amqp.Properties{Flags: amqp.FlagUserID, UserID: []byte(as)}})
		}
	}
	refused := func(as, user string) []string {
		return []string{"1 channel.close 406 (60,40) PRECONDITION_FAILED - user_id property set to '" + as + "' but authenticated user was '" + user + "'"}
	}
	runRows(t, e, []row{
		{name: "own", options: joe, do: publish("joe")},
		{name: "other", options: joe, do: publish("guest"), want: refused("guest", "joe")},
		{name: "empty", options: joe, do: publish(""), want: refused("", "joe")},
		{name: "impersonator", options: agent, do: publish("guest")},
		{name: "administrator is no impersonator", options: root, do: publish("guest"), want: refused("guest", "root")},
	})
}

// TestPermissions_Topics: routing keys with topic exchanges, and with no others.
func TestPermissions_Topics(t *testing.T) {
	e := start(t)
	joe := addUser(t, e, "joe", everything)
	seq, err := e.Broker().SetTopicPermissions("joe", "/", "amq.topic", access.TopicPermissions{Write: `^{username}\.`, Read: `^{vhost}\.`})
	must(t, seq, err)
	seq, err = e.Broker().SetTopicPermissions("joe", "/", "amq.direct", access.TopicPermissions{})
	must(t, seq, err)
	publish := func(x string, keys ...string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			for _, key := range keys {
				c.Publish(1, amqptest.Message{Exchange: x, Key: key, Body: "m"})
			}
		}
	}
	bind := func(x, key string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Declare("$q", 0)
			c.Method(1, c.QueueBind("$q", x, key, nil))
		}
	}
	refused := func(ids, what, key string) []string {
		return []string{"1 channel.close 403 (" + ids + ") ACCESS_REFUSED - " + what + " access to topic '" + key + "' in exchange topic 'amq.topic' in vhost '/' refused for user 'joe'"}
	}
	runRows(t, e, []row{
		{name: "publish", options: joe, do: publish("amq.topic", "joe.x", "joe.y", "joe.y")},
		{name: "publish another's", options: joe, do: publish("amq.topic", "ann.x"), want: refused("60,40", "write", "ann.x")},
		{name: "publish another's after one's own", options: joe, do: publish("amq.topic", "joe.x", "joe.x", "ann.x"), want: refused("60,40", "write", "ann.x")},
		{name: "publish to a direct exchange", options: joe, do: publish("amq.direct", "ann.x")},
		{name: "guest publishes", do: publish("amq.topic", "ann.x")},
		{name: "bind", options: joe, do: bind("amq.topic", "/.x"), want: []string{"1 queue.bind-ok"}},
		{name: "bind with another key", options: joe, do: bind("amq.topic", "#"), want: refused("50,20", "read", "#")},
		{name: "bind to a direct exchange", options: joe, do: bind("amq.direct", "#"), want: []string{"1 queue.bind-ok"}},
		{name: "unbind with another key", options: joe, do: func(c *amqptest.Client) {
			c.Method(1, &amqp.QueueUnbind{Queue: []byte("q"), Exchange: []byte("amq.topic"), RoutingKey: []byte("#")})
		}, want: refused("50,50", "read", "#")},
		{name: "bind an exchange with another key", options: joe, do: func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeBind{Destination: []byte("amq.fanout"), Source: []byte("amq.topic"), RoutingKey: []byte("x")})
		}, want: refused("40,30", "read", "x")},
	})
}

// TestVHosts: each is a name space of its own.
func TestVHosts(t *testing.T) {
	e := start(t)
	b := e.Broker()
	odd := "ö /%2F"
	seq, err := b.AddVHost(broker.VHostSpec{Name: odd})
	must(t, seq, err)
	seq, err = b.SetPermissions("guest", odd, everything)
	must(t, seq, err)
	first, second := amqptest.OpenClient(t, e.Addr(), amqptest.Options{}), amqptest.OpenClient(t, e.Addr(), amqptest.Options{VHost: odd})
	for _, c := range []*amqptest.Client{first, second} {
		c.Declare("q", 0)
	}
	first.PublishAll(1, "q", "m")
	first.Sync(1)
	second.PublishAll(1, "q", "n", "n")
	second.Sync(1)
	if a, b := first.Declare("q", amqptest.Passive), second.Declare("q", amqptest.Passive); a.MessageCount != 1 || b.MessageCount != 2 {
		t.Errorf("%d and %d messages", a.MessageCount, b.MessageCount)
	}
	second.Method(1, second.QueueDeclare("none", amqptest.Passive, nil))
	second.Want("1 channel.close 404 (50,10) NOT_FOUND - no queue 'none' in vhost '" + odd + "'")
}
