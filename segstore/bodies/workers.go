package bodies

import "sync"

// workers runs blocking jobs in the order of their arrival, on goroutines that
// exist only while there is work. The zero value is ready to use.
type workers struct {
	mu      sync.Mutex
	idle    sync.Cond // running became 0
	queue   []func()
	running int
	closed  bool
}

// add queues a job; false when closed.
func (w *workers) add(job func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, job)
	if w.running < workersMax {
		w.running++
		go w.run()
	}
	return true
}

func (w *workers) run() {
	w.mu.Lock()
	for len(w.queue) > 0 {
		job := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		w.mu.Unlock()
		job()
		w.mu.Lock()
	}
	w.queue = nil
	w.running--
	if w.running == 0 && w.idle.L != nil {
		w.idle.Broadcast()
	}
	w.mu.Unlock()
}

// drain waits until all jobs are done, those they add included.
func (w *workers) drain() {
	w.mu.Lock()
	w.idle.L = &w.mu
	for w.running > 0 {
		w.idle.Wait()
	}
	w.mu.Unlock()
}

// close drains and takes no more.
func (w *workers) close() {
	w.drain()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.drain()
}
