//go:build uring && linux

package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawelgaczynski/giouring"
)

// Built is true when this binary contains the io_uring backends.
const Built = true

// ErrFull is returned by an operation that could not be queued (invariant 5).
var ErrFull = errors.New("uring: the submission queue is full and the kernel takes nothing")

// CQE is one completion.
type CQE struct {
	UserData uint64
	Res      int32 // bytes, descriptor or 0; negative: an errno
	Flags    uint32
}

// Err is the errno in Res as an error, or nil.
func (c CQE) Err() error {
	if c.Res >= 0 {
		return nil
	}
	return syscall.Errno(-c.Res)
}

// More reports that a multishot operation goes on; without it, it must be
// issued again.
func (c CQE) More() bool { return c.Flags&giouring.CQEFMore != 0 }

// BufferID returns which buffer of its group the kernel filled.
func (c CQE) BufferID() (id uint16, ok bool) {
	return uint16(c.Flags >> giouring.CQEBufferShift), c.Flags&giouring.CQEFBuffer != 0
}

// Ring is one submission and completion queue pair.
type Ring struct {
	inner    *giouring.Ring
	fd       int
	features uint32
	deferred bool

	sqHead, sqTail, sqFlags *uint32
	sqes                    []giouring.SubmissionQueueEntry
	sqMask                  uint32
	sqNext                  uint32 // sequence number of the next entry to prepare

	cqHead, cqTail *uint32
	cqes           []giouring.CompletionQueueEvent
	cqMask         uint32

	supported    [256]bool        // by opcode
	timespecs    []kernelTimespec // one per submission entry
	waitTimespec kernelTimespec
	waitArgument waitArgument
	eventCount   [8]byte
}

// Set-up flags from best to plainest. SubmitAll: one bad entry doesn't stop
// those behind it. DeferTaskrun (6.1): completion work runs when this thread
// asks for it, not by interrupting it. CoopTaskrun (5.19): the same, weaker.
var setups = [...]uint32{
	giouring.SetupClamp | giouring.SetupSubmitAll | giouring.SetupSingleIssuer | giouring.SetupDeferTaskrun | giouring.SetupTaskrunFlag,
	giouring.SetupClamp | giouring.SetupSubmitAll | giouring.SetupCoopTaskrun | giouring.SetupTaskrunFlag,
	giouring.SetupClamp,
}

const featuresNeeded = giouring.FeatSingleMMap | giouring.FeatNoDrop | giouring.FeatSubmitStable | giouring.FeatExtArg

// New makes a ring with room for entries submissions (rounded up to a power of
// two, at most 32,768) and twice as many completions. The calling goroutine must
// be locked to its thread. A kernel without io_uring gives an UnavailableError.
func New(entries int) (*Ring, error) {
	var lastErrno syscall.Errno
	for _, flags := range setups {
		r := &Ring{inner: giouring.NewRing(), deferred: flags&giouring.SetupDeferTaskrun != 0}
		err := r.inner.QueueInit(uint32(entries), flags)
		if err == nil {
			return r.start()
		}
		if !errors.As(err, &lastErrno) {
			return nil, fmt.Errorf("uring: setting up a ring: %w", err)
		}
		if lastErrno != syscall.EINVAL {
			break
		}
	}
	return nil, explain(lastErrno)
}

func (r *Ring) start() (*Ring, error) {
	r.attach()
	if r.features&featuresNeeded != featuresNeeded {
		r.Close()
		return nil, explain(syscall.EINVAL)
	}
	var probe giouring.Probe
	if _, err := r.inner.RegisterProbe(&probe, len(probe.Ops)); err != nil {
		r.Close()
		return nil, fmt.Errorf("uring: asking the kernel for its operations: %w", err)
	}
	for _, op := range probe.Ops[:probe.OpsLen] {
		r.supported[op.Op] = op.Flags&1 != 0 // IO_URING_OP_SUPPORTED
	}
	return r, nil
}

// Close unmaps the queues. Operations still in flight are cancelled by the
// kernel some time later, so memory they name must outlive that: let them finish
// first.
func (r *Ring) Close() {
	if r.inner == nil {
		return
	}
	inner := r.inner
	r.inner, r.sqes, r.cqes = nil, nil, nil
	r.sqHead, r.sqTail, r.sqFlags, r.cqHead, r.cqTail = nil, nil, nil, nil, nil
	r.fd = -1
	inner.QueueExit()
}

// Fd is the ring's descriptor: the target of another ring's Message.
func (r *Ring) Fd() int { return r.fd }

// Entries is the size of the submission queue.
func (r *Ring) Entries() int { return len(r.sqes) }

// Deferred reports whether the ring runs with single issuer and deferred task
// work, the mode with the fewest interruptions.
func (r *Ring) Deferred() bool { return r.deferred }

// Queued is the number of operations prepared and not yet taken by the kernel.
func (r *Ring) Queued() int { return int(r.sqNext - atomic.LoadUint32(r.sqHead)) }

// Ready is the number of completions that ForEachCQE would visit.
func (r *Ring) Ready() int { return int(atomic.LoadUint32(r.cqTail) - *r.cqHead) }

// kernelHasWork reports completions that only an enter with GetEvents delivers:
// those that overflowed, and deferred work.
func (r *Ring) kernelHasWork() bool {
	return atomic.LoadUint32(r.sqFlags)&(giouring.SQCQOverflow|giouring.SQTaskrun) != 0
}

// Submit hands prepared operations to the kernel and collects deferred
// completions, without ever sleeping. When the kernel takes no more for now, the
// rest stays Queued and the error is nil.
func (r *Ring) Submit() error {
	for {
		submit := r.readySQEs()
		var flags uint32
		if r.deferred || r.kernelHasWork() {
			flags = giouring.EnterGetEvents
		}
		if submit == 0 && !r.kernelHasWork() {
			return nil
		}
		taken, errno := r.enter(submit, flags)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN || errno == syscall.EBUSY:
			return nil
		case errno != 0:
			return enterError(errno)
		case taken == submit || taken == 0:
			return nil
		}
	}
}

// busyPause is how long SubmitAndWait waits for the kernel to find memory.
const busyPause = time.Millisecond

// SubmitAndWait is Submit, then sleeps until at least wait completions are
// ready, or timeout has passed (negative: no limit). It may return early, with
// fewer or no completions. wait 0 does not sleep, but tells the Go scheduler that
// the call may take long, as Submit doesn't.
func (r *Ring) SubmitAndWait(wait int, timeout time.Duration) error {
	for {
		submit := r.readySQEs()
		taken, errno := r.enterBlocking(submit, uint32(wait), giouring.EnterGetEvents, timeout)
		switch errno {
		case 0:
			if taken == submit || taken == 0 {
				return nil
			}
			// The kernel stopped behind a bad entry (before 5.18): go on.
		case syscall.EINTR:
			if timeout >= 0 {
				return nil
			}
		case syscall.ETIME:
			return nil
		case syscall.EAGAIN, syscall.EBUSY:
			if r.Ready() == 0 {
				_, _ = r.enterBlocking(0, 1, giouring.EnterGetEvents, busyPause)
			}
			return nil
		default:
			return enterError(errno)
		}
	}
}

func enterError(errno syscall.Errno) error {
	if errno == syscall.EEXIST {
		return fmt.Errorf("uring: io_uring_enter: %w: called from another thread than the one that made the ring", errno)
	}
	return fmt.Errorf("uring: io_uring_enter: %w", errno)
}

// ForEachCQE visits the completions that are ready, in order, and returns how
// many. visit may prepare and submit operations; what completes meanwhile is
// visited too. Pass a func value made once: a closure made per call allocates.
func (r *Ring) ForEachCQE(visit func(CQE)) int {
	visited := 0
	for {
		head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
		if head == tail {
			if atomic.LoadUint32(r.sqFlags)&giouring.SQCQOverflow == 0 {
				return visited
			}
			// Room now: let the kernel deliver what it kept back.
			if _, errno := r.enter(0, giouring.EnterGetEvents); errno != 0 && errno != syscall.EINTR {
				return visited
			}
			if r.Ready() == 0 {
				return visited
			}
			continue
		}
		for ; head != tail; head++ {
			event := &r.cqes[head&r.cqMask]
			visit(CQE{event.UserData, event.Res, event.Flags})
			visited++
		}
		atomic.StoreUint32(r.cqHead, head)
	}
}
