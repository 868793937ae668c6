package client

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// deliveryShape is the layout of the last delivery that was seen whole, with
// one body frame. Deliveries of a run differ in tag, redelivered and body only,
// so a following one is recognised by a handful of loads, without looking at
// its frames one after the other:
//
//	0         type, channel, payload size, first byte of the class   (first)
//	8         rest of class and method, length of consumer tag       (second)
//	12+tag    delivery tag, redelivered
//	headerAt  type, channel, payload size, first byte of the class   (header)
//	+11       body size
//	bodyAt    type, channel, payload size                            (body)
//
// and the end octet before headerAt, bodyAt and end.
type deliveryShape struct {
	headerAt, bodyAt, end int // bytes from the start; end 0: nothing learnt
	first, header, body   uint64
	second                uint32
	bodySize              uint64
	tagAt                 int
}

// learn takes the layout of a delivery that the walker has accepted, unless
// another frame lies between its own.
func (s *deliveryShape) learn(delivery []byte, headerAt, bodyAt int) {
	frameEnd := func(at int) int { return at + amqp.FrameOverhead + int(binary.BigEndian.Uint32(delivery[at+3:])) }
	if frameEnd(0) != headerAt || frameEnd(headerAt) != bodyAt || frameEnd(bodyAt) != len(delivery) ||
		binary.BigEndian.Uint32(delivery[frameHeaderBytes:]) != amqp.BasicDeliverID {
		return
	}
	*s = deliveryShape{
		headerAt: headerAt, bodyAt: bodyAt, end: len(delivery),
		first:    binary.BigEndian.Uint64(delivery),
		second:   binary.BigEndian.Uint32(delivery[8:]),
		header:   binary.BigEndian.Uint64(delivery[headerAt:]),
		body:     binary.BigEndian.Uint64(delivery[bodyAt:]) >> 8,
		bodySize: binary.BigEndian.Uint64(delivery[headerAt+frameHeaderBytes+4:]),
		tagAt:    frameHeaderBytes + 5 + int(delivery[frameHeaderBytes+4]),
	}
}

// matches reports whether buf starts with a whole delivery of this shape.
func (s *deliveryShape) matches(buf []byte) bool {
	if s.end == 0 || len(buf) < s.end {
		return false
	}
	d := buf[:s.end]
	return binary.BigEndian.Uint64(d) == s.first &&
		binary.BigEndian.Uint32(d[8:]) == s.second &&
		binary.BigEndian.Uint64(d[s.headerAt:]) == s.header &&
		binary.BigEndian.Uint64(d[s.headerAt+frameHeaderBytes+4:]) == s.bodySize &&
		binary.BigEndian.Uint64(d[s.bodyAt:])>>8 == s.body &&
		d[s.headerAt-1] == amqp.FrameEnd && d[s.bodyAt-1] == amqp.FrameEnd && d[s.end-1] == amqp.FrameEnd
}

// walkRun consumes deliveries of the known shape from the start of buf.
func (w *walker) walkRun(buf []byte) (consumed int) {
	s := &w.shape
	for s.matches(buf[consumed:]) {
		delivery := buf[consumed:]
		w.deliveryTag = binary.BigEndian.Uint64(delivery[s.tagAt:])
		w.redelivered = delivery[s.tagAt+8] != 0
		w.bodyBytes += s.bodySize
		w.complete()
		consumed += s.end
	}
	return consumed
}
