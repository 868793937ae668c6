package features

import (
	"errors"
	"fmt"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// channel is the channel of all declarations.
const channel = session.ClientChannel

func (r *Runner) queue() string    { return r.Scale.Prefix + "-queue" }
func (r *Runner) exchange() string { return r.Scale.Prefix + "-exchange" }

// link is the name of a queue of a chain in front of the last one.
func (r *Runner) link(number int) string { return fmt.Sprintf("%s-%d", r.queue(), number) }

// remove deletes what features declare.
func (r *Runner) remove(s *session.Session) error {
	if err := s.Call(channel, &amqp.ExchangeDelete{Exchange: []byte(r.exchange())}, &amqp.ExchangeDeleteOk{}); err != nil {
		return err
	}
	queues := []string{r.queue(), r.link(1), r.link(2)}
	return s.CallAll(len(queues), func(i int) (uint16, amqp.Method) {
		return channel, &amqp.QueueDelete{Queue: []byte(queues[i])}
	}, &amqp.QueueDeleteOk{})
}

// declare declares a durable queue with the arguments.
func declare(s *session.Session, queue, arguments string) error {
	table, err := cli.ParseTable("queue-args", arguments)
	if err != nil {
		return err
	}
	return s.Call(channel, &amqp.QueueDeclare{Queue: []byte(queue), Durable: true, Arguments: table}, &amqp.QueueDeclareOk{})
}

func (r *Runner) declareExchange(s *session.Session, kind string, arguments amqp.Table) error {
	return s.Call(channel, &amqp.ExchangeDeclare{
		Exchange: []byte(r.exchange()), Type: []byte(kind), Durable: true, Arguments: arguments,
	}, &amqp.ExchangeDeclareOk{})
}

// bindMany binds the queue as often as wanted.
func (r *Runner) bindMany(s *session.Session, count int, binding func(i int) (key string, arguments amqp.Table)) error {
	if err := declare(s, r.queue(), ""); err != nil {
		return err
	}
	return s.CallAll(count, func(i int) (uint16, amqp.Method) {
		key, arguments := binding(i)
		return channel, &amqp.QueueBind{Queue: []byte(r.queue()), Exchange: []byte(r.exchange()), RoutingKey: []byte(key), Arguments: arguments}
	}, &amqp.QueueBindOk{})
}

// declareTopic binds with patterns of three kinds. Each of the load's keys,
// perf.NNN.key, fits one of the first kind; a single binding fits all.
func (r *Runner) declareTopic(s *session.Session, count int) error {
	if err := r.declareExchange(s, "topic", nil); err != nil {
		return err
	}
	return r.bindMany(s, count, func(i int) (string, amqp.Table) {
		switch {
		case count == 1:
			return "perf.#", nil
		case i < count/2:
			return fmt.Sprintf("perf.%03d.*", i), nil
		case i%2 == 0:
			return fmt.Sprintf("*.other.%03d", i), nil
		}
		return fmt.Sprintf("other.%03d.#", i), nil
	})
}

// declareHeaders binds with two headers that both must be there. Each of the
// load's messages fits one binding; a single binding asks for one header only.
func (r *Runner) declareHeaders(s *session.Session, count int) error {
	if err := r.declareExchange(s, "headers", nil); err != nil {
		return err
	}
	return r.bindMany(s, count, func(i int) (string, amqp.Table) {
		var table amqp.TableBuilder
		table.SetString("x-match", "all")
		table.SetString("kind", "order")
		if count > 1 {
			table.SetString("number", fmt.Sprintf("%03d", i))
		}
		return "", table.Table()
	})
}

// declareChain makes the queues in front of the last; beginning begins the
// arguments with what makes each pass on its messages.
func (r *Runner) declareChain(s *session.Session, beginning string) error {
	for number := 1; number <= 2; number++ {
		next := r.queue()
		if number == 1 {
			next = r.link(2)
		}
		if err := declare(s, r.link(number), fmt.Sprintf(`%s"x-dead-letter-exchange":"","x-dead-letter-routing-key":%q}`, beginning, next)); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes confirmed messages to the queue, one for each set of
// properties; their routing keys are "0", "1", … through an exchange of the
// broker's own.
func (r *Runner) publish(s *session.Session, properties ...string) error {
	const exchange = "amq.direct"
	if err := s.Call(channel, &amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{}); err != nil {
		return err
	}
	var encoded [][]byte
	for i, text := range properties {
		p, err := cli.ParseProperties(text, false)
		if err != nil {
			return err
		}
		key := fmt.Sprint(i)
		if err := s.Call(channel, &amqp.QueueBind{Queue: []byte(r.queue()), Exchange: []byte(exchange), RoutingKey: []byte(key)}, &amqp.QueueBindOk{}); err != nil {
			return err
		}
		message := amqp.AppendMethodFrame(nil, channel, &amqp.BasicPublish{Exchange: []byte(exchange), RoutingKey: []byte(key)})
		encoded = append(encoded, amqp.AppendHeaderFrame(message, channel, 0, p))
	}
	return s.PublishAll(0, len(encoded), func(dst []byte, i int) []byte { return append(dst, encoded[i]...) })
}

// count is how many messages the queue has ready.
func (r *Runner) count(s *session.Session) (uint32, error) {
	var declared amqp.QueueDeclareOk
	err := s.Call(channel, &amqp.QueueDeclare{Queue: []byte(r.queue()), Passive: true}, &declared)
	return declared.MessageCount, err
}

// again makes the queue anew after a probe.
func (r *Runner) again(s *session.Session) error {
	return s.Call(channel, &amqp.QueueDelete{Queue: []byte(r.queue())}, &amqp.QueueDeleteOk{})
}

// probeDeduplication publishes the same value twice.
func probeDeduplication(r *Runner, s *session.Session) error {
	if err := declare(s, r.queue(), dedupArguments); err != nil {
		return err
	}
	const same = `{"headers":{"x-deduplication-header":"same"}}`
	if err := r.publish(s, same, same); err != nil {
		return err
	}
	switch count, err := r.count(s); {
	case err != nil:
		return err
	case count != 1:
		return errors.New("the broker does not deduplicate: both of two equal messages are there")
	}
	return r.again(s)
}

// probePriority publishes an unimportant message before an important one.
func probePriority(r *Runner, s *session.Session) error {
	if err := declare(s, r.queue(), priorityArguments); err != nil {
		return err
	}
	if err := r.publish(s, `{"priority":0}`, `{"priority":9}`); err != nil {
		return err
	}
	var got amqp.BasicGetOk
	if err := s.Call(channel, &amqp.BasicGet{Queue: []byte(r.queue()), NoAck: true}, &got); err != nil {
		return err
	}
	if string(got.RoutingKey) != "1" {
		return errors.New("the broker has no priorities: the important of two messages came last")
	}
	return r.again(s)
}

// probeStream tries what a stream refuses and an ordinary queue does not.
func probeStream(r *Runner, s *session.Session) error {
	if err := declare(s, r.queue(), streamArguments); err != nil {
		return err
	}
	if err := s.Call(channel, &amqp.BasicGet{Queue: []byte(r.queue()), NoAck: true}, &amqp.BasicGetEmpty{}); err == nil {
		return errors.New("the broker has no streams: it made an ordinary queue")
	}
	return nil
}

// prepareDelayed makes a delaying exchange.
func prepareDelayed(r *Runner, s *session.Session) error {
	var table amqp.TableBuilder
	table.SetString("x-delayed-type", "direct")
	if err := r.declareExchange(s, "x-delayed-message", table.Table()); err != nil {
		return err
	}
	return r.bindMany(s, 1, func(int) (string, amqp.Table) { return "delayed", nil })
}
