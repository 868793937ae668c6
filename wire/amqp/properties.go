package amqp

import "encoding/binary"

// Presence flags of the basic properties: bits of Properties.Flags, first property highest.
const (
	FlagContentType uint16 = 1 << (15 - iota)
	FlagContentEncoding
	FlagHeaders
	FlagDeliveryMode
	FlagPriority
	FlagCorrelationID
	FlagReplyTo
	FlagExpiration
	FlagMessageID
	FlagTimestamp
	FlagType
	FlagUserID
	FlagAppID
	FlagClusterID

	// flagsDefined has no bit 1 (no such property) and no bit 0 (more flags follow: class basic never needs them).
	flagsDefined = ^uint16(0b11)
	// flagsAfterPriority are the properties after priority.
	flagsAfterPriority = (FlagPriority - 1) & flagsDefined
)

// Properties are the decoded properties of a message; byte slices and Headers
// are views. A field counts only when its bit in Flags is set.
type Properties struct {
	ContentType     []byte
	ContentEncoding []byte
	Headers         Table
	DeliveryMode    uint8 // 2 = persistent
	Priority        uint8
	CorrelationID   []byte
	ReplyTo         []byte
	Expiration      []byte // milliseconds as decimal text
	MessageID       []byte
	Timestamp       uint64 // seconds since 1970
	Type            []byte
	UserID          []byte
	AppID           []byte
	ClusterID       []byte
	Flags           uint16
}

// DecodeProperties reads flags and property list of class basic. Errors as in DecodeContentHeader.
func DecodeProperties(raw []byte) (p Properties, err error) {
	if problem := p.decode(raw); problem != "" {
		return Properties{}, contentError(problem)
	}
	return p, nil
}

func (p *Properties) decode(raw []byte) (problem string) {
	if len(raw) < 2 {
		return problemTruncated
	}
	p.Flags = binary.BigEndian.Uint16(raw)
	if p.Flags&^flagsDefined != 0 {
		return problemFlags
	}
	r := argumentReader{rest: raw[2:]}
	if p.Flags&FlagContentType != 0 {
		p.ContentType = r.shortstr()
	}
	if p.Flags&FlagContentEncoding != 0 {
		p.ContentEncoding = r.shortstr()
	}
	if p.Flags&FlagHeaders != 0 {
		p.Headers = r.table()
	}
	if p.Flags&FlagDeliveryMode != 0 {
		p.DeliveryMode = r.octet()
	}
	if p.Flags&FlagPriority != 0 {
		p.Priority = r.octet()
	}
	if p.Flags&flagsAfterPriority != 0 {
		p.decodeAfterPriority(&r)
	}
	return r.end()
}

// decodeAfterPriority reads the properties that few messages carry.
func (p *Properties) decodeAfterPriority(r *argumentReader) {
	if p.Flags&FlagCorrelationID != 0 {
		p.CorrelationID = r.shortstr()
	}
	if p.Flags&FlagReplyTo != 0 {
		p.ReplyTo = r.shortstr()
	}
	if p.Flags&FlagExpiration != 0 {
		p.Expiration = r.shortstr()
	}
	if p.Flags&FlagMessageID != 0 {
		p.MessageID = r.shortstr()
	}
	if p.Flags&FlagTimestamp != 0 {
		p.Timestamp = r.longlong()
	}
	if p.Flags&FlagType != 0 {
		p.Type = r.shortstr()
	}
	if p.Flags&FlagUserID != 0 {
		p.UserID = r.shortstr()
	}
	if p.Flags&FlagAppID != 0 {
		p.AppID = r.shortstr()
	}
	if p.Flags&FlagClusterID != 0 {
		p.ClusterID = r.shortstr()
	}
}

// Append appends flags and property list: what ContentHeader.Properties holds.
// Only fields whose flag is set are written; undefined flags are dropped, short
// strings beyond ShortStringMax bytes are cut.
func (p *Properties) Append(dst []byte) []byte {
	flags := p.Flags & flagsDefined
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = appendIf(dst, flags&FlagContentType, p.ContentType)
	dst = appendIf(dst, flags&FlagContentEncoding, p.ContentEncoding)
	if flags&FlagHeaders != 0 {
		dst = appendLongstr(dst, p.Headers)
	}
	if flags&FlagDeliveryMode != 0 {
		dst = append(dst, p.DeliveryMode)
	}
	if flags&FlagPriority != 0 {
		dst = append(dst, p.Priority)
	}
	dst = appendIf(dst, flags&FlagCorrelationID, p.CorrelationID)
	dst = appendIf(dst, flags&FlagReplyTo, p.ReplyTo)
	dst = appendIf(dst, flags&FlagExpiration, p.Expiration)
	dst = appendIf(dst, flags&FlagMessageID, p.MessageID)
	if flags&FlagTimestamp != 0 {
		dst = binary.BigEndian.AppendUint64(dst, p.Timestamp)
	}
	dst = appendIf(dst, flags&FlagType, p.Type)
	dst = appendIf(dst, flags&FlagUserID, p.UserID)
	dst = appendIf(dst, flags&FlagAppID, p.AppID)
	return appendIf(dst, flags&FlagClusterID, p.ClusterID)
}

func appendIf(dst []byte, present uint16, v []byte) []byte {
	if present == 0 {
		return dst
	}
	return appendShortstr(dst, v)
}

// DeliveryMode reads only the delivery mode out of encoded properties: 0 when
// absent, or when the properties are broken before it.
func DeliveryMode(rawProperties []byte) uint8 {
	if len(rawProperties) < 3 {
		return 0
	}
	flags := binary.BigEndian.Uint16(rawProperties)
	if flags&FlagDeliveryMode == 0 {
		return 0
	}
	pos := 2
	for _, flag := range [...]uint16{FlagContentType, FlagContentEncoding} {
		if flags&flag != 0 {
			if pos >= len(rawProperties) {
				return 0
			}
			pos += 1 + int(rawProperties[pos])
		}
	}
	if flags&FlagHeaders != 0 {
		if pos > len(rawProperties) {
			return 0
		}
		headers, _, ok := cutLongstr(rawProperties[pos:])
		if !ok {
			return 0
		}
		pos += 4 + len(headers)
	}
	if pos >= len(rawProperties) {
		return 0
	}
	return rawProperties[pos]
}
