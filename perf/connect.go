package perf

import (
	"fmt"
	"math"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// connect declares the queues, opens all connections and hands them to the
// loops, which are not running yet. Consumers come first, so that they are
// there when the first message is published.
func (run *throughputRun) connect() error {
	if err := run.declareQueues(); err != nil {
		return err
	}
	for number := range run.options.Consumers {
		if err := run.connectConsumer(number); err != nil {
			return fmt.Errorf("consumer %d: %w", number+1, err)
		}
	}
	encodings := make(map[string]sharedPublish)
	for number := range run.options.Publishers {
		if err := run.connectPublisher(number, encodings); err != nil {
			return fmt.Errorf("publisher %d: %w", number+1, err)
		}
	}
	run.start = client.Now()
	run.publishersLeft.Store(int64(len(run.publishers)))
	run.schedule()
	return nil
}

// schedule sets up pacing: the clients of a rate start evenly spread over the
// first period, so that they do not send in step.
func (run *throughputRun) schedule() {
	o := run.options
	for number, p := range run.publishers {
		if o.PublishRate > 0 {
			p.Pace = client.NewPacer(run.start, o.PublishRate)
			p.Pace.Start += int64(p.Pace.Period * float64(number) / float64(len(run.publishers)))
			p.Loop.Paced = append(p.Loop.Paced, p)
		}
	}
	for _, c := range run.consumers {
		if o.ConsumeRate > 0 {
			c.Pace = client.NewPacer(run.start, o.ConsumeRate)
			c.Loop.Paced = append(c.Loop.Paced, c)
		}
		if inspector := c.Walker.Inspector; inspector != nil && inspector.Latency != nil {
			inspector.Latency.RunStart = run.start
		}
	}
}

// declareQueues declares, binds and purges the named queues on a connection of
// its own.
func (run *throughputRun) declareQueues() error {
	o := run.options
	return o.Control(&run.broker, func(s *session.Session) error {
		for _, queue := range o.queues() {
			var declared amqp.QueueDeclareOk
			if err := s.Call(session.ClientChannel, &amqp.QueueDeclare{
				Queue: []byte(queue), Durable: true, Arguments: run.queueArguments,
			}, &declared); err != nil {
				return err
			}
			if err := run.bind(s, queue, o.routingKeyFor(queue)); err != nil {
				return err
			}
			if o.Purge {
				if err := s.Call(session.ClientChannel, &amqp.QueuePurge{Queue: []byte(queue)}, &amqp.QueuePurgeOk{}); err != nil {
					return err
				}
				declared.MessageCount = 0
			}
			run.backlog += uint64(declared.MessageCount)
		}
		return nil
	})
}

// bind binds a queue to the exchange; the default exchange needs no binding, and
// which bindings a key that varies needs is not known here.
func (run *throughputRun) bind(s *session.Session, queue, key string) error {
	if run.options.Exchange == "" || run.options.Vary > 0 {
		return nil
	}
	return s.Call(session.ClientChannel, &amqp.QueueBind{
		Queue: []byte(queue), Exchange: []byte(run.options.Exchange), RoutingKey: []byte(key),
	}, &amqp.QueueBindOk{})
}

func (run *throughputRun) connectConsumer(number int) error {
	o := run.options
	s, err := session.Dial(o.Address)
	if err != nil {
		return err
	}
	l := run.loops[number%len(run.loops)]
	c := &client.Consumer{Loop: l}
	if err := run.prepareConsumer(s, c, number); err != nil {
		s.Close()
		return err
	}
	if err := c.Adopt(s); err != nil {
		s.Close()
		return err
	}
	c.Out = make([]byte, 0, client.OutBytes)
	c.Walker.AckEvery, c.Walker.CommitEvery = uint64(o.AckEvery), uint64(o.TxAcks)
	if o.MeasureLatency && l.Latency == nil {
		l.Latency = client.NewLatencyRecorder(0)
	}
	if o.Verify || o.MeasureLatency {
		c.Walker.Inspector = client.NewInspector(o.body(), l.Latency)
	}
	run.consumers = append(run.consumers, c)
	return l.Add(c)
}

// prepareConsumer makes the calls of a consumer's channel.
func (run *throughputRun) prepareConsumer(s *session.Session, c *client.Consumer, number int) error {
	o := run.options
	var queue string
	if queues := o.queues(); len(queues) > 0 {
		queue = queues[number%len(queues)]
	} else {
		var declared amqp.QueueDeclareOk
		if err := s.Call(session.ClientChannel, &amqp.QueueDeclare{
			Exclusive: true, AutoDelete: true, Arguments: run.queueArguments,
		}, &declared); err != nil {
			return err
		}
		queue = string(declared.Queue)
		if err := run.bind(s, queue, o.RoutingKey); err != nil {
			return err
		}
	}
	if o.Prefetch > 0 {
		if err := s.Call(session.ClientChannel, &amqp.BasicQos{PrefetchCount: uint16(o.Prefetch)}, &amqp.BasicQosOk{}); err != nil {
			return err
		}
	}
	if o.TxAcks > 0 {
		if err := s.Call(session.ClientChannel, &amqp.TxSelect{}, &amqp.TxSelectOk{}); err != nil {
			return err
		}
	}
	if o.Poll {
		c.GetFrame = client.NewGetFrame(queue, o.AckEvery == 0)
		return nil
	}
	return s.Call(session.ClientChannel, &amqp.BasicConsume{
		Queue: []byte(queue), NoAck: o.AckEvery == 0, Arguments: run.consumeArgument,
	}, &amqp.BasicConsumeOk{})
}

// sharedPublish is what publishers with the same routing key have in common.
type sharedPublish struct {
	encoding client.PublishEncoding
	buffer   []byte
}

func (run *throughputRun) connectPublisher(number int, encodings map[string]sharedPublish) error {
	o := run.options
	s, err := session.Dial(o.Address)
	if err != nil {
		return err
	}
	if err := run.preparePublisher(s); err != nil {
		s.Close()
		return err
	}
	key := o.RoutingKey
	if queues := o.queues(); len(queues) > 0 {
		key = o.routingKeyFor(queues[number%len(queues)])
	}
	shared, known := encodings[key]
	if !known {
		if shared, err = run.encode(key, s.FrameMax); err != nil {
			s.Close()
			return err
		}
		encodings[key] = shared
	}
	// Consumer i is on loop i, publisher i on the next one: with two loops the
	// two ends of a pair can run at the same time.
	l := run.loops[(number+1)%len(run.loops)]
	p := &client.Publisher{
		Loop: l, Encoding: shared.encoding, Layout: client.NewBodyLayout(o.body()),
		Identity: uint64(number) << client.IdentityBits, Buffer: shared.buffer,
		Window: uint64(o.ConfirmWindow), TxSize: uint64(o.TxPublishes),
		Quota: math.MaxUint64,
	}
	if o.PublishMax > 0 {
		p.Quota = o.PublishMax / uint64(o.Publishers)
		if uint64(number) < o.PublishMax%uint64(o.Publishers) {
			p.Quota++
		}
	}
	if p.Layout.Stamped() {
		p.Buffer = shared.encoding.Repeat(min(client.PublisherBufferBytes, client.StampedBytesTotal/o.Publishers))
	}
	if err := p.Adopt(s); err != nil {
		s.Close()
		return err
	}
	if o.ConfirmWindow > 0 {
		confirms := client.NewConfirmTracker(o.ConfirmWindow)
		p.Walker.Confirms = &confirms
	}
	run.publishers = append(run.publishers, p)
	return l.Add(p)
}

// encode makes the messages with that key: one, or all that differ.
func (run *throughputRun) encode(key string, frameMax uint32) (shared sharedPublish, err error) {
	o := run.options
	if o.Vary == 0 {
		shared.encoding = client.EncodePublish(o.Exchange, key, run.properties, o.Size, frameMax)
		shared.buffer = shared.encoding.Repeat(client.PublisherBufferBytes)
		return shared, nil
	}
	for number := range o.Vary {
		properties, err := cli.ParseProperties(o.numbered(o.Properties, number), o.Persistent)
		if err != nil {
			return shared, err
		}
		one := client.EncodePublish(o.Exchange, o.numbered(key, number), properties, o.Size, frameMax)
		if number == 0 {
			shared.encoding = one
		}
		if one.Size != shared.encoding.Size {
			return shared, cli.Usagef("--vary: message %d is not of the size of the first", number)
		}
		shared.buffer = append(shared.buffer, one.Bytes...)
	}
	return shared, nil
}

// preparePublisher makes the calls of a publisher's channel.
func (run *throughputRun) preparePublisher(s *session.Session) error {
	if run.options.ConfirmWindow > 0 {
		return s.Call(session.ClientChannel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{})
	}
	if run.options.TxPublishes > 0 {
		return s.Call(session.ClientChannel, &amqp.TxSelect{}, &amqp.TxSelectOk{})
	}
	return nil
}
