package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file judges the arguments of queue.declare. Codes and texts are those
// of RabbitMQ, down to the Erlang terms in them, because clients' tests compare
// them: 406 for what makes no sense, 540 for what this broker lacks.

// argumentCheck says what is wrong with the value of an argument; "" if nothing.
type argumentCheck func(v amqp.Value, all amqp.Table) string

// queueArgumentChecks are made in this order.
var queueArgumentChecks = []struct {
	name  string
	check argumentCheck
}{
	{"x-expires", checkPositive},
	{"x-message-ttl", checkNotNegative},
	{"x-dead-letter-exchange", nil}, // worded differently, see checkQueueArguments
	{"x-dead-letter-routing-key", checkDeadLetterRoutingKey},
	{"x-dead-letter-strategy", checkOneOf("invalid_dlx_strategy", "at-most-once", "at-least-once")},
	{"x-max-length", checkNotNegative},
	{"x-max-length-bytes", checkNotNegative},
	{"x-max-priority", checkMaxPriority},
	{"x-overflow", checkOneOf("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")},
	{"x-queue-mode", checkQueueMode},
	{"x-single-active-consumer", checkBool},
	{"x-queue-type", checkQueueType},
	{"x-delivery-limit", checkDeliveryLimit},
	{"x-consumer-timeout", checkNotNegative},
	{"x-message-deduplication", checkBool},
	{"x-cache-size", checkCacheSize},
	{"x-cache-ttl", checkNotNegative},
	{"x-deduplication-header", checkString},
	{"x-max-age", checkMaxAge},
	{"x-stream-max-segment-size-bytes", checkNotNegative},
	{"x-stream-filter-size-bytes", checkNotNegative},
}

// notForStreams are arguments of other kinds of queues. RabbitMQ refuses
// x-single-active-consumer too; here streams have it.
var notForStreams = []string{
	"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
	"x-max-length", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow", "x-max-priority",
	"x-queue-mode", "x-queue-version", "x-delivery-limit", "x-consumer-timeout",
	"x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-deduplication-header",
}

const (
	segmentSizeMax = 3_000_000_000 // RabbitMQ's
	filterSizeMin  = 16
)

// checkQueueArguments judges the arguments of a new queue. Void values count
// as absent ones. Errors: 406, 540.
func (vh *VHost) checkQueueArguments(d *QueueDeclare) error {
	if queueType(d.Arguments) == "stream" {
		if found := givenArguments(notForStreams, d.Arguments); len(found) > 0 {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for queue '%s' in vhost '%s' of queue type rabbit_stream_queue", found[0], d.Name, vh.Name)
		}
	}
	for _, c := range queueArgumentChecks {
		v, ok := given(d.Arguments, c.name)
		if !ok {
			continue
		}
		if c.check == nil {
			if _, ok := v.Bytes(); !ok {
				return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid type '%s' for arg '%s' in queue '%s' in vhost '%s'",
					amqp.KindName(v.Kind()), c.name, d.Name, vh.Name)
			}
			continue
		}
		if problem := c.check(v, d.Arguments); problem != "" {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for queue '%s' in vhost '%s': %s", c.name, d.Name, vh.Name, problem)
		}
	}
	return vh.checkQueueType(d)
}

// checkQueueType judges whether the kind of queue asked for can be had.
func (vh *VHost) checkQueueType(d *QueueDeclare) error {
	kind := queueType(d.Arguments)
	if kind == "classic" {
		return nil
	}
	property := ""
	switch {
	case d.Exclusive:
		property = "exclusive-owner"
	case d.AutoDelete:
		property = "auto-delete"
	case !d.Durable:
		property = "non-durable"
	}
	if property != "" {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid property '%s' for queue '%s' in vhost '%s'", property, d.Name, vh.Name)
	}
	if kind == "stream" {
		return checkStreamSizes(d.Arguments)
	}
	return nil
}

func checkStreamSizes(arguments amqp.Table) error {
	sizes := settingSource{arguments, "x-"}
	if n := sizes.number("stream-max-segment-size-bytes"); n > segmentSizeMax && n != unlimited {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "Exceeded max value for x-stream-max-segment-size-bytes")
	}
	if n := sizes.number("stream-filter-size-bytes"); n != unlimited && (n < filterSizeMin || n > segstore.FilterBytesMax) {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "Invalid value for  x-stream-filter-size-bytes")
	}
	return nil
}

func checkMaxAge(v amqp.Value, _ amqp.Table) string {
	text, ok := v.Bytes()
	if !ok {
		return unacceptableType(v)
	}
	if _, ok := parseAge(string(text)); !ok {
		return "invalid_max_age"
	}
	return ""
}

// queueType is the kind of queue that arguments ask for: classic by default.
func queueType(arguments amqp.Table) string {
	if v, ok := arguments.Lookup("x-queue-type"); ok {
		if name, ok := v.Bytes(); ok {
			return string(name)
		}
	}
	return "classic"
}

// integer returns a problem when v is none.
func integer(v amqp.Value) (n int64, problem string) {
	n, ok := v.Int64()
	if !ok {
		return 0, strconv.Quote("expected integer, got " + amqp.KindName(v.Kind()))
	}
	return n, ""
}

func checkNotNegative(v amqp.Value, _ amqp.Table) string {
	n, problem := integer(v)
	if problem == "" && n < 0 {
		problem = fmt.Sprintf("{value_negative,%d}", n)
	}
	return problem
}

func checkPositive(v amqp.Value, all amqp.Table) string {
	if n, ok := v.Int64(); ok && n == 0 {
		return "{value_zero,0}"
	}
	return checkNotNegative(v, all)
}

// checkDeliveryLimit allows -1, RabbitMQ 4's word for "none".
func checkDeliveryLimit(v amqp.Value, all amqp.Table) string {
	if n, ok := v.Int64(); ok && n == -1 {
		return ""
	}
	return checkNotNegative(v, all)
}

func checkMaxPriority(v amqp.Value, all amqp.Table) string {
	if n, ok := v.Int64(); ok && n > 255 {
		return fmt.Sprintf("{max_value_exceeded,%d}", n)
	}
	return checkNotNegative(v, all)
}

func unacceptableType(v amqp.Value) string {
	return fmt.Sprintf("{unacceptable_type,%s}", amqp.KindName(v.Kind()))
}

func checkDeadLetterRoutingKey(v amqp.Value, all amqp.Table) string {
	if _, ok := v.Bytes(); !ok {
		return unacceptableType(v)
	}
	if _, ok := given(all, "x-dead-letter-exchange"); !ok {
		return "routing_key_but_no_dlx_defined"
	}
	return ""
}

func checkOneOf(problem string, names ...string) argumentCheck {
	return func(v amqp.Value, _ amqp.Table) string {
		name, ok := v.Bytes()
		switch {
		case !ok:
			return unacceptableType(v)
		case !slices.Contains(names, string(name)):
			return problem
		}
		return ""
	}
}

func checkUnsupported(what string, names ...string) argumentCheck {
	return func(v amqp.Value, _ amqp.Table) string {
		name, ok := v.Bytes()
		switch {
		case !ok:
			return unacceptableType(v)
		case !slices.Contains(names, string(name)):
			return `"unsupported queue ` + what + ` '` + strings.ToValidUTF8(string(name), "?") + `'"`
		}
		return ""
	}
}

var (
	checkQueueMode = checkUnsupported("mode", "default", "lazy")
	checkQueueType = checkUnsupported("type", "classic", "quorum", "stream")
)

// checkCacheSize bounds what a queue may remember: about 100 bytes for each value.
func checkCacheSize(v amqp.Value, all amqp.Table) string {
	if n, ok := v.Int64(); ok && n > dedupSizeMax {
		return fmt.Sprintf("{max_value_exceeded,%d}", n)
	}
	return checkNotNegative(v, all)
}

func checkString(v amqp.Value, _ amqp.Table) string {
	if _, ok := v.Bytes(); !ok {
		return unacceptableType(v)
	}
	return ""
}

func checkBool(v amqp.Value, _ amqp.Table) string {
	if _, ok := v.Bool(); !ok {
		return unacceptableType(v)
	}
	return ""
}
