package client

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// PublishEncoding is one publish of a publisher: method, header and body
// frames, all messages the same size.
type PublishEncoding struct {
	Bytes    []byte        // one whole publish
	segments []bodySegment // where its body lies
	Size     int           // len(bytes): bytes on the wire per message
}

// bodySegment is the part of a body that lies in one frame.
type bodySegment struct {
	at, length int    // position in the encoded publish
	offset     uint64 // of the segment's first byte in the body
}

// EncodePublish builds a publish with a plain body pattern.
func EncodePublish(exchange, routingKey string, properties []byte, bodySize uint64, frameMax uint32) PublishEncoding {
	return EncodePublishOn(session.ClientChannel, exchange, routingKey, properties, bodySize, frameMax)
}

// EncodePublishOn is encodePublish for any channel.
func EncodePublishOn(channel uint16, exchange, routingKey string, properties []byte, bodySize uint64, frameMax uint32) PublishEncoding {
	encoded := amqp.AppendMethodFrame(nil, channel, &amqp.BasicPublish{
		Exchange: []byte(exchange), RoutingKey: []byte(routingKey),
	})
	encoded = amqp.AppendHeaderFrame(encoded, channel, bodySize, properties)
	bodyAt := len(encoded)
	body := make([]byte, bodySize)
	bodyLayout{}.putPattern(body, 0, 0)
	encoded = amqp.AppendBodyFrames(encoded, channel, body, frameMax)

	var segments []bodySegment
	for pos, offset := bodyAt, uint64(0); pos < len(encoded); {
		_, _, size, _, err := amqp.ParseFrameHeader(encoded[pos:], frameMax)
		if err != nil {
			panic("perf: own encoding is broken: " + err.Error())
		}
		segments = append(segments, bodySegment{at: pos + frameHeaderBytes, length: int(size), offset: offset})
		pos += amqp.FrameOverhead + int(size)
		offset += uint64(size)
	}
	return PublishEncoding{Bytes: encoded, segments: segments, Size: len(encoded)}
}

// Repeat returns a buffer of at least one and otherwise at most bytesMax bytes
// of whole publishes.
func (e PublishEncoding) Repeat(bytesMax int) []byte {
	count := max(1, bytesMax/e.Size)
	buffer := make([]byte, 0, count*e.Size)
	for range count {
		buffer = append(buffer, e.Bytes...)
	}
	return buffer
}

// stamp writes the varying parts of one publish: at the start of message.
// identity is publisher<<48 | number.
func (e PublishEncoding) stamp(message []byte, layout bodyLayout, sendTime int64, identity uint64) {
	seed := uint64(0)
	if layout.Identity || layout.random {
		seed = identity
	}
	headLeft := layout.HeadBytes()
	for i, segment := range e.segments {
		part := message[segment.at : segment.at+segment.length]
		offset := segment.offset
		if i == 0 && headLeft > 0 {
			// The head fits into the first frame: frame-max is at least 4096.
			if layout.timestamp {
				binary.LittleEndian.PutUint64(part, uint64(sendTime))
			}
			if layout.Identity {
				binary.LittleEndian.PutUint64(part[headLeft-StampBytes:], identity)
			}
			part, offset = part[headLeft:], offset+uint64(headLeft)
		}
		if seed != 0 {
			layout.putPattern(part, seed, offset)
		}
	}
}
