package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Consumers may have a limit of how long a delivery goes unacknowledged
// (x-consumer-timeout): off unless their queue, they themselves or the configuration ask for it.
// The time is noted with each run of deliveries; one timer for each channel that
// ever had such a delivery looks at the list when the first could be late.

// lateTimer is a channel's.
type lateTimer struct {
	loop.Timer
	ch *channel
	at int64 // when the first could be late, ms; 0: the timer is not armed
}

// lateStep is how long the timer waits at most at once.
const lateStep = 24 * time.Hour

// expectAck returns the time until which a delivery made now must have been
// acknowledged, and sees to it that somebody looks then.
func (ch *channel) expectAck(limit int64) (deadline int64) {
	t := ch.late
	if t == nil {
		t = &lateTimer{ch: ch}
		t.Fire = t
		ch.late = t
	}
	deadline = ch.conn.shard.loop.Now().UnixMilli() + limit
	if t.at == 0 || deadline < t.at {
		t.arm(deadline)
	}
	return deadline
}

func (t *lateTimer) arm(deadline int64) {
	l := t.ch.conn.shard.loop
	t.at = deadline
	// The loop's clock is that of its last turn: never a moment early.
	wait := min(deadline-l.Now().UnixMilli()+1, lateStep.Milliseconds())
	l.Arm(&t.Timer, time.Duration(wait)*time.Millisecond)
}

// stop is for the end of the channel; t may be nil.
func (t *lateTimer) stop() {
	if t != nil {
		t.ch.conn.shard.loop.Disarm(&t.Timer)
		t.at = 0
	}
}

// Run implements loop.Runner: it closes the channel when a delivery is late, or
// waits for the next that could be.
func (t *lateTimer) Run() {
	ch := t.ch
	c := ch.conn
	t.at = 0
	if c.dead || ch.closing || c.state != stateOpen {
		return
	}
	c.flushSettled()
	var first *unackedRun
	for i := range ch.unacked.live() {
		r := &ch.unacked.live()[i]
		if r.deadline != 0 && (first == nil || r.deadline < first.deadline) {
			first = r
		}
	}
	switch {
	case first == nil:
		return
	case first.deadline > c.shard.loop.Now().UnixMilli():
		t.arm(first.deadline)
		return
	}
	var limit int64
	if first.consumer != nil {
		limit = first.consumer.timeout
	} else {
		limit, _ = first.queue.AckTimeout(nil, c.shard.srv.tuning.Load().ackTimeout(false))
	}
	ch.fail(amqp.Errorf(amqp.CodePreconditionFailed, 0,
		"delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. This timeout value can be configured, see consumers doc guide to learn more", ch.id, limit))
	c.flush()
}
