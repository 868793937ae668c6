package perf

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of an event loop.
const (
	loopReadBytes   = 256 << 10
	loopBufferBytes = loopReadBytes + frameMaxDefault // a carried frame and a read
	loopEventsMax   = 256
	loopSleepMillis = 100 // at most; see pollEvents
	farewellSpan    = 2 * time.Second
)

// Marks in epoll events for descriptors that are no clients.
const (
	timerMark = -1
	wakeMark  = -2
)

// client is a publisher or a consumer. work does at most one read and one
// write, so that the clients of a loop take turns, and reports whether there
// is more to do right away; otherwise an event or base().due brings it back.
type client interface {
	work(now int64) (again bool, err error)
	startClosing()
	base() *socket
}

// counters of one loop: written by its thread, once per read or write, read by
// the reporter.
type counters struct {
	published, publishedBytes atomic.Uint64
	consumed                  atomic.Uint64
	bytesIn                   atomic.Uint64
	confirmed, nacked, acked  atomic.Uint64
	failures, outOfOrder      atomic.Uint64
	lastPublish, lastConsume  atomic.Int64
}

// loop serves some of the clients on one OS thread.
//
// Outline of a round: every client with work does one step; then epoll is
// asked, without waiting while there is work, else until an event, the next
// due time of a paced client (a timerfd, so finer than a millisecond), or a
// wake-up through the eventfd.
type loop struct {
	counters
	run      *throughputRun
	epoll    int
	timer    int
	wake     int
	threadID atomic.Int64

	clients []client
	active  []client
	paced   []client
	buffer  []byte
	latency *latencyRecorder // nil unless measured
	events  [loopEventsMax]unix.EpollEvent
	armed   int64 // due time the timer is set to; 0: not set

	stopping atomic.Bool
	done     chan struct{}
}

func newLoop(run *throughputRun) (l *loop, err error) {
	l = &loop{run: run, epoll: -1, timer: -1, wake: -1, buffer: make([]byte, loopBufferBytes), done: make(chan struct{})}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("perf: epoll: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("perf: timerfd: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("perf: eventfd: %w", err)
	}
	for fd, mark := range map[int]int32{l.timer: timerMark, l.wake: wakeMark} {
		if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: mark}); err != nil {
			return nil, fmt.Errorf("perf: epoll: %w", err)
		}
	}
	return l, nil
}

var processorsMu sync.Mutex

// reserveProcessors gives the Go scheduler a processor for each of count loops,
// beside those it has: a loop keeps its own even while it sleeps (pollEvents),
// and the reporter must not have to wait for one.
func reserveProcessors(count int) (release func()) {
	change := func(by int) {
		processorsMu.Lock()
		defer processorsMu.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + by)
	}
	change(count)
	return func() { change(-count) }
}

// add gives a client to the loop, before it starts.
func (l *loop) add(c client) error {
	index := int32(len(l.clients))
	l.clients = append(l.clients, c)
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.base().fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: index,
	})
}

// serve runs the loop until stop, or until a client fails, which ends the run.
func (l *loop) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	l.threadID.Store(int64(unix.Gettid()))
	l.active = make([]client, 0, len(l.clients))
	for _, c := range l.clients {
		l.activate(c)
	}
	deadline := int64(0)
	for {
		now := monotonicNow()
		if l.stopping.Load() {
			if deadline == 0 {
				deadline = now + int64(farewellSpan)
				l.startClosing()
			}
			if now >= deadline || l.allClosed() {
				return
			}
		}
		if err := l.step(now); err != nil {
			l.run.fail(err)
			return
		}
		if err := l.wait(deadline); err != nil {
			l.run.fail(err)
			return
		}
	}
}

func (l *loop) activate(c client) {
	if s := c.base(); !s.active {
		s.active = true
		l.active = append(l.active, c)
	}
}

// step lets every active client work once.
func (l *loop) step(now int64) error {
	kept := l.active[:0]
	for _, c := range l.active {
		s := c.base()
		if s.closed {
			s.active = false
			continue
		}
		again, err := c.work(now)
		if err != nil {
			return err
		}
		if again {
			kept = append(kept, c)
		} else {
			s.active = false
		}
	}
	l.active = kept
	return nil
}

// wait collects events and due clients, after sleeping if nothing is active.
func (l *loop) wait(deadline int64) error {
	due := l.nextDue(deadline)
	timeoutMillis := 0
	if len(l.active) == 0 && (due == 0 || due > monotonicNow()) {
		if err := l.arm(due); err != nil {
			return err
		}
		timeoutMillis = loopSleepMillis
	}
	n, errno := pollEvents(l.epoll, l.events[:], timeoutMillis)
	if errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("perf: epoll: %w", errno)
	}
	for i := range n {
		l.take(l.events[i])
	}
	if len(l.paced) > 0 {
		now := monotonicNow()
		for _, c := range l.paced {
			if s := c.base(); s.due > 0 && s.due <= now {
				l.activate(c)
			}
		}
	}
	return nil
}

func (l *loop) take(event unix.EpollEvent) {
	switch event.Fd {
	case timerMark:
		var expirations [8]byte
		_, _ = readNow(l.timer, expirations[:]) // only to clear it
		l.armed = 0
	case wakeMark:
		var wakeUps [8]byte
		_, _ = readNow(l.wake, wakeUps[:])
	default:
		c := l.clients[event.Fd]
		s := c.base()
		if event.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			s.readable = true
		}
		if event.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			s.hungUp = true
		}
		if event.Events&unix.EPOLLOUT != 0 {
			s.writable = true
		}
		l.activate(c)
	}
}

// nextDue is the earliest time a paced client wants, or deadline; 0: none.
func (l *loop) nextDue(deadline int64) int64 {
	due := deadline
	for _, c := range l.paced {
		if s := c.base(); s.due > 0 && (due == 0 || s.due < due) {
			due = s.due
		}
	}
	return due
}

// arm sets the timer to an absolute time; 0 stops it.
func (l *loop) arm(due int64) error {
	if due == l.armed {
		return nil
	}
	l.armed = due
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(due)}
	if err := unix.TimerfdSettime(l.timer, unix.TFD_TIMER_ABSTIME, &setting, nil); err != nil {
		return fmt.Errorf("perf: timerfd: %w", err)
	}
	return nil
}

func (l *loop) startClosing() {
	for _, c := range l.clients {
		c.startClosing()
		c.base().due = 0
		l.activate(c)
	}
}

func (l *loop) allClosed() bool {
	for _, c := range l.clients {
		if !c.base().closed {
			return false
		}
	}
	return true
}

// stop asks the loop to say goodbye to the broker and return; any goroutine.
func (l *loop) stop() {
	l.stopping.Store(true)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(l.wake, one[:])
}

// close releases the descriptors, after serve has returned.
func (l *loop) close() {
	for _, c := range l.clients {
		unix.Close(c.base().fd)
	}
	for _, fd := range []int{l.epoll, l.timer, l.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (l *loop) addPublished(messages uint64, bytes int, now int64) {
	l.publishedBytes.Add(uint64(bytes))
	if messages > 0 {
		l.published.Add(messages)
		l.lastPublish.Store(now)
	}
}

func (l *loop) addConsumed(messages uint64, bytes int, now int64) {
	l.bytesIn.Add(uint64(bytes))
	if messages > 0 {
		l.consumed.Add(messages)
		l.lastConsume.Store(now)
		l.run.noteConsumed(messages)
	}
}
