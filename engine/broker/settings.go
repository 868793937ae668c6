package broker

import (
	"math"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Overflow behaviours: what a queue at its limit does with one message more.
type overflow uint8

const (
	dropHead         overflow = iota // drops, or dead-letters, its oldest
	rejectPublish                    // refuses it
	rejectPublishDLX                 // refuses it and dead-letters it
)

var overflows = map[string]overflow{
	"drop-head": dropHead, "reject-publish": rejectPublish, "reject-publish-dlx": rejectPublishDLX,
}

// unlimited is a limit that is none, and a time that never comes.
const unlimited = math.MaxInt64

// settings is what a queue's arguments and policies make of it: immutable, and
// swapped as a whole (Queue.apply). Times are in milliseconds.
type settings struct {
	messageTTL    int64
	expires       int64
	maxLength     int64
	maxBytes      int64
	deliveryLimit int64
	ackTimeout    int64 // x-consumer-timeout
	overflow      overflow

	deadLetters          bool // there is a dead letter exchange; its name may be ""
	deadLetterExchange   string
	deadLetterRoutingKey string
	hasDeadLetterKey     bool
	atLeastOnce          bool

	dedups      bool // see dedup.go; the rest is 0 without it
	dedupHeader string
	dedupSize   int64
	dedupTTL    int64
}

// plainSettings are those of a queue without any of it.
var plainSettings = settings{
	messageTTL: unlimited, expires: unlimited, maxLength: unlimited, maxBytes: unlimited, deliveryLimit: unlimited,
	ackTimeout: unlimited,
}

func (s *settings) limited() bool { return s.maxLength != unlimited || s.maxBytes != unlimited }

// rejects says that the queue may refuse publishes.
func (s *settings) rejects() bool { return s.limited() && s.overflow != dropHead }

// effective merges a queue's arguments with the definitions of the policy and
// of the operator policy that apply to it; both may be nil. Their keys are
// those of arguments without "x-". Of numbers the lowest counts; of anything
// else the argument comes before the policy. nil: the queue is a plain one.
// Values of wrong types count as absent: who takes definitions in has checked
// them.
func effective(arguments, policy, operatorPolicy amqp.Table) *settings {
	sources := [...]settingSource{{arguments, "x-"}, {policy, ""}, {operatorPolicy, ""}}
	lowest := func(key string) int64 {
		n := int64(unlimited)
		for _, s := range sources {
			n = min(n, s.number(key))
		}
		return n
	}
	first := func(key string) (string, bool) {
		for _, s := range sources[:2] {
			if v, ok := s.text(key); ok {
				return v, true
			}
		}
		return "", false
	}
	s := settings{
		messageTTL: lowest("message-ttl"), expires: lowest("expires"),
		maxLength: lowest("max-length"), maxBytes: lowest("max-length-bytes"), deliveryLimit: lowest("delivery-limit"),
		ackTimeout: positive(lowest("consumer-timeout")),
	}
	if s.deliveryLimit == unlimited && queueType(arguments) == "quorum" {
		if _, ok := given(arguments, "x-delivery-limit"); !ok {
			s.deliveryLimit = deliveriesQuorum
		}
	}
	s.deadLetterExchange, s.deadLetters = first("dead-letter-exchange")
	if s.deadLetters {
		s.deadLetterRoutingKey, s.hasDeadLetterKey = first("dead-letter-routing-key")
		strategy, _ := first("dead-letter-strategy")
		s.atLeastOnce = strategy == "at-least-once"
	}
	if name, _ := first("overflow"); s.limited() {
		s.overflow = overflows[name]
	}
	s.deduplicates(sources[0])
	if s == plainSettings {
		return nil
	}
	return &s
}

// deduplicates takes what arguments say of deduplication.
func (s *settings) deduplicates(arguments settingSource) {
	if v, ok := arguments.table.Lookup("x-message-deduplication"); ok {
		s.dedups, _ = v.Bool()
	}
	if !s.dedups {
		return
	}
	s.dedupTTL = arguments.number("cache-ttl")
	if s.dedupSize = arguments.number("cache-size"); s.dedupSize == unlimited {
		s.dedupSize = dedupSizeDefault
	}
	if s.dedupHeader, _ = arguments.text("deduplication-header"); s.dedupHeader == "" {
		s.dedupHeader = dedupHeaderDefault
	}
}

// settingSource is a table of settings whose keys carry a prefix.
type settingSource struct {
	table  amqp.Table
	prefix string
}

func (s settingSource) number(key string) int64 {
	if v, ok := s.table.Lookup(s.prefix + key); ok {
		if n, ok := v.Int64(); ok && n >= 0 {
			return n
		}
	}
	return unlimited
}

// positive takes 0 for "no limit".
func positive(n int64) int64 {
	if n == 0 {
		return unlimited
	}
	return n
}

func (s settingSource) text(key string) (string, bool) {
	v, ok := s.table.Lookup(s.prefix + key)
	if !ok {
		return "", false
	}
	text, ok := v.Bytes()
	return string(text), ok
}
