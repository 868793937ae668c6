package client

import (
	"encoding/binary"
	"errors"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// walker walks the frames a broker sends to one connection. It counts without
// decoding: basic.deliver, basic.get-ok, basic.ack and basic.nack are handled
// here, every other method is handed to the caller. Bodies are walked as they
// come, cut anywhere; method and header frames must be whole.
//
// A content is method frame, header frame, then body frames until the size
// announced in the header:
//
//	wantMethod --deliver/get-ok--> wantHeader --> wantBody --last body frame--> wantMethod
//
// Not safe for concurrent use.
type walker struct {
	frameMax uint32 // of whole frames; 0: unlimited

	state       walkerState
	inPayload   bool   // a body frame was cut; payloadLeft and its end octet follow
	payloadLeft uint32 // of that body frame
	bodySize    uint64 // of the current content
	bodyLeft    uint64 // still to come
	deliveryTag uint64 // of the current or last delivery
	redelivered bool

	delivered uint64 // contents completed since the start
	bodyBytes uint64 // announced in their headers

	// What to do with deliveries. acks collects encoded basic.ack frames, one
	// for every ackEvery deliveries; commits follow every commitEvery.
	AckEvery    uint64
	sinceAck    uint64
	CommitEvery uint64
	sinceCommit uint64
	acks        []byte
	acked       uint64
	Inspector   *inspector
	shape       deliveryShape

	// What to do with confirms; sent is kept up to date by the publisher.
	Confirms *confirmTracker
	Channels *channelConfirms // confirm scenario: many channels, nothing but confirms
	sent     uint64
	calls    *calls // caller: replies to calls and nothing else
	nacked   uint64
}

type walkerState uint8

const (
	wantMethod walkerState = iota
	wantHeader
	wantBody
)

// Sizes in bytes.
const (
	frameHeaderBytes   = amqp.FrameOverhead - 1 // the end octet comes last
	ackFrameBytes      = amqp.FrameOverhead + 4 + 8 + 1
	contentHeaderBytes = 2 + 2 + 8 + 2 // class, weight, body size, flags
)

// errTagUnknown is what a broker's mistake in confirming comes to.
var errTagUnknown = errors.New("perf: the broker confirmed a message that was not outstanding")

// walk consumes whole frames and parts of body frames from buf. It returns how
// many bytes it consumed; the rest is the start of a frame and must be given
// again, with more bytes behind it. When it meets a method for the caller it
// stops behind it and returns its payload, a view into buf; then walk must be
// called again with what follows. Errors are final: *amqp.Error with code 501
// for framing, 502 for cut arguments, 505 for frames out of order, or
// errTagUnknown.
func (w *walker) walk(buf []byte) (consumed int, method []byte, err error) {
	pos := 0
	if w.inPayload {
		if pos, err = w.resumePayload(buf); err != nil || w.inPayload {
			return pos, nil, err
		}
	}
	methodAt, headerAt := -1, -1 // of the current delivery, if it began in buf
	for {
		if w.state == wantMethod && w.Inspector == nil {
			pos += w.walkRun(buf[pos:])
		}
		rest := buf[pos:]
		if len(rest) < frameHeaderBytes {
			return pos, nil, nil
		}
		size := binary.BigEndian.Uint32(rest[3:])
		if w.frameMax != 0 && size > w.frameMax-amqp.FrameOverhead {
			return pos, nil, amqp.Errorf(amqp.CodeFrameError, 0, "frame of %d bytes is above frame-max %d", size, w.frameMax)
		}
		end := frameHeaderBytes + int(size)
		if rest[0] == amqp.FrameBody {
			if err := w.checkBody(rest, uint64(size)); err != nil {
				return pos, nil, err
			}
			if len(rest) <= end {
				w.inPayload, w.payloadLeft = true, size
				n, err := w.resumePayload(rest[frameHeaderBytes:])
				return pos + frameHeaderBytes + n, nil, err
			}
			if rest[end] != amqp.FrameEnd {
				return pos, nil, frameEndError(rest[end])
			}
			w.takeBody(rest[frameHeaderBytes:end])
			if methodAt >= 0 && uint64(size) == w.bodySize && w.bodyLeft == 0 && size > 0 {
				w.shape.learn(buf[methodAt:pos+end+1], headerAt-methodAt, pos-methodAt)
			}
			pos += end + 1
			if w.bodyLeft == 0 {
				w.complete()
			}
			continue
		}
		if typ := rest[0]; typ != amqp.FrameMethod && typ != amqp.FrameHeader && typ != amqp.FrameHeartbeat {
			return pos, nil, amqp.Errorf(amqp.CodeFrameError, 0, "unknown frame type %d", typ)
		}
		if len(rest) <= end {
			return pos, nil, nil
		}
		if rest[end] != amqp.FrameEnd {
			return pos, nil, frameEndError(rest[end])
		}
		payload := rest[frameHeaderBytes:end]
		frameAt := pos
		pos += end + 1
		switch rest[0] {
		case amqp.FrameMethod:
			methodAt = frameAt
			forCaller, err := w.takeMethod(payload, binary.BigEndian.Uint16(rest[1:]))
			if err != nil {
				return pos, nil, err
			}
			if forCaller {
				return pos, payload, nil
			}
		case amqp.FrameHeader:
			headerAt = frameAt
			if err := w.takeHeader(payload, binary.BigEndian.Uint16(rest[1:])); err != nil {
				return pos, nil, err
			}
		}
	}
}

func frameEndError(got byte) error {
	return amqp.Errorf(amqp.CodeFrameError, 0, "frame ends with %#x", got)
}

func orderError(what string) error {
	return amqp.Errorf(amqp.CodeUnexpectedFrame, 0, "%s", what)
}

// takeMethod handles a method frame, or reports that it is for the caller.
func (w *walker) takeMethod(payload []byte, channel uint16) (forCaller bool, err error) {
	if len(payload) < 4 {
		return false, amqp.Errorf(amqp.CodeSyntaxError, 0, "method frame of %d bytes", len(payload))
	}
	id := binary.BigEndian.Uint32(payload)
	if channel == 0 {
		return true, nil
	}
	if w.calls != nil {
		return w.calls.take(channel, id)
	}
	if w.Channels != nil {
		if id != amqp.BasicAckID && id != amqp.BasicNackID {
			return true, nil
		}
		return false, w.Channels.take(channel, payload, id)
	}
	if channel != session.ClientChannel || w.state != wantMethod {
		return false, orderError("method on an unknown channel or within a content")
	}
	var tagAt int
	switch id {
	case amqp.BasicDeliverID:
		tagAt = 5
		if len(payload) > 4 {
			tagAt += int(payload[4])
		}
	case amqp.BasicGetOkID:
		tagAt = 4
	case amqp.BasicAckID, amqp.BasicNackID:
		if w.Confirms == nil {
			return true, nil
		}
		return false, w.takeConfirm(payload, id)
	default:
		return true, nil
	}
	if len(payload) < tagAt+9 {
		return false, amqp.Errorf(amqp.CodeSyntaxError, id, "delivery cut short")
	}
	w.deliveryTag = binary.BigEndian.Uint64(payload[tagAt:])
	w.redelivered = payload[tagAt+8] != 0
	w.state = wantHeader
	return false, nil
}

func (w *walker) takeConfirm(payload []byte, id uint32) error {
	if len(payload) < 13 {
		return amqp.Errorf(amqp.CodeSyntaxError, id, "confirm cut short")
	}
	count, ok := w.Confirms.settle(binary.BigEndian.Uint64(payload[4:]), payload[12]&1 != 0, w.sent)
	if !ok {
		return errTagUnknown
	}
	if id == amqp.BasicNackID {
		w.nacked += count
	}
	return nil
}

func (w *walker) takeHeader(payload []byte, channel uint16) error {
	if w.state != wantHeader || channel != session.ClientChannel {
		return orderError("content header without its method")
	}
	if len(payload) < contentHeaderBytes {
		return amqp.Errorf(amqp.CodeSyntaxError, 0, "content header of %d bytes", len(payload))
	}
	w.bodySize = binary.BigEndian.Uint64(payload[4:])
	w.bodyLeft = w.bodySize
	w.bodyBytes += w.bodySize
	w.state = wantBody
	if w.Inspector != nil {
		w.Inspector.start(w.bodySize)
	}
	if w.bodySize == 0 {
		w.complete()
	}
	return nil
}

// checkBody tells whether a body frame of that size may come now. frame starts
// with its header.
func (w *walker) checkBody(frame []byte, size uint64) error {
	switch {
	case w.state != wantBody || binary.BigEndian.Uint16(frame[1:]) != session.ClientChannel:
		return orderError("body frame without a content header")
	case size > w.bodyLeft:
		return orderError("body longer than its header announced")
	}
	return nil
}

// resumePayload consumes what buf has of a cut body frame.
func (w *walker) resumePayload(buf []byte) (consumed int, err error) {
	n := min(len(buf), int(w.payloadLeft))
	w.takeBody(buf[:n])
	w.payloadLeft -= uint32(n)
	if n == len(buf) {
		return n, nil
	}
	if buf[n] != amqp.FrameEnd {
		return n, frameEndError(buf[n])
	}
	w.inPayload = false
	if w.bodyLeft == 0 {
		w.complete()
	}
	return n + 1, nil
}

func (w *walker) takeBody(part []byte) {
	if w.Inspector != nil {
		w.Inspector.chunk(w.bodySize-w.bodyLeft, part)
	}
	w.bodyLeft -= uint64(len(part))
}

// complete ends a delivery: count, inspect, acknowledge.
func (w *walker) complete() {
	w.state = wantMethod
	w.delivered++
	if w.Inspector != nil {
		w.Inspector.finish(w.redelivered)
	}
	if w.AckEvery == 0 {
		return
	}
	if w.sinceAck++; w.sinceAck < w.AckEvery {
		return
	}
	w.acks = appendAck(w.acks, w.deliveryTag)
	w.acked += w.sinceAck
	w.sinceCommit += w.sinceAck
	w.sinceAck = 0
	if w.CommitEvery != 0 && w.sinceCommit >= w.CommitEvery {
		w.acks = append(w.acks, commitFrame...)
		w.sinceCommit = 0
	}
}

// commitFrame is an encoded tx.commit.
var commitFrame = amqp.AppendMethodFrame(nil, session.ClientChannel, &amqp.TxCommit{})

// ackTemplate is an encoded basic.ack(multiple) with tag 0.
var ackTemplate = amqp.AppendMethodFrame(nil, session.ClientChannel, &amqp.BasicAck{Multiple: true})

func appendAck(dst []byte, deliveryTag uint64) []byte {
	dst = append(dst, ackTemplate...)
	binary.BigEndian.PutUint64(dst[len(dst)-10:], deliveryTag)
	return dst
}
