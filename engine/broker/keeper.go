package broker

import (
	"container/heap"
	"sync"
	"time"
)

// keeper is the one goroutine that does for queues what no connection does:
// expire messages and queues, move dead letters, write delivery counts. Queues
// are on its list only when there is something to do for them, with the time
// when; a queue that is not on it costs nothing, and none is looked at because
// of another.
//
// Lock order: VHost.mu, Queue.mu, keeper.mu (a leaf). The keeper works on one
// queue at a time, in small steps, so that none waits long for the others; while
// a step waits for the disk it works on other queues.
type keeper struct {
	broker *Broker
	now    func() int64 // Unix milliseconds
	never  bool         // no goroutine: tests call step

	// watched, if there, is told after each of keeperSteps: a model test follows them.
	watched func(q *Queue, step int)

	mu    sync.Mutex
	due   dueHeap
	order uint64

	kick chan struct{} // capacity 1: the head of the list has changed
	stop chan struct{}
	done sync.WaitGroup
}

// watch is a queue's place on the keeper's list.
type watch struct {
	when  int64 // ms
	order uint64
	index int // in the heap, plus 1; 0: not on it
}

func (k *keeper) init(b *Broker) {
	k.broker = b
	if k.now == nil {
		k.now = func() int64 { return time.Now().UnixMilli() }
	}
	k.kick = make(chan struct{}, 1)
	k.stop = make(chan struct{})
}

// arm has q, which has an upkeep, looked at when that time comes, or earlier.
// Any goroutine; the queue's lock may be held.
func (k *keeper) arm(q *Queue, when int64) {
	if when == unlimited {
		return
	}
	k.mu.Lock()
	w := &q.upkeep.watch
	switch {
	case w.index == 0:
		w.when, w.order = when, k.order
		k.order++
		heap.Push(&k.due, q)
	case when < w.when:
		w.when, w.order = when, k.order
		k.order++
		heap.Fix(&k.due, w.index-1)
	default:
		k.mu.Unlock()
		return
	}
	first := k.due[0] == q
	k.mu.Unlock()
	if first {
		select {
		case k.kick <- struct{}{}:
		default:
		}
	}
}

// next takes the first queue that is due off the list; without one it says how
// long there is to wait.
func (k *keeper) next(now int64) (q *Queue, wait int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.due) == 0 {
		return nil, unlimited
	}
	if when := k.due[0].upkeep.watch.when; when > now {
		return nil, when - now
	}
	return heap.Pop(&k.due).(*Queue), 0
}

// step does everything that is due now.
func (k *keeper) step() {
	for k.turn(k.now()) == 0 {
	}
}

// turn looks after one queue, or says how long there is nothing to do.
func (k *keeper) turn(now int64) (wait int64) {
	q, wait := k.next(now)
	if q == nil {
		return wait
	}
	k.arm(q, k.tend(q, now))
	return 0
}

func (k *keeper) start() {
	if !k.never {
		k.done.Go(k.run)
	}
}

func (k *keeper) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := k.turn(k.now())
		if wait == 0 {
			select {
			case <-k.stop:
				return
			default:
				continue
			}
		}
		timer.Reset(time.Duration(min(wait, int64(time.Hour/time.Millisecond))) * time.Millisecond)
		select {
		case <-timer.C:
		case <-k.kick:
		case <-k.stop:
			return
		}
	}
}

// drainTime bounds how long a stop waits for dead letters to be moved.
const drainTime = 2 * time.Second

// drain moves the dead letters that can be moved. The goroutine has ended.
func (k *keeper) drain() {
	for until := time.Now().Add(drainTime); !k.never && time.Now().Before(until); time.Sleep(time.Millisecond) {
		k.step()
		left := false
		k.each(func(q *Queue, e *upkeep) {
			q.mu.Lock()
			left = left || e.dead.len > 0 && e.move.retryAt == 0
			q.mu.Unlock()
		})
		if !left {
			return
		}
	}
}

// each calls f for all queues with an upkeep.
func (k *keeper) each(f func(q *Queue, e *upkeep)) {
	k.broker.mu.RLock()
	defer k.broker.mu.RUnlock()
	for _, vh := range k.broker.vhosts {
		for _, q := range vh.Queues() {
			for _, l := range q.family() {
				if l.Kept() || l.stream != nil {
					f(l, l.upkeep)
				}
			}
		}
	}
}

// close stops the keeper; what it had still to do is found again by the next
// start. Its readers are given back.
func (k *keeper) close() {
	select {
	case <-k.stop:
		return
	default:
	}
	close(k.stop)
	k.done.Wait()
	k.drain()
	k.each(func(q *Queue, e *upkeep) {
		if q.stream != nil {
			k.writeTracked(q, k.now())
		}
		e.look.close()
		e.scan.close()
		e.move.close()
	})
	k.closeDelayed()
}

type dueHeap []*Queue

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	a, b := &h[i].upkeep.watch, &h[j].upkeep.watch
	if a.when != b.when {
		return a.when < b.when
	}
	return a.order < b.order
}
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].upkeep.watch.index, h[j].upkeep.watch.index = i+1, j+1
}
func (h *dueHeap) Push(x any) {
	q := x.(*Queue)
	q.upkeep.watch.index = len(*h) + 1
	*h = append(*h, q)
}
func (h *dueHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	q.upkeep.watch.index = 0
	return q
}
