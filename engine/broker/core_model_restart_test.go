package broker

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// seldom does what wipes most of the state out.
func (m *coreModel) seldom() {
	switch rapid.SampledFrom([]string{"", "", "purge", "stop", "kill", "power cut"}).Draw(m.t, "what") {
	case "purge":
		q := m.pick("queue")
		if n := q.base.Purge(); n != uint64(len(q.ready)) {
			m.t.Fatalf("%d messages of %s purged, want %d", n, q.name, len(q.ready))
		}
		for len(q.ready) > 0 {
			q.pop(0).settled = true
		}
	case "stop":
		m.stop()
	case "kill":
		m.crash(func() { m.disk = m.disk.Kill() })
	case "power cut":
		m.crash(func() { m.disk = m.disk.PowerCut() })
	}
}

// stop is a stop in good order: nothing is lost, and what was delivered is
// flagged.
func (m *coreModel) stop() {
	for _, q := range m.queues {
		for _, c := range q.consumers {
			q.held = append(q.held, c.share...)
		}
	}
	m.c.close()
	m.disk = m.disk.Kill()
	m.open()
	for _, name := range m.names() {
		q := m.queues[name]
		back := append(q.held, q.allDying()...)
		q.held = nil
		clear(q.holders)
		for _, msg := range back {
			msg.came = true
			q.insert(msg)
		}
		m.judgeCounts(q)
		m.tidy(q)
	}
}

func (q *coreQueue) allDying() (list []*coreMessage) {
	for _, l := range q.highestFirst() {
		list = append(list, l.dying...)
		l.dying = nil
	}
	return list
}

// crash ends the broker in the middle. What was durable and not done is there
// again, flagged; what else is there must have been there before: an ack, a move
// or a purge may be lost.
func (m *coreModel) crash(next func()) {
	if m.chance("everything is durable", 2) {
		m.persist()
	}
	m.c.durable(m.c.broker.defs.Last())
	durable := map[*coreLevel]uint64{}
	for _, name := range m.names() {
		for _, l := range m.queues[name].highestFirst() {
			durable[l] = l.log.log.Durable()
		}
	}
	durableDelays := map[string]uint64{}
	for name := range m.waiting {
		durableDelays[name] = m.c.vh.exchanges[name].delayed.log.Durable()
	}
	m.c.crash()
	next()
	m.open()
	for _, name := range m.names() {
		q := m.queues[name]
		q.allDying()
		q.held, q.ready = nil, nil
		clear(q.holders)
		var missing []*coreMessage
		for _, l := range q.highestFirst() {
			missing = append(missing, m.foundLevel(l, durable[l])...)
		}
		m.excuse(q, missing)
		m.judgeCounts(q)
		m.tidy(q)
	}
	for name := range m.waiting {
		m.foundDelayed(name, durableDelays[name])
	}
}

// persist waits until everything is on the disk.
func (m *coreModel) persist() {
	var logs []*Queue
	for _, q := range m.queues {
		logs = append(logs, q.base.family()...)
	}
	for name, delays := range m.delays {
		if delays {
			logs = append(logs, m.c.vh.exchanges[name].delayed)
		}
	}
	for _, l := range logs {
		l.log.WantDurable()
		m.c.await("durable", func() bool { return l.log.Durable() >= l.log.Next() })
	}
}

// foundLevel takes in what a crash has left of a log, and returns what was
// durable and is not there.
func (m *coreModel) foundLevel(l *coreLevel, durable uint64) (missing []*coreMessage) {
	before := l.known
	l.known = map[uint64]*coreMessage{}
	log := l.log.log
	l.end, l.cursor = log.Next(), log.Next()
	for at := log.Low(); at < log.Next(); at++ {
		if l.isSettled(at) {
			continue
		}
		msg := before[at]
		body, properties := m.c.record(l.log, at)
		if msg == nil || msg.body != body || fmt.Sprint(msg.deaths) != fmt.Sprint(deathsOf(m.t, properties)) {
			m.t.Fatalf("%s has %q at %d, which it was never given (%+v)", l.q.name, body, at, msg)
		}
		if n := int64(l.log.DeliveryCount(at)); n <= msg.count {
			msg.count = n
		} else {
			m.t.Fatalf("%s came back %d times, but the count is %d", body, msg.count, n)
		}
		msg.came, msg.settled = true, false
		l.known[at] = msg
		l.q.insert(msg)
	}
	for at, msg := range before {
		if l.known[at] == msg {
			continue
		}
		if at < durable && !msg.settled {
			missing = append(missing, msg)
		}
		if at < l.end { // the next crash may lose that it was settled
			l.known[at], msg.settled = msg, true
		}
	}
	return missing
}

// excuse says why messages that were durable may be missing after a crash:
// without dead letters what is over a limit has been dropped already. Then they
// came before all that is left, and there was one that there was no room for:
// perhaps one that had been acknowledged, which the crash brought back.
func (m *coreModel) excuse(q *coreQueue, missing []*coreMessage) {
	left, largest := len(q.ready), 0
	for _, l := range q.levels {
		for _, msg := range l.known {
			if !slices.Contains(q.ready, msg) {
				largest = max(largest, len(msg.body))
			}
		}
	}
	full := !q.set.deadLetters && q.set.overflow == dropHead &&
		(int64(left) >= q.set.maxLength || q.readyBytes()+int64(largest) > q.set.maxBytes)
	for _, msg := range missing {
		if !q.set.deadLetters && msg.count > q.set.deliveryLimit {
			continue
		}
		q.insert(msg)
		first := q.ready[0] == msg
		q.ready = slices.DeleteFunc(q.ready, func(other *coreMessage) bool { return other == msg })
		if !full || !first {
			m.t.Fatalf("at %d %+v was durable and is lost; of %d left %+v%s", m.now, *msg, left, q.set, m.state())
		}
	}
}

// foundDelayed takes in what a crash has left in a delayed exchange. Going on is
// one transaction: what is there again has not arrived anywhere.
func (m *coreModel) foundDelayed(name string, durable uint64) {
	was := map[*delayedMessage]bool{}
	for _, w := range m.waiting[name] {
		was[w] = true
	}
	before := m.delayed[name]
	q := m.c.vh.exchanges[name].delayed
	m.waiting[name], m.delayed[name] = nil, map[uint64]*delayedMessage{}
	for at := q.log.Low(); at < q.log.Next(); at++ {
		if first, n := q.log.NextUnsettled(at, 1); n == 0 || first != at {
			continue
		}
		w := before[at]
		if body, _ := m.c.record(q, at); w == nil || w.body != body {
			m.t.Fatalf("%s has %q at %d, which it was never given (%+v)", name, body, at, w)
		}
		for _, other := range m.queues {
			for _, msg := range other.ready {
				if msg.body == w.body {
					m.t.Fatalf("%s is in %s again and in %s", w.body, name, other.name)
				}
			}
		}
		m.delayed[name][at] = w
		m.waiting[name] = append(m.waiting[name], w)
	}
	for at, w := range before {
		if at < durable && was[w] && m.delayed[name][at] != w {
			m.t.Fatalf("%s was durable in %s at %d and is lost", w.body, name, at)
		}
		if at < q.log.Next() {
			m.delayed[name][at] = w
		}
	}
	slices.SortStableFunc(m.waiting[name], func(a, b *delayedMessage) int { return cmp.Compare(a.due, b.due) })
}
