package broker

import (
	"strconv"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Arguments whose values must agree when a queue is declared again; those of
// exchanges are in exchangearguments.go. Others are kept but not compared, as
// RabbitMQ does it: a client may send what this broker knows nothing of.
var (
	queueArguments = []string{
		"x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-overflow",
		"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
		"x-max-priority", "x-queue-mode", "x-single-active-consumer", "x-queue-type",
		"x-delivery-limit", "x-consumer-timeout",
		"x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-deduplication-header",
		"x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes",
	}
)

// given looks for an argument. A void one counts as absent, everywhere: what was
// declared with it may be declared again without, and the other way round.
func given(arguments amqp.Table, name string) (amqp.Value, bool) {
	v, ok := arguments.Lookup(name)
	return v, ok && v.Kind() != amqp.KindVoid
}

// givenArguments returns those of the names that are given.
func givenArguments(names []string, arguments amqp.Table) []string {
	var found []string
	for _, name := range names {
		if _, ok := given(arguments, name); ok {
			found = append(found, name)
		}
	}
	return found
}

// inequivalent is the error for a declare that does not match what is there.
func inequivalent(what, where, received, current string) error {
	return amqp.Errorf(amqp.CodePreconditionFailed, 0, "inequivalent arg '%s' for %s: received '%s' but current is '%s'", what, where, received, current)
}

func inequivalentBool(what, where string, received, current bool) error {
	return inequivalent(what, where, strconv.FormatBool(received), strconv.FormatBool(current))
}

func sameArguments(where string, names []string, current, received amqp.Table) error {
	for _, name := range names {
		a, hasA := given(current, name)
		b, hasB := given(received, name)
		if !hasA && !hasB || hasA && hasB && amqp.Equal(a, b) {
			continue
		}
		if name == "x-queue-type" && queueType(current) == queueType(received) {
			continue // classic, said or not
		}
		if hasA && hasB {
			return inequivalent(name, where, text(b), text(a))
		}
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "inequivalent arg '%s' for %s: received %s but current is %s",
			name, where, describe(b, hasB), describe(a, hasA))
	}
	return nil
}

// text renders the value of an argument the way RabbitMQ does it in this error
// when both sides have one.
func text(v amqp.Value) string {
	if n, ok := v.Int64(); ok {
		return strconv.FormatInt(n, 10)
	}
	if s, ok := v.Bytes(); ok {
		return string(s)
	}
	if b, ok := v.Bool(); ok {
		return strconv.FormatBool(b)
	}
	return amqp.KindName(v.Kind())
}

// describe renders an argument that only one side has.
func describe(v amqp.Value, present bool) string {
	if !present {
		return "none"
	}
	if n, ok := v.Int64(); ok {
		return "the value '" + strconv.FormatInt(n, 10) + "' of type '" + amqp.KindName(v.Kind()) + "'"
	}
	if s, ok := v.Bytes(); ok {
		return "the value '" + string(s) + "' of type 'longstr'"
	}
	if b, ok := v.Bool(); ok {
		return "the value '" + strconv.FormatBool(b) + "' of type 'bool'"
	}
	return "a value of type '" + amqp.KindName(v.Kind()) + "'"
}
