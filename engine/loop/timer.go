package loop

import (
	"cmp"
	"container/heap"
	"time"
)

// Timer is a one-shot timer of one loop. The zero value is an unarmed timer;
// it may be armed again any number of times. Nothing ticks for it.
type Timer struct {
	Fire  Runner
	when  time.Duration // as Uptime
	order uint64        // of arming: timers due at the same time fire in this order
	index int           // position in the heap + 1; 0 when not armed
}

// Arm (re)starts t to fire d from now (at once in the next turn, if d is not
// positive). Only on the loop.
func (l *Loop) Arm(t *Timer, d time.Duration) {
	t.when = l.Uptime() + max(d, 0)
	t.order = l.armed
	l.armed++
	if t.index != 0 {
		heap.Fix(&l.timers, t.index-1)
		return
	}
	heap.Push(&l.timers, t)
}

// Disarm stops t if it is armed. Only on the loop.
func (l *Loop) Disarm(t *Timer) {
	if t.index != 0 {
		heap.Remove(&l.timers, t.index-1)
	}
}

// untilTimer returns how long the loop may sleep; negative: for ever.
func (l *Loop) untilTimer() time.Duration {
	if len(l.timers) == 0 {
		return -1
	}
	return max(l.timers[0].when-time.Since(l.began), 0)
}

// fireTimers fires what is due. A timer armed meanwhile waits for the next turn,
// even if it is due: no wait can be shorter than zero, so it sorts behind all
// that were due before.
func (l *Loop) fireTimers() {
	for end := l.armed; len(l.timers) > 0; {
		t := l.timers[0]
		if t.when > l.Uptime() || t.order >= end {
			return
		}
		heap.Pop(&l.timers)
		t.Fire.Run()
	}
}

type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if order := cmp.Compare(h[i].when, h[j].when); order != 0 {
		return order < 0
	}
	return h[i].order < h[j].order
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	t.index = len(*h) + 1
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}
