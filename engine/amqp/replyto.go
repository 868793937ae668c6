package amqp

import (
	"bytes"
	"sync"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Direct reply-to, as in RabbitMQ: a client consumes from the pseudo queue
// amq.rabbitmq.reply-to, without acknowledgements, and publishes requests with
// that name as their reply_to, on the same channel. The broker replaces it by a
// name that only this channel has, and a message published with that name as
// routing key to the default exchange goes straight to the channel: no queue,
// no disk. When the channel has gone, or the client does not read and too much
// waits for it (repliesBytesMax), the reply goes nowhere: back to its publisher
// if it is mandatory, else it is lost.
//
// The name is random, so it is of use only to who has been given it. Another
// connection's loop hands a reply over in pending and posts.

const (
	replyQueue  = "amq.rabbitmq.reply-to"
	replyPrefix = replyQueue + "."
)

// replyConsumer is a channel's subscription to its replies.
type replyConsumer struct {
	ch   *channel
	name string // routing key of the replies
	tag  string

	mu      sync.Mutex
	gone    bool
	posted  bool
	pending []reply
	bytes   int // of pending

	listed bool // in conn.replying
}

// reply is a message on its way to a channel.
type reply struct {
	exchange, key, properties, body []byte
	buf                             *arena.Buf // of a large one; nil: it is all on the heap
}

func (r *reply) drop() {
	if r.buf != nil {
		r.buf.Release()
	}
}

// isReplyKey says whether a message is meant for a reply consumer.
func isReplyKey(exchange, key []byte) bool {
	return len(exchange) == 0 && bytes.HasPrefix(key, []byte(replyPrefix))
}

// replies are a server's reply consumers by name.
type replies struct {
	mu sync.RWMutex
	by map[string]*replyConsumer
}

// find returns the consumer of a name in a virtual host; nil if there is none.
func (r *replies) find(name []byte, vh *broker.VHost) *replyConsumer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if rc := r.by[string(name)]; rc != nil && rc.ch.conn.vhost == vh {
		return rc
	}
	return nil
}

// consumeReplies is basic.consume on the pseudo queue. Codes: 406 with
// acknowledgements, or a second time on a channel; 530 tag in use.
func (ch *channel) consumeReplies(m *amqp.BasicConsume, tag string) error {
	switch {
	case ch.reply != nil:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "reply consumer already set")
	case !m.NoAck:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "reply consumer cannot acknowledge")
	}
	rc := &replyConsumer{ch: ch, tag: tag, name: broker.GeneratedName(replyPrefix)}
	all := &ch.conn.shard.srv.replies
	all.mu.Lock()
	if all.by == nil {
		all.by = map[string]*replyConsumer{}
	}
	all.by[rc.name] = rc
	all.mu.Unlock()
	ch.reply = rc
	if !m.NoWait {
		ch.conn.emitMethod(ch.id, &amqp.BasicConsumeOk{ConsumerTag: []byte(tag)})
	}
	return nil
}

// endReplies ends the subscription, if there is one.
func (ch *channel) endReplies() {
	rc := ch.reply
	if rc == nil {
		return
	}
	ch.reply = nil
	ch.conn.unlearn(ch) // its publishes may carry the name
	all := &ch.conn.shard.srv.replies
	all.mu.Lock()
	delete(all.by, rc.name)
	all.mu.Unlock()
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.gone = true
	for i := range rc.pending {
		rc.pending[i].drop()
	}
	rc.pending, rc.bytes = nil, 0
}

// declareReplies is queue.declare of the pseudo queue, or of the name of a
// reply consumer: how a server finds out whether its client is still there.
// Codes: 404.
func (ch *channel) declareReplies(name []byte, noWait bool) error {
	if string(name) != replyQueue && ch.conn.shard.srv.replies.find(name, ch.conn.vhost) == nil {
		return amqp.Errorf(amqp.CodeNotFound, 0, "no queue '%s' in vhost '%s'", name, ch.conn.vhost.Name)
	}
	ch.lastQueue = string(name)
	return ch.answer(0, nil, noWait, &amqp.QueueDeclareOk{Queue: name, ConsumerCount: 1})
}

// isReplyQueue says whether a queue's name is one of those.
func isReplyQueue(name []byte) bool { return bytes.HasPrefix(name, []byte(replyQueue)) }

// replace puts the channel's own name for replies into a request's properties.
// Codes: 406 without a reply consumer.
func (ch *channel) replace(props *amqp.Properties) (changed bool, err error) {
	if props.Flags&amqp.FlagReplyTo == 0 || string(props.ReplyTo) != replyQueue {
		return false, nil
	}
	if ch.reply == nil {
		return false, amqp.Errorf(amqp.CodePreconditionFailed, amqp.BasicPublishID, "fast reply consumer does not exist")
	}
	props.ReplyTo = []byte(ch.reply.name)
	return true, nil
}

// sendReply hands a reply over to its consumer's loop; false when it is gone or
// takes no more.
func (c *conn) sendReply(key, properties, body []byte) bool {
	return c.shard.srv.reply(c.vhost, key, properties, body)
}

// reply is sendReply for those without a connection. Any goroutine.
func (s *Server) reply(vh *broker.VHost, key, properties, body []byte) bool {
	rc := s.replies.find(key, vh)
	if rc == nil {
		return false
	}
	size := len(key) + len(properties) + len(body)
	rc.mu.Lock()
	if rc.gone || rc.bytes > 0 && rc.bytes+size > repliesBytesMax {
		rc.mu.Unlock()
		return false
	}
	var r reply
	var kept []byte
	if size > arena.BufBytesMax/16 {
		r.buf = rc.ch.conn.shard.pool.Get(size)
		kept = r.buf.Bytes()[:0]
	} else {
		kept = make([]byte, 0, size)
	}
	kept = append(append(append(kept, key...), properties...), body...)
	r.key, r.properties, r.body = kept[:len(key):len(key)], kept[len(key):len(key)+len(properties)], kept[len(key)+len(properties):size]
	rc.pending = append(rc.pending, r)
	rc.bytes += size
	post := !rc.posted
	rc.posted = true
	rc.mu.Unlock()
	if post {
		rc.ch.conn.shard.loop.Post(rc)
	}
	return true
}

// Run implements loop.Runner: replies have come.
func (rc *replyConsumer) Run() {
	rc.mu.Lock()
	rc.posted = false
	rc.mu.Unlock()
	c := rc.ch.conn
	if c.dead || rc.ch.reply != rc {
		return
	}
	if !rc.listed {
		rc.listed = true
		c.replying = append(c.replying, rc)
	}
	c.serveSoon()
}

// next takes the first pending reply.
func (rc *replyConsumer) next() (r reply, ok bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if len(rc.pending) == 0 {
		return reply{}, false
	}
	r = rc.pending[0]
	rc.bytes -= len(r.key) + len(r.properties) + len(r.body)
	if rc.pending = rc.pending[1:]; len(rc.pending) == 0 {
		rc.pending = nil
	}
	return r, true
}

// deliverReplies sends pending replies for as long as there is room.
func (c *conn) deliverReplies() {
	for len(c.replying) > 0 {
		rc := c.replying[0]
		for {
			if c.occupied() || c.outLen > outBytesMax/2 {
				return
			}
			r, ok := rc.next()
			if !ok {
				break
			}
			ch := rc.ch
			ch.deliveryTag++
			ch.count(stats.DeliverNoAck, 1)
			ch.count(stats.BytesOut, uint64(len(r.body)))
			c.emitContent(ch.id, &amqp.BasicDeliver{
				ConsumerTag: []byte(rc.tag), DeliveryTag: ch.deliveryTag, Exchange: r.exchange, RoutingKey: r.key,
			}, r.properties, r.body, r.drop)
		}
		rc.listed = false
		c.replying = c.replying[1:]
	}
	c.replying = nil
}

// hungry says that there is something to be sent when the output is free.
func (c *conn) hungry() bool { return len(c.serveList) > 0 || len(c.replying) > 0 }
