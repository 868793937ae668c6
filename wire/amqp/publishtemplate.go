package amqp

import (
	"bytes"
	"encoding/binary"
)

// PublishTemplate recognises a basic.publish whose method frame and header
// frame repeat those of an earlier one, body size aside, without parsing it.
// Publishers send runs of such messages, so this is the usual case.
//
//	method frame, header frame up to the body size | body size*8 | properties, CE, 03 ch ch | size*4, body, CE
//
// The zero template matches nothing. It belongs to one goroutine. It is small, and
// all that it knows is in one buffer: there may be thousands, used in turn.
type PublishTemplate struct {
	buf         []byte // both frames, then type and channel of the body frame; behind its end what is attached
	bodySizePos uint32 // position of the body size in buf
	frameBytes  uint32 // the larger of the two frames, 0 when nothing was learned
	lastWord    uint64 // the last 8 bytes of buf, those of the body size zeroed
	lastMask    uint64 // which bytes of lastWord count
}

// bodyFramePrefix is type and channel of the body frame, at the end of PublishTemplate.buf.
const bodyFramePrefix = 3

// bodySizeAt is where the body size is in a header frame.
const bodySizeAt = frameHeaderSize + 4

// Learn remembers a publish. Both frames are whole, end octets included, and
// have been accepted by the ordinary parse (ParseFrame, BasicPublish.Decode,
// DecodeContentHeader). It copies them into its own buffer, which it reuses.
// Frames that can't be a publish, or of different channels, leave the template empty.
func (t *PublishTemplate) Learn(methodFrame, headerFrame []byte) {
	t.KeepMethod(methodFrame)
	t.KeepHeader(headerFrame)
	t.LearnKept()
}

// KeepMethod forgets what was learned and copies a method frame, KeepHeader the
// header frame after it; then LearnKept is Learn of the two.
func (t *PublishTemplate) KeepMethod(methodFrame []byte) {
	t.frameBytes = 0
	t.buf = append(t.buf[:0], methodFrame...)
	t.bodySizePos = uint32(len(methodFrame) + bodySizeAt)
}

// KeepHeader is there for after KeepMethod.
func (t *PublishTemplate) KeepHeader(headerFrame []byte) {
	t.buf = append(t.buf[:t.headerPos()], headerFrame...)
}

// headerPos is where the header frame is, or belongs, in buf.
func (t *PublishTemplate) headerPos() int { return int(t.bodySizePos) - bodySizeAt }

// LearnKept is there for after KeepHeader.
func (t *PublishTemplate) LearnKept() {
	methodFrame, headerFrame := t.buf[:t.headerPos()], t.buf[t.headerPos():]
	if !wholeFrame(methodFrame, FrameMethod, methodHeaderSize) ||
		!wholeFrame(headerFrame, FrameHeader, contentHeaderSize) ||
		binary.BigEndian.Uint32(methodFrame[frameHeaderSize:]) != BasicPublishID ||
		binary.BigEndian.Uint16(headerFrame[frameHeaderSize:]) != ClassBasic ||
		methodFrame[1] != headerFrame[1] || methodFrame[2] != headerFrame[2] {
		return
	}
	t.frameBytes = uint32(max(len(methodFrame), len(headerFrame)))
	t.buf = append(t.buf, FrameBody, methodFrame[1], methodFrame[2])
	// What follows the body size is 6 bytes at least: flags, end octet, and the body frame's prefix.
	t.lastMask = ^uint64(0)
	if afterSize := len(t.buf) - int(t.bodySizePos) - 8; afterSize < 8 {
		t.lastMask <<= 8 * (8 - afterSize)
	}
	t.lastWord = binary.LittleEndian.Uint64(t.buf[len(t.buf)-8:]) & t.lastMask
}

// Attach keeps a copy of what the caller needs when there is a match, next to what
// is compared, until something else is kept or learned.
func (t *PublishTemplate) Attach(data []byte) {
	n := len(t.buf)
	t.buf = append(t.buf, data...)[:n]
}

// Attached returns the first n bytes of it.
func (t *PublishTemplate) Attached(n int) []byte {
	end := len(t.buf)
	return t.buf[end : end+n : end+n]
}

// wholeFrame tells whether frame is exactly one frame of the type with at least payloadMin bytes of payload.
func wholeFrame(frame []byte, typ uint8, payloadMin int) bool {
	return len(frame) >= payloadMin+FrameOverhead && frame[0] == typ && frame[len(frame)-1] == FrameEnd &&
		uint64(binary.BigEndian.Uint32(frame[3:])) == uint64(len(frame)-FrameOverhead)
}

// Reset forgets what was learned; the buffer is kept.
func (t *PublishTemplate) Reset() {
	t.frameBytes = 0
}

// Match tells whether buf starts with a complete publish equal to the learned
// one: method frame, header frame, then exactly one body frame of the declared
// size, or none when that is 0. It returns the body (a view) and the bytes
// consumed; n == 0 when it doesn't match, isn't complete, or has a frame over
// frameMax (whole frame; 0 = no bound), and then the caller parses as usual.
func (t *PublishTemplate) Match(buf []byte, frameMax uint32) (body []byte, n int) {
	known := t.buf
	sizePos := int(t.bodySizePos)
	headersEnd := len(known) - bodyFramePrefix
	if t.frameBytes == 0 || len(buf) < headersEnd || frameMax-1 < t.frameBytes-1 {
		return nil, 0
	}
	afterSize := sizePos + 8
	if !bytes.Equal(buf[:sizePos], known[:sizePos]) {
		return nil, 0
	}
	size := binary.BigEndian.Uint64(buf[sizePos:afterSize])
	if size == 0 {
		if !bytes.Equal(buf[afterSize:headersEnd], known[afterSize:headersEnd]) {
			return nil, 0
		}
		return buf[headersEnd:headersEnd:headersEnd], headersEnd
	}
	// headersEnd + 8 bytes of frame overhead + size must fit; size may be any 64-bit number.
	if len(buf) < headersEnd+FrameOverhead || size > uint64(len(buf)-headersEnd-FrameOverhead) ||
		uint64(frameMax-1) < size+FrameOverhead-1 {
		return nil, 0
	}
	// Usually few properties are set and the last 8 bytes are all that is left to compare.
	if binary.LittleEndian.Uint64(buf[len(known)-8:])&t.lastMask != t.lastWord ||
		len(known)-8 > afterSize && !bytes.Equal(buf[afterSize:len(known)-8], known[afterSize:len(known)-8]) {
		return nil, 0
	}
	bodyPos := headersEnd + frameHeaderSize
	bodyEnd := bodyPos + int(size)
	if buf[bodyEnd] != FrameEnd || uint64(binary.BigEndian.Uint32(buf[bodyPos-4:])) != size {
		return nil, 0
	}
	return buf[bodyPos:bodyEnd:bodyEnd], bodyEnd + 1
}
