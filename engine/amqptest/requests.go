package amqptest

import "github.com/basaltmq/basaltmq/wire/amqp"

// Flags of declares and consumes, combined with |.
type Flags uint

// The bits of Flags; each request looks at those it knows.
const (
	Passive Flags = 1 << iota
	Durable
	Exclusive
	AutoDelete
	Internal
	NoWait
	NoAck
	NoLocal
	Multiple
	Requeue
	IfUnused
	IfEmpty
)

func (f Flags) has(bit Flags) bool { return f&bit != 0 }

// QueueDeclare makes the method; "$" in the name is the client's prefix.
func (c *Client) QueueDeclare(name string, f Flags, arguments amqp.Table) *amqp.QueueDeclare {
	return &amqp.QueueDeclare{
		Queue: c.name(name), Passive: f.has(Passive), Durable: f.has(Durable), Exclusive: f.has(Exclusive),
		AutoDelete: f.has(AutoDelete), NoWait: f.has(NoWait), Arguments: arguments,
	}
}

// ExchangeDeclare makes the method.
func (c *Client) ExchangeDeclare(name, kind string, f Flags, arguments amqp.Table) *amqp.ExchangeDeclare {
	return &amqp.ExchangeDeclare{
		Exchange: c.name(name), Type: []byte(kind), Passive: f.has(Passive), Durable: f.has(Durable),
		AutoDelete: f.has(AutoDelete), Internal: f.has(Internal), NoWait: f.has(NoWait), Arguments: arguments,
	}
}

// QueueBind makes the method.
func (c *Client) QueueBind(queue, exchange, key string, arguments amqp.Table) *amqp.QueueBind {
	return &amqp.QueueBind{Queue: c.name(queue), Exchange: c.name(exchange), RoutingKey: c.name(key), Arguments: arguments}
}

// Consume makes the method.
func (c *Client) Consume(queue, tag string, f Flags) *amqp.BasicConsume {
	return &amqp.BasicConsume{
		Queue: c.name(queue), ConsumerTag: c.name(tag), NoLocal: f.has(NoLocal), NoAck: f.has(NoAck),
		Exclusive: f.has(Exclusive), NoWait: f.has(NoWait),
	}
}

// Declare declares a queue on channel 1 and returns the answer.
func (c *Client) Declare(name string, f Flags) *amqp.QueueDeclareOk {
	c.t.Helper()
	return Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(name, f, nil))
}

// Subscribe consumes on a channel and waits for consume-ok.
func (c *Client) Subscribe(channel uint16, queue, tag string, f Flags) {
	c.t.Helper()
	Ask[*amqp.BasicConsumeOk](c, channel, c.Consume(queue, tag, f))
}

// OpenChannel opens another channel.
func (c *Client) OpenChannel(channel uint16) {
	c.t.Helper()
	Ask[*amqp.ChannelOpenOk](c, channel, &amqp.ChannelOpen{})
}

// Publish sends a message; "$" in exchange and key is the prefix.
func (c *Client) Publish(channel uint16, m Message) {
	c.t.Helper()
	m.Exchange, m.Key = c.Name(m.Exchange), c.Name(m.Key)
	c.Write(AppendPublish(nil, channel, m))
}

// PublishAll sends bodies to a queue, in one write.
func (c *Client) PublishAll(channel uint16, queue string, bodies ...string) {
	c.t.Helper()
	var raw []byte
	for _, body := range bodies {
		raw = AppendPublish(raw, channel, Message{Key: c.Name(queue), Body: body})
	}
	c.Write(raw)
}

// Get asks for a message; the answer is get-ok with content or get-empty.
func (c *Client) Get(channel uint16, queue string, f Flags) Event {
	c.t.Helper()
	c.Method(channel, &amqp.BasicGet{Queue: c.name(queue), NoAck: f.has(NoAck)})
	return c.Read()
}

// Ack acknowledges.
func (c *Client) Ack(channel uint16, tag uint64, f Flags) {
	c.t.Helper()
	c.Method(channel, &amqp.BasicAck{DeliveryTag: tag, Multiple: f.has(Multiple)})
}

// Nack refuses.
func (c *Client) Nack(channel uint16, tag uint64, f Flags) {
	c.t.Helper()
	c.Method(channel, &amqp.BasicNack{DeliveryTag: tag, Multiple: f.has(Multiple), Requeue: f.has(Requeue)})
}

// Sync returns when the broker has worked off everything sent on the channel.
func (c *Client) Sync(channel uint16) {
	c.t.Helper()
	if ok := Ask[*amqp.BasicCancelOk](c, channel, &amqp.BasicCancel{ConsumerTag: []byte(marker)}); string(ok.ConsumerTag) != marker {
		c.t.Fatalf("cancel-ok for %q", ok.ConsumerTag)
	}
}
