package perf

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// publishEncoding is one publish of a publisher: method, header and body
// frames, all messages the same size.
type publishEncoding struct {
	bytes    []byte        // one whole publish
	segments []bodySegment // where its body lies
	size     int           // len(bytes): bytes on the wire per message
}

// bodySegment is the part of a body that lies in one frame.
type bodySegment struct {
	at, length int    // position in the encoded publish
	offset     uint64 // of the segment's first byte in the body
}

// encodePublish builds a publish with a plain body pattern.
func encodePublish(exchange, routingKey string, properties []byte, bodySize uint64, frameMax uint32) publishEncoding {
	return encodePublishOn(clientChannel, exchange, routingKey, properties, bodySize, frameMax)
}

// encodePublishOn is encodePublish for any channel.
func encodePublishOn(channel uint16, exchange, routingKey string, properties []byte, bodySize uint64, frameMax uint32) publishEncoding {
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
	return publishEncoding{bytes: encoded, segments: segments, size: len(encoded)}
}

// repeat returns a buffer of at least one and otherwise at most bytesMax bytes
// of whole publishes.
func (e publishEncoding) repeat(bytesMax int) []byte {
	count := max(1, bytesMax/e.size)
	buffer := make([]byte, 0, count*e.size)
	for range count {
		buffer = append(buffer, e.bytes...)
	}
	return buffer
}

// stamp writes the varying parts of one publish: at the start of message.
// identity is publisher<<48 | number.
func (e publishEncoding) stamp(message []byte, layout bodyLayout, sendTime int64, identity uint64) {
	seed := uint64(0)
	if layout.identity || layout.random {
		seed = identity
	}
	headLeft := layout.headBytes()
	for i, segment := range e.segments {
		part := message[segment.at : segment.at+segment.length]
		offset := segment.offset
		if i == 0 && headLeft > 0 {
			// The head fits into the first frame: frame-max is at least 4096.
			if layout.timestamp {
				binary.LittleEndian.PutUint64(part, uint64(sendTime))
			}
			if layout.identity {
				binary.LittleEndian.PutUint64(part[headLeft-stampBytes:], identity)
			}
			part, offset = part[headLeft:], offset+uint64(headLeft)
		}
		if seed != 0 {
			layout.putPattern(part, seed, offset)
		}
	}
}
