//go:build uring && linux

package loop

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/uring"
)

const (
	// ringEntries is the size of the submission queue; the completion queue has
	// twice as many. More is allowed, and costs extra system calls.
	ringEntries = 512
	// Received bytes land in a group of buffers that all connections share.
	recvGroup       = 1
	recvBuffers     = 16
	recvBufferBytes = 64 * arena.KiB
	// crowdMin is how many connections must have spoken in one dispatch for
	// writes to be queued rather than sent at once: then one system call sends
	// them all (measured with 256 small echoes: a tenth less work for the loop).
	crowdMin = 8
	// recvTrimInterval is how often a loop that has little to do gives the pages
	// of the receive buffers back to the kernel.
	recvTrimInterval = 2 * time.Second
	// drainTimeout bounds the wait for the operations of an ending loop, which
	// have all been cancelled.
	drainTimeout = 5 * time.Second
)

// ring is the io_uring backend.
//
//   - Input: one multishot receive per connection into the shared buffers; a
//     buffer is lent to Input and given back to the kernel at the end of the
//     dispatch. Pausing cancels the receive; what it had received already is
//     kept (ring_peer.go). A receive that found no buffer is armed again.
//   - Output: a non-blocking send(2), which is all that most writes need, then a
//     Send operation for the rest; while many connections are active, Send
//     operations only.
//   - Accepting: a poll operation, then accept4(2) as with epoll. A multishot
//     accept would bring neither the peer's address nor a bound on how much is
//     accepted in one turn, and gives wrong descriptors on Linux 6.6 to 6.8.
//   - Waking: a read of an eventfd is always outstanding.
//
// Every operation belongs to a ringPeer, which lives until the last completion
// of its operations; only then is its descriptor closed (invariant 7).
type ring struct {
	loop    *Loop
	ring    *uring.Ring
	group   *uring.BufferGroup
	memory  []byte // of group; mapped here, so that the pool counts only what is lent out
	eventFD int    // blocking: see uring.Ring.ReadEvent
	waiting bool   // the read of eventFD is outstanding
	ending  bool
	visit   func(uring.CQE) // r.complete, bound once

	peers    []*ringPeer // by index; nil: free
	free     []uint32    // indexes
	lives    uint32      // peers ever made
	inFlight int         // operations whose last completion is due
	speakers int         // connections with input in this dispatch
	spoke    int         // in the one before
	changed  []*ringPeer // whose wish to read has changed
	due      []*ringPeer // with input that was kept, and can be delivered now

	dirty        bool // pages of memory are in use
	trimmed      time.Time
	sinceTrimmed uint64 // stats.BytesRead then
}

func newUring(l *Loop) (backend, error) {
	inner, err := uring.New(ringEntries)
	if err != nil {
		return nil, fmt.Errorf("loop: %w", err)
	}
	r := &ring{loop: l, ring: inner, eventFD: -1, trimmed: l.now}
	r.visit = r.complete
	r.memory, err = unix.Mmap(-1, 0, recvBuffers*recvBufferBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		r.close()
		return nil, fmt.Errorf("loop: mapping receive buffers: %w", err)
	}
	// One huge page would make an idle loop's buffers resident at the first byte.
	_ = unix.Madvise(r.memory, unix.MADV_NOHUGEPAGE)
	if r.group, err = inner.RegisterBuffers(recvGroup, r.memory, recvBufferBytes); err != nil {
		r.close()
		return nil, explainRing("no buffer rings (they need Linux 5.19)", err)
	}
	if err := r.tryReceive(); err != nil {
		r.close()
		return nil, explainRing("no multishot receive (it needs Linux 6.0)", err)
	}
	if r.eventFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		r.close()
		return nil, fmt.Errorf("loop: eventfd: %w", err)
	}
	return r, nil
}

// explainRing tells a kernel that lacks something from a fault.
func explainRing(lacks string, err error) error {
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("loop: %w: this kernel has %s: %w", errors.ErrUnsupported, lacks, err)
	}
	return fmt.Errorf("loop: %w", err)
}

// tryReceive receives one byte and the end of a stream by a multishot receive.
func (r *ring) tryReceive() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	_, err = unix.Write(fds[1], []byte{1})
	unix.Close(fds[1])
	if err != nil {
		return err
	}
	if err := r.ring.RecvMultishot(fds[0], recvGroup, 0); err != nil {
		return err
	}
	var bytes int32
	ended := false
	for deadline := time.Now().Add(drainTimeout); !ended; {
		if err := r.ring.SubmitAndWait(1, time.Second); err != nil {
			return err
		}
		r.ring.ForEachCQE(func(c uring.CQE) {
			if id, lent := c.BufferID(); lent {
				r.group.Recycle(id)
			}
			ended = ended || !c.More()
			bytes += max(c.Res, 0)
			err = errors.Join(err, c.Err())
		})
		if !ended && time.Now().After(deadline) {
			return errors.New("a receive did not complete")
		}
	}
	r.group.Publish()
	if err == nil && bytes != 1 {
		err = fmt.Errorf("%d bytes received instead of one", bytes)
	}
	return err
}

func (r *ring) name() string { return "uring" }

func (r *ring) poll() (bool, error) {
	r.settle()
	if !r.waiting {
		// When the kernel takes nothing for now, the loop must not sleep.
		switch err := r.ring.ReadEvent(r.eventFD, wakeUserData); {
		case err == nil:
			r.waiting = true
			r.inFlight++
		case !errors.Is(err, uring.ErrFull):
			return false, err
		}
	}
	err := r.ring.Submit()
	return r.ring.Ready() > 0 || len(r.due) > 0 || !r.waiting, err
}

func (r *ring) sleep(timeout time.Duration) error {
	if r.dirty {
		r.trim()
		if r.dirty && (timeout < 0 || timeout > recvTrimInterval) {
			timeout = recvTrimInterval
		}
	}
	return r.ring.SubmitAndWait(1, timeout)
}

// trim gives the receive buffers' pages back when less went through them lately
// than they hold. They are all the kernel's between two dispatches, and it puts
// nothing into them but what comes after this. The clock is the last turn's:
// good enough, as a dirty loop sleeps no longer than the interval.
func (r *ring) trim() {
	if r.loop.now.Sub(r.trimmed) < recvTrimInterval {
		return
	}
	total := r.loop.stats.BytesRead
	if total-r.sinceTrimmed < recvBuffers*recvBufferBytes {
		r.dirty = unix.Madvise(r.memory, unix.MADV_DONTNEED) != nil
	}
	r.trimmed, r.sinceTrimmed = r.loop.now, total
}

func (r *ring) dispatch() {
	r.spoke, r.speakers = r.speakers, 0
	if len(r.due) > 0 {
		r.deliverDue()
	}
	r.ring.ForEachCQE(r.visit)
	r.group.Publish()
}

// complete handles one completion.
func (r *ring) complete(c uring.CQE) {
	if c.UserData == wakeUserData {
		r.waiting = false
		r.inFlight--
		r.loop.stats.Wakeups++
		return
	}
	operation, p := r.peerOf(c.UserData)
	if p == nil {
		panic("loop: a completion of an operation that nobody waits for") // invariant 7
	}
	switch operation {
	case opReceive:
		r.receiveDone(p, c)
	case opSend:
		r.sendDone(p, c)
	case opPoll:
		r.pollDone(p)
	case opCancelReceive:
		r.cancelDone(p)
	case opCancel:
		if c.Res == -int32(unix.EALREADY) { // the operation is at work, and goes on
			r.hangUp(p)
		}
	}
	if !c.More() {
		p.inFlight--
		r.inFlight--
	}
	r.retire(p)
}

func (r *ring) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(r.eventFD, one[:])
}

func (r *ring) listen(ln *Listener) error {
	p := r.newPeer(ln.fd)
	p.listener, ln.ring = ln, p
	if err := r.armPoll(p); err != nil {
		r.unlisten(ln, false)
		return err
	}
	return nil
}

func (r *ring) armPoll(p *ringPeer) error {
	if err := r.ring.PollAdd(p.fd, unix.POLLIN, false, p.userData(opPoll)); err != nil {
		return err
	}
	r.begin(p)
	p.receiving = true
	return nil
}

func (r *ring) pollDone(p *ringPeer) {
	p.receiving = false
	ln := p.listener
	if ln == nil || r.ending {
		return
	}
	ln.acceptReady()
	if p.listener != nil { // not suspended
		if err := r.armPoll(p); err != nil {
			ln.suspend(err)
		}
	}
}

func (r *ring) unlisten(ln *Listener, closing bool) {
	p := ln.ring
	if p == nil {
		if closing {
			unix.Close(ln.fd)
		}
		return
	}
	ln.ring, p.listener, p.gone = nil, nil, true
	if p.receiving {
		r.cancel(p, opPoll)
	}
	if !closing {
		p.fd = -1
	}
	r.retire(p)
}

// close ends what is still under way, so that the kernel lets go of the memory.
func (r *ring) close() {
	r.ending = true
	for _, p := range r.peers {
		if p != nil && p.listener != nil {
			r.unlisten(p.listener, false)
		}
	}
	if r.waiting {
		r.wake()
	}
	for deadline := time.Now().Add(drainTimeout); r.inFlight > 0 && time.Now().Before(deadline); {
		if err := r.ring.SubmitAndWait(1, drainTimeout/10); err != nil {
			r.loop.log.Error("an ending event loop cannot wait for its operations", "loop", r.loop.id, "err", err)
			break
		}
		r.ring.ForEachCQE(r.visit)
	}
	if r.inFlight > 0 {
		// The kernel may still write into the buffers: they stay.
		r.loop.log.Error("operations of an ending event loop did not complete", "loop", r.loop.id, "operations", r.inFlight)
		return
	}
	if r.group != nil {
		if err := r.group.Unregister(); err != nil {
			r.loop.log.Error("ending event loop", "loop", r.loop.id, "err", err)
		}
	}
	r.ring.Close()
	if r.memory != nil {
		_ = unix.Munmap(r.memory)
	}
	if r.eventFD >= 0 {
		unix.Close(r.eventFD)
	}
}
