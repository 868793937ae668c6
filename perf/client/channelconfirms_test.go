package client

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// confirmPayload encodes the arguments of basic.ack and basic.nack.
func confirmPayload(id uint32, tag uint64, multiple bool) []byte {
	payload := binary.BigEndian.AppendUint32(nil, id)
	payload = binary.BigEndian.AppendUint64(payload, tag)
	if multiple {
		return append(payload, 1)
	}
	return append(payload, 0)
}

func testChannels(count, window int) []ConfirmChannel {
	channels := make([]ConfirmChannel, count)
	for i := range channels {
		channels[i] = NewConfirmChannel([]byte{byte(i), 1, 2}, window)
	}
	return channels
}

// The channels must agree with a set of numbers for each: what was sent, what
// is unconfirmed, whose latency was recorded, and never more than the window.
func TestChannelConfirms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 40).Draw(t, "window")
		count := rapid.IntRange(1, 6).Draw(t, "channels")
		latency := NewLatencyRecorder(0)
		c := NewChannelConfirms(testChannels(count, window), window, latency)
		outstanding := make([]map[uint64]bool, count)
		sentAt := make([]map[uint64]int64, count)
		sent := make([]uint64, count)
		for i := range outstanding {
			outstanding[i], sentAt[i] = make(map[uint64]bool), make(map[uint64]int64)
		}
		acked, nacked := uint64(0), uint64(0)
		latencies := make(map[int64]int64) // how often each was to be recorded
		now := int64(0)
		latency.now = 1000
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			buffer := make([]byte, 0, 3*rapid.IntRange(0, 100).Draw(t, "room"))
			room := 0
			for i := range sent {
				room += window - len(outstanding[i])
			}
			now += rapid.Int64Range(0, 5).Draw(t, "passed")
			filled, messages := c.fill(buffer, now)
			if len(filled) != 3*int(messages) || messages > uint64(cap(buffer)/3) {
				t.Fatalf("%d messages in %d bytes", messages, len(filled))
			}
			if want := min(room, cap(buffer)/3); int(messages) != want {
				t.Fatalf("%d messages, %d were possible", messages, want)
			}
			for pos := 0; pos < len(filled); pos += 3 {
				channel := filled[pos]
				sent[channel]++
				outstanding[channel][sent[channel]] = true
				sentAt[channel][sent[channel]] = now
			}
			for i := range outstanding {
				if len(outstanding[i]) > window {
					t.Fatalf("channel %d has %d unconfirmed", i, len(outstanding[i]))
				}
			}
			channel := rapid.IntRange(0, count-1).Draw(t, "channel")
			if len(outstanding[channel]) == 0 {
				continue
			}
			tag := rapid.SampledFrom(sortedKeys(outstanding[channel])).Draw(t, "tag")
			multiple := rapid.Bool().Draw(t, "multiple")
			id := rapid.SampledFrom([]uint32{amqp.BasicAckID, amqp.BasicNackID}).Draw(t, "id")
			settled := uint64(0)
			for number := range outstanding[channel] {
				if number == tag || multiple && number < tag {
					delete(outstanding[channel], number)
					settled++
					if id == amqp.BasicAckID {
						latencies[1000-sentAt[channel][number]]++
					}
				}
			}
			if id == amqp.BasicAckID {
				acked += settled
			} else {
				nacked += settled
			}
			if err := c.take(uint16(channel+1), confirmPayload(id, tag, multiple), id); err != nil {
				t.Fatal(err)
			}
			left := 0
			for i := range outstanding {
				left += len(outstanding[i])
			}
			if c.acked != acked || c.nacked != nacked || c.unconfirmed() != uint64(left) || latency.histogram.TotalCount() != int64(acked) {
				t.Fatalf("acked %d, nacked %d, unconfirmed %d, latencies %d; want %d, %d, %d, %d",
					c.acked, c.nacked, c.unconfirmed(), latency.histogram.TotalCount(), acked, nacked, left, acked)
			}
			for _, bar := range latency.histogram.Distribution() {
				if bar.From != bar.To || bar.Count != latencies[bar.From] {
					t.Fatalf("latencies of %d to %d ns: %d, want %d", bar.From, bar.To, bar.Count, latencies[bar.From])
				}
			}
		}
	})
}

func sortedKeys(set map[uint64]bool) (keys []uint64) {
	least, most := ^uint64(0), uint64(0)
	for key := range set {
		least, most = min(least, key), max(most, key)
	}
	for key := least; key <= most; key++ {
		if set[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestChannelConfirmsRefuse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		channel  uint16
		tag      uint64
		multiple bool
		cut      int
		fails    bool
	}{
		{name: "all so far", channel: 1, tag: 0, multiple: true},
		{name: "tag 0 alone", channel: 1, tag: 0, fails: true},
		{name: "above what was sent", channel: 1, tag: 11, fails: true},
		{name: "multiple above what was sent", channel: 1, tag: 11, multiple: true, fails: true},
		{name: "far above", channel: 1, tag: 1 << 63, multiple: true, fails: true},
		{name: "unknown channel", channel: 3, tag: 1, fails: true},
		{name: "cut short", channel: 1, tag: 1, cut: 1, fails: true},
	} {
		c := NewChannelConfirms(testChannels(2, 10), 10, NewLatencyRecorder(0))
		c.fill(make([]byte, 0, 1000), 1)
		payload := confirmPayload(amqp.BasicAckID, test.tag, test.multiple)
		err := c.take(test.channel, payload[:len(payload)-test.cut], amqp.BasicAckID)
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	c := NewChannelConfirms(testChannels(1, 10), 10, NewLatencyRecorder(0))
	c.fill(make([]byte, 0, 1000), 1)
	payload := confirmPayload(amqp.BasicAckID, 3, false)
	if err := c.take(1, payload, amqp.BasicAckID); err != nil {
		t.Fatal(err)
	}
	if err := c.take(1, payload, amqp.BasicAckID); !errors.Is(err, errTagUnknown) {
		t.Errorf("confirmed twice: %v", err)
	}
}

// No channel may be starved by a buffer that is always too small.
func TestChannelConfirmsTakeTurns(t *testing.T) {
	t.Parallel()
	c := NewChannelConfirms(testChannels(3, 100), 100, NewLatencyRecorder(0))
	for range 3 {
		c.fill(make([]byte, 0, 3*10), 1)
	}
	for i := range c.channels {
		if c.channels[i].sent != 10 {
			t.Errorf("channel %d sent %d of 30", i, c.channels[i].sent)
		}
	}
}

func TestChannelConfirmsDoNotAllocate(t *testing.T) {
	const window = 100
	c := NewChannelConfirms(testChannels(10, window), window, NewLatencyRecorder(0))
	c.latency.now = 1000
	buffer := make([]byte, 0, 64<<10)
	ack := confirmPayload(amqp.BasicAckID, 0, true)
	if allocations := testing.AllocsPerRun(100, func() {
		c.fill(buffer, 500)
		for channel := range c.channels {
			if err := c.take(uint16(channel+1), ack, amqp.BasicAckID); err != nil {
				t.Fatal(err)
			}
		}
	}); allocations != 0 {
		t.Errorf("%v allocations in a round of %d messages", allocations, 10*window)
	}
}

// unconfirmed is how many messages wait for the broker's answer.
func (c *channelConfirms) unconfirmed() (total uint64) {
	for i := range c.channels {
		total += c.channels[i].sent - c.channels[i].confirms.settled
	}
	return total
}
