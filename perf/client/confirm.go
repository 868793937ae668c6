package client

import "math/bits"

// confirmTracker knows which publishes of one channel are settled (acked or
// nacked by the broker). Sequence numbers start at 1.
//
// Everything up to watermark is settled; above it, a bit per number says so.
// The bits are a ring, so sent may not run further ahead of the watermark than
// the ring is long, even if only the oldest publish is unsettled: limit.
//
//	1 … watermark | watermark+1 … sent          | not yet published
//	all settled   | settled where a bit is set  |
type confirmTracker struct {
	watermark uint64
	settled   uint64 // how many in total, those above the watermark included
	above     uint64 // how many bits are set
	mask      uint64 // ring size in bits, minus one
	ring      []uint64
}

// Ring size: a broker that confirms one by one may leave a straggler behind
// for so many publishes before it slows the publisher down.
const (
	confirmRingBitsMin   = 1 << 16
	confirmRingPerWindow = 4
)

// NewConfirmTracker returns a tracker for about window outstanding publishes.
func NewConfirmTracker(window int) confirmTracker {
	size := max(confirmRingBitsMin, uint64(1)<<bits.Len64(uint64(window)*confirmRingPerWindow-1))
	return newConfirmRing(size)
}

// newConfirmRing takes the size of the ring in bits: a power of two, at least 64.
func newConfirmRing(size uint64) confirmTracker {
	return confirmTracker{mask: size - 1, ring: make([]uint64, size/64)}
}

// limit is how many publishes may have been sent by now, with at most window
// of them unsettled.
func (c *confirmTracker) limit(window uint64) uint64 {
	return min(c.settled+window, c.watermark+c.mask+1)
}

// settle notes the broker's answer for deliveryTag, or for all up to it, and
// returns how many publishes it settled that were not settled before. sent is
// the last number published; ok is false for a tag above it, and for numbers
// settled twice one by one (a broker must not do either). A multiple answer
// may have nothing left to settle. Tag 0 with multiple means everything sent.
func (c *confirmTracker) settle(deliveryTag uint64, multiple bool, sent uint64) (count uint64, ok bool) {
	if multiple && deliveryTag == 0 {
		deliveryTag = sent
	}
	if deliveryTag > sent || deliveryTag == 0 && !multiple {
		return 0, false
	}
	if multiple {
		if deliveryTag <= c.watermark {
			return 0, true
		}
		count = deliveryTag - c.watermark
		if c.above > 0 {
			count -= c.clear(c.watermark+1, deliveryTag)
		}
		c.watermark = deliveryTag
	} else {
		if deliveryTag <= c.watermark || c.test(deliveryTag) {
			return 0, false
		}
		count = 1
		if deliveryTag == c.watermark+1 {
			c.watermark++
		} else {
			c.ring[deliveryTag&c.mask>>6] |= 1 << (deliveryTag & 63)
			c.above++
		}
	}
	for c.above > 0 && c.test(c.watermark+1) {
		c.watermark++
		c.clear(c.watermark, c.watermark)
	}
	c.settled += count
	return count, true
}

func (c *confirmTracker) test(number uint64) bool {
	return c.ring[number&c.mask>>6]&(1<<(number&63)) != 0
}

// countSettled is how many of the numbers first … last, which are above the
// watermark, are settled.
func (c *confirmTracker) countSettled(first, last uint64) (count uint64) {
	for number := first; number <= last && count < c.above; number++ {
		if c.test(number) {
			count++
		}
	}
	return count
}

// clear resets the bits first … last and returns how many were set.
func (c *confirmTracker) clear(first, last uint64) (count uint64) {
	for number := first; number <= last && c.above > 0; number++ {
		if c.test(number) {
			c.ring[number&c.mask>>6] &^= 1 << (number & 63)
			c.above--
			count++
		}
	}
	return count
}
