package client

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/perf/session"
	"golang.org/x/sys/unix"
)

// Sizes of an event loop.
const (
	loopReadBytes   = 256 << 10
	loopBufferBytes = loopReadBytes + session.FrameMaxDefault // a carried frame and a read
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
	Published, PublishedBytes atomic.Uint64
	Consumed                  atomic.Uint64
	BytesIn                   atomic.Uint64
	Confirmed, Nacked, Acked  atomic.Uint64
	Failures, OutOfOrder      atomic.Uint64
	Operations                atomic.Uint64
	LastPublish, LastConsume  atomic.Int64
	LastOperation             atomic.Int64
}

// LoopOwner is told what concerns the whole run, from the loops' threads and at
// most once per read or write.
type LoopOwner interface {
	Fail(err error)               // ends the run; only the first one counts
	NoteConsumed(messages uint64) // so many more have been read
	ClientFinished()              // a client's quota is done
}

// Loop serves some of the clients on one OS thread.
//
// Outline of a round: every client with work does one step; then epoll is
// asked, without waiting while there is work, else until an event, the next
// due time of a paced client (a timerfd, so finer than a millisecond), or a
// wake-up through the eventfd.
type Loop struct {
	counters
	owner    LoopOwner
	epoll    int
	timer    int
	wake     int
	ThreadID atomic.Int64

	Clients []client
	active  []client
	Paced   []client
	buffer  []byte
	Latency *latencyRecorder // nil unless measured
	Delays  *latencyRecorder // from the intended time to the write, of paced publishers that stamp; nil unless measured
	events  [loopEventsMax]unix.EpollEvent
	armed   int64 // due time the timer is set to; 0: not set

	stopping atomic.Bool
	Done     chan struct{}
}

func NewLoop(owner LoopOwner) (l *Loop, err error) {
	l = &Loop{owner: owner, epoll: -1, timer: -1, wake: -1, buffer: make([]byte, loopBufferBytes), Done: make(chan struct{})}
	defer func() {
		if err != nil {
			l.Close()
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

// ReserveProcessors gives the Go scheduler a processor for each of count loops,
// beside those it has: a loop keeps its own even while it sleeps (pollEvents),
// and the reporter must not have to wait for one.
func ReserveProcessors(count int) (release func()) {
	change := func(by int) {
		processorsMu.Lock()
		defer processorsMu.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + by)
	}
	change(count)
	return func() { change(-count) }
}

// Add gives a client to the loop, before it starts. A client without a
// descriptor yet calls watch when it has one.
func (l *Loop) Add(c client) error {
	s := c.base()
	s.index = int32(len(l.Clients))
	l.Clients = append(l.Clients, c)
	if s.fd < 0 {
		return nil
	}
	return l.watch(s)
}

// watch asks for the events of a client's descriptor.
func (l *Loop) watch(s *socket) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: s.index,
	})
}

// recorder is the loop's latency recorder, made when first asked for.
func (l *Loop) recorder() *latencyRecorder {
	if l.Latency == nil {
		l.Latency = NewLatencyRecorder(0)
	}
	return l.Latency
}

// Serve runs the loop until stop, or until a client fails, which ends the run.
func (l *Loop) Serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.Done)
	ShortenSlice()
	l.ThreadID.Store(int64(unix.Gettid()))
	l.active = make([]client, 0, len(l.Clients))
	for _, c := range l.Clients {
		l.activate(c)
	}
	deadline := int64(0)
	for {
		now := Now()
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
			l.owner.Fail(err)
			return
		}
		if err := l.wait(deadline); err != nil {
			l.owner.Fail(err)
			return
		}
	}
}

func (l *Loop) activate(c client) {
	if s := c.base(); !s.active {
		s.active = true
		l.active = append(l.active, c)
	}
}

// step lets every active client work once.
func (l *Loop) step(now int64) error {
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
func (l *Loop) wait(deadline int64) error {
	due := l.nextDue(deadline)
	timeoutMillis := 0
	if len(l.active) == 0 && (due == 0 || due > Now()) {
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
	if len(l.Paced) > 0 {
		now := Now()
		for _, c := range l.Paced {
			if s := c.base(); s.due > 0 && s.due <= now {
				l.activate(c)
			}
		}
	}
	return nil
}

func (l *Loop) take(event unix.EpollEvent) {
	switch event.Fd {
	case timerMark:
		var expirations [8]byte
		_, _ = readNow(l.timer, expirations[:]) // only to clear it
		l.armed = 0
	case wakeMark:
		var wakeUps [8]byte
		_, _ = readNow(l.wake, wakeUps[:])
	default:
		c := l.Clients[event.Fd]
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
func (l *Loop) nextDue(deadline int64) int64 {
	due := deadline
	for _, c := range l.Paced {
		if s := c.base(); s.due > 0 && (due == 0 || s.due < due) {
			due = s.due
		}
	}
	return due
}

// arm sets the timer to an absolute time; 0 stops it.
func (l *Loop) arm(due int64) error {
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

func (l *Loop) startClosing() {
	for _, c := range l.Clients {
		c.startClosing()
		c.base().due = 0
		l.activate(c)
	}
}

func (l *Loop) allClosed() bool {
	for _, c := range l.Clients {
		if !c.base().closed {
			return false
		}
	}
	return true
}

// Stop asks the loop to say goodbye to the broker and return; any goroutine.
func (l *Loop) Stop() {
	l.stopping.Store(true)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(l.wake, one[:])
}

// Close releases the descriptors, after serve has returned.
func (l *Loop) Close() {
	for _, c := range l.Clients {
		if fd := c.base().fd; fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, fd := range []int{l.epoll, l.timer, l.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (l *Loop) addPublished(messages uint64, bytes int, now int64) {
	l.PublishedBytes.Add(uint64(bytes))
	if messages > 0 {
		l.Published.Add(messages)
		l.LastPublish.Store(now)
	}
}

func (l *Loop) addConsumed(messages uint64, bytes int, now int64) {
	l.BytesIn.Add(uint64(bytes))
	if messages > 0 {
		l.Consumed.Add(messages)
		l.LastConsume.Store(now)
		l.owner.NoteConsumed(messages)
	}
}

func (l *Loop) addOperations(count uint64, now int64) {
	if count > 0 {
		l.Operations.Add(count)
		l.LastOperation.Store(now)
	}
}
