package amqp

import (
	"bytes"
	"encoding/binary"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// learn prepares the fast path for publishes that repeat this one.
func (c *conn) learn(ch *channel) {
	p := &ch.pub
	if p.size > uint64(c.frameMax-amqp.FrameOverhead) || len(p.queues) == 0 || p.checked != p.version || p.entry.Traits&broker.ByMessage != 0 || c.shard.srv.setTimestamp {
		c.fast = nil
		return
	}
	p.learned = true
	c.template.Learn(p.methodFrame, p.headerFrame)
	c.fast = ch
	c.topology = p.version
}

// unlearn ends the fast path for a channel's publishes.
func (c *conn) unlearn(ch *channel) {
	ch.pub.learned = false
	if c.fast == ch {
		c.fast = nil
	}
}

// recall prepares the fast path for a channel that has been on it before, when
// the next frame begins a publish that repeats its last one: who publishes to many
// queues sends some messages on each channel in turn.
func (c *conn) recall(buf []byte) bool {
	if len(buf) < 3 || buf[0] != amqp.FrameMethod || c.state != stateOpen {
		return false
	}
	ch := c.channel(binary.BigEndian.Uint16(buf[1:]))
	if ch == nil || ch == c.fast || !ch.pub.learned || ch.pub.version != c.vhost.Version() || !bytes.HasPrefix(buf, ch.pub.methodFrame) {
		return false
	}
	c.template.Learn(ch.pub.methodFrame, ch.pub.headerFrame)
	c.fast, c.topology = ch, ch.pub.version
	return true
}

// fastPublishes works off as many publishes as repeat the learned one, and
// returns the bytes used. Nothing here depends on the message but its body:
// the same frames have been validated and routed under the same topology.
func (c *conn) fastPublishes(buf []byte) int {
	ch := c.fast
	if ch.pub.state != pubIdle {
		return 0
	}
	p := &ch.pub
	b := &c.shard.batch
	builder := b.builder
	pos := 0
	for {
		body, n := c.template.Match(buf[pos:], c.frameMax)
		if n == 0 {
			return pos
		}
		pos += n
		if ch.confirm {
			ch.seq++
		}
		// Opens the batch, or finds it open, with this publish's template.
		c.batchAdd(ch, p.queues, p.exchange, p.key, p.properties, body)
		if b.count == 0 {
			continue
		}
		template := builder.Template(p.exchange, p.key, p.properties)
		added := 0
		for builder.Size() < segstore.BatchBytesTarget {
			if body, n = c.template.Match(buf[pos:], c.frameMax); n == 0 {
				break
			}
			builder.Add(template, body)
			pos += n
			added++
		}
		b.count += added
		if ch.confirm {
			ch.seq += uint64(added)
			b.seq = ch.seq
		}
		if n == 0 {
			return pos
		}
		c.commitBatch()
	}
}
