package loop

import (
	"sync"
	"sync/atomic"
)

// Runner is work to be done on a loop. Implementations are long-lived objects
// (a connection, a consumer), so that posting allocates nothing.
type Runner interface{ Run() }

// RunnerFunc makes a Runner of a function, for work that is not on a hot path.
type RunnerFunc func()

// Run calls the function.
func (f RunnerFunc) Run() { f() }

// mailbox is what other goroutines reach a loop by.
type mailbox struct {
	mu     sync.Mutex
	inbox  []Runner
	closed bool // the loop takes nothing more

	posted   atomic.Bool // inbox is not empty
	sleeping atomic.Bool // the loop sleeps, or is about to: wake it

	wakeMu sync.Mutex
	waker  interface{ wake() }
	silent bool // the waker is gone
}

// Post runs r on the loop, after what it is doing now. Any goroutine. One
// wake-up is paid for a burst of posts. A loop that has ended drops r.
func (m *mailbox) Post(r Runner) { m.post(r) }

// post is Post, and says whether r will run.
func (m *mailbox) post(r Runner) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	m.inbox = append(m.inbox, r)
	m.posted.Store(true)
	m.mu.Unlock()
	if m.sleeping.Load() && m.sleeping.CompareAndSwap(true, false) {
		m.wake()
	}
	return true
}

// take swaps the inbox for an empty one that reuses spare.
func (m *mailbox) take(spare []Runner) []Runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.inbox
	m.inbox = spare[:0]
	m.posted.Store(false)
	return full
}

// shut refuses all further posts.
func (m *mailbox) shut() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
}

// wake ends the loop's sleep. The lock keeps it from writing to a descriptor
// that the ending loop has closed and another part of the process has opened.
func (m *mailbox) wake() {
	m.wakeMu.Lock()
	if !m.silent && m.waker != nil {
		m.waker.wake()
	}
	m.wakeMu.Unlock()
}

// silence ends all wake-ups.
func (m *mailbox) silence() {
	m.wakeMu.Lock()
	m.silent = true
	m.wakeMu.Unlock()
}
