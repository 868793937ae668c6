package broker

import (
	"pgregory.net/rapid"
)

// restart stops in good order: everything unsettled is back, in order; what had
// been delivered is flagged.
func (m *queueModel) restart(t *rapid.T) {
	m.e.t = t
	m.e.close()
	m.open(t)
	if m.q.end > m.end {
		t.Fatalf("next offset %d, was %d", m.q.end, m.end)
	}
	var want uint64
	for o, msg := range m.messages {
		if msg.place == settled {
			continue
		}
		want++
		if (o < m.q.cursor) != (o < m.cursor) {
			t.Fatalf("offset %d: redelivered %v, want %v", o, o < m.q.cursor, o < m.cursor)
		}
	}
	if got := m.e.broker.Recovered().Messages; got != want {
		t.Fatalf("recovered %d messages, want %d", got, want)
	}
	m.adopt(t, func(o uint64) bool { return m.messages[o].place != settled })
}

// crash loses what was not durable, and perhaps acks.
func (m *queueModel) crash(t *rapid.T) {
	m.e.t = t
	if rapid.Bool().Draw(t, "durable") {
		m.q.log.WantDurable()
		m.e.await("everything durable", func() bool { return m.q.log.Durable() >= m.q.log.Next() })
	}
	durable := m.q.log.Durable()
	m.e.crash()
	m.open(t)
	back := map[uint64]bool{}
	for from := m.q.log.Low(); from < m.q.end; {
		first, count := m.q.log.NextUnsettled(from, 1)
		if count == 0 {
			break
		}
		if m.messages[first] == nil {
			t.Fatalf("offset %d came from nowhere", first)
		}
		back[first] = true
		from = first + 1
	}
	for o, msg := range m.messages {
		if msg.place != settled && o < durable && !back[o] {
			t.Fatalf("offset %d was durable (up to %d) and is lost", o, durable)
		}
	}
	// Nobody knows what had been delivered: everything may have been.
	if m.q.cursor != m.q.end {
		t.Fatalf("after a crash offsets from %d to %d are not flagged redelivered", m.q.cursor, m.q.end)
	}
	m.adopt(t, func(o uint64) bool { return back[o] })
}

// adopt takes the queue's word after a restart for where the cursor is, and
// checks that it will deliver exactly the messages that keep says.
func (m *queueModel) adopt(t *rapid.T, keep func(o uint64) bool) {
	m.cursor, m.end = m.q.cursor, m.q.end
	for o, msg := range m.messages {
		switch {
		case o >= m.end && keep(o):
			t.Fatalf("offset %d is beyond the end %d", o, m.end)
		case o >= m.end:
			delete(m.messages, o)
		case !keep(o):
			msg.place = settled
		case o < m.cursor:
			msg.place = returned
		default:
			msg.place = ready
		}
		if o < m.end && keep(o) {
			m.e.t = t
			if got := m.e.body(m.q, o); got != msg.body {
				t.Fatalf("offset %d holds %q, want %q", o, got, msg.body)
			}
		}
	}
	m.consumers()
}

// check compares counts and asserts the invariants of doc.go.
func (m *queueModel) check(t *rapid.T) {
	q := m.q
	wantReady := m.count(ready) + m.count(returned)
	for c, share := range m.shares {
		if c.share != share {
			t.Fatalf("%s has been dealt %+v, want %+v", c.Tag, c.share, share)
		}
		if m.entered[c] && !c.stalled && !owner(c).isTold() {
			t.Fatalf("%s was not told of its share", c.Tag)
		}
	}
	if c := q.Counts(); c.Ready != wantReady || c.Unacked != m.count(held) {
		t.Fatalf("counts %+v, want %d ready and %d unacked", c, wantReady, m.count(held))
	}
	if q.ready() != q.returned.Len()+(q.end-q.cursor) || q.cursor != m.cursor || q.end != m.end {
		t.Fatalf("cursor %d, end %d; want %d, %d (invariant 1)", q.cursor, q.end, m.cursor, m.end)
	}
	if q.ringLen != len(m.entered) {
		t.Fatalf("%d consumers in the ring, want %d", q.ringLen, len(m.entered))
	}
	c := q.ring
	for range q.ringLen {
		if !m.entered[c] || !c.inRing || c.next.prev != c || c.prev.next != c {
			t.Fatal("the ring is broken")
		}
		c = c.next
	}
	if c != q.ring {
		t.Fatal("the ring does not close")
	}
	if q.woken != nil && !m.entered[q.woken] {
		t.Fatal("the token is with a consumer outside of the ring (invariant 3)")
	}
	if wantReady > 0 && q.ringLen > 0 && q.woken == nil && q.awaited == 0 {
		t.Fatal("messages wait beside idle consumers (invariant 3)")
	}
	if q.woken != nil && !owner(q.woken).isTold() {
		t.Fatal("the holder of the token was not told (invariant 3)")
	}
}
