package engine_test

import (
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// table makes a field table of name, value pairs.
func table(pairs ...any) amqp.Table {
	var b amqp.TableBuilder
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			b.SetString(name, v)
		case int:
			b.SetInt32(name, int32(v))
		case int64:
			b.SetInt64(name, v)
		case bool:
			b.SetBool(name, v)
		case amqp.Value:
			b.SetValue(name, v)
		case time.Time:
			b.SetValue(name, amqp.TimestampValue(uint64(v.Unix())))
		case []any:
			var values []amqp.Value
			for _, item := range v {
				if s, ok := item.(string); ok {
					item = amqp.String(s)
				}
				values = append(values, item.(amqp.Value))
			}
			b.SetValue(name, amqp.ArrayValue(amqp.ArrayOf(values...)))
		}
	}
	return b.Table()
}

// TestExchanges: class exchange (40).
func TestExchanges(t *testing.T) {
	// declared makes a step on the exchange $x (direct, transient), which exists.
	declared := func(m func(c *amqptest.Client) amqp.Method) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("$x", "direct", 0, nil))
			c.Method(1, m(c))
		}
	}
	declare := func(name, kind string, f amqptest.Flags, arguments amqp.Table) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(1, c.ExchangeDeclare(name, kind, f, arguments)) }
	}
	again := func(kind string, f amqptest.Flags, arguments amqp.Table) func(*amqptest.Client) {
		return declared(func(c *amqptest.Client) amqp.Method { return c.ExchangeDeclare("$x", kind, f, arguments) })
	}
	drop := func(name string, ifUnused bool) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeDelete{Exchange: []byte(c.Name(name)), IfUnused: ifUnused})
		}
	}
	bind := func(destination, source string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeBind{Destination: []byte(c.Name(destination)), Source: []byte(c.Name(source))})
		}
	}
	unbind := func(destination, source string) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Method(1, &amqp.ExchangeUnbind{Destination: []byte(c.Name(destination)), Source: []byte(c.Name(source))})
		}
	}
	bound := func(ifUnused bool) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("$x", "direct", 0, nil))
			c.Declare("$q", 0)
			amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("$q", "$x", "k", nil))
			drop("$x", ifUnused)(c)
		}
	}
	headers := func(arguments amqp.Table) func(*amqptest.Client) {
		return func(c *amqptest.Client) {
			c.Declare("$q", 0)
			c.Method(1, c.QueueBind("$q", "amq.headers", "", arguments))
		}
	}
	ok := []string{"1 exchange.declare-ok"}
	deleteOk := []string{"1 exchange.delete-ok"}
	chClose := func(code, ids, text string) []string {
		return []string{"1 channel.close " + code + " (" + ids + ") " + text}
	}
	inequivalent := func(name, received, current string) []string {
		return chClose("406", "40,10", "PRECONDITION_FAILED - inequivalent arg '"+name+"' for exchange '$x' in vhost '/': received "+received+" but current is "+current)
	}
	defaultExchange := "ACCESS_REFUSED - operation not permitted on the default exchange"
	rows := []row{
		{name: "declare", do: declare("$x", "direct", 0, nil), want: ok},
		{name: "declare nowait", do: declare("$x", "direct", amqptest.NoWait, nil)},
		{name: "redeclare equal", do: again("direct", 0, nil), want: ok},
		{name: "redeclare type", do: again("fanout", 0, nil), want: inequivalent("type", "'fanout'", "'direct'")},
		{name: "redeclare durable", do: again("direct", amqptest.Durable, nil), want: inequivalent("durable", "'true'", "'false'")},
		{name: "redeclare auto-delete", do: again("direct", amqptest.AutoDelete, nil), want: inequivalent("auto_delete", "'true'", "'false'")},
		{name: "redeclare internal", do: again("direct", amqptest.Internal, nil), want: inequivalent("internal", "'true'", "'false'")},
		{name: "redeclare unknown argument", do: again("direct", 0, table("x-foo", "y")), want: ok},
		{name: "redeclare alternate-exchange", do: again("direct", 0, table("alternate-exchange", "y")), want: inequivalent("alternate-exchange", "the value 'y' of type 'longstr'", "none")},
		{name: "unknown type", do: declare("$x", "nosuch", 0, nil), want: []string{"0 connection.close 503 (40,10) COMMAND_INVALID - unknown exchange type 'nosuch'"}},
		{name: "empty type", do: declare("$x", "", 0, nil), want: []string{"0 connection.close 503 (40,10) COMMAND_INVALID - invalid exchange type ''"}},
		{name: "passive missing", do: declare("$x", "direct", amqptest.Passive, nil), want: chClose("404", "40,10", "NOT_FOUND - no exchange '$x' in vhost '/'")},
		{name: "passive missing nowait", do: declare("$x", "direct", amqptest.Passive|amqptest.NoWait, nil), want: chClose("404", "40,10", "NOT_FOUND - no exchange '$x' in vhost '/'")},
		{name: "passive other type", do: again("fanout", amqptest.Passive, nil), want: ok},
		{name: "passive default exchange", do: declare("", "direct", amqptest.Passive, nil), want: chClose("403", "40,10", defaultExchange)},
		{name: "declare default exchange", do: declare("", "direct", 0, nil), want: chClose("403", "40,10", defaultExchange)},
		{name: "declare amq.foo", do: declare("amq.foo", "direct", 0, nil), want: chClose("403", "40,10", "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'")},
		{name: "declare amq.direct equivalent", do: declare("amq.direct", "direct", amqptest.Durable, nil), want: ok},
		{name: "declare amq.direct not durable", do: declare("amq.direct", "direct", 0, nil), want: chClose("406", "40,10", "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true'")},
		{name: "passive amq.rabbitmq.log", do: declare("amq.rabbitmq.log", "topic", amqptest.Passive, nil), want: chClose("404", "40,10", "NOT_FOUND - no exchange 'amq.rabbitmq.log' in vhost '/'")},
		{name: "name with CR LF", do: func(c *amqptest.Client) {
			declare("$x\r\n", "direct", 0, nil)(c)
			declare("$x", "direct", amqptest.Passive, nil)(c)
		}, want: []string{"1 exchange.declare-ok", "1 exchange.declare-ok"}},
		{name: "delete amq.direct", do: drop("amq.direct", false), want: chClose("403", "40,20", "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed")},
		{name: "delete amq.foo missing", do: drop("amq.foo", false), want: chClose("403", "40,20", "ACCESS_REFUSED - deletion of system exchange 'amq.foo' in vhost '/' not allowed")},
		{name: "delete default exchange", do: drop("", false), want: chClose("403", "40,20", defaultExchange)},
		{name: "delete missing", do: drop("$x", false), want: deleteOk},
		{name: "delete missing if-unused", do: drop("$x", true), want: deleteOk},
		{name: "delete if-unused while bound", do: bound(true), want: chClose("406", "40,20", "PRECONDITION_FAILED - exchange '$x' in vhost '/' in use")},
		{name: "delete bound", do: bound(false), want: deleteOk},
		{name: "publish to internal", do: func(c *amqptest.Client) {
			amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("$x", "direct", amqptest.Internal, nil))
			c.Publish(1, amqptest.Message{Exchange: "$x", Body: "b"})
		}, want: chClose("403", "60,40", "ACCESS_REFUSED - cannot publish to internal exchange '$x' in vhost '/'")},
		{name: "bind missing source", do: bind("amq.fanout", "$none"), want: chClose("404", "40,30", "NOT_FOUND - no exchange '$none' in vhost '/'")},
		{name: "bind missing destination", do: bind("$none", "amq.fanout"), want: chClose("404", "40,30", "NOT_FOUND - no exchange '$none' in vhost '/'")},
		{name: "bind source default", do: bind("amq.fanout", ""), want: chClose("403", "40,30", defaultExchange)},
		{name: "bind destination default", do: bind("", "amq.fanout"), want: chClose("403", "40,30", defaultExchange)},
		{name: "unbind missing binding", do: unbind("amq.topic", "amq.direct"), want: []string{"1 exchange.unbind-ok"}},
		{name: "unbind missing source", do: unbind("amq.topic", "$none"), want: []string{"1 exchange.unbind-ok"}},
		{name: "unbind source default", do: unbind("amq.topic", ""), want: chClose("403", "40,40", defaultExchange)},
		{name: "auto-delete goes with its last binding", do: func(c *amqptest.Client) {
			amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("$x", "direct", amqptest.AutoDelete, nil))
			c.Declare("$q", 0)
			amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("$q", "$x", "k", nil))
			amqptest.Ask[*amqp.QueueUnbindOk](c, 1, &amqp.QueueUnbind{Queue: []byte(c.Name("$q")), Exchange: []byte(c.Name("$x")), RoutingKey: []byte("k")})
			c.Method(1, c.ExchangeDeclare("$x", "direct", amqptest.Passive, nil))
		}, want: chClose("404", "40,10", "NOT_FOUND - no exchange '$x' in vhost '/'")},
		{name: "headers x-match nope", do: headers(table("x-match", "nope")), want: chClose("406", "50,20", "PRECONDITION_FAILED - *")},
		{name: "headers x-match 1", do: headers(table("x-match", 1)), want: chClose("406", "50,20", "PRECONDITION_FAILED - *")},
		{name: "headers without arguments", do: headers(nil), want: []string{"1 queue.bind-ok"}},
	}
	for _, name := range []string{"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"} {
		rows = append(rows, row{name: "passive " + name, do: declare(name, "", amqptest.Passive, nil), want: ok})
	}
	for _, match := range []string{"any", "all", "any-with-x", "all-with-x"} {
		rows = append(rows, row{name: "headers x-match " + match, do: headers(table("x-match", match)), want: []string{"1 queue.bind-ok"}})
	}
	runRows(t, start(t), rows)
}
