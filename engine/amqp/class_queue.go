package amqp

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// queue handles class queue (50): declare, bind, purge, delete, unbind.
// Codes: 403, 404, 405, 406 (see broker.VHost).
func (ch *channel) queue(id uint32, args []byte) error {
	switch id {
	case amqp.QueueDeclareID:
		return ch.queueDeclare(args)
	case amqp.QueueBindID:
		var m amqp.QueueBind
		if err := m.Decode(args); err != nil {
			return err
		}
		b, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
		if err != nil {
			return err
		}
		return ch.bind(b, id, m.NoWait, &amqp.QueueBindOk{})
	case amqp.QueueUnbindID:
		var m amqp.QueueUnbind
		if err := m.Decode(args); err != nil {
			return err
		}
		b, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
		if err != nil {
			return err
		}
		return ch.unbind(b, false, &amqp.QueueUnbindOk{})
	case amqp.QueuePurgeID:
		return ch.queuePurge(args)
	case amqp.QueueDeleteID:
		return ch.queueDelete(args)
	}
	return notImplemented(id)
}

func (ch *channel) queueDeclare(args []byte) error {
	var m amqp.QueueDeclare
	if err := m.Decode(args); err != nil {
		return err
	}
	c := ch.conn
	name, err := declaredName(m.Queue)
	if err != nil {
		return err
	}
	if isReplyQueue(m.Queue) {
		return ch.declareReplies(m.Queue, m.NoWait)
	}
	d := broker.QueueDeclare{
		Name: name, Passive: m.Passive, Durable: m.Durable, Exclusive: m.Exclusive,
		AutoDelete: m.AutoDelete, Arguments: m.Arguments, By: c,
	}
	c.commitBatch() // the counts of the answer include what was published before
	q, created, seq, err := c.vhost.DeclareQueue(d, c)
	if err != nil {
		return err
	}
	if created && q.Owner == c {
		c.own(q)
	}
	ch.lastQueue = q.Name
	counts := q.Counts()
	return ch.answer(seq, nil, m.NoWait, &amqp.QueueDeclareOk{
		Queue: []byte(q.Name), MessageCount: uint32(counts.Ready), ConsumerCount: uint32(counts.Consumers),
	})
}

// queueBinding fills in what a client may leave out: the queue is the last one
// declared, and then an empty routing key is its name too.
func (ch *channel) queueBinding(queue, exchange, key []byte, arguments amqp.Table) (broker.Binding, error) {
	name, err := ch.queueName(queue)
	if err != nil {
		return broker.Binding{}, err
	}
	if len(queue) == 0 && len(key) == 0 {
		key = name
	}
	return broker.Binding{Source: string(exchange), Queue: string(name), RoutingKey: string(key), Arguments: arguments}, nil
}

func (ch *channel) queuePurge(args []byte) error {
	var m amqp.QueuePurge
	if err := m.Decode(args); err != nil {
		return err
	}
	q, err := ch.resolveQueue(m.Queue)
	if err != nil {
		return err
	}
	if q.IsStream() {
		return streamLacks("queue.purge", q)
	}
	if ch.cannotRead(q, amqp.QueuePurgeID) {
		return nil
	}
	ch.conn.commitBatch()
	n := q.Purge()
	return ch.answer(0, nil, m.NoWait, &amqp.QueuePurgeOk{MessageCount: uint32(n)})
}

func (ch *channel) queueDelete(args []byte) error {
	var m amqp.QueueDelete
	if err := m.Decode(args); err != nil {
		return err
	}
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	c := ch.conn
	if err := c.permit(access.Configure, "queue", name); err != nil {
		return err
	}
	c.commitBatch()
	n, seq, err := c.vhost.DeleteQueue(name, m.IfUnused, m.IfEmpty, c)
	if err != nil {
		return err
	}
	c.disown(string(name))
	return ch.answer(seq, nil, m.NoWait, &amqp.QueueDeleteOk{MessageCount: uint32(n)})
}

// own notes an exclusive queue, which goes with the connection. Those that went
// by themselves meanwhile (their last consumer left, or they expired) make room
// first.
func (c *conn) own(q *broker.Queue) {
	if len(c.owned) == cap(c.owned) {
		c.owned = slices.DeleteFunc(c.owned, (*broker.Queue).Deleted)
		c.owned = slices.Grow(c.owned, max(1, len(c.owned)))
	}
	c.owned = append(c.owned, q)
}

// disown forgets an exclusive queue of that name that is gone; long connections
// make and delete many (the RPC pattern). There may be a new one of that name.
func (c *conn) disown(name string) {
	for i, q := range c.owned {
		if q.Name == name && q.Deleted() {
			last := len(c.owned) - 1
			c.owned[i], c.owned[last] = c.owned[last], nil
			c.owned = c.owned[:last]
			return
		}
	}
}
