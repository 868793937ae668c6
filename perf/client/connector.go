package client

import (
	"fmt"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"golang.org/x/sys/unix"
)

// Connector opens a connection, goes through its steps and closes it, again and
// again. Each step waits for the reply to the one before, as a client library
// does. A life counts with its last reply; its latency runs from the connect.
type Connector struct {
	socket
	loop     *Loop
	endpoint session.Endpoint
	steps    []session.Step
	step     int // the one to be taken next
	begunAt  int64

	quota      uint64 // connections in total
	done       uint64
	number     int // of the current connection, for its source address
	isFinished bool
}

// numbersMax bounds the numbers of connections, which spread them over source
// addresses, so that one does not run out of ports while connections linger in
// TIME_WAIT.
const numbersMax = 8 * session.PortsPerSource

// AddConnector gives a loop that is not running yet connector number index,
// which makes quota connections.
func AddConnector(l *Loop, endpoint session.Endpoint, steps []session.Step, index int, quota uint64) error {
	l.recorder()
	c := &Connector{loop: l, endpoint: endpoint, steps: steps, quota: quota, number: index * session.PortsPerSource % numbersMax}
	c.fd = -1
	return l.Add(c)
}

func (c *Connector) work(now int64) (again bool, err error) {
	switch {
	case c.fd < 0:
		if c.closing {
			c.closed = true
			return false, nil
		}
		if c.done >= c.quota {
			if !c.isFinished {
				c.isFinished = true
				c.loop.owner.ClientFinished()
			}
			return false, nil
		}
		return false, c.connect(now)
	case c.step == 0:
		if !c.writable && !c.hungUp {
			return false, nil
		}
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return false, fmt.Errorf("can't connect any more: %w", unix.Errno(code))
		}
		c.take()
	}
	if err := c.flush(); err != nil {
		return false, err
	}
	if !c.readable {
		return false, nil
	}
	if err := c.read(now); err != nil {
		return false, err
	}
	return c.fd < 0 || c.readable || c.writable && len(c.Out) > 0, nil
}

// connect starts the next connection; its socket becomes writable when it is
// there.
func (c *Connector) connect(now int64) error {
	fd, err := c.endpoint.StartConnect(c.number)
	if err == unix.EADDRNOTAVAIL {
		return fmt.Errorf("no local port is free: too many connections are open or were closed a moment ago: %w", err)
	}
	if err != nil {
		return fmt.Errorf("can't connect: %w", err)
	}
	c.number = (c.number + 1) % numbersMax
	c.fd, c.step, c.begunAt = fd, 0, now
	c.readable, c.writable, c.hungUp = false, false, false
	c.carry, c.Out, c.outPos = c.carry[:0], c.Out[:0], 0
	return c.loop.watch(&c.socket)
}

// take takes the next step.
func (c *Connector) take() {
	c.Out = append(c.Out, c.steps[c.step].Send...)
	c.step++
}

// read reads once and takes the steps that the replies allow.
func (c *Connector) read(now int64) error {
	buffer := c.loop.buffer
	have := copy(buffer, c.carry)
	n, errno := readNow(c.fd, buffer[have:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		c.readable = errno == unix.EINTR
		return nil
	case errno != 0:
		return session.SocketError(errno)
	case n == 0:
		return session.ErrDisconnected
	case n < len(buffer)-have && !c.hungUp:
		c.readable = false
	}
	c.loop.BytesIn.Add(uint64(n))
	data := buffer[:have+n]
	for {
		frame, size, err := amqp.ParseFrame(data, 0)
		if err != nil {
			return fmt.Errorf("the broker's answer is not AMQP 0-9-1: %w", err)
		}
		if size == 0 {
			c.carry = append(c.carry[:0], data...)
			return c.flush()
		}
		data = data[size:]
		if frame.Type != amqp.FrameMethod {
			continue
		}
		if ended, err := c.reply(frame.Payload, now); ended || err != nil {
			return err
		}
	}
}

// reply handles a method; ended is true when it was the last one.
func (c *Connector) reply(payload []byte, now int64) (ended bool, err error) {
	id, arguments, err := amqp.SplitMethod(payload)
	if err != nil {
		return false, err
	}
	if want := c.steps[c.step-1].Reply; id != want {
		if err := session.ClosedBy(id, arguments); err != nil {
			return false, err
		}
		return false, fmt.Errorf("perf: the broker sent %s where %s was due", amqp.MethodName(id), amqp.MethodName(want))
	}
	if c.step < len(c.steps) {
		c.take()
		return false, nil
	}
	err = unix.Close(c.fd)
	c.fd = -1
	c.done++
	c.loop.Latency.begin()
	c.loop.Latency.recordMany(c.begunAt, 1)
	c.loop.Latency.end()
	c.loop.addOperations(1, now)
	return true, err
}

// startClosing lets the connection of the moment come to its end.
func (c *Connector) startClosing() { c.closing = true }
