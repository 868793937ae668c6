package broker

import "sync"

// fakeOwner counts what a consumer is told.
type fakeOwner struct {
	mu        sync.Mutex
	told      bool // it is this consumer's turn, as far as it knows
	wakes     int
	cancelled int
}

func (o *fakeOwner) Wake() {
	o.mu.Lock()
	o.told = true
	o.wakes++
	o.mu.Unlock()
}

func (o *fakeOwner) Cancelled() {
	o.mu.Lock()
	o.cancelled++
	o.mu.Unlock()
}

func (o *fakeOwner) setTold(told bool) {
	o.mu.Lock()
	o.told = told
	o.mu.Unlock()
}

func (o *fakeOwner) isTold() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told
}
