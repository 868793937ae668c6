package amqp

import (
	"github.com/basaltmq/basaltmq/engine/broker"
)

// serve puts cs on the list of consumers to be served when the input at hand
// is done.
func (c *conn) serve(cs *consumer) {
	if !cs.queued {
		cs.queued = true
		c.serveList = append(c.serveList, cs)
	}
	c.serveSoon()
}

func (c *conn) serveSoon() {
	if !c.serving {
		c.serving = true
		c.shard.loop.Defer(&c.serveRun)
	}
}

type serveRunner struct{ conn *conn }

// Run implements loop.Runner: it serves the connection's consumers until there
// is nothing to send, the socket is full, or others should get their turn.
func (r *serveRunner) Run() {
	c := r.conn
	c.serving = false
	if c.dead || c.state != stateOpen {
		return
	}
	for buffers := 0; c.hungry(); buffers++ {
		if c.occupied() || buffers == serveBuffersMax {
			break
		}
		if len(c.replying) > 0 {
			c.deliverReplies()
		}
		if !c.big.active && len(c.held) == 0 {
			c.serveOnce()
		}
		c.flush()
		if c.dead {
			return
		}
	}
	if !c.hungry() {
		return
	}
	if c.occupied() {
		// Drained (or the commit) comes back here. Nobody waits for us meanwhile.
		for _, cs := range c.serveList {
			cs.stall(true)
		}
		return
	}
	c.serveSoon()
}

// occupied says that consumers cannot send anything for now.
func (c *conn) occupied() bool {
	return c.blocked() || c.big.active || len(c.held) > 0 || c.whenFree != nil
}

// serveOnce lets each listed consumer fill the output buffer in turn; those
// that have more to send stay on the list.
func (c *conn) serveOnce() {
	list := c.serveList
	for i, cs := range list {
		if !cs.gone && !cs.fill() {
			// Full: this one goes on later, behind the others.
			copy(list, list[i+1:])
			list[len(list)-1-i] = cs
			clear(list[len(list)-i:])
			c.serveList = list[:len(list)-i]
			return
		}
		cs.queued = false
	}
	clear(list)
	c.serveList = list[:0]
}

// fill sends what cs may have; false when the output buffer is full.
func (cs *consumer) fill() bool {
	if cs.stream != nil {
		return cs.fillStream()
	}
	for {
		if cs.run.Count == 0 {
			credit := cs.credit()
			if credit == 0 {
				cs.leave()
				return true
			}
			cs.enter()
			cs.Wary = cs.ch.globalLimit > 0
			cs.run, _ = cs.Queue.Take(&cs.Consumer, credit, cs.ch.conn.shard.loop.Now().UnixMilli())
			if cs.run.Count == 0 {
				cs.idle()
				return true
			}
			if !cs.NoAck {
				cs.ch.taken += cs.run.Count
			}
			if cs.from != cs.run.Queue {
				cs.turnTo(cs.run.Queue)
			}
			if cs.from.Kept() {
				cs.number = -1 // see careful.go
			}
		}
		switch cs.encode() {
		case full:
			return false
		case fetching:
			cs.reading = true
			cs.stall(false)
			return true
		}
	}
}

// turnTo reads from another queue: the runs of a priority queue come from its
// levels.
func (cs *consumer) turnTo(q *broker.Queue) {
	if cs.reader != nil {
		cs.reader.Close()
		cs.reader = nil
	}
	cs.from, cs.placed, cs.have, cs.number = q, false, false, -1
}

// idle gives back the memory that reading needs while there is nothing to read.
func (cs *consumer) idle() {
	if cs.reader != nil && !cs.have {
		cs.reader.Close()
		cs.placed = false
	}
}
