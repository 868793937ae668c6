package amqp

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// bind answers queue.bind and exchange.bind. A binding that brings a history
// may wait for the disk: it is made by a goroutine of its own, and input is
// stalled meanwhile, so that the connection's requests stay in order. Codes:
// those of VHost.Bind.
func (ch *channel) bind(b broker.Binding, id uint32, noWait bool, ok amqp.Method) error {
	c := ch.conn
	if err := c.permitBinding(&b); err != nil {
		return err
	}
	if !c.vhost.Replays(b.Source) {
		seq, err := c.vhost.Bind(b, c)
		return ch.answer(seq, err, noWait, ok)
	}
	c.commitBatch() // what was published before is part of the history
	b.Arguments = slices.Clone(b.Arguments)
	c.stall |= stallBind
	vhost := c.vhost
	go func() {
		seq, err := vhost.Bind(b, c)
		c.shard.loop.Post(loop.RunnerFunc(func() { c.bound(ch, id, seq, err, noWait, ok) }))
	}()
	return nil
}

// bound goes on when such a binding has been made, or refused.
func (c *conn) bound(ch *channel, id uint32, seq uint64, err error, noWait bool, ok amqp.Method) {
	if !c.dead && c.channel(ch.id) == ch && !ch.closing {
		if err = ch.answer(seq, err, noWait, ok); err != nil {
			e := asError(err)
			ch.fail(&amqp.Error{Code: e.Code, Text: e.Text, MethodID: id})
		}
	}
	if c.dead {
		return
	}
	c.resume(stallBind)
	c.flush()
}
