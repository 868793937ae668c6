package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
)

// Queues with an upkeep (package broker, upkeep.go) want each of their messages
// looked at before it is sent: it may have expired, and when it has come back
// before it carries its delivery count. Others pay nothing for this.

// beCareful prepares for the record at hand, whose template is t, if there is
// something to see to. Such records are prepared for one by one: what is looked
// at is not the template's alone.
func (cs *consumer) beCareful(t *segstore.Template) bool {
	cs.deadline = cs.from.Deadline(cs.record.Timestamp, t.Properties, cs.run.Redelivered)
	t.Properties = cs.from.WithCount(t.Properties, cs.record.Offset, cs.run.Redelivered)
	counted := cs.run.Redelivered && cs.from.CountsDeliveries()
	if !counted && cs.deadline == broker.NoDeadline {
		return false
	}
	cs.number = -1
	return true
}

// overdue says whether the record at hand has expired.
func (cs *consumer) overdue() bool {
	return cs.deadline <= cs.ch.conn.shard.loop.Now().UnixMilli()
}

// expire ends the record at hand, the first of the run.
func (cs *consumer) expire() {
	cs.closeBody()
	cs.from.Expire(cs.run.First, 1)
	cs.run.Shift(1)
	cs.unsent(1)
}

// keep is the same for basic.get: false when the record had expired and is
// done with. It completes the template.
func (g *pendingGet) keep(c *conn, record *segstore.Record, t *segstore.Template) bool {
	if g.from.Deadline(record.Timestamp, t.Properties, g.run.Redelivered) <= c.shard.loop.Now().UnixMilli() {
		if g.body != nil {
			g.body.Close()
			g.body = nil
		}
		g.from.Expire(g.run.First, 1)
		g.run = broker.Run{}
		return false
	}
	t.Properties = g.from.WithCount(t.Properties, record.Offset, g.run.Redelivered)
	return true
}
