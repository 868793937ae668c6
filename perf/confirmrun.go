package perf

import (
	"fmt"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// connectConfirm makes the queues anew and opens the connections: channel
// number i is on connection i % connections and publishes to queue i % queues.
func connectConfirm(run *throughputRun, o *confirmOptions, c confirmCombination, broker *versions) error {
	if err := o.Control(broker, func(s *session.Session) error {
		if err := callDeleteQueues(s, o, c); err != nil {
			return err
		}
		return s.CallAll(c.queues, func(i int) (uint16, amqp.Method) {
			return session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(o.queueName(i)), Durable: true}
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
	return o.Control(nil, func(s *session.Session) error { return callDeleteQueues(s, o, c) })
}

// callDeleteQueues deletes the queues of a combination; those that don't exist
// are no error in RabbitMQ and those that follow it.
func callDeleteQueues(s *session.Session, o *confirmOptions, c confirmCombination) error {
	return s.CallAll(c.queues, func(i int) (uint16, amqp.Method) {
		return session.ClientChannel, &amqp.QueueDelete{Queue: []byte(o.queueName(i))}
	}, &amqp.QueueDeleteOk{})
}

// openConfirmPublisher connects and opens the channels; queues names the queue
// that each of them publishes to.
func openConfirmPublisher(run *throughputRun, l *client.Loop, queues []string, window int) (*client.ConfirmPublisher, error) {
	s, err := session.Dial(run.options.Address)
	if err != nil {
		return nil, err
	}
	p, err := prepareConfirmPublisher(run, l, s, queues, window)
	if err != nil {
		s.Close()
		return nil, err
	}
	return p, l.Add(p)
}

func prepareConfirmPublisher(run *throughputRun, l *client.Loop, s *session.Session, queues []string, window int) (*client.ConfirmPublisher, error) {
	if len(queues) > int(s.Channels) {
		return nil, cli.Usagef("the broker allows %d channels on a connection, %d are wanted: give more connections with -x", s.Channels, len(queues))
	}
	// Channel 1 is open already.
	if err := s.CallAll(len(queues)-1, func(i int) (uint16, amqp.Method) {
		return uint16(i + 2), &amqp.ChannelOpen{}
	}, &amqp.ChannelOpenOk{}); err != nil {
		return nil, err
	}
	if err := s.CallAll(len(queues), func(i int) (uint16, amqp.Method) {
		return uint16(i + 1), &amqp.ConfirmSelect{}
	}, &amqp.ConfirmSelectOk{}); err != nil {
		return nil, err
	}
	channels := make([]client.ConfirmChannel, len(queues))
	largest := 0
	for i, queue := range queues {
		message := client.EncodePublishOn(uint16(i+1), "", queue, run.properties, run.options.Size, s.FrameMax).Bytes
		channels[i] = client.NewConfirmChannel(message, window)
		largest = max(largest, len(message))
	}
	p := &client.ConfirmPublisher{Loop: l, Buffer: make([]byte, 0, max(client.PublisherBufferBytes, largest))}
	if l.Latency == nil {
		l.Latency = client.NewLatencyRecorder(0)
	}
	p.Channels = client.NewChannelConfirms(channels, window, l.Latency)
	p.Walker.Channels = p.Channels
	return p, p.Adopt(s)
}
