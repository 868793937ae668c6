package broker

import "github.com/basaltmq/basaltmq/wire/amqp"

// This file judges the arguments of basic.consume. Unknown ones are ignored,
// as RabbitMQ does it.

// ConsumerPriority is what a consumer's arguments say of its priority, 0 by
// default. Errors: 406.
func (q *Queue) ConsumerPriority(arguments amqp.Table) (int64, error) {
	return q.consumerNumber(arguments, "x-priority", func(v amqp.Value, _ amqp.Table) string {
		_, problem := integer(v)
		return problem
	})
}

// AckTimeout is how long a message may be with a consumer of these arguments
// without being acknowledged, in ms; 0: for ever. x-consumer-timeout of the
// consumer comes before the queue's, and that before usual. Errors: 406.
func (q *Queue) AckTimeout(arguments amqp.Table, usual int64) (int64, error) {
	ms, err := q.consumerNumber(arguments, "x-consumer-timeout", checkNotNegative)
	if err != nil {
		return 0, err
	}
	if _, ok := given(arguments, "x-consumer-timeout"); !ok {
		ms = usual
		if s := q.settings.Load(); s != nil && s.ackTimeout != unlimited {
			ms = s.ackTimeout
		}
	}
	return min(ms, 1<<53), nil
}

// consumerNumber is a number among the arguments; 0 without it.
func (q *Queue) consumerNumber(arguments amqp.Table, name string, check argumentCheck) (int64, error) {
	v, ok := given(arguments, name)
	if !ok {
		return 0, nil
	}
	if problem := check(v, arguments); problem != "" {
		return 0, amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for queue '%s' in vhost '%s': %s", name, q.Name, q.VHost.Name, problem)
	}
	n, _ := v.Int64()
	return n, nil
}
