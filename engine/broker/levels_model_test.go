package broker

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// rankedMessage is a message of a priority queue; those of a priority are
// numbered as they come.
type rankedMessage struct {
	priority uint8
	number   int
	place    place
	run      Run // while it is held: one message
}

// levelsModel keeps the messages of one priority queue by themselves.
type levelsModel struct {
	dir      string
	e        *env
	q        *Queue
	c        *Consumer
	messages []*rankedMessage
	number   int
}

const modelPriorities = 4

func (m *levelsModel) open(t tb) {
	t.Helper()
	m.e = openDir(t, m.dir)
	q, created, seq, err := m.e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-max-priority", modelPriorities-1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if created {
		m.e.durable(seq)
	}
	m.q = q
	m.c = &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c"}
	if err := q.Attach(m.c); err != nil {
		t.Fatal(err)
	}
	q.Enter(m.c)
}

// publish sends messages of one priority, as a publisher does: by way of a
// route.
func (m *levelsModel) publish(t *rapid.T) {
	priority := rapid.Uint8Range(0, modelPriorities).Draw(t, "priority")
	properties := (&amqp.Properties{Flags: amqp.FlagPriority, Priority: priority}).Append(nil)
	b := segstore.NewBatch(m.e.pool)
	defer b.Release()
	b.Reset(0)
	template := b.Template(nil, []byte("q"), properties)
	for range rapid.IntRange(1, 5).Draw(t, "count") {
		b.Add(template, fmt.Appendf(nil, "m%d", m.number))
		m.messages = append(m.messages, &rankedMessage{priority: min(priority, modelPriorities-1), number: m.number})
		m.number++
	}
	to, err := m.e.vh.Route(nil, Envelope{RoutingKey: []byte("q"), Properties: properties}, nil)
	if err != nil || len(to) != 1 {
		t.Fatalf("%d queues, %v", len(to), err)
	}
	if _, _, err := to[0].Publish(b, 0); err != nil {
		t.Fatal(err)
	}
}

// waiting are the ready messages in the order in which they must come.
func (m *levelsModel) waiting() []*rankedMessage {
	var list []*rankedMessage
	for _, msg := range m.messages {
		if msg.place == ready || msg.place == returned {
			list = append(list, msg)
		}
	}
	slices.SortStableFunc(list, func(a, b *rankedMessage) int {
		if a.priority != b.priority {
			return cmp.Compare(b.priority, a.priority)
		}
		if a.place != b.place {
			return cmp.Compare(b.place, a.place) // returned ones first
		}
		return cmp.Compare(a.number, b.number)
	})
	return list
}

func (m *levelsModel) take(t *rapid.T) {
	want := m.waiting()
	var run Run
	limit := rapid.Uint64Range(1, 6).Draw(t, "limit")
	if rapid.Bool().Draw(t, "get") {
		limit = 1
		var remaining uint64
		run, remaining = m.q.Get()
		if n := max(len(want), 1) - 1; remaining != uint64(n) {
			t.Fatalf("%d remain, want %d", remaining, n)
		}
	} else {
		run, _ = m.q.Take(m.c, limit, 0)
	}
	if run.Count > limit || (run.Count == 0) != (len(want) == 0) {
		t.Fatalf("%+v taken, limit %d, %d ready", run, limit, len(want))
	}
	m.e.t = t
	for i := range run.Count {
		msg := want[i]
		one := run
		one.First, one.Count = run.First+i, 1
		if got := m.e.body(run.Queue, one.First); got != fmt.Sprint("m", msg.number) || run.Redelivered != (msg.place == returned) {
			t.Fatalf("got %s redelivered %v, want m%d %v", got, run.Redelivered, msg.number, msg.place == returned)
		}
		msg.place, msg.run = held, one
	}
}

func (m *levelsModel) heldOnes() []*rankedMessage {
	return slices.DeleteFunc(slices.Clone(m.messages), func(msg *rankedMessage) bool { return msg.place != held })
}

func (m *levelsModel) settle(t *rapid.T) {
	if list := m.heldOnes(); len(list) > 0 {
		msg := rapid.SampledFrom(list).Draw(t, "message")
		msg.run.Queue.Settle(msg.run.First, 1)
		msg.place = settled
	}
}

// requeue gives several back, level by level, as channels do.
func (m *levelsModel) requeue(t *rapid.T) {
	list := m.heldOnes()
	byLevel := map[*Queue][]Run{}
	for _, msg := range list {
		if rapid.Bool().Draw(t, "this one") {
			byLevel[msg.run.Queue] = append(byLevel[msg.run.Queue], msg.run)
			msg.place = returned
		}
	}
	for l, runs := range byLevel {
		l.Requeue(runs...)
	}
}

func (m *levelsModel) purge(t *rapid.T) {
	list := m.waiting()
	if n := m.q.Purge(); n != uint64(len(list)) {
		t.Fatalf("purged %d, want %d", n, len(list))
	}
	for _, msg := range list {
		msg.place = settled
	}
}

// restart stops in good order: what was delivered is flagged, nothing else.
func (m *levelsModel) restart(t *rapid.T) {
	m.e.t = t
	m.e.close()
	m.open(t)
	for _, msg := range m.messages {
		if msg.place == held {
			msg.place = returned
		}
	}
	if got, want := m.e.broker.Recovered().Messages, uint64(len(m.waiting())); got != want {
		t.Fatalf("recovered %d messages, want %d", got, want)
	}
}

// crash with everything durable: all is there, acks may be lost, and all is
// flagged.
func (m *levelsModel) crash(t *rapid.T) {
	m.e.t = t
	for _, l := range m.q.family() {
		l.log.WantDurable()
		m.e.await("durable", func() bool { return l.log.Durable() >= l.log.Next() })
	}
	m.e.crash()
	m.open(t)
	byBody := map[string]*rankedMessage{}
	for _, msg := range m.messages {
		byBody[fmt.Sprint("m", msg.number)] = msg
	}
	back := map[*rankedMessage]bool{}
	for _, l := range m.q.family() {
		for from := l.log.Low(); from < l.log.Next(); {
			first, n := l.log.NextUnsettled(from, 1)
			if n == 0 {
				break
			}
			msg := byBody[m.e.body(l, first)]
			if msg == nil || uint64(msg.priority) != l.ID-m.q.ID {
				t.Fatalf("level %d has a message that is not its own", l.ID-m.q.ID)
			}
			back[msg] = true
			from = first + 1
		}
	}
	for _, msg := range m.messages {
		switch {
		case back[msg]:
			msg.place = returned
		case msg.place != settled:
			t.Fatalf("m%d was durable and is lost", msg.number)
		}
	}
}

func (m *levelsModel) check(t *rapid.T) {
	c := m.q.Counts()
	if c.Ready != uint64(len(m.waiting())) || c.Unacked != uint64(len(m.heldOnes())) || c.Consumers != 1 {
		t.Fatalf("%+v, want %d ready, %d unacked", c, len(m.waiting()), len(m.heldOnes()))
	}
	if c.Ready > 0 && m.q.woken != m.c {
		t.Fatal("messages wait beside an idle consumer (invariant 3)")
	}
}

// TestLevels_Model runs random histories of a priority queue, restarts and
// crashes among them, against a model that keeps each message by itself.
func TestLevels_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &levelsModel{dir: t.TempDir()}
		m.open(rt)
		defer func() { m.e.crash() }()
		seldom := func(rt *rapid.T) {
			rapid.SampledFrom([]func(*rapid.T){m.purge, m.restart, m.restart, m.crash}).Draw(rt, "what")(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "publish2": m.publish, "publish3": m.publish, "take": m.take, "take2": m.take, "take3": m.take,
			"settle": m.settle, "settle2": m.settle, "requeue": m.requeue, "seldom": seldom, "": m.check,
		})
	})
}

// TestLevels_Ids: the logs of a priority queue have ids of their own, also when
// the definition is from before there were levels.
func TestLevels_Ids(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-max-priority", 9)}, nil)
	next := e.queue(QueueDeclare{Name: "next", Durable: true}, nil)
	if next.ID != q.ID+19 {
		t.Errorf("ids %d and %d", q.ID, next.ID)
	}
	e.publish(q.level(9), "nine")
	if l := q.level(200); l.ID != q.ID+9 || l.base() != q || !l.isLevel() || q.isLevel() {
		t.Errorf("level of id %d", l.ID)
	}
	if info := ReadDefinition(queueRecord(recQueueDeclare, e.vh, q)); info.Err != nil || info.LogID != q.ID || info.Levels != 18 {
		t.Errorf("%+v", info)
	}
	e.close()
	e = openDir(t, dir)
	defer e.close()
	if other := e.queue(QueueDeclare{Name: "other", Durable: true}, nil); other.ID != next.ID+1 {
		t.Errorf("id %d after %d", other.ID, next.ID)
	}
	q = e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-max-priority", 9)}, nil)
	if run, _ := q.Get(); run.Count != 1 || run.Queue.ID != q.ID+9 || len(q.family()) != 2 {
		t.Errorf("%+v, %d levels", run, len(q.family()))
	}
	old := queueRecord(recQueueDeclare, e.vh, &Queue{Name: "old", ID: 1000, Arguments: values("x-max-priority", 9)})
	if err := e.broker.apply(old); err != nil || e.vh.queues["old"].Ranked() {
		t.Errorf("a queue from before has levels; %v", err)
	}
	delete(e.vh.queues, "old")
}
