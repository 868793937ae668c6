package amqp

import (
	"errors"
	"io"

	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fail ends the connection with an error: connection.close with its code where
// the protocol allows it, a closed socket elsewhere.
func (c *conn) fail(err error) {
	if c.state >= stateClosing {
		return
	}
	e := asError(err)
	c.shard.srv.logger.Warn("closing AMQP connection", "peer", c.peer(), "code", e.Code, "reason", e.Text)
	if c.state == stateHeader {
		c.closeSocket()
		return
	}
	c.beginClose(e)
}

// asError gives any error an AMQP code.
func asError(err error) *amqp.Error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	return amqp.Errorf(amqp.CodeInternalError, 0, "%v", err)
}

// beginClose sends connection.close and waits for close-ok.
func (c *conn) beginClose(e *amqp.Error) {
	c.abandonChannels()
	c.emitMethod(0, &amqp.ConnectionClose{ReplyCode: e.Code, ReplyText: []byte(e.Text), ClassID: uint16(e.MethodID >> 16), MethodID: uint16(e.MethodID)})
	c.state = stateClosing
	c.shard.loop.Arm(&c.timer, closeTimeout)
	c.resume(c.stall) // close-ok must be heard
}

// shutdown says good-bye to the client because the broker stops.
func (c *conn) shutdown() {
	switch {
	case c.state >= stateClosing:
	case c.state != stateOpen:
		c.closeSocket()
	default:
		c.beginClose(amqp.Errorf(amqp.CodeConnectionForced, 0, "broker forced connection closure with reason 'shutdown'"))
		c.flush()
	}
}

// abandonChannels gives back everything the connection held: partial
// publishes, taken messages, consumers, exclusive queues.
func (c *conn) abandonChannels() {
	c.commitBatch()
	c.flushSettled()
	c.fast = nil
	c.bodyOf = nil // the rest of a body frame is passed over
	c.dropBig()
	c.dropGet()
	c.whenFree = nil
	c.stall &^= stallGet
	for _, ch := range c.channels {
		ch.abandon()
		c.vhost.Churn().Count(stats.ChannelClosed)
	}
	c.spoolFlush()
	c.channels = nil
	c.leave()
	c.current = nil
	c.serveList, c.replying = nil, nil
	c.confirming = nil
	if c.vhost != nil {
		c.vhost.DeleteOwned(c, c.owned)
	}
	c.owned = nil
}

// closeSocket closes once everything written so far has left.
func (c *conn) closeSocket() {
	c.state = stateClosed
	c.dropCarry()
	c.flush() // closes when nothing is left to send
}

// Closed implements loop.Handler.
func (c *conn) Closed(err error) {
	if c.state >= stateStart && c.state < stateClosing {
		reason := "connection closed by the client without connection.close"
		if !errors.Is(err, io.EOF) {
			reason = err.Error()
		}
		c.shard.srv.logger.Info("AMQP connection lost", "peer", c.peer(), "reason", reason)
	}
	c.dead = true
	c.sending = nil // released by the loop
	c.abandonChannels()
	c.shard.tally.tell()
	c.state = stateClosed
	c.barrier, c.ticket = 0, 0
	c.dropCarry()
	if c.out != nil {
		c.out.Release()
		c.out = nil
	}
	c.held = nil
	c.shard.loop.Disarm(&c.timer)
	if q := c.pacing.queue; q != nil {
		c.shard.loop.Disarm(&c.pacing.timer)
		q.Forget(c)
	}
	c.unlimitLogin()
	c.shard.srv.clients.release(c.client)
	c.client = nil
	c.shard.remove(c)
}
