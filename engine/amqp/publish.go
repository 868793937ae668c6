package amqp

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Stages of receiving a content.
const (
	pubIdle   uint8 = iota
	pubHeader       // method seen, content header expected
	pubBody         // header seen, body frames expected
)

// publish is the content a channel is receiving, and its route cache. Idle
// channels that never publish pay for no buffers.
//
// The first half is what the fast path touches; see fastpath.go.
type publish struct {
	state     uint8
	used      bool
	learned   bool // the frames below may be repeated on the fast path
	mandatory bool
	immediate bool
	discard   bool // nobody wants the body
	cached    bool // the route cache, below, holds something
	byTopic   bool // routing keys have to be permitted
	// persistent and expiring are said of the properties, if recordBytes is known.
	persistent, expiring bool
	recordBytes          uint32 // what is attached to template: what records repeat, encoded; 0: nothing yet

	template amqp.PublishTemplate // of this publish's frames, as soon as they are there

	// Route cache: valid for (cachedExchange, cachedKey) under version.
	version uint64 // 0: none; versions start at 1
	queues  []*broker.Queue
	// What CheckPublish and the user's permissions said of the last publish's
	// exchange, under the version checked.
	entry   broker.Entry
	checked uint64 // 0: nothing

	size     uint64
	received uint64
	body     *arena.Buf       // when the body did not come in one piece
	in       *bodies.Incoming // when it goes to a file; see external.go

	exchange, key, properties []byte   // of this publish; owned
	more                      [][]byte // routing keys of its CC and BCC headers

	cachedExchange []byte
	cachedKey      []byte
}

// misplaced is the method to blame for a content frame out of its turn.
func (p *publish) misplaced() uint32 {
	if p.state == pubIdle {
		return 0
	}
	return amqp.BasicPublishID
}

func (p *publish) reset(sh *shard) {
	p.state, p.received, p.discard = pubIdle, 0, false
	p.dropBody(sh)
	if p.in != nil {
		p.in.Abort()
		p.in = nil
	}
}

func (p *publish) dropBody(sh *shard) {
	if p.body != nil {
		sh.assembling -= p.body.Len()
		p.body.Release()
		p.body = nil
	}
}

// basicPublish handles basic.publish: 404 for a missing exchange, 403 for an
// internal one and what is not permitted, at once; the content that follows is then discarded.
func (ch *channel) basicPublish(args, frame []byte) error {
	var m amqp.BasicPublish
	if err := m.Decode(args); err != nil {
		return err
	}
	p := &ch.pub
	version := ch.conn.vhost.Version()
	if p.checked != version || string(m.Exchange) != string(p.exchange) {
		p.checked = 0 // p.exchange is another one, or not permitted any more
		if err := ch.permitPublish(m.Exchange); err != nil {
			return err
		}
		entry, err := ch.conn.vhost.CheckPublish(m.Exchange)
		if err != nil {
			return err
		}
		p.entry, p.checked = entry, version
	}
	if p.byTopic {
		if err := ch.conn.permitTopic(access.Write, m.Exchange, m.RoutingKey); err != nil {
			return err
		}
	}
	p.used = true
	ch.conn.unlearn(ch) // what it repeats is overwritten from here on
	p.exchange = append(p.exchange[:0], m.Exchange...)
	p.key = append(p.key[:0], m.RoutingKey...)
	p.mandatory, p.immediate = m.Mandatory, m.Immediate
	p.template.KeepMethod(frame)
	p.state = pubHeader
	return nil
}

// publishDone routes a complete message.
func (c *conn) publishDone(ch *channel, body []byte) error {
	p := &ch.pub
	if p.in != nil {
		return c.externalDone(ch)
	}
	if p.discard {
		ch.countDropped(p.size)
		p.reset(c.shard)
		if ch.confirm {
			ch.seq++
		}
		c.commitBatch()
		ch.confirmNow()
		return nil
	}
	if ch.tx != nil {
		err := ch.tx.stage(ch, body, nil)
		p.reset(c.shard)
		if err != nil {
			ch.fail(asError(err))
		}
		return nil
	}
	if ch.confirm {
		ch.seq++
	}
	queues, err := ch.route(p.exchange, p.key, p.more, p.properties)
	if err != nil {
		p.reset(c.shard)
		e := asError(err)
		ch.fail(&amqp.Error{Code: e.Code, Text: e.Text, MethodID: amqp.BasicPublishID})
		return nil
	}
	p.properties = broker.ForQueues(queues, p.more, p.properties)
	if c.accept(ch, queues, p.exchange, p.key, p.properties, body, p.mandatory, p.immediate) {
		c.learn(ch)
	}
	p.reset(c.shard)
	return nil
}

// route finds the queues for a message, by the cache when it can. more are
// routing keys besides the message's own.
func (ch *channel) route(exchange, key []byte, more [][]byte, properties []byte) ([]*broker.Queue, error) {
	p := &ch.pub
	vh := ch.conn.vhost
	version := vh.Version()
	if p.cached && len(more) == 0 && p.version == version && p.entry.Traits == 0 && string(key) == string(p.cachedKey) && string(exchange) == string(p.cachedExchange) {
		return p.queues, nil
	}
	if p.checked != version { // since CheckPublish
		entry, err := vh.CheckPublish(exchange)
		if err != nil {
			return nil, err
		}
		p.entry = entry
	}
	var err error
	p.queues, err = vh.Route(exchange, broker.Envelope{RoutingKey: key, More: more, Properties: properties}, p.queues[:0])
	p.cached = err == nil && len(more) == 0 && !slices.ContainsFunc(p.queues, (*broker.Queue).Ranked)
	p.version = version
	p.cachedExchange = append(p.cachedExchange[:0], exchange...)
	p.cachedKey = append(p.cachedKey[:0], key...)
	return p.queues, err
}

// accept puts a routed message into the batch, or returns it to its publisher.
// It reports whether a following equal publish may take the fast path.
func (c *conn) accept(ch *channel, queues []*broker.Queue, exchange, key, properties, body []byte, mandatory, immediate bool) bool {
	nowhere := broker.Nowhere(queues)
	traced := c.vhost.Tracing()
	if traced {
		c.tracePublish(ch, queues, exchange, key, properties, body)
	}
	if nowhere && isReplyKey(exchange, key) {
		c.commitBatch()
		if c.sendReply(key, properties, body) {
			ch.countUnbatched(uint64(len(body)))
			ch.confirmNow()
			return false
		}
	}
	if immediate && !nowhere {
		c.commitBatch() // what was published before is in the way of "at once"
		queues = slices.DeleteFunc(slices.Clone(queues), func(q *broker.Queue) bool { return !q.Hidden() && !q.DeliverableNow() })
		if broker.Nowhere(queues) {
			c.returned(ch, amqp.CodeNoConsumers, queues, exchange, key, properties, body)
			return false
		}
	}
	if mandatory && ch.pub.entry.Dedup != nil && !nowhere && c.duplicate(ch, properties) {
		queues, nowhere = nil, true
	}
	if nowhere && (mandatory || immediate) {
		c.returned(ch, nowhereCode(mandatory), queues, exchange, key, properties, body)
		return false
	}
	if len(queues) == 0 {
		c.commitBatch()
		ch.countDropped(uint64(len(body)))
		ch.confirmNow()
		return false
	}
	c.batchAdd(ch, queues, exchange, key, properties, body)
	return !traced && !immediate && !(mandatory && ch.pub.entry.Dedup != nil) // a repeat of that may have to be returned
}

// nowhereCode is why a message without a route comes back: to one that is to
// reach a consumer at once, but need not be routed, it is a consumer that lacks.
func nowhereCode(mandatory bool) uint16 {
	if mandatory {
		return amqp.CodeNoRoute
	}
	return amqp.CodeNoConsumers
}

// duplicate says whether a message is one for the exchange it is published to.
func (c *conn) duplicate(ch *channel, properties []byte) bool {
	c.commitBatch() // the first may be in it
	return ch.pub.entry.Dedup.Knows(properties, c.shard.loop.Now().UnixMilli())
}

// returned sends basic.return: before the confirm of the same message. queues
// are hidden ones that take it all the same.
func (c *conn) returned(ch *channel, code uint16, queues []*broker.Queue, exchange, key, properties, body []byte) {
	c.commitBatch()
	ch.count(stats.ReturnUnroutable, 1)
	if len(queues) > 0 {
		c.batchAdd(ch, queues, exchange, key, properties, body)
	} else {
		ch.countUnbatched(uint64(len(body)))
		defer ch.confirmNow()
	}
	var release func()
	if len(body) > outBytesMax/4 {
		// The body may have to wait for room: it needs memory of its own.
		kept := c.shard.pool.Get(len(body))
		body = kept.Bytes()[:copy(kept.Bytes(), body)]
		release = kept.Release
	} else if c.big.active || c.outLen > outBytesMax/2 {
		body = slices.Clone(body)
	}
	c.emitContent(ch.id, &amqp.BasicReturn{
		ReplyCode: code, ReplyText: []byte(amqp.CodeName(code)), Exchange: exchange, RoutingKey: key,
	}, properties, body, release)
}
