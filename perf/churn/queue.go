package churn

import (
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// queueWork declares queues and deletes them.
func queueWork() work {
	return work{
		name:    "queue-churn",
		summary: "declare queues and delete them, transient and durable",
		details: "An operation declares a queue of a new name and deletes it. Transient queues are\n" +
			"exclusive, as temporary ones usually are; durable ones have to survive a restart\n" +
			"before they are confirmed, and be gone after one when their deletion is.",
		unit: "queues created and deleted", kinds: []string{transient, durable}, windows: "1,100", prefix: "perf-queue",
		connect: func(run *rowRun) error {
			return connectCallers(run, func(_ *session.Session, connection int) (client.Operation, error) {
				return queueOperation(run.o, run.row, connection), nil
			})
		},
	}
}

func queueOperation(o *Options, row *results.ChurnRow, connection int) client.Operation {
	names := newNames(o.Prefix, row.Kind, connection)
	declare := &amqp.QueueDeclare{Durable: row.Kind == durable, Exclusive: row.Kind == transient}
	remove := &amqp.QueueDelete{}
	return client.Operation{
		Replies: []uint32{amqp.QueueDeclareOkID, amqp.QueueDeleteOkID},
		Append: func(dst []byte, channel uint16, number uint64, call int) []byte {
			if call == 1 {
				remove.Queue = names.number(number)
				return amqp.AppendMethodFrame(dst, channel, remove)
			}
			declare.Queue = names.number(number)
			return amqp.AppendMethodFrame(dst, channel, declare)
		},
	}
}
