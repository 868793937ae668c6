package client

import (
	"encoding/binary"
	"math/bits"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// ConfirmChannel is one channel of a connection that publishes with confirms.
type ConfirmChannel struct {
	message  []byte         // one whole publish, encoded for this channel and its queue
	confirms confirmTracker // what is unconfirmed
	times    sendTimes      // of the unconfirmed messages
	sent     uint64         // messages so far
	waiting  bool           // on the list of channels with room
}

// NewConfirmChannel returns a channel for at most window unconfirmed messages.
// Its ring is much smaller than that of a throughput publisher: there may be
// thousands of channels.
func NewConfirmChannel(message []byte, window int) ConfirmChannel {
	size := max(64, uint64(1)<<bits.Len64(uint64(window)*confirmRingPerWindow-1))
	return ConfirmChannel{message: message, confirms: newConfirmRing(size)}
}

// channelConfirms are the channels 1 … len(channels) of a connection: who may
// publish, and what the broker's confirms mean. Belongs to a loop's thread.
//
// Channels with room in their window stand in a queue; fill serves it in
// turn, so that none is starved and none is asked in vain.
type channelConfirms struct {
	channels []ConfirmChannel
	window   uint64
	latency  *latencyRecorder // take is called between its begin and end
	acked    uint64
	nacked   uint64

	queue      []int32 // ring of indexes, each at most once
	head, size int
}

func NewChannelConfirms(channels []ConfirmChannel, window int, latency *latencyRecorder) *channelConfirms {
	c := &channelConfirms{channels: channels, window: uint64(window), latency: latency, queue: make([]int32, len(channels))}
	for i := range channels {
		c.enqueue(int32(i))
	}
	return c
}

func (c *channelConfirms) enqueue(index int32) {
	c.channels[index].waiting = true
	c.queue[(c.head+c.size)%len(c.queue)] = index
	c.size++
}

// fill appends publishes to buffer, up to its capacity, and notes when they
// were sent. It returns how many.
func (c *channelConfirms) fill(buffer []byte, now int64) (filled []byte, messages uint64) {
	for c.size > 0 {
		index := c.queue[c.head]
		channel := &c.channels[index]
		room := channel.confirms.limit(c.window) - channel.sent
		fit := uint64(cap(buffer)-len(buffer)) / uint64(len(channel.message))
		if fit == 0 {
			break // it stays in front
		}
		count := min(room, fit)
		buffer = appendRepeated(buffer, channel.message, int(count))
		channel.sent += count
		channel.times.note(channel.sent, now)
		messages += count
		c.head, c.size = (c.head+1)%len(c.queue), c.size-1
		channel.waiting = false
		if count < room {
			c.enqueue(index)
		}
	}
	return buffer, messages
}

// appendRepeated appends message count times, at least once, copying what is
// there already in ever larger pieces.
func appendRepeated(buffer, message []byte, count int) []byte {
	start := len(buffer)
	end := start + count*len(message)
	buffer = append(buffer, message...)
	for len(buffer) < end {
		buffer = append(buffer, buffer[start:min(len(buffer), start+end-len(buffer))]...)
	}
	return buffer
}

// take handles a basic.ack or basic.nack.
func (c *channelConfirms) take(channel uint16, payload []byte, id uint32) error {
	if len(payload) < 13 {
		return amqp.Errorf(amqp.CodeSyntaxError, id, "confirm cut short")
	}
	index := int(channel) - 1
	if index >= len(c.channels) {
		return orderError("confirm on an unknown channel")
	}
	confirmed := &c.channels[index]
	tag, multiple := binary.BigEndian.Uint64(payload[4:]), payload[12]&1 != 0
	if multiple && tag == 0 {
		tag = confirmed.sent
	}
	if id == amqp.BasicAckID && tag <= confirmed.sent {
		c.recordLatency(confirmed, tag, multiple)
	}
	count, ok := confirmed.confirms.settle(tag, multiple, confirmed.sent)
	if !ok {
		return errTagUnknown
	}
	confirmed.times.drop(confirmed.confirms.watermark)
	if id == amqp.BasicNackID {
		c.nacked += count
	} else {
		c.acked += count
	}
	if !confirmed.waiting && confirmed.confirms.limit(c.window) > confirmed.sent {
		c.enqueue(int32(index))
	}
	return nil
}

// recordLatency notes the latency of what an ack is about to settle. Messages
// sent by the same write are recorded together.
func (c *channelConfirms) recordLatency(channel *ConfirmChannel, tag uint64, multiple bool) {
	confirms, times := &channel.confirms, &channel.times
	first := tag
	if multiple {
		first = confirms.watermark + 1
	}
	if first > tag || first <= confirms.watermark {
		return // settled before
	}
	for i := times.find(first); first <= tag; i++ {
		run := times.at(i)
		last := min(run.last, tag)
		count := last - first + 1
		if confirms.above > 0 {
			count -= confirms.countSettled(first, last)
		}
		if count > 0 {
			c.latency.recordMany(run.sentAt, int64(count))
		}
		first = last + 1
	}
}
