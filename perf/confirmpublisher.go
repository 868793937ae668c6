package perf

import (
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// confirmPublisher is one connection of the confirm scenario: it publishes on
// all its channels, each as far as its window allows.
//
// A message counts as sent when it is put into the buffer that is written
// next, and its latency runs from there until the read that brought its
// confirm: what the socket could not take at once is the broker's to answer
// for.
type confirmPublisher struct {
	socket
	loop     *loop
	channels *channelConfirms
	buffer   []byte // whole publishes
	pos      int    // next byte of it to be written

	seenAcked, seenNacked uint64
}

func (p *confirmPublisher) work(int64) (again bool, err error) {
	if p.closing {
		return p.farewell(p.loop.buffer), nil
	}
	if p.readable {
		if err := p.takeConfirms(); err != nil {
			return false, err
		}
	}
	if p.pos == len(p.buffer) && p.channels.size > 0 && !p.blocked.Load() {
		p.fill()
	}
	if p.writable && p.pos < len(p.buffer) {
		n, err := p.send(p.buffer[p.pos:])
		if err != nil {
			return false, err
		}
		p.pos += n
	}
	more := p.pos < len(p.buffer) || p.channels.size > 0 && !p.blocked.Load()
	return p.readable || p.writable && more, nil
}

func (p *confirmPublisher) fill() {
	now := monotonicNow()
	filled, messages := p.channels.fill(p.buffer[:0], now)
	p.buffer, p.pos = filled, 0
	p.loop.addPublished(messages, len(filled), now)
}

func (p *confirmPublisher) takeConfirms() error {
	p.loop.latency.begin()
	n, err := p.receive(p.loop.buffer, loopReadBytes)
	p.loop.latency.end()
	p.loop.bytesIn.Add(uint64(n))
	p.loop.confirmed.Add(p.channels.acked - p.seenAcked)
	p.loop.nacked.Add(p.channels.nacked - p.seenNacked)
	p.seenAcked, p.seenNacked = p.channels.acked, p.channels.nacked
	return err
}

func (p *confirmPublisher) startClosing() { p.startFarewell(p.buffer[p.pos:]) }

// openConfirmPublisher connects and opens the channels; queues names the queue
// that each of them publishes to.
func openConfirmPublisher(run *throughputRun, l *loop, queues []string, window int) (*confirmPublisher, error) {
	s, err := dialSession(run.options.target)
	if err != nil {
		return nil, err
	}
	p, err := prepareConfirmPublisher(run, l, s, queues, window)
	if err != nil {
		s.close()
		return nil, err
	}
	return p, l.add(p)
}

func prepareConfirmPublisher(run *throughputRun, l *loop, s *session, queues []string, window int) (*confirmPublisher, error) {
	if len(queues) > int(s.channels) {
		return nil, usagef("the broker allows %d channels on a connection, %d are wanted: give more connections with -x", s.channels, len(queues))
	}
	// Channel 1 is open already.
	if err := s.callAll(len(queues)-1, func(i int) (uint16, amqp.Method) {
		return uint16(i + 2), &amqp.ChannelOpen{}
	}, &amqp.ChannelOpenOk{}); err != nil {
		return nil, err
	}
	if err := s.callAll(len(queues), func(i int) (uint16, amqp.Method) {
		return uint16(i + 1), &amqp.ConfirmSelect{}
	}, &amqp.ConfirmSelectOk{}); err != nil {
		return nil, err
	}
	channels := make([]confirmChannel, len(queues))
	largest := 0
	for i, queue := range queues {
		message := encodePublishOn(uint16(i+1), "", queue, run.properties, run.options.Size, s.frameMax).bytes
		channels[i] = newConfirmChannel(message, window)
		largest = max(largest, len(message))
	}
	p := &confirmPublisher{loop: l, buffer: make([]byte, 0, max(publisherBufferBytes, largest))}
	if l.latency == nil {
		l.latency = newLatencyRecorder(0)
	}
	p.channels = newChannelConfirms(channels, window, l.latency)
	p.walker.channels = p.channels
	return p, p.adopt(s)
}
