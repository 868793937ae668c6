package amqp

import (
	"slices"
	"strconv"
	"strings"

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
type publish struct {
	state     uint8
	used      bool
	learned   bool // the frames below may be repeated on the fast path
	mandatory bool
	immediate bool
	discard   bool // nobody wants the body
	cached    bool // the route cache, below, holds something
	byTopic   bool // routing keys have to be permitted
	size      uint64
	received  uint64
	body      *arena.Buf       // when the body did not come in one piece
	in        *bodies.Incoming // when it goes to a file; see external.go

	exchange, key, properties []byte   // of this publish; owned
	more                      [][]byte // routing keys of its CC and BCC headers
	methodFrame, headerFrame  []byte   // its encoded frames, for the fast path

	// Route cache: valid for (cachedExchange, cachedKey) under version.
	version        uint64 // 0: none; versions start at 1
	cachedExchange []byte
	cachedKey      []byte
	queues         []*broker.Queue
	// What CheckPublish and the user's permissions said of the last publish's
	// exchange, under the version checked.
	checked uint64 // 0: nothing
	entry   broker.Entry
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
	p.methodFrame = append(p.methodFrame[:0], frame...)
	p.state = pubHeader
	return nil
}

// headerFrame handles a content header. Codes: 501 undecodable, 505 out of
// place, 406 body too large.
func (c *conn) headerFrame(number uint16, payload, frame []byte) error {
	if c.state == stateClosing {
		return nil
	}
	ch, err := c.contentChannel(number)
	if ch == nil || err != nil {
		return err
	}
	p := &ch.pub
	if p.state != pubHeader {
		return amqp.Errorf(amqp.CodeUnexpectedFrame, p.misplaced(), "expected method or body frame, got content header on channel %d", number)
	}
	h, err := amqp.DecodeContentHeader(payload)
	if err != nil {
		return err
	}
	if h.ClassID != amqp.ClassBasic {
		return amqp.Errorf(amqp.CodeUnexpectedFrame, amqp.BasicPublishID, "expected content header for class %d, got one for class %d instead", amqp.ClassBasic, h.ClassID)
	}
	if limit := c.shard.srv.tuning.Load().MessageBytesMax; h.BodySize > limit {
		ch.fail(amqp.Errorf(amqp.CodePreconditionFailed, amqp.BasicPublishID, "message size %d is larger than configured max size %d", h.BodySize, limit))
		return nil
	}
	if err := ch.takeProperties(h.Properties); err != nil {
		ch.fail(asError(err))
		return nil
	}
	p.headerFrame = append(p.headerFrame[:0], frame...)
	p.size, p.received = h.BodySize, 0
	p.state = pubBody
	if p.size == 0 {
		return c.publishDone(ch, nil)
	}
	return nil
}

// takeProperties keeps the properties of a publish. It refuses what a broker
// must vouch for (406): a user id that is not the connection's, an expiration
// that is not a number of milliseconds, a delivery mode that does not exist, CC
// and BCC that are not lists of routing keys.
func (ch *channel) takeProperties(raw []byte) error {
	c, p := ch.conn, &ch.pub
	props, err := amqp.DecodeProperties(raw)
	if err != nil {
		return err
	}
	const id = amqp.BasicPublishID
	if err := vouch(&props, c.user); err != nil {
		return err
	}
	p.more = nil
	changed, err := ch.replace(&props)
	if err != nil {
		return err
	}
	if c.shard.srv.setTimestamp && props.Flags&amqp.FlagTimestamp == 0 {
		props.Flags |= amqp.FlagTimestamp
		props.Timestamp = uint64(c.shard.loop.Now().Unix())
		changed = true
	}
	if props.Flags&amqp.FlagHeaders != 0 {
		more, stored, err := broker.CarbonCopies(props.Headers)
		if err != nil {
			e := asError(err)
			return &amqp.Error{Code: e.Code, Text: e.Text, MethodID: id}
		}
		p.more = more
		if len(stored) != len(props.Headers) {
			props.Headers = stored
			changed = true
		}
	}
	if changed {
		p.properties = props.Append(p.properties[:0])
	} else {
		p.properties = append(p.properties[:0], raw...)
	}
	return nil
}

// vouch refuses properties that a user must not publish with.
func vouch(props *amqp.Properties, user *access.User) error {
	const id = amqp.BasicPublishID
	if props.Flags&amqp.FlagDeliveryMode != 0 && props.DeliveryMode != 1 && props.DeliveryMode != 2 {
		return amqp.Errorf(amqp.CodePreconditionFailed, id, "invalid message: {delivery_mode_unknown,%d}", props.DeliveryMode)
	}
	if props.Flags&amqp.FlagUserID != 0 && user != nil && string(props.UserID) != user.Name && !user.HasTag(access.TagImpersonator) {
		return amqp.Errorf(amqp.CodePreconditionFailed, id, "user_id property set to '%s' but authenticated user was '%s'", props.UserID, user.Name)
	}
	if props.Flags&amqp.FlagExpiration != 0 {
		if problem := expirationProblem(string(props.Expiration)); problem != "" {
			return amqp.Errorf(amqp.CodePreconditionFailed, id, "invalid expiration '%s': %s", props.Expiration, problem)
		}
	}
	return nil
}

// expirationProblem says what is wrong with an expiration, in RabbitMQ's words.
func expirationProblem(s string) string {
	digits := strings.TrimLeft(s, "+-")
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	switch {
	case end == 0 || len(s)-len(digits) > 1:
		return "no_integer"
	case end < len(digits):
		return "{leftover_string," + strconv.Quote(digits[end:]) + "}"
	case s[0] == '-' && strings.Trim(digits, "0") != "":
		return "{value_negative,-" + strings.TrimLeft(digits, "0") + "}"
	}
	return ""
}

// contentChannel finds the channel of a content frame; nil without an error
// when the frame is to be discarded.
func (c *conn) contentChannel(number uint16) (*channel, error) {
	if c.state == stateOpen && number != 0 {
		ch := c.channel(number)
		switch {
		case ch == nil:
			return nil, amqp.Errorf(amqp.CodeUnexpectedFrame, 0, "expected 'channel.open' on channel %d, got a content frame", number)
		case ch.closing:
			return nil, nil
		}
		return ch, nil
	}
	return nil, amqp.Errorf(amqp.CodeUnexpectedFrame, 0, "unexpected content frame on channel %d", number)
}

// bodyFrame handles the 7-byte head of a body frame; its payload follows
// through bodyPart. Codes: 505 out of place, 501 longer than announced.
func (c *conn) bodyFrame(number uint16, size uint32) error {
	c.inBody, c.bodyLeft, c.bodyOf = true, size, nil
	if c.state == stateClosing {
		return nil
	}
	ch, err := c.contentChannel(number)
	if ch == nil || err != nil {
		return err
	}
	p := &ch.pub
	if p.state != pubBody {
		return amqp.Errorf(amqp.CodeUnexpectedFrame, p.misplaced(), "expected method or header frame, got body frame on channel %d", number)
	}
	if uint64(size) > p.size-p.received {
		return amqp.Errorf(amqp.CodeFrameError, amqp.BasicPublishID, "body frame of %d bytes where only %d of the content are left", size, p.size-p.received)
	}
	c.bodyOf = ch
	return nil
}

// bodyPart takes what is there of the current body frame and its end octet;
// inBody turns false when the frame is complete.
func (c *conn) bodyPart(buf []byte) int {
	n := int(min(uint64(c.bodyLeft), uint64(len(buf))))
	part := buf[:n]
	whole := c.bodyOf != nil && c.bodyOf.pub.received == 0 && uint64(n) == c.bodyOf.pub.size && len(buf) > n
	c.bodyLeft -= uint32(n)
	if c.bodyOf != nil && !whole {
		c.bodyOf.collect(part)
	}
	if c.bodyLeft > 0 || n == len(buf) {
		return n
	}
	c.inBody = false
	ch := c.bodyOf
	c.bodyOf = nil
	if buf[n] != amqp.FrameEnd {
		c.garbled = true
		c.fail(amqp.Errorf(amqp.CodeFrameError, 0, "body frame does not end with 0x%X", amqp.FrameEnd))
		c.closeSocket()
		return len(buf)
	}
	if ch == nil {
		return n + 1
	}
	p := &ch.pub
	var err error
	switch {
	case whole:
		p.received = p.size
		err = c.publishDone(ch, part)
	case p.received == p.size:
		err = c.publishDone(ch, p.assembled())
	}
	if err != nil {
		c.fail(err)
	}
	return n + 1
}

// assembled is the body that collect has put together; nil if it is elsewhere.
func (p *publish) assembled() []byte {
	if p.body == nil {
		return nil
	}
	return p.body.Bytes()[:p.size]
}

// collect takes a part of the body: into a buffer that grows with what has
// arrived, not with what was announced, or to a file.
func (ch *channel) collect(part []byte) {
	p := &ch.pub
	if p.in == nil && !p.discard && ch.conn.shard.external(p) {
		ch.beginExternal()
	}
	have := int(p.received)
	if p.in != nil || p.discard {
		p.received += uint64(len(part))
		if p.in != nil {
			ch.conn.spoolPart(p.in, part)
		}
		return
	}
	if p.body == nil || have+len(part) > p.body.Len() {
		want := max(have+len(part), min(2*have, int(p.size)))
		grown := ch.conn.shard.pool.Get(want)
		if p.body != nil {
			copy(grown.Bytes(), p.body.Bytes()[:have])
			p.dropBody(ch.conn.shard)
		}
		p.body = grown
		ch.conn.shard.assembling += grown.Len()
	}
	copy(p.body.Bytes()[have:], part)
	p.received += uint64(len(part))
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
	if nowhere && mandatory {
		c.returned(ch, amqp.CodeNoRoute, queues, exchange, key, properties, body)
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
