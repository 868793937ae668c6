package loop

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Handler is the owner of one connection's protocol state.
type Handler interface {
	// Input handles received bytes, lent until it returns.
	Input(data []byte)
	// Drained says that the last Write that reported false is done.
	Drained()
	// Closed says that the socket is gone and why: io.EOF when the peer closed,
	// ErrClosed when this side did. Nothing is called after it.
	Closed(err error)
}

// ErrClosed is passed to Closed when this side closed the connection.
var ErrClosed = errors.New("loop: connection closed locally")

// backend is what differs between epoll and io_uring. All methods but wake are
// called on the loop's thread.
type backend interface {
	name() string
	add(c *Conn) error
	listen(ln *Listener) error
	// unlisten stops watching, and then closes the descriptor if closing.
	unlisten(ln *Listener, closing bool)
	// poll collects ready events without sleeping and says whether dispatch has
	// anything to do.
	poll() (ready bool, err error)
	// sleep is poll, but waits for an event, a wake or the timeout (negative:
	// no limit). It may return early.
	sleep(timeout time.Duration) error
	// dispatch handles the collected events.
	dispatch()
	// write starts sending c.out[c.outPos:c.outEnd]; true when all of it has
	// left already.
	write(c *Conn) (bool, error)
	// interest follows a change of c.paused.
	interest(c *Conn)
	// remove closes the socket. It may keep c.out, which it then sets to nil.
	remove(c *Conn)
	wake()
	close()
}

// Options configure a Loop.
type Options struct {
	ID     int
	Arena  *arena.Pool
	Logger *slog.Logger
	// Backend is "epoll" (the default) or "uring".
	Backend string
}

// Loop is one event loop.
type Loop struct {
	mailbox

	id      int
	pool    *arena.Pool
	log     *slog.Logger
	backend backend

	start    sync.Once
	gate     chan struct{} // closed by Start
	stopping atomic.Bool
	done     chan struct{}

	running  []Runner // the inbox being worked off
	deferred []Runner
	dead     []*Conn // closed in this turn; their Closed is still due
	timers   timerHeap
	armed    uint64 // how many times a timer was armed
	began    time.Time
	now      time.Time
	conns    atomic.Int32 // read by the acceptor's loop
	open     table
	plain    *arena.Buf // for Layers; taken while there is input, given back when idle
	stats    Stats
	figures  published
}

// Stats counts what a loop did.
type Stats struct {
	Turns     uint64 // iterations
	Sleeps    uint64 // iterations that asked the kernel to wait
	Wakeups   uint64 // wake-ups by Post or Stop
	BytesRead uint64
	BytesSent uint64
	Slept     time.Duration
}

// New makes a loop; Start runs it. A loop that is never started needs Stop, too.
// An error that matches errors.ErrUnsupported means that this machine or this
// build does not offer the backend.
func New(o Options) (*Loop, error) {
	now := time.Now()
	l := &Loop{
		id: o.ID, pool: o.Arena, log: o.Logger, began: now, now: now,
		gate: make(chan struct{}), done: make(chan struct{}),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	made := make(chan error)
	go l.main(o.Backend, made)
	if err := <-made; err != nil {
		return nil, err
	}
	return l, nil
}

// BackendAvailable says whether loops with the named backend can be made here:
// nil, or the error New would return.
func BackendAvailable(name string) error {
	l, err := New(Options{Backend: name, Arena: new(arena.Pool)})
	if err != nil {
		return err
	}
	l.Stop()
	l.Wait()
	return nil
}

// main is the loop's goroutine. The backend is made here because an io_uring
// belongs to the thread that made it.
func (l *Loop) main(name string, made chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	var err error
	switch name {
	case "", "epoll":
		l.backend, err = newEpoll(l)
	case "uring":
		l.backend, err = newUring(l)
	default:
		err = fmt.Errorf("loop: unknown backend %q", name)
	}
	if err == nil {
		l.mailbox.waker = l.backend
	}
	made <- err
	if err != nil {
		return
	}
	<-l.gate
	l.run()
}

// ID returns the loop's number, from 0.
func (l *Loop) ID() int { return l.id }

// Backend names the I/O backend. Any goroutine.
func (l *Loop) Backend() string { return l.backend.name() }

// Arena returns the pool that buffers for this loop come from. Any goroutine.
func (l *Loop) Arena() *arena.Pool { return l.pool }

// Now is the time this turn of the loop began: good to about the length of a
// turn, and free.
func (l *Loop) Now() time.Time { return l.now }

// Uptime is how long the loop had been there at Now, by the monotonic clock.
func (l *Loop) Uptime() time.Duration { return l.now.Sub(l.began) }

// Conns returns the number of open connections. Any goroutine.
func (l *Loop) Conns() int { return int(l.conns.Load()) }

// Stats returns the loop's counters; only on the loop.
func (l *Loop) Stats() Stats { return l.stats }

// Start lets the loop run. Any goroutine.
func (l *Loop) Start() { l.start.Do(func() { close(l.gate) }) }

// Stop ends the loop after the current turn; open connections are closed
// (their handlers see ErrClosed). Any goroutine; does not wait: see Wait.
func (l *Loop) Stop() {
	l.stopping.Store(true)
	l.Start()
	l.wake()
}

// Wait blocks until the loop has ended.
func (l *Loop) Wait() { <-l.done }

// Defer runs r at the end of the current turn, after the events at hand: so
// that one batch of input is followed by one batch of output. Only on the loop.
// What is deferred while the loop ends does not run.
func (l *Loop) Defer(r Runner) { l.deferred = append(l.deferred, r) }

func (l *Loop) run() {
	for !l.stopping.Load() {
		ready, err := l.backend.poll()
		if err == nil && !ready && len(l.deferred) == 0 {
			err = l.rest()
		}
		if err != nil {
			l.log.Error("event loop cannot wait for events and stops", "loop", l.id, "err", err)
			break
		}
		l.stats.Turns++
		l.now = time.Now()
		l.backend.dispatch()
		l.turn()
		if l.stats.Turns%publishEvery == 0 {
			l.figures.publish(&l.stats)
		}
	}
	l.finish()
}

// rest sleeps unless there is something to do after all (invariant 4).
func (l *Loop) rest() error {
	timeout := l.untilTimer()
	if timeout == 0 {
		return nil
	}
	l.sleeping.Store(true)
	defer l.sleeping.Store(false)
	if l.posted.Load() || l.stopping.Load() {
		return nil
	}
	l.stats.Sleeps++
	l.releasePlain()
	l.figures.publish(&l.stats)
	began := time.Now()
	l.figures.fallAsleep(&l.stats, began)
	err := l.backend.sleep(timeout)
	l.stats.Slept += time.Since(began)
	l.figures.awake(&l.stats)
	return err
}

// turn does what is due besides I/O events: timers, mailbox, deferred work.
func (l *Loop) turn() {
	l.fireTimers()
	if l.posted.Load() {
		l.running = l.take(l.running)
		for i, r := range l.running {
			r.Run()
			l.running[i] = nil
		}
	}
	// Deferred work may defer more; that waits for the next turn, so that input
	// is not starved.
	if n := len(l.deferred); n > 0 {
		for i := range n {
			l.deferred[i].Run()
		}
		rest := copy(l.deferred, l.deferred[n:])
		clear(l.deferred[rest:])
		l.deferred = l.deferred[:rest]
	}
	l.reap()
}

// reap tells handlers of dead connections (invariant 3).
func (l *Loop) reap() {
	for len(l.dead) > 0 {
		c := l.dead[len(l.dead)-1]
		l.dead[len(l.dead)-1] = nil
		l.dead = l.dead[:len(l.dead)-1]
		c.bury()
	}
}

func (l *Loop) releasePlain() {
	if l.plain != nil {
		l.plain.Release()
		l.plain = nil
	}
}

// finish ends the loop: nothing is taken any more, what had been posted runs
// (sockets handed over are among it), and everything open is closed.
func (l *Loop) finish() {
	l.shut()
	l.turn()
	for _, c := range l.open.slots {
		if c != nil {
			c.fail(ErrClosed)
		}
	}
	l.reap()
	l.releasePlain()
	l.silence()
	l.backend.close()
}
