package access

import (
	"maps"
	"slices"
	"strings"
)

// Bounds, with their reasons.
const (
	// NameBytesMax is what a name may have: it travels as a short string.
	NameBytesMax = 255
	// PatternBytesMax bounds one regular expression.
	PatternBytesMax = 4096
	// patternStatesMax bounds what repeats may add to it: event loops match names.
	patternStatesMax = 1000
	// tagsMax and tagBytesMax keep a user's record small.
	tagsMax     = 64
	tagBytesMax = 255
	// cacheEntriesMax bounds the cached answers of one grant and permission;
	// a full cache is emptied.
	cacheEntriesMax = 1024
	// slowMax is how many slow password hashes are computed at once: argon2id
	// takes tens of megabytes each, and all take a core.
	slowMax = 2
)

// Names of limits.
const (
	MaxConnections = "max-connections" // of a user or virtual host
	MaxChannels    = "max-channels"    // of a user
	MaxQueues      = "max-queues"      // of a virtual host
)

// UserLimits and VHostLimits name what can be limited.
var (
	UserLimits  = []string{MaxConnections, MaxChannels}
	VHostLimits = []string{MaxConnections, MaxQueues}
)

// Limits are upper bounds by name; one that is absent is no limit.
type Limits map[string]int64

// Get returns a limit.
func (l Limits) Get(name string) (limit int64, limited bool) {
	limit, limited = l[name]
	return limit, limited
}

// With returns l with one limit set; a negative value removes it, as in
// RabbitMQ. known are the names that make sense.
func (l Limits) With(known []string, name string, value int64) (Limits, error) {
	if !slices.Contains(known, name) {
		return nil, errorf(Invalid, "there is no limit '%s': it is one of %s", name, strings.Join(known, ", "))
	}
	out := maps.Clone(l)
	if value < 0 {
		delete(out, name)
		return out, nil
	}
	if out == nil {
		out = Limits{}
	}
	out[name] = value
	return out, nil
}

// checked returns l without negative values, or an error for a name that is not
// known.
func (l Limits) checked(known []string) (out Limits, err error) {
	for name, value := range l {
		if out, err = out.With(known, name, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CheckLimits returns limits as they are kept: without negative ones. Errors:
// Invalid.
func CheckLimits(known []string, l Limits) (Limits, error) { return l.checked(known) }
