package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/loop"
)

// A consumer whose socket is full for a moment keeps its turn among the others of
// its queue, and messages are dealt to it, as far as that goes (package broker,
// deal.go). One whose client does not read loses it after stallPatience, and others
// get what it was dealt. One timer for each loop looks after them.

// stallPatience is how long a consumer keeps its turn at least; twice that, at most.
const stallPatience = 25 * time.Millisecond

// stalls are the consumers of a loop whose connections cannot send.
type stalls struct {
	loop.Timer
	sh          *shard
	fresh, aged []*consumer // those of this period and of the last
}

// stall is for a consumer that cannot take for now: it waits for the disk, or the
// connection cannot send (blocked).
func (cs *consumer) stall(blocked bool) {
	if !cs.entered {
		return
	}
	cs.entered = !cs.Queue.Stall(&cs.Consumer, blocked)
	if !cs.entered || !blocked || cs.stalled {
		return
	}
	cs.stalled = true
	t := &cs.ch.conn.shard.stalls
	if t.fresh = append(t.fresh, cs); len(t.fresh)+len(t.aged) == 1 {
		t.Fire = t
		t.sh.loop.Arm(&t.Timer, stallPatience)
	}
}

// Run implements loop.Runner.
func (t *stalls) Run() {
	for _, cs := range t.aged {
		cs.stalled = false
		if c := cs.ch.conn; !cs.gone && !c.dead && c.occupied() {
			cs.leave()
		}
	}
	clear(t.aged)
	t.fresh, t.aged = t.aged[:0], t.fresh
	switch {
	case len(t.aged) > 0:
		t.sh.loop.Arm(&t.Timer, stallPatience)
	case cap(t.fresh)+cap(t.aged) > 1024:
		t.fresh, t.aged = nil, nil
	}
}
