package amqp

import (
	"encoding/binary"
	"math"
)

// Frame types and the octet that ends every frame.
const (
	FrameMethod    = 1
	FrameHeader    = 2
	FrameBody      = 3
	FrameHeartbeat = 8
	FrameEnd       = 0xCE
)

// ProtocolHeader is what a client sends first, and what a server answers when
// it doesn't speak the version asked for (specification 4.2.2). Read-only.
var ProtocolHeader = []byte("AMQP\x00\x00\x09\x01")

// HeartbeatFrame is an encoded heartbeat; heartbeats go on channel 0. Read-only.
var HeartbeatFrame = []byte{FrameHeartbeat, 0, 0, 0, 0, 0, 0, FrameEnd}

// Frame is one frame; Payload is a view into the buffer it was parsed from.
type Frame struct {
	Type    uint8
	Channel uint16
	Payload []byte
}

// frameTypes is the set of valid frame types, one bit each.
const frameTypes = 1<<FrameMethod | 1<<FrameHeader | 1<<FrameBody | 1<<FrameHeartbeat

// ParseFrameHeader decodes the 7-byte frame header at the start of buf: type,
// channel and payload size in bytes. ok is false when buf holds fewer than 7
// bytes. frameMax bounds the whole frame, its 8 bytes of overhead included; 0
// is no bound. Errors are 501: unknown type, size over frameMax.
func ParseFrameHeader(buf []byte, frameMax uint32) (typ uint8, channel uint16, size uint32, ok bool, err error) {
	if len(buf) < frameHeaderSize {
		return 0, 0, 0, false, nil
	}
	typ = buf[0]
	channel = binary.BigEndian.Uint16(buf[1:])
	size = binary.BigEndian.Uint32(buf[3:])
	if frameTypes>>typ&1 == 0 || frameMax != 0 && uint64(size)+FrameOverhead > uint64(frameMax) {
		return 0, 0, 0, false, frameHeaderError(typ, size, frameMax)
	}
	return typ, channel, size, true, nil
}

// ParseFrame reads one frame from the start of buf. n is the number of bytes
// consumed, 0 when buf doesn't hold the whole frame yet. Errors are those of
// ParseFrameHeader, seen as soon as 7 bytes are there, and 501 for a wrong end octet.
func ParseFrame(buf []byte, frameMax uint32) (f Frame, n int, err error) {
	if len(buf) < frameHeaderSize {
		return Frame{}, 0, nil
	}
	typ := buf[0]
	size := binary.BigEndian.Uint32(buf[3:])
	total := uint64(size) + FrameOverhead
	if frameTypes>>typ&1 == 0 || frameMax != 0 && total > uint64(frameMax) {
		return Frame{}, 0, frameHeaderError(typ, size, frameMax)
	}
	if uint64(len(buf)) < total {
		return Frame{}, 0, nil
	}
	n = int(total)
	if buf[n-1] != FrameEnd {
		return Frame{}, 0, frameEndError(buf[n-1])
	}
	return Frame{Type: typ, Channel: binary.BigEndian.Uint16(buf[1:]), Payload: buf[frameHeaderSize : n-1 : n-1]}, n, nil
}

func frameHeaderError(typ uint8, size, frameMax uint32) error {
	if frameTypes>>typ&1 == 0 {
		return Errorf(CodeFrameError, 0, "unknown frame type %d", typ)
	}
	return Errorf(CodeFrameError, 0, "frame of %d payload bytes is over the negotiated frame max of %d", size, frameMax)
}

func frameEndError(got byte) error {
	return Errorf(CodeFrameError, 0, "frame ends with octet %#02x instead of 0xce", got)
}

// appendFrameHeader appends the 7 bytes that start a frame.
func appendFrameHeader(dst []byte, typ uint8, channel uint16, size int) []byte {
	return append(dst, typ, byte(channel>>8), byte(channel), byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
}

// AppendMethodFrame appends m as one whole frame. The caller keeps the
// arguments within the peer's frame max: a method can't be split.
func AppendMethodFrame(dst []byte, channel uint16, m Method) []byte {
	start := len(dst)
	id := m.ID()
	dst = append(dst, FrameMethod, byte(channel>>8), byte(channel), 0, 0, 0, 0,
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	dst = m.AppendArgs(dst)
	binary.BigEndian.PutUint32(dst[start+3:], uint32(len(dst)-start-frameHeaderSize))
	return append(dst, FrameEnd)
}

// AppendAckFrame is AppendMethodFrame for a basic.ack, which is sent often enough
// that making a Method of each would be most of a broker's garbage.
func AppendAckFrame(dst []byte, channel uint16, deliveryTag uint64, multiple bool) []byte {
	dst = append(dst, FrameMethod, byte(channel>>8), byte(channel), 0, 0, 0, 4+8+1,
		byte(BasicAckID>>24), byte(BasicAckID>>16&0xFF), byte(BasicAckID>>8&0xFF), byte(BasicAckID&0xFF))
	dst = binary.BigEndian.AppendUint64(dst, deliveryTag)
	if multiple {
		return append(dst, 1, FrameEnd)
	}
	return append(dst, 0, FrameEnd)
}

// AppendHeaderFrame appends a content header of class basic as one whole
// frame. rawProperties is flags and property list as in ContentHeader.Properties;
// empty means no properties.
func AppendHeaderFrame(dst []byte, channel uint16, bodySize uint64, rawProperties []byte) []byte {
	size := contentHeaderSize - 2 + max(len(rawProperties), 2)
	dst = appendFrameHeader(dst, FrameHeader, channel, size)
	dst = append(dst, byte(ClassBasic>>8), byte(ClassBasic&0xFF), 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, bodySize)
	if len(rawProperties) < 2 {
		dst = append(dst, 0, 0)
	} else {
		dst = append(dst, rawProperties...)
	}
	return append(dst, FrameEnd)
}

// AppendBodyFrames appends body in frames of at most frameMax bytes each,
// overhead included; 0 = one frame whatever its size. A frameMax below
// FrameMinSize counts as FrameMinSize, which every peer must accept. An empty
// body has no frame.
func AppendBodyFrames(dst []byte, channel uint16, body []byte, frameMax uint32) []byte {
	limit := bodyFrameLimit(len(body), frameMax)
	for len(body) > 0 {
		size := min(len(body), limit)
		dst = appendFrameHeader(dst, FrameBody, channel, size)
		dst = append(dst, body[:size]...)
		dst = append(dst, FrameEnd)
		body = body[size:]
	}
	return dst
}

// bodyFrameLimit is how many bytes of a body of bodyLen bytes go into its first frame.
func bodyFrameLimit(bodyLen int, frameMax uint32) int {
	limit := uint64(math.MaxUint32) // what the size field can say
	if frameMax != 0 {
		limit = uint64(max(frameMax, FrameMinSize)) - FrameOverhead
	}
	return int(min(uint64(bodyLen), limit))
}
