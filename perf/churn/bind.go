package churn

import (
	"strconv"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// bindWork binds queues to an exchange: each connection its own queue, each
// time with another routing key.
func bindWork() work {
	return work{
		name:    "bind-churn",
		summary: "bind queues to an exchange, transient and durable",
		details: "Each connection binds a queue of its own to the exchange, every time with another\n" +
			"routing key. Durable: a durable queue and, as amq.direct is, a durable exchange, so\n" +
			"that each binding has to survive a restart before it is confirmed. Bindings stay\n" +
			"until the row ends, unless --unbind takes each away again: an operation then is a\n" +
			"bind and an unbind. The queues are deleted before and after.",
		unit: "bindings", kinds: []string{transient, durable}, windows: "1,1000", prefix: "perf-bind",
		declare: func(flags *cli.FlagSet, o *Options) {
			o.Exchange = "amq.direct"
			flags.Text(&o.Exchange, "e", "exchange", "NAME", "exchange to bind to; must exist")
			flags.Toggle(&o.Unbind, "", "unbind", "take each binding away again")
		},
		prepare: func(s *session.Session, o *Options, row *results.ChurnRow) error {
			return s.CallAll(row.Connections, func(i int) (uint16, amqp.Method) {
				return session.ClientChannel, &amqp.QueueDeclare{Queue: boundQueue(o, row, i), Durable: row.Kind == durable}
			}, &amqp.QueueDeclareOk{})
		},
		cleanUp: func(s *session.Session, o *Options, row *results.ChurnRow) error {
			return s.CallAll(row.Connections, func(i int) (uint16, amqp.Method) {
				return session.ClientChannel, &amqp.QueueDelete{Queue: boundQueue(o, row, i)}
			}, &amqp.QueueDeleteOk{})
		},
		connect: func(run *rowRun) error {
			return connectCallers(run, func(_ *session.Session, connection int) (client.Operation, error) {
				return bindOperation(run.o, run.row, connection), nil
			})
		},
	}
}

func boundQueue(o *Options, row *results.ChurnRow, connection int) []byte {
	return []byte(o.Prefix + "-" + row.Kind + "-" + strconv.Itoa(connection))
}

func bindOperation(o *Options, row *results.ChurnRow, connection int) client.Operation {
	keys := newNames("key", "", connection)
	bind := &amqp.QueueBind{Queue: boundQueue(o, row, connection), Exchange: []byte(o.Exchange)}
	unbind := &amqp.QueueUnbind{Queue: bind.Queue, Exchange: bind.Exchange}
	operation := client.Operation{
		Replies: []uint32{amqp.QueueBindOkID},
		Append: func(dst []byte, channel uint16, number uint64, call int) []byte {
			if call == 1 {
				unbind.RoutingKey = keys.number(number)
				return amqp.AppendMethodFrame(dst, channel, unbind)
			}
			bind.RoutingKey = keys.number(number)
			return amqp.AppendMethodFrame(dst, channel, bind)
		},
	}
	if o.Unbind {
		operation.Replies = append(operation.Replies, amqp.QueueUnbindOkID)
	}
	return operation
}
