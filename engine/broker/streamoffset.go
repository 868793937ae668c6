package broker

import (
	"strconv"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// offsetSpec is where a consumer of a stream begins: x-stream-offset.
type offsetSpec struct {
	kind  offsetKind
	n     int64 // an offset, a time or an interval in ms
	given bool
}

type offsetKind uint8

const (
	offsetNext     offsetKind = iota // with the next message published
	offsetFirst                      // with the oldest
	offsetLast                       // with the last batch
	offsetAt                         // with offset n; negative: counted from the end
	offsetTime                       // with the first message not older than the time n
	offsetInterval                   // the same, n before now
)

// ageUnits are the units of x-max-age and of intervals, in ms.
var ageUnits = map[byte]int64{
	'Y': 365 * 24 * 3600_000, 'M': 30 * 24 * 3600_000, 'D': 24 * 3600_000, 'h': 3600_000, 'm': 60_000, 's': 1000,
}

// parseAge reads digits and one of the units Y M D h m s, case sensitive.
func parseAge(text string) (ms int64, ok bool) {
	if len(text) < 2 {
		return 0, false
	}
	unit, ok := ageUnits[text[len(text)-1]]
	digits := text[:len(text)-1]
	if !ok || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > unlimited/unit/2 {
		return 0, false
	}
	return n * unit, true
}

// parseOffsetSpec reads x-stream-offset; without it a consumer begins with the
// next message.
func parseOffsetSpec(arguments amqp.Table) (spec offsetSpec, problem string) {
	v, ok := arguments.Lookup("x-stream-offset")
	if !ok || v.Kind() == amqp.KindVoid {
		return offsetSpec{}, ""
	}
	spec.given = true
	if text, ok := v.Bytes(); ok {
		if !spec.parse(string(text)) {
			return spec, "invalid_offset_arg"
		}
		return spec, ""
	}
	if seconds, ok := v.Timestamp(); ok {
		spec.kind, spec.n = offsetTime, int64(min(seconds, unlimited/1000))*1000
		return spec, ""
	}
	if n, ok := v.Int64(); ok {
		spec.kind, spec.n = offsetAt, n
		return spec, ""
	}
	return spec, unacceptableType(v)
}

// parse takes what is a text: a place, or an interval before now.
func (spec *offsetSpec) parse(text string) (ok bool) {
	switch text {
	case "first":
		spec.kind = offsetFirst
	case "last":
		spec.kind = offsetLast
	case "next":
		spec.kind = offsetNext
	default:
		spec.kind = offsetInterval
		spec.n, ok = parseAge(text)
		return ok
	}
	return true
}

// parseOffsetText is the same for operators, who write numbers as text too.
func parseOffsetText(text string) (spec offsetSpec, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return offsetSpec{kind: offsetAt, n: n, given: true}, true
	}
	spec.given = true
	return spec, spec.parse(text)
}

// resolve says where to begin in a log whose records end at end, and, if that is
// by time, which are too old.
func (spec offsetSpec) resolve(log *segstore.Log, end uint64, now int64) (cursor uint64, since int64) {
	low := log.Low()
	switch spec.kind {
	case offsetFirst:
		return low, 0
	case offsetLast:
		return log.LastBatch(), 0
	case offsetAt:
		if spec.n >= 0 {
			return min(max(uint64(spec.n), low), end), 0
		}
		if back := uint64(-(spec.n + 1)) + 1; back < end-low {
			return end - back, 0
		}
		return low, 0
	case offsetTime, offsetInterval:
		since = spec.n
		if spec.kind == offsetInterval {
			since = now - spec.n
		}
		if since > now {
			return end, 0
		}
		if since <= 0 {
			return low, 0
		}
		return max(log.Find(since), low), since
	}
	return end, 0
}
