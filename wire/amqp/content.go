package amqp

import (
	"encoding/binary"
	"math/bits"
)

// ContentHeader is the payload of a content header frame.
type ContentHeader struct {
	ClassID    uint16
	BodySize   uint64 // bytes of all body frames together
	Properties []byte // flags and property list, encoded; a view. Validated when ClassID is ClassBasic
}

// DecodeContentHeader reads the payload of a content header frame. Errors are
// 501: truncated, undefined flags, bytes left over, broken headers table. The
// weight is ignored. A class other than basic is returned as it is, its
// properties unchecked: which error that is depends on the channel's state.
func DecodeContentHeader(payload []byte) (ContentHeader, error) {
	if len(payload) < contentHeaderSize {
		return ContentHeader{}, contentError(problemTruncated)
	}
	h := ContentHeader{
		ClassID:    binary.BigEndian.Uint16(payload),
		BodySize:   binary.BigEndian.Uint64(payload[4:]),
		Properties: payload[contentHeaderSize-2 : len(payload) : len(payload)],
	}
	if h.ClassID == ClassBasic {
		if problem := validateProperties(h.Properties); problem != "" {
			return ContentHeader{}, contentError(problem)
		}
	}
	return h, nil
}

func contentError(problem string) error {
	return Errorf(CodeFrameError, 0, "content header: %s", problem)
}

// validateProperties checks flags and property list of class basic.
func validateProperties(raw []byte) (problem string) {
	if len(raw) < 2 {
		return problemTruncated
	}
	flags := binary.BigEndian.Uint16(raw)
	if flags&^flagsDefined != 0 {
		return problemFlags
	}
	r := argumentReader{rest: raw[2:]}
	for flags != 0 && r.problem == "" {
		flag := uint16(1) << (15 - bits.LeadingZeros16(flags))
		flags &^= flag
		switch flag {
		case FlagHeaders:
			r.table()
		case FlagDeliveryMode, FlagPriority:
			r.octet()
		case FlagTimestamp:
			r.longlong()
		default:
			r.shortstr()
		}
	}
	return r.end()
}
