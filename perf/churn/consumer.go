package churn

import (
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// consumerWork starts consumers and cancels them.
func consumerWork() work {
	return work{
		name:    "consumer-churn",
		summary: "start consumers and cancel them",
		details: "Each connection has an empty exclusive queue. An operation starts a consumer of it,\n" +
			"without acks, and cancels it.",
		unit: "consumers started and cancelled", kinds: []string{""}, windows: "1,100",
		connect: func(run *rowRun) error {
			return connectCallers(run, func(s *session.Session, connection int) (client.Operation, error) {
				var declared amqp.QueueDeclareOk
				if err := s.Call(session.ClientChannel, &amqp.QueueDeclare{Exclusive: true}, &declared); err != nil {
					return client.Operation{}, err
				}
				return consumerOperation(string(declared.Queue), connection), nil
			})
		},
	}
}

func consumerOperation(queue string, connection int) client.Operation {
	tags := newNames("consumer", "", connection)
	consume := &amqp.BasicConsume{Queue: []byte(queue), NoAck: true}
	cancel := &amqp.BasicCancel{}
	return client.Operation{
		Replies: []uint32{amqp.BasicConsumeOkID, amqp.BasicCancelOkID},
		Append: func(dst []byte, channel uint16, number uint64, call int) []byte {
			if call == 1 {
				cancel.ConsumerTag = tags.number(number)
				return amqp.AppendMethodFrame(dst, channel, cancel)
			}
			consume.ConsumerTag = tags.number(number)
			return amqp.AppendMethodFrame(dst, channel, consume)
		},
	}
}
