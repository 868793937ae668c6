package broker

import "sync"

// replays counts the replays under way, so that closing can wait for them.
type replays struct {
	mu       sync.Mutex
	closed   bool
	stopping chan struct{} // closed by close
	count    sync.WaitGroup
}

func (r *replays) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.count.Add(1)
	}
	return !r.closed
}

func (r *replays) end() { r.count.Done() }

// close lets no more begin and waits for those under way.
func (r *replays) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stopping)
	}
	r.mu.Unlock()
	r.count.Wait()
}
