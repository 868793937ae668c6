package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// settle lets the broker do what there is to do, and takes in what comes to the
// queues: each must come, in the order in which it left the place it comes from.
func (m *coreModel) settle(t *rapid.T) {
	m.c.t = t
	deadline := time.Now().Add(patience / 4)
	m.c.await("everything has come", func() bool {
		if time.Now().After(deadline) {
			t.Fatalf("at %d: %s", m.now, m.state())
		}
		m.c.now = m.now
		m.c.broker.keeper.step()
		for more := true; more; {
			more = false
			for _, name := range m.names() {
				more = m.take(t, m.queues[name]) || more
			}
		}
		if m.busy() {
			return false
		}
		for _, q := range m.queues {
			for _, letters := range q.coming {
				if len(letters) > 0 {
					return false
				}
			}
			if int(q.q.Counts().Ready) != len(q.ready) {
				return false
			}
		}
		return true
	})
}

// busy says that something is on its way: perhaps to nowhere, which nobody sees.
func (m *coreModel) busy() bool {
	for name := range m.delays {
		if d := m.c.vh.exchanges[name].delayed; d != nil && d.delays.First() <= m.now {
			return true
		}
	}
	for _, q := range m.queues {
		q.q.mu.Lock()
		dying := q.q.upkeep != nil && q.q.upkeep.dead.len > 0
		q.q.mu.Unlock()
		if dying {
			return true
		}
	}
	return false
}

// state tells what does not come.
func (m *coreModel) state() string {
	var text strings.Builder
	for _, name := range m.names() {
		q := m.queues[name]
		fmt.Fprintf(&text, "\n%s %q: has %d ready of %d, want %d of %d", name, q.arguments, q.q.Counts().Ready, q.q.log.Next(), len(q.ready), q.end)
		for at := q.end; at < q.q.log.Next(); at++ {
			if first, n := q.q.log.NextUnsettled(at, 1); n == 1 && first == at {
				body, properties := m.c.record(q.q, at)
				fmt.Fprintf(&text, "\n  there: %d %s, %v", at, body, deathsOf(m.c.t, properties))
			}
		}
		for from, letters := range q.coming {
			for _, l := range letters {
				fmt.Fprintf(&text, "\n  from %s: %+v", from, *l)
			}
		}
	}
	for _, w := range m.waiting {
		fmt.Fprintf(&text, "\nwaiting in %s until %d: %s %s", w.exchange, w.due, w.body, w.key)
	}
	return text.String()
}

// take takes in what has come to a queue and is expected already.
func (m *coreModel) take(t *rapid.T, q *coreQueue) (some bool) {
	for ; q.end < q.q.log.Next(); q.end++ {
		body, properties := m.c.record(q.q, q.end)
		deaths := deathsOf(t, properties) // it may come twice, by different ways
		from, msg := q.next(func(msg *coreMessage) bool { return msg.body == body && slices.Equal(msg.deaths, deaths) })
		if msg == nil {
			return some
		}
		m.arrive(q, from, msg)
		some = true
	}
	return some
}

// next finds a message that may come now.
func (q *coreQueue) next(fits func(msg *coreMessage) bool) (from string, msg *coreMessage) {
	for _, from := range slices.Sorted(maps.Keys(q.coming)) {
		if letters := q.coming[from]; len(letters) > 0 && fits(letters[0]) {
			return from, letters[0]
		}
	}
	return "", nil
}

func (m *coreModel) arrive(q *coreQueue, from string, msg *coreMessage) {
	q.coming[from] = q.coming[from][1:]
	msg.offset, msg.born, msg.came = q.end, m.now, false
	q.ready = append(q.ready, msg)
	m.tidy(q)
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
