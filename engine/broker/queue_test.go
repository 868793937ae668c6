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

// TestQueue_RoundRobin: the i-th message goes to consumer i mod k, whatever the
// sizes of batches and of what is ready, the prefetches, and who comes first to take.
func TestQueue_RoundRobin(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	names := 0
	rapid.Check(t, func(rt *rapid.T) {
		e.t = rt
		names++
		q := e.queue(QueueDeclare{Name: fmt.Sprint("turns ", names)}, nil)
		k := rapid.IntRange(2, 20).Draw(rt, "consumers")
		prefetch := rapid.SampledFrom([]uint64{1, 7, 1000, 1 << 62}).Draw(rt, "prefetch")
		var consumers []*Consumer
		for i := range k {
			consumers = append(consumers, attach(rt, q, fmt.Sprint(i)))
		}
		published, next := uint64(0), make([]uint64, k)
		order := make([]int, k)
		for i := range next {
			next[i], order[i] = uint64(i), i
		}
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			n := rapid.SampledFrom([]int{1, 2, k - 1, k, k + 1, 100, 3000}).Draw(rt, "batch")
			e.publish(q, make([]string, n)...)
			published += uint64(n)
			for again := true; again; {
				again = false
				for _, i := range rapid.Permutation(order).Draw(rt, "order") {
					c := consumers[i]
					if !owner(c).isTold() {
						continue
					}
					again = true
					owner(c).setTold(false)
					for run, more := q.Take(c, prefetch, 0); run.Count > 0 || more; run, more = q.Take(c, prefetch, 0) {
						for j := range run.Count {
							if run.offset(j) != next[i] {
								rt.Fatalf("consumer %d of %d got %d, want %d", i, k, run.offset(j), next[i])
							}
							next[i] += uint64(k)
						}
						q.SettleRun(run, 0)
					}
				}
			}
			if c := q.Counts(); c.Ready+c.Unacked > 0 {
				rt.Fatalf("%+v are left of %d", c, published)
			}
		}
		if low := q.log.Low(); low != published {
			rt.Fatalf("settled up to %d of %d", low, published)
		}
		if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, false, nil); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestQueue_RoundRobin_ManyUnacknowledged: while very many are unacknowledged the
// turns are runs of consecutive messages, so that gaps between acknowledged ones are
// bounded, and strict again afterwards.
func TestQueue_RoundRobin_ManyUnacknowledged(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "many"}, nil)
	two := []*Consumer{attach(t, q, "a"), attach(t, q, "b")}
	taken, at, runs := []Run(nil), uint64(0), 0
	for range dealtMax/1000 + 20 {
		e.publish(q, make([]string, 1000)...)
		for i := 0; q.Counts().Ready > 0; i++ {
			for _, c := range two {
				for run, _ := q.Take(c, 1<<62, 0); run.Count > 0; run, _ = q.Take(c, 1<<62, 0) {
					many := q.Counts().Unacked > dealtMax+2*shareMax
					if consecutive := run.Stride <= 1 || run.Count == 1; many && !consecutive {
						t.Fatalf("%s took %+v with so many unacknowledged", c.Tag, run)
					}
					if many {
						runs++
					}
					taken = append(taken, run)
				}
			}
		}
	}
	if at = q.Counts().Unacked; at != q.end || runs == 0 {
		t.Fatalf("%d taken of %d, %d of the turns were runs", at, q.end, runs)
	}
	for _, run := range taken {
		q.SettleRun(run, 0)
	}
	if q.log.Low() != q.end {
		t.Fatalf("settled up to %d of %d", q.log.Low(), q.end)
	}
	e.publish(q, make([]string, 4)...)
	first := q.ring
	if run, _ := q.Take(first, 1<<62, 0); run.Count != 2 || run.Stride != 2 {
		t.Fatalf("took %+v", run)
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
				for i := range run.Count {
					if offset := run.offset(i); holders[offset].Add(1) != 1 {
						t.Errorf("offset %d has two holders", offset)
					}
				}
				for i := range run.Count {
					holders[run.offset(i)].Add(-1)
				}
				if round%3 == 0 {
					q.Requeue(run)
					continue
				}
				for i := range run.Count {
					if offset := run.offset(i); settled[offset].Add(1) != 1 {
						t.Errorf("offset %d settled twice", offset)
					}
				}
				q.SettleRun(run, 0)
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
