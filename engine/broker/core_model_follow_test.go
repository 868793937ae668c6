package broker

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// Numbers of keeperSteps that do what the model must follow.
const (
	stepExpire = 2
	stepMove   = 3
)

// settle lets the keeper and the consumers do what there is to do.
func (m *coreModel) settle() {
	m.c.now = m.now
	m.hurry()
	m.serve()
	k := &m.c.broker.keeper
	rounds := 0
	m.c.await("everything is done", func() bool {
		if rounds++; rounds > 5000 {
			m.t.Fatalf("at %d: %s", m.now, m.state())
		}
		for q, _ := k.next(m.now); q != nil; q, _ = k.next(m.now) {
			k.arm(q, k.tend(q, m.now))
			if q.delayed() {
				m.followRelease(q)
			}
			m.serve()
		}
		return !m.busy()
	})
	m.check()
}

// busy says that something is due that waits for the disk.
func (m *coreModel) busy() bool {
	for name := range m.delays {
		if list := m.waiting[name]; len(list) > 0 && list[0].due <= m.now {
			return true
		}
	}
	for _, q := range m.queues {
		for _, l := range q.levels {
			if len(l.dying) > 0 && l.log.upkeep.move.retryAt <= m.now {
				return true
			}
			if msg := l.head(); msg != nil && m.over(msg) && !q.servable() { // else it is a slow consumer's business
				return true
			}
		}
	}
	return false
}

// head is the ready message that a level gives next.
func (l *coreLevel) head() *coreMessage {
	for _, msg := range l.q.ready {
		if msg.level == l {
			return msg
		}
	}
	return nil
}

// of finds the model of a log.
func (m *coreModel) of(log *Queue) *coreLevel {
	if q := m.queues[log.Name]; q != nil {
		return q.level(uint8(log.ID - q.base.ID))
	}
	return nil
}

// follow is told after each of the keeper's steps.
func (m *coreModel) follow(log *Queue, step int) {
	l := m.of(log)
	if l == nil {
		return
	}
	switch step {
	case stepExpire:
		for ready := m.ready(l); ready > log.ready(); ready-- {
			msg := l.head()
			if !m.over(msg) {
				m.t.Fatalf("at %d %s ended %+v: %s", m.now, log.Name, *msg, m.state())
			}
			m.bury(l.q.pop(slices.Index(l.q.ready, msg)), expired)
		}
	case stepMove:
		for len(l.dying) > 0 {
			if run := log.upkeep.dead.front(); run.count > 0 && run.first == l.dying[0].offset {
				break
			}
			msg := l.dying[0]
			l.dying = l.dying[1:]
			msg.settled = true
			if !l.q.set.deadLetters {
				continue // a policy has ended it
			}
			letter, targets := m.letter(msg)
			if all := m.route(l.q.set.deadLetterExchange, letter.key); l.q.set.atLeastOnce && len(all) == 0 {
				m.t.Fatalf("%s dropped %+v, which has nowhere to go, at least once", log.Name, *msg)
			}
			m.deliver(letter, targets)
		}
	}
}

func (m *coreModel) ready(l *coreLevel) (n uint64) {
	for _, msg := range l.q.ready {
		if msg.level == l {
			n++
		}
	}
	return n
}

// deliver is a message that comes from within the broker.
func (m *coreModel) deliver(msg *coreMessage, targets []*coreQueue) {
	for _, q := range targets {
		m.arrive(q, msg)
		m.tidy(q)
	}
}

// followRelease finds out what a delayed exchange has released.
func (m *coreModel) followRelease(log *Queue) {
	name := log.hidden.source.Name
	for left := log.log.Unsettled(); uint64(len(m.waiting[name])) > left; {
		w := m.waiting[name][0]
		m.waiting[name] = m.waiting[name][1:]
		if w.due > m.now {
			m.t.Fatalf("%s released at %d what is due at %d", name, m.now, w.due)
		}
		m.deliver(&w.coreMessage, m.route(name, w.key))
	}
}

// check compares what is visible when nothing is under way.
func (m *coreModel) check() {
	for _, name := range m.names() {
		q := m.queues[name]
		if c := q.base.Counts(); c.Ready != uint64(len(q.ready)) || c.Unacked != uint64(len(q.held)+q.shared()) || c.Consumers != len(q.consumers) {
			m.t.Fatalf("at %d %s has %+v, want %d, %d, %d: %s", m.now, name, c, len(q.ready), len(q.held)+q.shared(), len(q.consumers), m.state())
		}
		for _, msg := range slices.Concat(q.ready, q.held) {
			if msg.gone || msg.level.isSettled(msg.offset) {
				m.t.Fatalf("at %d %s has lost %+v: %s", m.now, name, *msg, m.state())
			}
		}
		for _, l := range q.levels {
			if l.end != l.log.log.Next() {
				m.t.Fatalf("at %d there is more in %s than should have come: %s", m.now, name, m.state())
			}
		}
		waits := func(c *coreConsumer) bool { return c.slow && c.owner.isTold() && (c.entered || len(c.share) > 0) }
		if q.servable() && len(q.ready) > 0 && !slices.ContainsFunc(q.consumers, waits) {
			m.t.Fatalf("at %d %s keeps messages beside an idle consumer: %s", m.now, name, m.state())
		}
		for _, c := range q.consumers {
			if active := q.base.Active(&c.Consumer); active != (!q.single || q.active == c) {
				m.t.Fatalf("%s: %s is active: %v", name, c.Tag, active)
			}
		}
	}
}

// shared is how many have been dealt and not fetched.
func (q *coreQueue) shared() (n int) {
	for _, c := range q.consumers {
		n += len(c.share)
	}
	return n
}

// wait moves the clock, a millisecond at a time, or far.
func (m *coreModel) wait(t *rapid.T) {
	m.t, m.c.t = t, t
	if m.chance("long", 8) {
		m.now += retryInterval
		m.settle()
	}
	for range rapid.IntRange(1, 15).Draw(t, "ms") {
		m.now++
		m.settle()
	}
}

// state tells what there is.
func (m *coreModel) state() string {
	var text strings.Builder
	for _, name := range m.names() {
		q := m.queues[name]
		fmt.Fprintf(&text, "\n%s %q: has %d ready, want %d", name, q.arguments, q.base.Counts().Ready, len(q.ready))
		for _, l := range q.highestFirst() {
			for at := l.log.log.Low(); at < l.log.log.Next(); at++ {
				if first, n := l.log.log.NextUnsettled(at, 1); n == 1 && first == at {
					body, properties := m.c.record(l.log, at)
					fmt.Fprintf(&text, "\n  there %d: %d %s, %v", l.priority, at, body, deathsOf(m.t, properties))
				}
			}
			for _, msg := range l.dying {
				fmt.Fprintf(&text, "\n  dying: %+v", *msg)
			}
		}
		for _, msg := range q.ready {
			fmt.Fprintf(&text, "\n  ready %d: %d %s came %v count %d", msg.level.priority, msg.offset, msg.body, msg.came, msg.count)
		}
		for _, c := range q.consumers {
			fmt.Fprintf(&text, "\n  %s: priority %d, prefetch %d, entered %v, room %d, turn %d, holds %d", c.Tag, c.Priority, c.prefetch, c.entered, c.room, c.turn, len(q.heldBy(c)))
		}
	}
	for name, list := range m.waiting {
		for _, w := range list {
			fmt.Fprintf(&text, "\nwaiting in %s until %d: %s %s", name, w.due, w.body, w.key)
		}
	}
	return text.String()
}

func deathsOf(t tb, properties []byte) (deaths []coreDeath) {
	v, ok := storedHeaders(t, properties).Lookup("x-death")
	if !ok {
		return nil
	}
	list, _ := v.Array()
	for event := range list.All() {
		fields, _ := event.Table()
		text := func(name string) string {
			v, _ := fields.Lookup(name)
			content, _ := v.Bytes()
			return string(content)
		}
		count, _ := fields.Lookup("count")
		n, _ := count.Int64()
		deaths = append(deaths, coreDeath{text("queue"), text("reason"), n})
	}
	return deaths
}
