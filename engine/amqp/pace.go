package amqp

import (
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
)

// pacing holds a publisher back while a queue's consumers are behind; the
// reasons and the figures are in package broker (pace.go).
type pacing struct {
	behind *broker.Queue // published to in this Input, and behind
	queue  *broker.Queue // holds this connection back now
	timer  loop.Timer
	posted atomic.Bool
}

// patience is how often a held publisher asks whether there is still reason.
const patience = 5 * time.Millisecond

// pace begins to hold back after an Input that published to a queue whose
// consumers are behind.
func (c *conn) pace() {
	p := &c.pacing
	q := p.behind
	p.behind = nil
	if q == nil || c.stall&stallQueue != 0 || c.state != stateOpen {
		return
	}
	if q.HoldBack(c, c.shard.loop.Now().UnixMilli()) {
		c.stall |= stallQueue
		p.queue = q
		p.timer.Fire = (*patienceTimer)(c)
		c.shard.loop.Arm(&p.timer, patience)
	}
}

func (c *conn) unpace() {
	if c.stall&stallQueue != 0 {
		c.shard.loop.Disarm(&c.pacing.timer)
		c.pacing.queue = nil
		c.resume(stallQueue)
	}
}

// Relieved implements broker.Publisher. Any goroutine.
func (c *conn) Relieved() {
	if c.pacing.posted.CompareAndSwap(false, true) {
		c.shard.loop.Post((*reliefRunner)(c))
	}
}

type reliefRunner conn

// Run implements loop.Runner.
func (r *reliefRunner) Run() {
	c := (*conn)(r)
	c.pacing.posted.Store(false)
	c.unpace()
}

type patienceTimer conn

// Run implements loop.Runner.
func (t *patienceTimer) Run() {
	c := (*conn)(t)
	if c.pacing.queue.StillBehind(c, c.shard.loop.Now().UnixMilli()) {
		c.shard.loop.Arm(&c.pacing.timer, patience)
		return
	}
	c.unpace()
}
