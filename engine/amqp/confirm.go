package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// confirmation is an entry of a channel's list of publishes not yet confirmed:
// publishes up to seq are confirmed when log is durable up to offset. A batch
// that went to several queues has one entry for each, all but the last with
// more set.
type confirmation struct {
	seq    uint64
	log    *segstore.Log // nil: nothing to wait for
	offset uint64
	failed bool // the queue refused the batch: nack
	more   bool
}

// awaiting is a channel with a list of such entries, and what the first of them
// waits for: after a commit of a hundred logs nine hundred channels of a thousand
// have nothing to confirm, and are not even touched.
type awaiting struct {
	ch     *channel
	log    *segstore.Log // nil: nothing to wait for
	offset uint64
}

// await is what a channel's list waits for, which is not empty.
func (ch *channel) await() awaiting {
	return awaiting{ch, ch.pending[0].log, ch.pending[0].offset}
}

// confirmClass handles class confirm (85). Codes: 406 on a tx channel.
func (ch *channel) confirmClass(id uint32, args []byte) error {
	if id != amqp.ConfirmSelectID {
		return notImplemented(id)
	}
	var m amqp.ConfirmSelect
	if err := m.Decode(args); err != nil {
		return err
	}
	if ch.tx != nil {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "cannot switch from tx to confirm mode")
	}
	ch.conn.commitBatch()
	ch.confirm = true
	if !m.NoWait {
		ch.conn.emitMethod(ch.id, &amqp.ConfirmSelectOk{})
	}
	return nil
}

// confirmWhen notes that the publishes up to seq are in q up to end.
func (ch *channel) confirmWhen(seq uint64, q *broker.Queue, end uint64, err error, persistent, last bool) {
	e := confirmation{seq: seq, failed: err != nil, more: !last}
	// What is durable already (duplicates may be all of a batch) must not wait for
	// the next commit: perhaps nobody else wants one.
	// The log of a queue that promises nothing is transient, and as durable as it gets.
	if err == nil && persistent && q.Log().Durable() < end {
		e.log, e.offset = q.Log(), end
		e.log.WantDurable()
	}
	ch.note(e)
}

// confirmNow notes that the publishes up to now need no queue.
func (ch *channel) confirmNow() {
	if ch.confirm {
		ch.note(confirmation{seq: ch.seq})
	}
}

func (ch *channel) note(e confirmation) {
	ch.conn.unqueued = ch.conn.unqueued || e.log == nil
	if n := len(ch.pending); n > 0 && e.log == nil && !e.failed {
		// Rides on the entry before it, if that waits for nothing either and is
		// not one of several of a batch: another may have failed.
		if last := &ch.pending[n-1]; last.log == nil && !last.failed && !last.more && !e.more && (n == 1 || !ch.pending[n-2].more) {
			last.seq = e.seq
			return
		}
	}
	ch.pending = append(ch.pending, e)
	if !ch.enlisted {
		ch.enlisted = true
		ch.conn.confirming = append(ch.conn.confirming, ch.await())
	}
}

// sendConfirms confirms what can be, on all channels (invariant 4). The
// connection asks to be told of the next commit before it looks, so that none
// falls in between. Without a commit since the last time, only what waits for
// none can be confirmed.
func (c *conn) sendConfirms() {
	if len(c.confirming) == 0 {
		return
	}
	c.shard.wait(c)
	commits := c.shard.srv.broker.Store().Commits()
	if commits == c.commits && !c.unqueued {
		return
	}
	c.commits, c.unqueued = commits, false
	c.resolveAll()
}

// resolveAll confirms what can be.
func (c *conn) resolveAll() {
	c.shard.latency.told = 0
	keep := c.confirming[:0]
	for _, w := range c.confirming {
		if w.log != nil && w.log.Durable() < w.offset && w.log.Err() == nil {
			keep = append(keep, w)
			continue
		}
		w.ch.resolve()
		if len(w.ch.pending) > 0 {
			keep = append(keep, w.ch.await())
		} else {
			w.ch.enlisted = false
		}
	}
	clear(c.confirming[len(keep):])
	c.confirming = keep
	if c.confirmed > 0 {
		c.count(stats.Confirm, c.confirmed)
		c.confirmed = 0
	}
}

// resolve works the list off from its head.
func (ch *channel) resolve() {
	done, group, ok := 0, 0, true
	acked := ch.acked
	for group < len(ch.pending) {
		e := &ch.pending[group]
		if e.log != nil && e.log.Durable() < e.offset {
			if e.log.Err() == nil {
				break
			}
			e.failed = true
		}
		ok = ok && !e.failed
		group++
		if e.more {
			continue
		}
		if ok {
			acked = e.seq
		} else {
			ch.tell(acked, true)
			ch.tell(e.seq, false)
			acked = e.seq
		}
		done, ok = group, true
	}
	ch.tell(acked, true)
	rest := copy(ch.pending, ch.pending[done:])
	clear(ch.pending[rest:])
	ch.pending = ch.pending[:rest]
	if rest == 0 && cap(ch.pending) > 64 {
		ch.pending = nil
	}
}

// tell sends one ack or nack that covers everything up to seq.
func (ch *channel) tell(seq uint64, ack bool) {
	if seq == ch.acked {
		return
	}
	if seq < ch.acked {
		panic("amqp: confirms of a channel must be monotone")
	}
	told := seq - ch.acked
	multiple := told > 1
	ch.acked = seq
	if ack {
		ch.countConfirmed(told)
		ch.confirmTimed()
		ch.conn.emitAck(ch.id, seq, multiple)
		return
	}
	ch.conn.emitMethod(ch.id, &amqp.BasicNack{DeliveryTag: seq, Multiple: multiple})
}
