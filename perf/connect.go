package perf

import (
	"fmt"
	"math"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// connect declares the queues, opens all connections and hands them to their
// loops, which are not running yet. Consumers come first, so that they are
// there when the first message is published.
func (run *throughputRun) connect() error {
	for range run.options.Loops {
		l, err := newLoop(run)
		if err != nil {
			return err
		}
		run.loops = append(run.loops, l)
	}
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
	run.start = monotonicNow()
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
			p.pace = newPacer(run.start, o.PublishRate)
			p.pace.start += int64(p.pace.period * float64(number) / float64(len(run.publishers)))
			p.loop.paced = append(p.loop.paced, p)
		}
	}
	for _, c := range run.consumers {
		if o.ConsumeRate > 0 {
			c.pace = newPacer(run.start, o.ConsumeRate)
			c.loop.paced = append(c.loop.paced, c)
		}
		if inspector := c.walker.inspector; inspector != nil && inspector.latency != nil {
			inspector.latency.runStart = run.start
		}
	}
}

// declareQueues declares, binds and purges the named queues on a connection of
// its own.
func (run *throughputRun) declareQueues() error {
	o := run.options
	s, err := dialSession(o.target)
	if err != nil {
		return err
	}
	defer s.close()
	run.product, run.version = s.product, s.version
	for _, queue := range o.queues() {
		var declared amqp.QueueDeclareOk
		if err := s.call(clientChannel, &amqp.QueueDeclare{
			Queue: []byte(queue), Durable: true, Arguments: run.queueArguments,
		}, &declared); err != nil {
			return err
		}
		if err := run.bind(s, queue, o.routingKeyFor(queue)); err != nil {
			return err
		}
		if o.Purge {
			if err := s.call(clientChannel, &amqp.QueuePurge{Queue: []byte(queue)}, &amqp.QueuePurgeOk{}); err != nil {
				return err
			}
			declared.MessageCount = 0
		}
		run.backlog += uint64(declared.MessageCount)
	}
	return s.call(0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}, &amqp.ConnectionCloseOk{})
}

// bind binds a queue to the exchange; the default exchange needs no binding.
func (run *throughputRun) bind(s *session, queue, key string) error {
	if run.options.Exchange == "" {
		return nil
	}
	return s.call(clientChannel, &amqp.QueueBind{
		Queue: []byte(queue), Exchange: []byte(run.options.Exchange), RoutingKey: []byte(key),
	}, &amqp.QueueBindOk{})
}

func (run *throughputRun) connectConsumer(number int) error {
	o := run.options
	s, err := dialSession(o.target)
	if err != nil {
		return err
	}
	l := run.loops[number%len(run.loops)]
	c := &consumer{loop: l}
	if err := run.prepareConsumer(s, c, number); err != nil {
		s.close()
		return err
	}
	if err := c.adopt(s); err != nil {
		s.close()
		return err
	}
	c.out = make([]byte, 0, outBytes)
	c.walker.ackEvery, c.walker.commitEvery = uint64(o.AckEvery), uint64(o.TxAcks)
	if o.MeasureLatency && l.latency == nil {
		l.latency = newLatencyRecorder(0)
	}
	if o.Verify || o.MeasureLatency {
		c.walker.inspector = newInspector(o, l.latency)
	}
	run.consumers = append(run.consumers, c)
	return l.add(c)
}

// prepareConsumer makes the calls of a consumer's channel.
func (run *throughputRun) prepareConsumer(s *session, c *consumer, number int) error {
	o := run.options
	var queue string
	if queues := o.queues(); len(queues) > 0 {
		queue = queues[number%len(queues)]
	} else {
		var declared amqp.QueueDeclareOk
		if err := s.call(clientChannel, &amqp.QueueDeclare{
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
		if err := s.call(clientChannel, &amqp.BasicQos{PrefetchCount: uint16(o.Prefetch)}, &amqp.BasicQosOk{}); err != nil {
			return err
		}
	}
	if o.TxAcks > 0 {
		if err := s.call(clientChannel, &amqp.TxSelect{}, &amqp.TxSelectOk{}); err != nil {
			return err
		}
	}
	if o.Poll {
		c.getFrame = newGetFrame(queue, o.AckEvery == 0)
		return nil
	}
	return s.call(clientChannel, &amqp.BasicConsume{
		Queue: []byte(queue), NoAck: o.AckEvery == 0, Arguments: run.consumeArgument,
	}, &amqp.BasicConsumeOk{})
}

// sharedPublish is what publishers with the same routing key have in common.
type sharedPublish struct {
	encoding publishEncoding
	buffer   []byte
}

func (run *throughputRun) connectPublisher(number int, encodings map[string]sharedPublish) error {
	o := run.options
	s, err := dialSession(o.target)
	if err != nil {
		return err
	}
	if err := run.preparePublisher(s); err != nil {
		s.close()
		return err
	}
	key := o.RoutingKey
	if queues := o.queues(); len(queues) > 0 {
		key = o.routingKeyFor(queues[number%len(queues)])
	}
	shared, known := encodings[key]
	if !known {
		shared.encoding = encodePublish(o.Exchange, key, run.properties, o.Size, s.frameMax)
		shared.buffer = shared.encoding.repeat(publisherBufferBytes)
		encodings[key] = shared
	}
	// Consumer i is on loop i, publisher i on the next one: with two loops the
	// two ends of a pair can run at the same time.
	l := run.loops[(number+1)%len(run.loops)]
	p := &publisher{
		loop: l, encoding: shared.encoding, layout: newBodyLayout(o),
		identity: uint64(number) << identityBits, buffer: shared.buffer,
		window: uint64(o.ConfirmWindow), txSize: uint64(o.TxPublishes),
		quota: math.MaxUint64,
	}
	if o.PublishMax > 0 {
		p.quota = o.PublishMax / uint64(o.Publishers)
		if uint64(number) < o.PublishMax%uint64(o.Publishers) {
			p.quota++
		}
	}
	if p.layout.stamped() {
		p.buffer = shared.encoding.repeat(min(publisherBufferBytes, stampedBytesTotal/o.Publishers))
	}
	if err := p.adopt(s); err != nil {
		s.close()
		return err
	}
	if o.ConfirmWindow > 0 {
		confirms := newConfirmTracker(o.ConfirmWindow)
		p.walker.confirms = &confirms
	}
	run.publishers = append(run.publishers, p)
	return l.add(p)
}

// preparePublisher makes the calls of a publisher's channel.
func (run *throughputRun) preparePublisher(s *session) error {
	if run.options.ConfirmWindow > 0 {
		return s.call(clientChannel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{})
	}
	if run.options.TxPublishes > 0 {
		return s.call(clientChannel, &amqp.TxSelect{}, &amqp.TxSelectOk{})
	}
	return nil
}
