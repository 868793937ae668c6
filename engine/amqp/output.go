package amqp

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Output of a connection, in order:
//
//	sending   handed to the loop, leaving
//	out       next to be sent (one arena buffer, at most outBytesMax)
//	big       a content larger than the room in out, being cut into body frames
//	held      what was produced while big was under way
//
// flush hands out to the loop unless a write is outstanding or a barrier holds
// it back.

// content is the rest of a large body on its way out.
type content struct {
	body    []byte
	channel uint16
	active  bool
	release func() // gives the body's memory back; may be nil

	// When the body comes from a file, body is a piece of it.
	source *bodies.Outgoing
	left   uint64 // bytes behind that piece
	failed bool   // they cannot be read: the connection is about to end
}

// emit appends whole frames.
func (c *conn) emit(frames []byte) {
	if c.state == stateClosed && c.dead {
		return
	}
	if c.big.active {
		c.held = append(c.held, frames...)
		if len(c.held) > heldBytesMax {
			c.stall |= stallOutput
		}
		return
	}
	if !c.room(len(frames)) {
		// Beyond the bound: one more answer is kept on the heap, and its
		// requester is not heard until there is room again.
		c.held = append(c.held, frames...)
		c.stall |= stallOutput
		return
	}
	c.outLen += copy(c.out.Bytes()[c.outLen:], frames)
}

// room makes place for n more bytes in out, growing it up to outBytesMax.
func (c *conn) room(n int) bool {
	if c.out == nil {
		if n > outBytesMax || len(c.held) > 0 {
			return false
		}
		c.out = c.shard.pool.Get(n)
		return true
	}
	if c.outLen+n <= c.out.Len() {
		return len(c.held) == 0
	}
	if c.outLen+n > outBytesMax || len(c.held) > 0 {
		return false
	}
	grown := c.shard.pool.Get(c.outLen + n)
	copy(grown.Bytes(), c.out.Bytes()[:c.outLen])
	c.out.Release()
	c.out = grown
	return true
}

// emitMethod encodes and appends one method frame.
func (c *conn) emitMethod(channel uint16, m amqp.Method) {
	c.shard.scratch = amqp.AppendMethodFrame(c.shard.scratch[:0], channel, m)
	c.emit(c.shard.scratch)
}

// emitAck is emitMethod for a basic.ack.
func (c *conn) emitAck(channel uint16, deliveryTag uint64, multiple bool) {
	c.shard.scratch = amqp.AppendAckFrame(c.shard.scratch[:0], channel, deliveryTag, multiple)
	c.emit(c.shard.scratch)
}

// emitContent appends a method, a content header and a body. release is called
// when the body's bytes are no longer needed.
func (c *conn) emitContent(channel uint16, m amqp.Method, properties, body []byte, release func()) {
	c.shard.scratch = amqp.AppendMethodFrame(c.shard.scratch[:0], channel, m)
	c.shard.scratch = amqp.AppendHeaderFrame(c.shard.scratch, channel, uint64(len(body)), properties)
	frames := len(body)/int(c.frameMax-amqp.FrameOverhead) + 1
	total := len(c.shard.scratch) + len(body) + frames*amqp.FrameOverhead
	if !c.big.active && c.room(total) {
		c.emit(c.shard.scratch)
		out := c.out.Bytes()
		c.outLen = len(amqp.AppendBodyFrames(out[:c.outLen], channel, body, c.frameMax))
		if release != nil {
			release()
		}
		return
	}
	c.emit(c.shard.scratch)
	if c.big.active || len(c.held) > 0 {
		// Behind something large already: copied, and bounded by the stall that
		// emit has set (or sets now).
		c.held = amqp.AppendBodyFrames(c.held, channel, body, c.frameMax)
		c.stall |= stallOutput
		if release != nil {
			release()
		}
		return
	}
	c.big = content{body: body, channel: channel, active: true, release: release}
	c.pump()
}

// pump moves the large content on as far as there is room.
func (c *conn) pump() {
	for c.big.active {
		if len(c.big.body) == 0 && !c.refill() {
			return
		}
		if c.out == nil {
			c.out = c.shard.pool.Get(outBytesMax)
		} else if c.out.Len() < outBytesMax && !c.room(outBytesMax-c.outLen) {
			return
		}
		left := c.out.Len() - c.outLen - amqp.FrameOverhead
		n := min(len(c.big.body), left, int(c.frameMax)-amqp.FrameOverhead)
		if n <= 0 || n < len(c.big.body) && n < amqp.FrameMinSize-amqp.FrameOverhead {
			return // not worth a frame: there will be more room
		}
		b := c.out.Bytes()[c.outLen : c.outLen+n+amqp.FrameOverhead]
		b[0] = amqp.FrameBody
		binary.BigEndian.PutUint16(b[1:], c.big.channel)
		binary.BigEndian.PutUint32(b[3:], uint32(n))
		copy(b[7:], c.big.body[:n])
		b[7+n] = amqp.FrameEnd
		c.outLen += n + amqp.FrameOverhead
		if c.big.body = c.big.body[n:]; len(c.big.body) == 0 && c.big.left == 0 {
			c.dropBig()
		}
	}
	c.unhold()
}

func (c *conn) dropBig() {
	if c.big.release != nil {
		c.big.release()
	}
	if c.big.source != nil {
		c.big.source.Close()
	}
	c.big = content{}
}

// unhold moves what waited behind a large content into out.
func (c *conn) unhold() {
	if len(c.held) == 0 || c.big.active {
		return
	}
	if c.out == nil {
		c.out = c.shard.pool.Get(min(len(c.held), outBytesMax))
	}
	if c.outLen+len(c.held) > c.out.Len() && c.out.Len() < outBytesMax {
		grown := c.shard.pool.Get(min(c.outLen+len(c.held), outBytesMax))
		c.outLen = copy(grown.Bytes(), c.out.Bytes()[:c.outLen])
		c.out.Release()
		c.out = grown
	}
	n := copy(c.out.Bytes()[c.outLen:], c.held)
	c.outLen += n
	if n == len(c.held) {
		c.held = nil
		return
	}
	c.held = append(c.held[:0], c.held[n:]...)
}

// blocked says that nothing can be sent for now.
func (c *conn) blocked() bool { return c.sending != nil || !c.barrierOpen() }

// barrierOpen says whether everything promised by the output is durable. If
// not, committed is called after the next commit.
func (c *conn) barrierOpen() bool {
	if c.barrier == 0 && c.ticket == 0 {
		return true
	}
	c.shard.wait(c)
	if c.barrier != 0 {
		if c.shard.srv.broker.Definitions().Durable() < c.barrier {
			return false
		}
		c.barrier = 0
	}
	if c.ticket != 0 {
		store := c.shard.srv.broker.Store()
		if store.TxDurable() < c.ticket {
			if err := store.MetaErr(); err != nil {
				c.ticket, c.outLen = 0, 0 // answers that cannot be kept
				c.fail(amqp.Errorf(amqp.CodeInternalError, amqp.TxCommitID, "a transaction could not be written: %v", err))
				return true
			}
			return false
		}
		c.ticket = 0
	}
	return true
}

// flush sends what there is, as far as the socket takes it.
func (c *conn) flush() {
	c.shard.tally.tell()
	for !c.dead && c.sending == nil {
		c.pump()
		if c.outLen == 0 {
			if c.out != nil {
				c.out.Release()
				c.out = nil
			}
			break
		}
		if !c.barrierOpen() {
			return
		}
		buf, n := c.out, c.outLen
		c.out, c.outLen = nil, 0
		c.lastOut = c.shard.loop.Uptime()
		c.octets.out += uint64(n)
		c.octets.writes++
		if c.counts != nil {
			c.counts.OctetsOut.Add(uint64(n))
		}
		var left bool
		if c.state == stateClosed && !c.big.active && len(c.held) == 0 {
			left = c.sock.WriteLast(buf, n)
		} else {
			left = c.sock.Write(buf, n)
		}
		if !left {
			c.sending = buf
			return
		}
		buf.Release()
	}
	if c.sending == nil && c.state == stateClosed {
		c.sock.CloseAfterDrain()
		return
	}
	c.offerFree()
	if c.stall&stallOutput != 0 && c.sending == nil && len(c.held) == 0 && !c.big.active {
		c.resume(stallOutput)
	}
}

// Drained implements loop.Handler.
func (c *conn) Drained() {
	c.sending.Release()
	c.sending = nil
	c.flush()
	if c.sending == nil && c.hungry() {
		c.serveSoon()
	}
}
