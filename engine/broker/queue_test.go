package broker

import (
	"fmt"
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

// TestQueue_RoundRobin: message i of a queue goes to consumer i mod k, whatever the
// sizes of batches, however many are ready, and whoever comes first to take; the
// number of takes does not grow with that of messages.
func TestQueue_RoundRobin(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	names := 0
	rapid.Check(t, func(rt *rapid.T) {
		e.t = rt
		names++
		q := e.queue(QueueDeclare{Name: fmt.Sprint("turns ", names)}, nil)
		k := uint64(rapid.IntRange(2, 9).Draw(rt, "consumers"))
		var all []*Consumer
		for i := range k {
			all = append(all, attach(rt, q, fmt.Sprint("c", i)))
			if run, _ := q.Take(all[i], takeMax, 0); run.Count > 0 {
				rt.Fatal("something was there")
			}
		}
		got := make([]uint64, k) // the offset that each gets next
		for i := range k {
			got[i] = i
		}
		published, takes, rounds := uint64(0), 0, rapid.IntRange(1, 4).Draw(rt, "rounds")
		for range rounds {
			n := rapid.SampledFrom([]int{1, 2, 3, 7, 50, 3000}).Draw(rt, "batch")
			e.publish(q, make([]string, n)...)
			published += uint64(n)
			for left := 1; left > 0; {
				left = 0
				for _, i := range rapid.Permutation([]uint64{0, 1, 2, 3, 4, 5, 6, 7, 8}).Draw(rt, "who") {
					if i >= k || !owner(all[i]).isTold() {
						continue
					}
					owner(all[i]).setTold(false)
					run, more := q.Take(all[i], takeMax, 0)
					owner(all[i]).setTold(more)
					if takes++; run.Count == 0 || run.offset(0) != got[i] || run.Count > 1 && run.Stride != k {
						rt.Fatalf("%s took %+v, want offset %d and every %d. one after it", all[i].Tag, run, got[i], k)
					}
					got[i] = run.offset(run.Count-1) + k
					left++
				}
			}
		}
		if c := q.Counts(); c.Ready > 0 || c.Unacked != published || takes > rounds*int(k)*(2+3000/shareMax) {
			rt.Fatalf("%+v after %d messages and %d takes", c, published, takes)
		}
		if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, false, nil); err != nil {
			rt.Fatal(err)
		}
	})
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
