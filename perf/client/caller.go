package client

import (
	"fmt"
	"math"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Operation is what a [Caller] does again and again: one or more calls, each a
// method that the broker answers with a method.
type Operation struct {
	// Append appends the frame of one call to dst. It must not allocate: the
	// number of the operation comes from the caller, names are built in place.
	Append func(dst []byte, channel uint16, number uint64, call int) []byte
	// Replies are the methods that answer the calls.
	Replies []uint32
	// OwnChannels gives every outstanding operation a channel of its own, from
	// 2 upwards. Otherwise all are on channel 1 and answered in order.
	OwnChannels bool
}

// callSlot is one outstanding operation.
type callSlot struct {
	sentAt         int64 // ns, its first call
	sent, answered uint8 // calls
	busy           bool
}

// Caller makes calls on one connection, window operations at a time.
//
// With a window of 1 it makes one call after the other, as a client library
// does. With a larger one the calls of an operation are sent together and
// operations are not waited for until the window is full. An operation is done
// with its last reply; its latency runs from the write of its first call to
// the read of that reply.
type Caller struct {
	socket
	calls
	loop  *Loop
	quota uint64 // operations in total

	buffer     []byte // whole calls
	pos        int    // next byte of it to be written
	seen       uint64 // operations counted
	isFinished bool   // reported as finished
}

// calls are the operations of a caller: which may start, and what the broker's
// replies mean. Belongs to a loop's thread.
type calls struct {
	operation Operation
	slots     []callSlot // number of operation % len: all but with own channels in order
	started   uint64
	finished  uint64
	latency   *latencyRecorder // take is called between its begin and end
}

// callerBufferBytes is how much a caller offers to the socket at once.
const callerBufferBytes = 64 << 10

// Unlimited is a quota that is never reached.
const Unlimited = math.MaxUint64

// AddCaller gives a loop that is not running yet a caller, which takes over the
// session and does quota operations. It closes the session if it fails.
func AddCaller(l *Loop, s *session.Session, operation Operation, window int, quota uint64) error {
	c := &Caller{
		calls: calls{operation: operation, slots: make([]callSlot, window), latency: l.recorder()},
		loop:  l, quota: quota, buffer: make([]byte, 0, callerBufferBytes),
	}
	c.Walker.calls = &c.calls
	if err := c.Adopt(s); err != nil {
		s.Close()
		return err
	}
	return l.Add(c)
}

func (c *Caller) work(now int64) (again bool, err error) {
	if c.closing {
		return c.farewell(c.loop.buffer), nil
	}
	if c.readable {
		if err := c.takeReplies(now); err != nil {
			return false, err
		}
	}
	if c.pos == len(c.buffer) {
		c.buffer, c.pos = c.fill(c.buffer[:0], c.quota, now), 0
	}
	if c.writable && c.pos < len(c.buffer) {
		n, err := c.send(c.buffer[c.pos:])
		if err != nil {
			return false, err
		}
		c.pos += n
	}
	if c.finished >= c.quota && !c.isFinished {
		c.isFinished = true
		c.loop.owner.ClientFinished()
	}
	more := c.pos < len(c.buffer) || c.mayStart(c.quota)
	return c.readable || c.writable && more, nil
}

// takeReplies reads once.
func (c *Caller) takeReplies(now int64) error {
	c.latency.begin()
	n, err := c.receive(c.loop.buffer, loopReadBytes)
	c.latency.end()
	c.loop.BytesIn.Add(uint64(n))
	c.loop.addOperations(c.finished-c.seen, now)
	c.seen = c.finished
	return err
}

// startClosing lets what was begun be ended: a queue that is to be declared and
// deleted must not stay behind.
func (c *Caller) startClosing() { c.startFarewell(c.appendRest(c.buffer[c.pos:])) }

// mayStart reports whether there is room for another operation.
func (c *calls) mayStart(quota uint64) bool {
	return c.started < quota && !c.slots[c.started%uint64(len(c.slots))].busy
}

// fill appends calls to buffer, as far as the window and its capacity allow.
func (c *calls) fill(buffer []byte, quota uint64, now int64) []byte {
	if len(c.slots) == 1 {
		return c.fillNext(buffer, quota, now)
	}
	longest := 0
	for c.mayStart(quota) && len(buffer)+longest <= cap(buffer) {
		before := len(buffer)
		slot := c.start(now)
		for int(slot.sent) < len(c.operation.Replies) {
			buffer = c.appendCall(buffer, slot, c.started-1)
		}
		longest = max(longest, len(buffer)-before)
	}
	return buffer
}

// fillNext appends the next call, if none is unanswered.
func (c *calls) fillNext(buffer []byte, quota uint64, now int64) []byte {
	slot := &c.slots[0]
	if !slot.busy {
		if c.started >= quota {
			return buffer
		}
		slot = c.start(now)
	}
	if slot.sent == slot.answered {
		buffer = c.appendCall(buffer, slot, c.started-1)
	}
	return buffer
}

func (c *calls) start(now int64) *callSlot {
	slot := &c.slots[c.started%uint64(len(c.slots))]
	*slot = callSlot{sentAt: now, busy: true}
	c.started++
	return slot
}

func (c *calls) appendCall(buffer []byte, slot *callSlot, number uint64) []byte {
	channel := uint16(session.ClientChannel)
	if c.operation.OwnChannels {
		channel = uint16(session.ClientChannel + 1 + number%uint64(len(c.slots)))
	}
	buffer = c.operation.Append(buffer, channel, number, int(slot.sent))
	slot.sent++
	return buffer
}

// appendRest appends the calls that complete an operation of a window of 1.
func (c *calls) appendRest(buffer []byte) []byte {
	if slot := &c.slots[0]; len(c.slots) == 1 && slot.busy {
		for int(slot.sent) < len(c.operation.Replies) {
			buffer = c.appendCall(buffer, slot, c.started-1)
		}
	}
	return buffer
}

// take handles a method on a channel other than 0, or reports that it is for
// the caller: the broker closes something.
func (c *calls) take(channel uint16, id uint32) (forCaller bool, err error) {
	if id == amqp.ChannelCloseID || id == amqp.BasicCancelID {
		return true, nil
	}
	index := c.finished % uint64(len(c.slots))
	if c.operation.OwnChannels {
		index = uint64(channel) - session.ClientChannel - 1
	} else if channel != session.ClientChannel {
		return false, orderError("method on an unknown channel")
	}
	if index >= uint64(len(c.slots)) {
		return false, orderError("method on an unknown channel")
	}
	slot := &c.slots[index]
	if !slot.busy || slot.answered >= slot.sent {
		return false, fmt.Errorf("perf: the broker sent %s, which answers nothing", amqp.MethodName(id))
	}
	if want := c.operation.Replies[slot.answered]; id != want {
		return false, fmt.Errorf("perf: the broker sent %s where %s was due", amqp.MethodName(id), amqp.MethodName(want))
	}
	if slot.answered++; int(slot.answered) == len(c.operation.Replies) {
		slot.busy = false
		c.finished++
		c.latency.recordMany(slot.sentAt, 1)
	}
	return false, nil
}
