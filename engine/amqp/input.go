package amqp

import "github.com/basaltmq/basaltmq/wire/amqp"

// Reasons to stop processing input; bits of conn.stall.
const (
	stallOutput uint16 = 1 << iota // the peer does not read
	stallGet                       // a basic.get waits for the disk
	stallStore                     // the store has more unwritten data than it likes
	stallQueue                     // a queue's consumers are behind
	stallAlarm                     // publishers are blocked
	stallSpool                     // too much of large bodies is on its way to the disk
	stallBody                      // a large body is being filed, or returned
	stallLogin                     // a password is being checked
	stallBind                      // a binding waits for the history it is to bring
)

// Input implements loop.Handler.
func (c *conn) Input(data []byte) {
	c.lastIn = c.shard.loop.Uptime()
	c.octets.in += uint64(len(data))
	c.octets.reads++
	if c.counts != nil {
		c.counts.OctetsIn.Add(uint64(len(data)))
	}
	c.receive(data)
	c.endOfInput()
}

// receive works data off behind what an earlier call left over.
func (c *conn) receive(data []byte) {
	for {
		old := c.carryEnd - c.carryPos
		if old == 0 {
			n := c.process(data)
			c.save(data[n:])
			return
		}
		if c.stall != 0 {
			c.save(data)
			return
		}
		k := min(len(data), max(carryStep, old))
		c.save(data[:k])
		n := c.process(c.carry.Bytes()[c.carryPos:c.carryEnd])
		if n >= old {
			// The cut frame is complete; go on without copying.
			c.dropCarry()
			data = data[n-old:]
			continue
		}
		c.carryPos += n
		if data = data[k:]; len(data) == 0 {
			return
		}
	}
}

// save appends to the carry buffer.
func (c *conn) save(data []byte) {
	if len(data) == 0 || c.state == stateClosed {
		return
	}
	old := c.carryEnd - c.carryPos
	if c.carry == nil || c.carryEnd+len(data) > c.carry.Len() {
		grown := c.shard.pool.Get(old + len(data))
		if c.carry != nil {
			copy(grown.Bytes(), c.carry.Bytes()[c.carryPos:c.carryEnd])
			c.carry.Release()
		}
		c.carry, c.carryPos, c.carryEnd = grown, 0, old
	}
	copy(c.carry.Bytes()[c.carryEnd:], data)
	c.carryEnd += len(data)
}

func (c *conn) dropCarry() {
	if c.carry != nil {
		c.carry.Release()
		c.carry = nil
	}
	c.carryPos, c.carryEnd = 0, 0
}

// resume goes on with saved input after a stall has ended.
func (c *conn) resume(reason uint16) {
	if c.stall&reason == 0 {
		return
	}
	c.stall &^= reason
	if c.stall != 0 || c.dead {
		return
	}
	if n := c.carryEnd - c.carryPos; n > 0 {
		buf, pos := c.carry, c.carryPos
		c.carry, c.carryPos, c.carryEnd = nil, 0, 0
		used := c.process(buf.Bytes()[pos : pos+n])
		c.save(buf.Bytes()[pos+used : pos+n])
		buf.Release()
		c.endOfInput()
	}
	if c.stall == 0 {
		c.sock.ResumeRead()
	}
}

// endOfInput completes what one piece of input began.
func (c *conn) endOfInput() {
	c.commitBatch()
	c.flushSettled()
	c.sendConfirms()
	if e := c.refusal; e != nil && !c.refusalTold {
		// A publisher without confirms would never know.
		c.fail(e)
	}
	c.holdBack()
	c.pace()
	c.heedFlow()
	if c.shard.alarm != "" {
		c.heedAlarm()
	}
	if c.stall != 0 {
		c.sock.PauseRead()
	}
	c.flush()
}

// holdBack stops reading from a publisher while the store has more unwritten
// data than it likes.
func (c *conn) holdBack() {
	store := c.shard.srv.broker.Store()
	if !store.Pressured() || c.state != stateOpen || !c.publishes() {
		return
	}
	c.stall |= stallStore
	c.shard.wait(c)
	if !store.Pressured() { // relieved meanwhile
		c.stall &^= stallStore
	}
}

// publishes says whether this connection has published at all: only such are
// held back when the store is under pressure.
func (c *conn) publishes() bool {
	for _, ch := range c.channels {
		if ch.pub.used {
			return true
		}
	}
	return false
}

// process works off whole frames (and parts of body frames) and returns how
// many bytes it used. It stops at the first incomplete frame or when stalled.
func (c *conn) process(buf []byte) int {
	pos := 0
	for c.stall == 0 && c.state != stateClosed {
		if c.state == stateHeader {
			n := c.protocolHeader(buf[pos:])
			if n == 0 {
				return pos
			}
			pos += n
			continue
		}
		if c.inBody {
			n := c.bodyPart(buf[pos:])
			pos += n
			if c.inBody {
				return pos
			}
			continue
		}
		if c.fast != nil {
			// Asked for each run, not for each buffer: the frame before may have
			// bound or unbound something.
			if c.vhost.Version() != c.topology {
				c.fast = nil
			} else {
				pos += c.fastPublishes(buf[pos:])
			}
		}
		for c.recall(buf[pos:]) {
			pos += c.fastPublishes(buf[pos:])
		}
		n, err := c.frame(buf[pos:])
		if err != nil {
			c.fail(err)
			if c.garbled {
				c.closeSocket() // close-ok could not be told from the rest
			}
		}
		if n == 0 {
			return pos
		}
		pos += n
	}
	if c.state == stateClosed {
		return len(buf)
	}
	return pos
}

// frame handles one frame; 0 when it is incomplete. Of a body frame only the
// header need be there.
func (c *conn) frame(buf []byte) (int, error) {
	typ, number, size, ok, err := amqp.ParseFrameHeader(buf, c.frameMax)
	if err != nil {
		c.garbled = true
		return len(buf), err
	}
	if !ok {
		return 0, nil
	}
	if typ == amqp.FrameBody {
		return 7, c.bodyFrame(number, size)
	}
	f, n, err := amqp.ParseFrame(buf, c.frameMax)
	if err != nil || n == 0 {
		if err != nil {
			c.garbled = true
			n = len(buf)
		}
		return n, err
	}
	switch typ {
	case amqp.FrameHeartbeat:
		if number != 0 {
			return n, amqp.Errorf(amqp.CodeUnexpectedFrame, 0, "heartbeat on channel %d", number)
		}
		if len(f.Payload) > 0 {
			return n, amqp.Errorf(amqp.CodeFrameError, 0, "heartbeat with a payload of %d bytes", len(f.Payload))
		}
		return n, nil
	case amqp.FrameHeader:
		return n, c.headerFrame(number, f.Payload, buf[:n])
	}
	id, args, err := amqp.SplitMethod(f.Payload)
	if err != nil {
		return n, err
	}
	if number == 0 {
		return n, c.method0(id, args)
	}
	return n, c.channelMethod(number, id, args, buf[:n])
}
