package amqp

import (
	"encoding/binary"
	"slices"
)

// DeliverTemplate is everything of a basic.deliver that repeats from message
// to message: the method frame with a hole for delivery tag and redelivered,
// the header frame with a hole for the body size, and the start of the body
// frame. Append copies it and fills the holes.
//
//	method frame: 01 ch ch size*4 00 3C 00 3C tag-len tag | delivery tag*8, redelivered | exchange, key, CE
//	header frame: 02 ch ch size*4 00 3C 00 00 | body size*8 | properties, CE
//	body frame:   03 ch ch | size*4
//
// The zero template is empty; Build it before use. It belongs to one goroutine.
type DeliverTemplate struct {
	buf         []byte // the frames above, up to the body frame's size field included
	tagPos      int    // position of the delivery tag in buf; redelivered follows it
	bodySizePos int    // position of the body size in buf
	channel     uint16
	hole        int // position in buf of the number that AppendNumbered fills in
}

// bodyFrameStart is the length of the body frame's header at the end of DeliverTemplate.buf.
const bodyFrameStart = frameHeaderSize

// Build fills the template. It reuses its buffer and allocates only to grow
// it. Short strings beyond ShortStringMax bytes are cut; rawProperties are
// flags and property list, empty for none.
func (t *DeliverTemplate) Build(channel uint16, consumerTag, exchange, routingKey, rawProperties []byte) {
	buf := append(t.buf[:0], FrameMethod, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	buf = binary.BigEndian.AppendUint32(buf, BasicDeliverID)
	buf = appendShortstr(buf, consumerTag)
	t.tagPos = len(buf)
	buf = append(buf, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	buf = appendShortstr(buf, exchange)
	buf = appendShortstr(buf, routingKey)
	binary.BigEndian.PutUint32(buf[3:], uint32(len(buf)-frameHeaderSize))
	buf = append(buf, FrameEnd)
	t.bodySizePos = len(buf) + frameHeaderSize + 4
	buf = AppendHeaderFrame(buf, channel, 0, rawProperties)
	t.buf = appendFrameHeader(buf, FrameBody, channel, 0)
	t.channel = channel
}

// Size returns the bytes that Append produces for a body of bodyLen bytes.
func (t *DeliverTemplate) Size(bodyLen int, frameMax uint32) int {
	size := len(t.buf) - bodyFrameStart + bodyLen
	if bodyLen == 0 {
		return size
	}
	limit := bodyFrameLimit(bodyLen, frameMax)
	return size + (bodyLen+limit-1)/limit*FrameOverhead
}

// Append appends the whole delivery: method, header and body frames of at most
// frameMax bytes (0 = one body frame; see AppendBodyFrames). dst grows when it
// must; with room for Size bytes nothing is allocated.
func (t *DeliverTemplate) Append(dst []byte, deliveryTag uint64, redelivered bool, body []byte, frameMax uint32) []byte {
	start := len(dst)
	total := len(t.buf) + len(body) + 1
	if len(body) == 0 || len(body) != bodyFrameLimit(len(body), frameMax) {
		return t.appendUncommon(dst, deliveryTag, redelivered, body, frameMax)
	}
	if cap(dst)-start < total {
		dst = slices.Grow(dst, total)
	}
	dst = dst[:start+total]
	out := dst[start:]
	n := copy(out, t.buf)
	t.stamp(out, deliveryTag, redelivered, len(body))
	binary.BigEndian.PutUint32(out[n-4:], uint32(len(body)))
	n += copy(out[n:], body)
	out[n] = FrameEnd
	return dst
}

// stamp fills the holes of method and header frame.
func (t *DeliverTemplate) stamp(out []byte, deliveryTag uint64, redelivered bool, bodyLen int) {
	hole := out[t.tagPos : t.tagPos+9]
	binary.BigEndian.PutUint64(hole, deliveryTag)
	hole[8] = bit(redelivered, 0)
	binary.BigEndian.PutUint64(out[t.bodySizePos:], uint64(bodyLen))
}

// appendUncommon is Append for bodies of no frame or of several.
func (t *DeliverTemplate) appendUncommon(dst []byte, deliveryTag uint64, redelivered bool, body []byte, frameMax uint32) []byte {
	dst = slices.Grow(dst, t.Size(len(body), frameMax))
	start := len(dst)
	dst = append(dst, t.buf[:len(t.buf)-bodyFrameStart]...)
	t.stamp(dst[start:], deliveryTag, redelivered, len(body))
	return AppendBodyFrames(dst, t.channel, body, frameMax)
}

// DigHole says that the eight bytes at pos of the raw properties are a number
// that differs from message to message: AppendNumbered fills it in.
func (t *DeliverTemplate) DigHole(pos int) { t.hole = t.bodySizePos + 8 + pos }

// AppendNumbered is Append for a template with a hole.
func (t *DeliverTemplate) AppendNumbered(dst []byte, deliveryTag uint64, body []byte, frameMax uint32, number uint64) []byte {
	start := len(dst)
	dst = t.Append(dst, deliveryTag, false, body, frameMax)
	binary.BigEndian.PutUint64(dst[start+t.hole:], number)
	return dst
}
