package engine_test

import (
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

const lockedText = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '$q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."

// TestQueues: class queue (50).
func TestQueues(t *testing.T) {
	declareRaw := func(name string, f amqptest.Flags, arguments amqp.Table) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.QueueDeclare(name, f, arguments)) }
	}
	again := func(f amqptest.Flags, arguments amqp.Table) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Declare("$q", 0)
			declareRaw("$q", f, arguments)(c)
		}
	}
	drop := func(f amqptest.Flags) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.QueueDelete{Queue: []byte(c.Name("$q")), IfUnused: f&amqptest.IfUnused != 0, IfEmpty: f&amqptest.IfEmpty != 0})
		}
	}
	after := func(steps ...func(*amqptest.Client)) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			for _, step := range steps {
				step(c)
			}
		}
	}
	declared := func(c *amqptest.Client) { c.Declare("$q", 0) }
	filled := func(c *amqptest.Client) { c.PublishAll(1, "$q", "m1") }
	bind := func(queue, exchange string) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.QueueBind(queue, exchange, "k", nil)) }
	}
	unbind := func(queue, exchange string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.QueueUnbind{Queue: []byte(c.Name(queue)), Exchange: []byte(c.Name(exchange)), RoutingKey: []byte("k")})
		}
	}
	on := func(channel uint16, m amqp.Method) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(channel, m) }
	}
	declareOk := []string{"1 queue.declare-ok Queue=$q MessageCount=0 ConsumerCount=0"}
	chClose := func(code, ids, text string) []string {
		return []string{"1 channel.close " + code + " (" + ids + ") " + text}
	}
	inequivalent := func(name, received, current string) []string {
		return chClose("406", "50,10", "PRECONDITION_FAILED - inequivalent arg '"+name+"' for queue '$q' in vhost '/': received "+received+" but current is "+current)
	}
	noQueue := "NOT_FOUND - no queue '$q' in vhost '/'"
	noPrevious := "NOT_FOUND - no previously declared queue"
	noExchange := "NOT_FOUND - no exchange '$none' in vhost '/'"
	defaultExchange := "ACCESS_REFUSED - operation not permitted on the default exchange"
	long := strings.Repeat("q", 255)
	runRows(t, start(t), []row{
		{name: "declare", do: declareRaw("$q", 0, nil), want: declareOk},
		{name: "declare nowait", do: declareRaw("$q", amqptest.NoWait, nil)},
		{name: "declare nowait server-named", do: declareRaw("", amqptest.NoWait, nil)},
		{name: "redeclare equal", do: again(0, nil), want: declareOk},
		{name: "redeclare durable", do: again(amqptest.Durable, nil), want: inequivalent("durable", "'true'", "'false'")},
		{name: "redeclare auto-delete", do: again(amqptest.AutoDelete, nil), want: inequivalent("auto_delete", "'true'", "'false'")},
		{name: "redeclare exclusive", do: again(amqptest.Exclusive, nil), want: chClose("405", "50,10", lockedText)},
		{name: "redeclare x-max-length", do: again(0, table("x-max-length", 5)), want: inequivalent("x-max-length", "the value '5' of type 'signedint'", "none")},
		{name: "redeclare unknown argument", do: again(0, table("x-foo", 5)), want: declareOk},
		{name: "own exclusive queue as non-exclusive", do: func(c *amqptest.Client) {
			c.Declare("$q", amqptest.Exclusive)
			declareRaw("$q", 0, nil)(c)
		}, want: chClose("405", "50,10", lockedText)},
		{name: "exclusive and durable", do: declareRaw("$q", amqptest.Exclusive|amqptest.Durable, nil), want: declareOk},
		{name: "passive, everything differs", do: again(amqptest.Passive|amqptest.Durable|amqptest.AutoDelete|amqptest.Exclusive, table("x-max-length", 5)), want: declareOk},
		{name: "passive missing", do: declareRaw("$q", amqptest.Passive, nil), want: chClose("404", "50,10", noQueue)},
		{name: "passive missing nowait", do: declareRaw("$q", amqptest.Passive|amqptest.NoWait, nil), want: chClose("404", "50,10", noQueue)},
		{name: "declare amq.foo", do: declareRaw("amq.foo", 0, nil), want: chClose("403", "50,10", "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'")},
		{name: "declare amq.gen-foo", do: declareRaw("amq.gen-foo", 0, nil), want: chClose("403", "50,10", "ACCESS_REFUSED - queue name 'amq.gen-foo' contains reserved prefix 'amq.*'")},
		{name: "passive amq.foo", do: declareRaw("amq.foo", amqptest.Passive, nil), want: chClose("404", "50,10", "NOT_FOUND - no queue 'amq.foo' in vhost '/'")},
		{name: "server-named", do: declareRaw("", amqptest.Exclusive, nil), want: []string{"1 queue.declare-ok Queue=amq.gen-*"}},
		{name: "passive without a name", do: declareRaw("", amqptest.Passive, nil), want: chClose("404", "50,10", "NOT_FOUND - no queue '' in vhost '/'")},
		{name: "passive without a name after declare", do: after(declared, declareRaw("", amqptest.Passive, nil)), want: chClose("404", "50,10", "NOT_FOUND - no queue '' in vhost '/'")},
		{name: "bind without a name", do: bind("", "amq.direct"), want: chClose("404", "50,20", noPrevious)},
		{name: "bind without a name after declare", do: after(declared, bind("", "amq.direct")), want: []string{"1 queue.bind-ok"}},
		{name: "consume without a name", do: on(1, &amqp.BasicConsume{}), want: chClose("404", "60,20", noPrevious)},
		{name: "get without a name", do: on(1, &amqp.BasicGet{}), want: chClose("404", "60,70", noPrevious)},
		{name: "purge without a name", do: on(1, &amqp.QueuePurge{}), want: chClose("404", "50,30", noPrevious)},
		{name: "delete without a name", do: on(1, &amqp.QueueDelete{}), want: chClose("404", "50,40", noPrevious)},
		{name: "delete without a name after declare", do: after(declared, on(1, &amqp.QueueDelete{})), want: []string{"1 queue.delete-ok MessageCount=0"}},
		{name: "last declared queue is the channel's", do: after(declared, on(2, &amqp.QueuePurge{})), want: []string{"2 channel.close 404 (50,30) " + noPrevious}},
		{name: "last declared queue is gone", do: func(c *amqptest.Client) {
			declared(c)
			drop(0)(c)
			bind("", "amq.direct")(c)
		}, want: []string{"1 queue.delete-ok MessageCount=0", "1 channel.close 404 (50,20) " + noQueue}},
		{name: "bind missing queue", do: bind("$q", "amq.direct"), want: chClose("404", "50,20", noQueue)},
		{name: "bind missing exchange", do: after(declared, bind("$q", "$none")), want: chClose("404", "50,20", noExchange)},
		{name: "bind both missing", do: bind("$q", "$none"), want: chClose("404", "50,20", noExchange)},
		{name: "bind to default exchange", do: after(declared, bind("$q", "")), want: chClose("403", "50,20", defaultExchange)},
		{name: "unbind missing binding", do: after(declared, unbind("$q", "amq.direct")), want: []string{"1 queue.unbind-ok"}},
		{name: "unbind missing queue", do: unbind("$q", "amq.direct"), want: []string{"1 queue.unbind-ok"}},
		{name: "unbind missing exchange", do: after(declared, unbind("$q", "$none")), want: []string{"1 queue.unbind-ok"}},
		{name: "unbind from default exchange", do: after(declared, unbind("$q", "")), want: chClose("403", "50,50", defaultExchange)},
		{name: "purge empty", do: after(declared, on(1, &amqp.QueuePurge{})), want: []string{"1 queue.purge-ok MessageCount=0"}},
		{name: "purge", do: after(declared, filled, filled, on(1, &amqp.QueuePurge{})), want: []string{"1 queue.purge-ok MessageCount=2"}},
		{name: "purge missing", do: func(c *amqptest.Client) { c.Method(1, &amqp.QueuePurge{Queue: []byte(c.Name("$q"))}) }, want: chClose("404", "50,30", noQueue)},
		{name: "delete missing", do: drop(0), want: []string{"1 queue.delete-ok MessageCount=0"}},
		{name: "delete missing if-empty", do: drop(amqptest.IfEmpty), want: []string{"1 queue.delete-ok MessageCount=0"}},
		{name: "delete if-unused with a consumer", do: func(c *amqptest.Client) {
			declared(c)
			c.Subscribe(2, "$q", "t", 0)
			drop(amqptest.IfUnused)(c)
		}, want: chClose("406", "50,40", "PRECONDITION_FAILED - queue '$q' in vhost '/' in use")},
		{name: "declare-ok counts messages and consumers", do: func(c *amqptest.Client) {
			declared(c)
			amqptest.Ask[*amqp.BasicQosOk](c, 2, &amqp.BasicQos{PrefetchCount: 1})
			c.Subscribe(2, "$q", "t", 0)
			c.PublishAll(1, "$q", "a", "b", "c")
			c.Want("2 basic.deliver *")
			declareRaw("$q", amqptest.Passive, nil)(c)
		}, want: []string{"1 queue.declare-ok Queue=$q MessageCount=2 ConsumerCount=1"}},
		{name: "delete if-empty with a message", do: after(declared, filled, drop(amqptest.IfEmpty)), want: chClose("406", "50,40", "PRECONDITION_FAILED - queue '$q' in vhost '/' not empty")},
		{name: "delete if-empty with an unacked message", do: func(c *amqptest.Client) {
			declared(c)
			filled(c)
			c.Get(1, "$q", 0)
			drop(amqptest.IfEmpty)(c)
		}, want: []string{"1 queue.delete-ok MessageCount=0"}},
		{name: "delete counts ready messages", do: func(c *amqptest.Client) {
			declared(c)
			filled(c)
			filled(c)
			c.Get(1, "$q", 0)
			drop(0)(c)
		}, want: []string{"1 queue.delete-ok MessageCount=1"}},
		{name: "name of 255 bytes", do: declareRaw(long, amqptest.Exclusive, nil), want: []string{"1 queue.declare-ok Queue=" + long + " MessageCount=0 ConsumerCount=0"}},
		{name: "name with CR LF and spaces", do: declareRaw("$a\r\n b", 0, nil), want: []string{"1 queue.declare-ok Queue=$a b MessageCount=0 ConsumerCount=0"}},
		{name: "bind with neither name nor key uses the name as key", do: func(c *amqptest.Client) {
			declared(c)
			amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("", "amq.direct", "", nil))
			c.Publish(1, amqptest.Message{Exchange: "amq.direct", Key: "$q", Body: "m"})
			c.Method(1, &amqp.BasicGet{})
		}, want: []string{`1 basic.get-ok DeliveryTag=1 Redelivered=false Exchange=amq.direct RoutingKey=$q MessageCount=0 "m"`}},
		{name: "bind with a name and no key keeps the empty key", do: func(c *amqptest.Client) {
			declared(c)
			amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("$q", "amq.direct", "", nil))
			c.Publish(1, amqptest.Message{Exchange: "amq.direct", Key: "$q", Mandatory: true})
		}, want: []string{`1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange=amq.direct RoutingKey=$q ""`}},
		{name: "auto-delete queue stays until it had a consumer", do: func(c *amqptest.Client) {
			c.Declare("$q", amqptest.AutoDelete)
			c.Get(1, "$q", 0)
			declareRaw("$q", amqptest.Passive, nil)(c)
		}, want: declareOk},
		{name: "auto-delete queue goes with its last consumer", do: func(c *amqptest.Client) {
			c.Declare("$q", amqptest.AutoDelete)
			c.Subscribe(1, "$q", "t", 0)
			c.Subscribe(2, "$q", "t", 0)
			amqptest.Ask[*amqp.BasicCancelOk](c, 1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare("$q", amqptest.Passive, nil))
			amqptest.Ask[*amqp.BasicCancelOk](c, 2, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			declareRaw("$q", amqptest.Passive, nil)(c)
		}, want: chClose("404", "50,10", noQueue)},
	})
}

// TestQueues_ExclusiveToAnother: 405 for everything another connection does
// with an exclusive queue, but for unbinding what is not bound.
func TestQueues_ExclusiveToAnother(t *testing.T) {
	e := start(t)
	owner := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	owner.Declare("q", amqptest.Exclusive)
	amqptest.Ask[*amqp.QueueBindOk](owner, 1, owner.QueueBind("q", "amq.direct", "bound", nil))
	q := []byte("q")
	for _, r := range []struct {
		name string
		m    amqp.Method
		want string // ids, or the answer
	}{
		{"declare exclusive", &amqp.QueueDeclare{Queue: q, Exclusive: true}, "50,10"},
		{"declare", &amqp.QueueDeclare{Queue: q}, "50,10"},
		{"declare passive", &amqp.QueueDeclare{Queue: q, Passive: true}, "50,10"},
		{"bind", &amqp.QueueBind{Queue: q, Exchange: []byte("amq.direct")}, "50,20"},
		{"unbind missing", &amqp.QueueUnbind{Queue: q, Exchange: []byte("amq.direct")}, "1 queue.unbind-ok"},
		{"unbind", &amqp.QueueUnbind{Queue: q, Exchange: []byte("amq.direct"), RoutingKey: []byte("bound")}, "50,50"},
		{"purge", &amqp.QueuePurge{Queue: q}, "50,30"},
		{"delete", &amqp.QueueDelete{Queue: q}, "50,40"},
		{"consume", &amqp.BasicConsume{Queue: q}, "60,20"},
		{"get", &amqp.BasicGet{Queue: q}, "60,70"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
			c.Prefix = ""
			c.Method(1, r.m)
			if strings.Contains(r.want, "-ok") {
				c.Want(r.want)
				return
			}
			c.Want("1 channel.close 405 (" + r.want + ") " + strings.ReplaceAll(lockedText, "$", ""))
			c.Method(1, closeOk)
			c.OpenChannel(2)
			c.WantQuiet(2)
		})
	}
	owner.WantQuiet(1)
	owner.PublishAll(1, "q", "still there")
	if got := owner.Get(1, "q", amqptest.NoAck); string(got.Body) != "still there" {
		t.Fatalf("got %s", got)
	}
}
