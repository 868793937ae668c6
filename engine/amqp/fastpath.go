package amqp

import (
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
	p.template.LearnKept()
	p.recordBytes = 0
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
// the next frame may begin a publish that repeats its last one: who publishes to
// many queues sends some messages on each channel in turn.
func (c *conn) recall(buf []byte) bool {
	if len(buf) < 3 || buf[0] != amqp.FrameMethod || c.state != stateOpen {
		return false
	}
	ch := c.channel(binary.BigEndian.Uint16(buf[1:]))
	if ch == nil || ch == c.fast || !ch.pub.learned || ch.pub.version != c.vhost.Version() {
		return false
	}
	c.fast, c.topology = ch, ch.pub.version
	return true
}

// encodeRecord prepares what the records of repeated publishes have in common,
// behind the frames that are compared.
func (p *publish) encodeRecord(sh *shard) {
	sh.scratch = segstore.AppendTemplate(sh.scratch[:0], p.exchange, p.key, p.properties)
	p.template.Attach(sh.scratch)
	p.recordBytes = uint32(len(sh.scratch))
	p.persistent, p.expiring = amqp.DeliveryMode(p.properties) == 2, expires(p.properties)
}

// fastPublishes works off as many publishes as repeat the learned one, and
// returns the bytes used. Nothing here depends on the message but its body:
// the same frames have been validated and routed under the same topology.
func (c *conn) fastPublishes(buf []byte) int {
	ch := c.fast
	p := &ch.pub
	if p.state != pubIdle {
		return 0
	}
	body, n := p.template.Match(buf, c.frameMax)
	if n == 0 {
		return 0
	}
	b := &c.shard.batch
	builder := b.builder
	pos := 0
	for n > 0 {
		template := c.batchRepeat(ch)
		added := 0
		for {
			builder.Add(template, body)
			pos += n
			added++
			if builder.Size() >= segstore.BatchBytesTarget {
				break
			}
			if body, n = p.template.Match(buf[pos:], c.frameMax); n == 0 {
				break
			}
		}
		b.count += added
		if ch.confirm {
			ch.seq += uint64(added)
		}
		b.seq = ch.seq
		if n > 0 {
			c.commitBatch()
			body, n = p.template.Match(buf[pos:], c.frameMax)
		}
	}
	return pos
}
