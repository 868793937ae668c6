package broker

import (
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Arguments of exchange.declare. RabbitMQ and its plugins name them so; the
// second names are LavinMQ's.
const (
	argAlternate     = "alternate-exchange"
	argAlternateToo  = "x-alternate-exchange"
	argHashHeader    = "hash-header"
	argHashHeaderToo = "x-hash-on"
	argHashProperty  = "hash-property"
	argAlgorithm     = "x-algorithm"
	argHistoryLength = "x-recent-history-length"
	argDelayedType   = "x-delayed-type"
	argDelayedToo    = "x-delayed-exchange" // true: LavinMQ's way to delay with any type
	algorithmJump    = "jump"
	algorithmRing    = "ring"
)

// comparedArguments are the arguments whose values must agree when an exchange
// of a type, that routes as kind, is declared again. RabbitMQ compares
// alternate-exchange alone; but who declares a hash by another header, or no
// duplicates, must not believe to have got it.
func comparedArguments(exchangeType, kind string) []string {
	compared := append([]string{argAlternate, argAlternateToo, argDelayedToo}, dedupArguments...)
	if exchangeType == typeDelayed {
		compared = append(compared, argDelayedType)
	}
	switch kind {
	case typeRecentHistory:
		return append(compared, argHistoryLength)
	case typeConsistentHash:
		return append(compared, argHashHeader, argHashHeaderToo, argHashProperty, argAlgorithm)
	}
	return compared
}

// AlternateExchange returns the alternate exchange that arguments of
// exchange.declare name. Who declares it needs the permission to read from the
// exchange being declared and to write to the alternate one.
func AlternateExchange(arguments amqp.Table) (name string, ok bool) {
	for _, argument := range []string{argAlternate, argAlternateToo} {
		if v, found := arguments.Lookup(argument); found && v.Kind() == amqp.KindString {
			content, _ := v.Bytes()
			return string(content), true
		}
	}
	return "", false
}

// isString says whether v is the string s.
func isString(v amqp.Value, s string) bool {
	content, ok := v.Bytes()
	return ok && v.Kind() == amqp.KindString && string(content) == s
}

// validateExchange checks the arguments of an exchange to be made. Errors: 406.
func (vh *VHost) validateExchange(d *ExchangeDeclare) error {
	if err := vh.stringArguments(d, argAlternate, argAlternateToo); err != nil {
		return err
	}
	if err := vh.validateDelayed(d); err != nil {
		return err
	}
	if err := vh.validateDedup(d); err != nil {
		return err
	}
	switch exchangeKind(d.Type, d.Arguments) {
	case typeConsistentHash:
		return vh.validateHash(d)
	case typeRecentHistory:
		v, ok := d.Arguments.Lookup(argHistoryLength)
		if n, isInt := v.Int64(); ok && (!isInt || n < 1) {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "Invalid argument, '%s' must be a positive integer", argHistoryLength)
		}
	}
	return nil
}

// stringArguments refuses those of the arguments that are not strings.
func (vh *VHost) stringArguments(d *ExchangeDeclare, names ...string) error {
	for _, name := range names {
		if v, ok := d.Arguments.Lookup(name); ok && v.Kind() != amqp.KindString {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid type '%s' for arg '%s' in exchange '%s' in vhost '%s'",
				amqp.KindName(v.Kind()), name, d.Name, vh.Name)
		}
	}
	return nil
}

func (vh *VHost) validateHash(d *ExchangeDeclare) error {
	if err := vh.stringArguments(d, argHashHeader, argHashHeaderToo, argHashProperty, argAlgorithm); err != nil {
		return err
	}
	_, byHeader := hashHeader(d.Arguments)
	property, byProperty := d.Arguments.Lookup(argHashProperty)
	if byHeader && byProperty {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "hash-header and hash-property are mutually exclusive")
	}
	if name, _ := property.Bytes(); byProperty && spreadByProperty(string(name)) == spreadByKey {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "Unsupported property: %s", name)
	}
	if algorithm, ok := d.Arguments.Lookup(argAlgorithm); ok && !isString(algorithm, algorithmRing) && !isString(algorithm, algorithmJump) {
		name, _ := algorithm.Bytes()
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for exchange '%s' in vhost '%s': '%s' is neither 'ring' nor 'jump'",
			argAlgorithm, d.Name, vh.Name, name)
	}
	return nil
}

// hashHeader returns the header that arguments name to hash by.
func hashHeader(arguments amqp.Table) (header string, ok bool) {
	for _, argument := range []string{argHashHeader, argHashHeaderToo} {
		if v, found := arguments.Lookup(argument); found && v.Kind() == amqp.KindString {
			content, _ := v.Bytes()
			return string(content), true
		}
	}
	return "", false
}

// spreadByProperty is spreadByKey for a property that cannot be hashed by.
func spreadByProperty(name string) uint8 {
	switch name {
	case "message_id":
		return spreadByMessageID
	case "correlation_id":
		return spreadByCorrelationID
	case "timestamp":
		return spreadByTimestamp
	}
	return spreadByKey
}

// newSpread is what an exchange of a type with these arguments spreads by.
func newSpread(kind string, arguments amqp.Table) spread {
	if kind != typeConsistentHash {
		return spread{}
	}
	if header, ok := hashHeader(arguments); ok {
		return spread{by: spreadByHeader, header: header}
	}
	property, _ := arguments.Lookup(argHashProperty)
	name, _ := property.Bytes()
	return spread{by: spreadByProperty(string(name))}
}
