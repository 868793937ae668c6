package amqp

import (
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

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
	p.template.KeepHeader(frame)
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
