package perf

import (
	"fmt"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// newConfirmRun builds the shared parts of a run for one combination.
func newConfirmRun(o *confirmOptions, c confirmCombination) (*throughputRun, error) {
	run, err := newThroughputRun(o.throughputOptions(c))
	if err != nil {
		return nil, err
	}
	for range run.options.Loops {
		l, err := newLoop(run)
		if err != nil {
			run.close()
			return nil, err
		}
		run.loops = append(run.loops, l)
	}
	return run, nil
}

// connectConfirm makes the queues anew and opens the connections: channel
// number i is on connection i % connections and publishes to queue i % queues.
func connectConfirm(run *throughputRun, o *confirmOptions, c confirmCombination) error {
	if err := withControlSession(o.target, func(s *session) error {
		run.product, run.version = s.product, s.version
		if err := callDeleteQueues(s, o, c); err != nil {
			return err
		}
		return s.callAll(c.queues, func(i int) (uint16, amqp.Method) {
			return clientChannel, &amqp.QueueDeclare{Queue: []byte(o.queueName(i)), Durable: true}
		}, &amqp.QueueDeclareOk{})
	}); err != nil {
		return err
	}
	connections := run.options.Publishers
	for number := range connections {
		var queues []string
		for channel := number; channel < c.channels; channel += connections {
			queues = append(queues, o.queueName(channel%c.queues))
		}
		l := run.loops[number%len(run.loops)]
		if _, err := openConfirmPublisher(run, l, queues, c.window); err != nil {
			return fmt.Errorf("connection %d: %w", number+1, err)
		}
	}
	return nil
}

func deleteConfirmQueues(o *confirmOptions, c confirmCombination) error {
	return withControlSession(o.target, func(s *session) error { return callDeleteQueues(s, o, c) })
}

// callDeleteQueues deletes the queues of a combination; those that don't exist
// are no error in RabbitMQ and those that follow it.
func callDeleteQueues(s *session, o *confirmOptions, c confirmCombination) error {
	return s.callAll(c.queues, func(i int) (uint16, amqp.Method) {
		return clientChannel, &amqp.QueueDelete{Queue: []byte(o.queueName(i))}
	}, &amqp.QueueDeleteOk{})
}

// withControlSession runs calls on a connection of their own.
func withControlSession(target brokerAddress, calls func(*session) error) error {
	s, err := dialSession(target)
	if err != nil {
		return err
	}
	defer s.close()
	if err := calls(s); err != nil {
		return err
	}
	return s.call(0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}, &amqp.ConnectionCloseOk{})
}
