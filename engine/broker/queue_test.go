package broker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// attach adds a consumer to a queue, and to its ring.
func attach(t tb, q *Queue, tag string) *Consumer {
	t.Helper()
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: tag}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	if q.Enter(c) {
		owner(c).setTold(true)
	}
	return c
}

// TestQueue_RoundRobin_FewMessages: with few messages ready two consumers get
// them strictly in turns, whatever the sizes of the batches.
func TestQueue_RoundRobin_FewMessages(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	names := 0
	rapid.Check(t, func(rt *rapid.T) {
		e.t = rt
		names++
		q := e.queue(QueueDeclare{Name: fmt.Sprint("turns ", names)}, nil)
		two := []*Consumer{attach(rt, q, "a"), attach(rt, q, "b")}
		turn, next := 0, uint64(0)
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 2*fairBelow).Draw(rt, "batch") {
				e.publish(q, "m")
			}
			for q.Counts().Ready > 0 {
				c, other := two[turn], two[1-turn]
				if !owner(c).isTold() {
					rt.Fatalf("offset %d: consumer %s was not told", next, c.Tag)
				}
				if run, _ := q.Take(other, 100, 0); run.Count > 0 {
					rt.Fatalf("offset %d: consumer %s took out of turn", next, other.Tag)
				}
				owner(c).setTold(false)
				run, more := q.Take(c, 100, 0)
				if run.First != next || run.Count != 1 || more {
					rt.Fatalf("consumer %s took %+v (more: %v), want offset %d alone", c.Tag, run, more, next)
				}
				next++
				turn = 1 - turn
			}
		}
		if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, false, nil); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestQueue_RoundRobin_Backlog: a backlog is shared in runs, not message by
// message; nobody gets two runs in a row, and at no time has one who can take got
// many more than another.
func TestQueue_RoundRobin_Backlog(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	for _, backlog := range []int{60, 200, 5000} {
		q := e.queue(QueueDeclare{Name: fmt.Sprint("backlog", backlog)}, nil)
		e.publish(q, make([]string, backlog)...)
		consumers := []*Consumer{attach(t, q, "a"), attach(t, q, "b"), attach(t, q, "c")}
		var got [3]uint64
		takes := 0
		for turn := 0; q.Counts().Ready > 0; turn = (turn + 1) % len(consumers) {
			run, more := q.Take(consumers[turn], takeMax, 0)
			if run.Count == 0 || run.Count > takeShareMax || more {
				t.Fatalf("consumer %d took %+v (more: %v)", turn, run, more)
			}
			got[turn] += run.Count
			takes++
			if slices.Max(got[:])-slices.Min(got[:]) > min(takeShareMax, uint64(backlog)/12) {
				t.Fatalf("of %d the consumers have got %v", backlog, got)
			}
		}
		if takes > 120+backlog/takeShareMax {
			t.Errorf("%d takes for %d messages", takes, backlog)
		}
	}
}

func TestQueue_LoneConsumerTakesWithoutToken(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "lone"}, nil)
	c := attach(t, q, "a")
	e.publish(q, make([]string, takeMax+10)...)
	run, more := q.Take(c, 1<<62, 0)
	if run.Count != takeMax || !more {
		t.Fatalf("took %+v, more: %v", run, more)
	}
	run, more = q.Take(c, 1<<62, 0)
	if run.Count != 10 || more {
		t.Fatalf("took %+v, more: %v", run, more)
	}
}

func TestQueue_Attach_ExclusiveConsumer(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	const text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	plain := &Consumer{Queue: q, Owner: &fakeOwner{}}
	exclusive := &Consumer{Queue: q, Owner: &fakeOwner{}, Exclusive: true}
	wantError(t, q.Attach(plain), 0, "")
	wantError(t, q.Attach(exclusive), 403, text)
	q.Detach(plain)
	q.Detach(plain) // once more is harmless
	wantError(t, q.Attach(exclusive), 0, "")
	wantError(t, q.Attach(plain), 403, text)
	if run, _ := q.Get(); run.Count != 0 { // allowed, unlike consuming
		t.Fatal("got something out of nothing")
	}
	q.Detach(exclusive)
	if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, q.Attach(plain), 404, "NOT_FOUND - no queue 'q' in vhost '/'")
}

func TestQueue_AutoDelete(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", AutoDelete: true}, nil)
	e.bind(Binding{Source: "amq.topic", Queue: "q", RoutingKey: "#"})
	e.publish(q, "m")
	q.Get() // a get is no consumer
	if _, err := e.vh.Queue([]byte("q"), nil); err != nil {
		t.Fatal("gone before it had a consumer")
	}
	a, b := attach(t, q, "a"), attach(t, q, "b")
	q.Detach(a)
	if _, err := e.vh.Queue([]byte("q"), nil); err != nil {
		t.Fatal("gone with a consumer left")
	}
	version := e.vh.Version()
	q.Detach(b)
	_, err := e.vh.Queue([]byte("q"), nil)
	wantError(t, err, 404, "NOT_FOUND - no queue 'q' in vhost '/'")
	if e.vh.Version() == version {
		t.Error("route caches were not invalidated")
	}
	if n := e.vh.exchanges["amq.topic"].index.Len(); n != 0 {
		t.Errorf("%d bindings left", n)
	}
	e.publish(q, "goes nowhere")
	if c := q.Counts(); c != (Counts{Unacked: c.Unacked}) {
		t.Errorf("what is gone counts %+v", c)
	}
}

func TestQueue_DeliverableNow(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	if q.DeliverableNow() {
		t.Error("without a consumer")
	}
	c := attach(t, q, "a")
	if !q.DeliverableNow() {
		t.Error("not with an idle consumer")
	}
	e.publish(q, "m")
	if q.DeliverableNow() {
		t.Error("with a message in the way")
	}
	q.Take(c, 1, 0)
	if !q.DeliverableNow() {
		t.Error("not with an idle consumer")
	}
	q.Leave(c)
	if q.DeliverableNow() {
		t.Error("with a consumer without credit")
	}
}

// countingOwner lets a goroutine wait for its turn.
type countingOwner struct{ turn chan struct{} }

func (o *countingOwner) Wake() {
	select {
	case o.turn <- struct{}{}:
	default:
	}
}
func (o *countingOwner) Cancelled() {}

// TestQueue_Concurrent: publishers and consumers on goroutines of their own;
// each message is delivered to one holder at a time until it is settled, and
// no wake-up is lost.
func TestQueue_Concurrent(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	const publishers, batches, perBatch, consumers = 3, 200, 5, 4
	const total = publishers * batches * perBatch
	holders := make([]atomic.Int32, total)
	settled := make([]atomic.Int32, total)
	var left atomic.Int64
	left.Store(total)
	done := make(chan struct{})
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for range batches {
				e.publish(q, make([]string, perBatch)...)
			}
		})
	}
	for n := range consumers {
		group.Go(func() {
			o := &countingOwner{turn: make(chan struct{}, 1)}
			c := &Consumer{Queue: q, Owner: o}
			if err := q.Attach(c); err != nil {
				t.Error(err)
				return
			}
			for round := n; ; round++ {
				if !q.Enter(c) {
					select {
					case <-o.turn:
					case <-done:
						q.Detach(c)
						return
					}
				}
				run, _ := q.Take(c, 7, 0)
				q.Leave(c)
				if run.Count == 0 {
					continue
				}
				for i := run.First; i < run.First+run.Count; i++ {
					if holders[i].Add(1) != 1 {
						t.Errorf("offset %d has two holders", i)
					}
				}
				for i := run.First; i < run.First+run.Count; i++ {
					holders[i].Add(-1)
				}
				if round%3 == 0 {
					q.Requeue(run)
					continue
				}
				for i := run.First; i < run.First+run.Count; i++ {
					if settled[i].Add(1) != 1 {
						t.Errorf("offset %d settled twice", i)
					}
				}
				q.Settle(run.First, run.Count)
				if left.Add(-int64(run.Count)) == 0 {
					close(done)
				}
			}
		})
	}
	group.Wait()
	if c := q.Counts(); c != (Counts{}) {
		t.Errorf("at the end: %+v", c)
	}
	if n := q.log.Unsettled(); n != 0 {
		t.Errorf("%d records unsettled in the log", n)
	}
}

// TestQueue_Recover_Holes: what was settled without ever having been ready is
// passed over, and says nothing about the messages around it.
func TestQueue_Recover_Holes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.publish(q, "a", "b", "c", "d")
	q.log.Settle(1, 1) // behind the queue's back
	e.close()
	e = openDir(t, dir)
	defer e.close()
	q = e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	if c := q.Counts(); c.Ready != 3 {
		t.Errorf("%+v", c)
	}
	want := []Run{{First: 0, Count: 1}, {First: 2, Count: 1}, {First: 3, Count: 1}}
	for _, w := range want {
		w.Queue = q
		if run, _ := q.Get(); run != w {
			t.Errorf("got %+v, want %+v", run, w)
		}
	}
	if run, _ := q.Get(); run.Count != 0 {
		t.Errorf("got %+v too much", run)
	}
}
