package broker

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueue_Model runs random histories of one durable queue over a real store
// against a model that keeps each message by itself.
func TestQueue_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &queueModel{dir: t.TempDir()}
		m.open(rt)
		defer func() { m.e.crash() }()
		m.consumers()
		rt.Repeat(map[string]func(*rapid.T){
			"publish":  m.publish,
			"publish2": m.publish, // likelier
			"enter":    m.enter,
			"enter2":   m.enter,
			"take":     m.take,
			"take2":    m.take,
			"take3":    m.take,
			"get":      m.get,
			"settle":   m.settle,
			"requeue":  m.requeue,
			"requeue2": m.requeue,
			"return":   m.giveBack,
			"leave":    m.leave,
			"stall":    m.stall,
			"seldom":   m.seldom,
			"":         m.check,
		})
	})
}

// seldom does what wipes most of the state out.
func (m *queueModel) seldom(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){m.detach, m.detach, m.purge, m.delete, m.restart, m.restart, m.crash}).Draw(t, "what")(t)
}

// where a message of the model is.
type place uint8

const (
	ready    place = iota // never taken
	returned              // ready again
	held                  // with some consumer
	settled
)

type modelMessage struct {
	body  string
	place place
}

// heldRun is a run that a consumer (or basic.get: nil) holds.
type heldRun struct {
	Run
	by *Consumer
}

type queueModel struct {
	dir string
	e   *env
	q   *Queue

	messages map[uint64]*modelMessage
	cursor   uint64
	end      uint64
	held     []heldRun
	shares   map[*Consumer]Run // dealt and not fetched
	all      []*Consumer
	entered  map[*Consumer]bool
	number   int // of the next body
}

func (m *queueModel) open(t tb) {
	t.Helper()
	m.e = openDir(t, m.dir)
	q, created, seq, err := m.e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if created {
		m.e.durable(seq)
		m.messages, m.cursor, m.end = map[uint64]*modelMessage{}, 0, 0
	}
	m.q = q
	m.held = nil
}

func (m *queueModel) consumers() {
	m.all, m.entered, m.shares = nil, map[*Consumer]bool{}, map[*Consumer]Run{}
	for i := range 3 {
		m.all = append(m.all, &Consumer{Queue: m.q, Owner: &fakeOwner{}, Tag: fmt.Sprint("c", i)})
	}
}

func owner(c *Consumer) *fakeOwner { return c.Owner.(*fakeOwner) }

func (m *queueModel) consumer(t *rapid.T) *Consumer {
	return rapid.SampledFrom(m.all).Draw(t, "consumer")
}

func (m *queueModel) publish(t *rapid.T) {
	m.e.t = t
	var bodies []string
	for range rapid.IntRange(1, 12).Draw(t, "count") {
		body := fmt.Sprint("message ", m.number)
		m.number++
		bodies = append(bodies, body)
		m.messages[m.end] = &modelMessage{body: body}
		m.end++
	}
	m.e.publish(m.q, bodies...)
}

func (m *queueModel) enter(t *rapid.T) {
	c := m.consumer(t)
	if !c.attached {
		if err := m.q.Attach(c); err != nil {
			t.Fatal(err)
		}
	}
	if m.q.Enter(c) {
		owner(c).setTold(true)
	}
	m.entered[c] = true
}

func (m *queueModel) leave(t *rapid.T) {
	c := m.consumer(t)
	owner(c).setTold(false)
	m.q.Leave(c)
	delete(m.entered, c)
	m.unshare(c)
}

// stall is a connection that cannot send: its consumer keeps its share.
func (m *queueModel) stall(t *rapid.T) {
	c := m.consumer(t)
	owner(c).setTold(false)
	if !m.q.Stall(c, true) {
		t.Fatal("it has not left")
	}
	delete(m.entered, c)
}

// detach leaves what the consumer holds with its channel, as basic.cancel does.
func (m *queueModel) detach(t *rapid.T) {
	c := m.consumer(t)
	owner(c).setTold(false)
	m.q.Detach(c)
	delete(m.entered, c)
	m.unshare(c)
}

func (m *queueModel) unshare(c *Consumer) {
	if share, ok := m.shares[c]; ok {
		delete(m.shares, c)
		m.unsent(share)
	}
}

// next is what a taker must get first.
func (m *queueModel) next() (offset uint64, place place, ok bool) {
	for _, o := range m.offsets() {
		if m.messages[o].place == returned {
			return o, returned, true
		}
	}
	if m.cursor < m.end {
		return m.cursor, ready, true
	}
	return 0, 0, false
}

func (m *queueModel) offsets() []uint64 { return slices.Sorted(maps.Keys(m.messages)) }

func (m *queueModel) take(t *rapid.T) {
	c := m.consumer(t)
	if m.q.woken != nil && rapid.IntRange(0, 3).Draw(t, "in turn") > 0 {
		c = m.q.woken
	}
	limit := rapid.Uint64Range(0, 20).Draw(t, "limit")
	turn := m.entered[c] && limit > 0 && (m.q.woken == c || len(m.entered) == 1)
	if limit > 0 {
		owner(c).setTold(false)
	}
	var ring []*Consumer // from c on
	for o := m.q.ring; o != nil && len(ring) < m.q.ringLen; o = o.next {
		ring = append(ring, o)
	}
	run, more := m.q.Take(c, limit, 0)
	if more {
		owner(c).setTold(true)
	}
	if share, ok := m.shares[c]; ok {
		m.fetched(t, c, share, run, limit)
		return
	}
	if _, _, some := m.next(); (run.Count > 0) != (turn && some) {
		t.Fatalf("Take gave %+v; its turn: %v, something ready: %v", run, turn, some)
	}
	if run.Count == 0 {
		return
	}
	if run.Count > limit {
		t.Fatalf("%d taken, limit %d", run.Count, limit)
	}
	all := run
	all.Stride = 0
	for _, o := range ring[1:] {
		if _, has := m.shares[o]; !has {
			all.Count += o.share.Count
		}
	}
	m.taken(t, all)
	m.held = append(m.held, heldRun{run, c})
	k := uint64(len(ring))
	for j, o := range ring {
		want := Run{Queue: m.q, First: all.First + uint64(j), Count: (all.Count + k - 1 - uint64(j)) / k, Stride: k, Redelivered: all.Redelivered}
		got := o.share
		if o == c {
			got = run
		}
		if k == 1 {
			want.Stride = 0
		}
		if _, has := m.shares[o]; has || want.Count == 0 {
			if want.Count > 0 {
				t.Fatalf("%s was dealt %+v beside %+v", o.Tag, want, got)
			}
			continue
		}
		if got.Waited = 0; got != want {
			t.Fatalf("%s was dealt %+v, want %+v", o.Tag, got, want)
		}
		if o != c {
			m.shares[o] = got
		}
	}
}

// fetched is a share that has been taken, as far as there was credit.
func (m *queueModel) fetched(t *rapid.T, c *Consumer, share, run Run, limit uint64) {
	delete(m.shares, c)
	if share.Count > limit {
		rest := share
		rest.Shift(limit)
		m.unsent(rest)
		share.Count = limit
	}
	if run != share {
		t.Fatalf("%s took %+v, want %+v", c.Tag, run, share)
	}
	if run.Count > 0 {
		m.held = append(m.held, heldRun{run, c})
	}
}

func (m *queueModel) get(t *rapid.T) {
	_, _, some := m.next()
	run, remaining := m.q.Get()
	if (run.Count == 1) != some {
		t.Fatalf("Get gave %+v; something ready: %v", run, some)
	}
	if m.taken(t, run); run.Count > 0 {
		m.held = append(m.held, heldRun{run, nil})
	}
	if want := m.count(ready) + m.count(returned); remaining != want {
		t.Fatalf("Get says %d remain, want %d", remaining, want)
	}
}

// taken is a run of consecutive messages that are not ready any more.
func (m *queueModel) taken(t *rapid.T, run Run) {
	if run.Count == 0 {
		return
	}
	first, from, _ := m.next()
	if run.First != first || run.Redelivered != (from == returned) {
		t.Fatalf("taken %+v, want offset %d first, redelivered %v", run, first, from == returned)
	}
	for o := run.First; o < run.First+run.Count; o++ {
		msg := m.messages[o]
		if msg == nil || msg.place != from {
			t.Fatalf("offset %d of %+v was not to be had: %+v", o, run, msg)
		}
		msg.place = held
		if from == ready {
			m.cursor = o + 1
		}
	}
	m.e.t = t
	if got, want := m.e.body(m.q, run.First), m.messages[run.First].body; got != want {
		t.Fatalf("offset %d holds %q, want %q", run.First, got, want)
	}
}

// part cuts a part out of a held run and takes it off the model's list.
func (m *queueModel) part(t *rapid.T) (Run, bool) {
	if len(m.held) == 0 {
		return Run{}, false
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "run")
	h := m.held[i]
	skip := rapid.Uint64Range(0, h.Count-1).Draw(t, "skip")
	count := rapid.Uint64Range(1, h.Count-skip).Draw(t, "count")
	m.held = slices.Delete(m.held, i, i+1)
	part := h.Run
	part.First, part.Count = h.offset(skip), count
	before, after := h, h
	before.Count = skip
	after.First, after.Count = h.offset(skip+count), h.Count-skip-count
	for _, rest := range []heldRun{before, after} {
		if rest.Count > 0 {
			m.held = append(m.held, rest)
		}
	}
	return part, true
}

func (m *queueModel) move(run Run, to place) {
	for i := range run.Count {
		m.messages[run.offset(i)].place = to
	}
}

func (m *queueModel) settle(t *rapid.T) {
	if run, ok := m.part(t); ok {
		m.q.SettleRun(run, 0)
		m.move(run, settled)
	}
}

func (m *queueModel) requeue(t *rapid.T) {
	if run, ok := m.part(t); ok {
		m.q.Requeue(run)
		m.move(run, returned)
	}
}

// giveBack returns what was never sent.
func (m *queueModel) giveBack(t *rapid.T) {
	run, ok := m.part(t)
	if !ok {
		return
	}
	m.q.Return(run)
	m.unsent(run)
}

// unsent is what has come back without having been sent.
func (m *queueModel) unsent(run Run) {
	if !run.Redelivered && (run.Stride <= 1 || run.Count == 1) && run.First+run.Count == m.cursor {
		m.move(run, ready)
		m.cursor = run.First
		return
	}
	m.move(run, returned)
}

func (m *queueModel) count(p place) (n uint64) {
	for _, msg := range m.messages {
		if msg.place == p {
			n++
		}
	}
	return n
}

func (m *queueModel) purge(t *rapid.T) {
	want := m.count(ready) + m.count(returned)
	if got := m.q.Purge(); got != want {
		t.Fatalf("purged %d, want %d", got, want)
	}
	for _, msg := range m.messages {
		if msg.place == ready || msg.place == returned {
			msg.place = settled
		}
	}
	m.cursor = m.end
}

func (m *queueModel) delete(t *rapid.T) {
	want := m.count(ready) + m.count(returned)
	old := m.q
	attached := len(old.consumers)
	got, seq, err := m.e.vh.DeleteQueue([]byte("q"), false, false, nil)
	if err != nil || got != want || seq == 0 {
		t.Fatalf("deleted %d (seq %d, %v), want %d", got, seq, err, want)
	}
	told := 0
	for _, c := range m.all {
		told += owner(c).cancelled
		if run, more := old.Take(c, 5, 0); run.Count > 0 || more {
			t.Fatal("a deleted queue gives messages")
		}
	}
	if told != attached {
		t.Fatalf("%d of %d consumers told", told, attached)
	}
	// Late acks and nacks of channels that still hold messages are harmless.
	for _, h := range m.held {
		switch rapid.IntRange(0, 2).Draw(t, "late") {
		case 0:
			old.SettleRun(h.Run, 0)
		case 1:
			old.Requeue(h.Run)
		default:
			old.Return(h.Run)
		}
	}
	if c := old.Counts(); c != (Counts{}) {
		t.Fatalf("a deleted queue counts %+v", c)
	}
	if run, _ := old.Get(); run.Count > 0 {
		t.Fatal("a deleted queue gives messages")
	}
	q, created, seq, err := m.e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true}, nil)
	if err != nil || !created || q.ID == old.ID {
		t.Fatalf("declared again: created %v, id %d after %d, %v", created, q.ID, old.ID, err)
	}
	m.e.t = t
	m.e.durable(seq)
	m.q, m.held = q, nil
	m.messages, m.cursor, m.end = map[uint64]*modelMessage{}, 0, 0
	m.consumers()
}
