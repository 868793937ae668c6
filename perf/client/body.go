package client

import (
	"bytes"
	"encoding/binary"
)

// bodyLayout says what a message body contains; see the package comment. It
// is shared by the publisher, which fills, and the consumer, which checks.
type bodyLayout struct {
	timestamp bool // first 8 bytes: intended send time
	Identity  bool // next 8 bytes: publisher and message number
	random    bool // pattern differs in every message and does not compress
}

// StampBytes is the size of a stamped field.
const StampBytes = 8

// IdentityBits splits the identity field: message number below, publisher above.
const IdentityBits = 48

// BodyOptions say what is wanted of the bodies of a run.
type BodyOptions struct {
	Size       uint64
	Publishers int  // how many number their messages
	Timestamp  bool // carry the intended send time
	Verify     bool // check content and sequence
	Random     bool // differ and do not compress
}

func NewBodyLayout(o BodyOptions) bodyLayout {
	layout := bodyLayout{timestamp: o.Timestamp, random: o.Random}
	layout.Identity = o.Verify && o.Size >= uint64(layout.HeadBytes()+StampBytes)
	return layout
}

// HeadBytes is the length of the stamped fields.
func (l bodyLayout) HeadBytes() int {
	length := 0
	if l.timestamp {
		length += StampBytes
	}
	if l.Identity {
		length += StampBytes
	}
	return length
}

// Stamped reports whether bodies differ from message to message.
func (l bodyLayout) Stamped() bool { return l.timestamp || l.Identity || l.random }

// patternPeriod is the length after which the plain pattern repeats; a prime,
// so that a shift by any buffer or frame size is noticed.
const patternPeriod = 4093

// patternTable holds the plain pattern twice, so that a comparison of up to
// patternPeriod bytes can start anywhere in its first half.
var patternTable = func() []byte {
	table := make([]byte, 2*patternPeriod)
	for i := range patternPeriod {
		table[i] = byte(Mix64(uint64(i)) >> 32)
		table[i+patternPeriod] = table[i]
	}
	return table
}()

// Mix64 is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014): a bijection with good diffusion, so
// word k of a random body can be computed without the ones before it.
func Mix64(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// putPattern writes the pattern of the message with this seed to dst, whose
// first byte is at offset of the body.
func (l bodyLayout) putPattern(dst []byte, seed, offset uint64) {
	if !l.random {
		start := (seed + offset) % patternPeriod
		for len(dst) > 0 {
			n := copy(dst, patternTable[start:start+patternPeriod])
			dst = dst[n:]
		}
		return
	}
	seed = Mix64(seed)
	for len(dst) > 0 && offset&7 != 0 {
		dst[0] = byte(Mix64(seed+offset>>3) >> (offset & 7 * 8))
		dst, offset = dst[1:], offset+1
	}
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, Mix64(seed+offset>>3))
		dst, offset = dst[8:], offset+8
	}
	if len(dst) > 0 {
		word := Mix64(seed + offset>>3)
		for i := range dst {
			dst[i] = byte(word >> (i * 8))
		}
	}
}

// checkPattern reports whether body, which starts at offset of its message,
// has the pattern of that seed.
func (l bodyLayout) checkPattern(body []byte, seed, offset uint64) bool {
	if !l.random {
		start := (seed + offset) % patternPeriod
		for len(body) > 0 {
			n := min(len(body), patternPeriod)
			if !bytes.Equal(body[:n], patternTable[start:start+uint64(n)]) {
				return false
			}
			body = body[n:]
		}
		return true
	}
	var expected [512]byte
	for len(body) > 0 {
		part := expected[:min(len(body), len(expected))]
		l.putPattern(part, seed, offset)
		if !bytes.Equal(part, body[:len(part)]) {
			return false
		}
		body, offset = body[len(part):], offset+uint64(len(part))
	}
	return true
}
