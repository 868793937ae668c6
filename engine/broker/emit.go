package broker

import (
	"github.com/basaltmq/basaltmq/segstore"
)

// What the broker itself publishes: its log, and the messages that pass through
// while a virtual host is traced. Both go through internal exchanges to whoever
// binds a queue to them, and nowhere else: a queue that refuses, or is fenced, has
// not got them, and nobody is told.
const (
	// TraceExchange is in each virtual host, as in RabbitMQ. Messages have the
	// routing keys publish.<exchange> and deliver.<queue>.
	TraceExchange = "amq.rabbitmq.trace"
	// LogExchange is in the default virtual host, if Options ask for it. Messages
	// have the severity as their routing key.
	LogExchange = "amq.basaltmq.log"
)

// SetTracing turns the tracing of messages on or off. It is not kept over a
// restart, as in RabbitMQ. Any goroutine.
func (vh *VHost) SetTracing(on bool) {
	if vh.tracing.Swap(on) == on {
		return
	}
	vh.mu.Lock()
	vh.version.Add(1) // publishers look again
	vh.mu.Unlock()
	text := "messages are not traced any more"
	if on {
		text = "messages are traced from now on: each is published again to " + TraceExchange
	}
	vh.broker.logger.Info(text, "vhost", vh.Name)
}

// Tracing says whether messages are traced. Any goroutine.
func (vh *VHost) Tracing() bool { return vh.tracing.Load() }

// Emit publishes one message to an exchange, by means of a batch that the caller
// has for this, and returns how many queues have taken it. Properties are encoded.
// now is in Unix milliseconds. Any goroutine that holds no locks.
func (vh *VHost) Emit(b *segstore.Batch, exchange, key string, properties, body []byte, now int64) (taken uint64) {
	queues, err := vh.Route([]byte(exchange), Envelope{RoutingKey: []byte(key), Properties: properties}, nil)
	if err != nil || len(queues) == 0 {
		return 0
	}
	b.Reset(now)
	b.Add(b.Template([]byte(exchange), []byte(key), properties), body)
	for _, q := range queues {
		if _, _, err := q.Publish(b, now); err == nil {
			taken++
		}
	}
	if x := vh.FindExchange(exchange); x != nil {
		x.CountPublished(1, taken, uint64(len(body)))
	}
	return taken
}

// HasBindings says whether an exchange leads anywhere. Any goroutine.
func (vh *VHost) HasBindings(exchange string) bool {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	e := vh.exchanges[exchange]
	return e != nil && e.index.Len() > 0
}
