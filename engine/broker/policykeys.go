package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// PolicyKey is what is known of a key of policy definitions.
type PolicyKey struct {
	// Operator: operator policies may have it, too. The lower number counts.
	Operator bool
	// Idle: kept, for files that have it, but without effect in this broker.
	Idle  bool
	check func(v amqp.Value) (problem string)
}

// PolicyKeys are the keys of policy definitions.
var PolicyKeys = map[string]PolicyKey{
	"message-ttl":             {Operator: true, check: numberFrom(0)},
	"expires":                 {Operator: true, check: numberFrom(1)},
	"max-length":              {Operator: true, check: numberFrom(0)},
	"max-length-bytes":        {Operator: true, check: numberFrom(0)},
	"delivery-limit":          {Operator: true, check: numberFrom(-1)}, // -1: none
	"overflow":                {check: textOf("drop-head", "reject-publish", "reject-publish-dlx")},
	"dead-letter-exchange":    {check: anyText},
	"dead-letter-routing-key": {check: anyText},
	"dead-letter-strategy":    {check: textOf("at-most-once", "at-least-once")},
	"consumer-timeout":        {check: numberFrom(0)},
	"max-age":                 {check: age},
	"alternate-exchange":      {check: anyText},

	// What RabbitMQ and LavinMQ have and this broker has no use for, or not yet.
	"queue-mode":                    {Idle: true, check: textOf("default", "lazy")},
	"queue-version":                 {Idle: true, check: numberFrom(1)},
	"queue-master-locator":          {Idle: true, check: anyText},
	"queue-leader-locator":          {Idle: true, check: anyText},
	"initial-cluster-size":          {Idle: true, check: numberFrom(1)},
	"target-group-size":             {Idle: true, check: numberFrom(1)},
	"max-in-memory-length":          {Idle: true, check: numberFrom(0)},
	"max-in-memory-bytes":           {Idle: true, check: numberFrom(0)},
	"stream-max-segment-size-bytes": {Idle: true, check: numberFrom(1)},
	"ha-mode":                       {Idle: true, check: textOf("all", "exactly", "nodes")},
	"ha-params":                     {Idle: true, check: anything},
	"ha-sync-mode":                  {Idle: true, check: textOf("manual", "automatic")},
	"ha-sync-batch-size":            {Idle: true, check: numberFrom(1)},
	"ha-promote-on-shutdown":        {Idle: true, check: anyText},
	"ha-promote-on-failure":         {Idle: true, check: anyText},
	"federation-upstream":           {Idle: true, check: anyText},
	"federation-upstream-set":       {Idle: true, check: anyText},
	"federation-upstream-pattern":   {Idle: true, check: anyText},
	"delayed-message":               {Idle: true, check: trueOrFalse},
}

// policyKeyNames lists the keys that do something.
func policyKeyNames(operator bool) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(PolicyKeys)) {
		if key := PolicyKeys[name]; !key.Idle && (key.Operator || !operator) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// idleKeys lists the keys of a definition that have no effect.
func idleKeys(definition amqp.Table) (names []string) {
	for name := range definition.All() {
		if PolicyKeys[string(name)].Idle {
			names = append(names, string(name))
		}
	}
	return names
}

func numberFrom(least int64) func(amqp.Value) string {
	return func(v amqp.Value) string {
		n, ok := v.Int64()
		switch {
		case !ok:
			return "must be a whole number, without quotes"
		case n < least:
			return fmt.Sprintf("is %d, and must be %d or more", n, least)
		}
		return ""
	}
}

func anyText(v amqp.Value) string {
	if _, ok := v.Bytes(); !ok {
		return "must be a text in quotes"
	}
	return ""
}

func textOf(names ...string) func(amqp.Value) string {
	return func(v amqp.Value) string {
		if text, ok := v.Bytes(); !ok || !slices.Contains(names, string(text)) {
			return "must be one of " + strings.Join(names, ", ")
		}
		return ""
	}
}

func trueOrFalse(v amqp.Value) string {
	if text, ok := v.Bytes(); ok && (string(text) == "true" || string(text) == "false") {
		return ""
	}
	if _, ok := v.Bool(); !ok {
		return "must be true or false"
	}
	return ""
}

func anything(amqp.Value) string { return "" }

// age checks a span of time as streams have it: digits and a unit.
func age(v amqp.Value) string {
	text, ok := v.Bytes()
	digits := strings.TrimRight(string(text), "YMDhms")
	if !ok || len(digits) != len(text)-1 || digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 9 {
		return "must be a number and one of Y, M, D, h, m, s, such as 7D"
	}
	return ""
}
