package client

import "encoding/binary"

// inspector looks into the bodies a consumer receives: timestamps go into the
// latency recorder, contents are compared with what the publisher must have
// written. The walker calls start, chunk as often as a body comes in pieces,
// and finish; latency.begin and end surround a whole read.
type inspector struct {
	layout  bodyLayout
	verify  bool
	size    uint64 // expected body size, when verify
	Latency *latencyRecorder

	head      [2 * StampBytes]byte
	headBytes uint64
	seed      uint64
	wrong     bool // of the current body

	last       []uint64 // per publisher: highest message number seen here
	failures   uint64   // bodies with another size or content
	outOfOrder uint64   // numbers not above the last, and not redelivered
}

func NewInspector(o BodyOptions, latency *latencyRecorder) *inspector {
	layout := NewBodyLayout(o)
	return &inspector{
		layout: layout, verify: o.Verify, size: o.Size, Latency: latency,
		headBytes: uint64(layout.HeadBytes()), last: make([]uint64, o.Publishers),
	}
}

func (i *inspector) start(bodySize uint64) {
	i.wrong = bodySize != i.size
	i.seed = 0
}

func (i *inspector) chunk(offset uint64, part []byte) {
	if offset < i.headBytes {
		n := copy(i.head[offset:i.headBytes], part)
		part, offset = part[n:], offset+uint64(n)
		if offset < i.headBytes {
			return
		}
		if i.layout.Identity {
			i.seed = binary.LittleEndian.Uint64(i.head[i.headBytes-StampBytes:])
		}
		if i.layout.timestamp {
			i.Latency.record(int64(binary.LittleEndian.Uint64(i.head[:])))
		}
	}
	if i.verify && len(part) > 0 && !i.wrong {
		i.wrong = !i.layout.checkPattern(part, i.seed, offset)
	}
}

func (i *inspector) finish(redelivered bool) {
	if !i.verify {
		return
	}
	publisher, number := i.seed>>IdentityBits, i.seed&(1<<IdentityBits-1)
	if i.layout.Identity && !i.wrong && publisher >= uint64(len(i.last)) && len(i.last) > 0 {
		i.wrong = true
	}
	if i.wrong {
		i.failures++
		return
	}
	if i.layout.Identity && publisher < uint64(len(i.last)) {
		if number <= i.last[publisher] && !redelivered {
			i.outOfOrder++
		}
		i.last[publisher] = max(number, i.last[publisher])
	}
}
