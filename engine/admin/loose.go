package admin

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// Command line tools send texts where a truth or a number is meant, and RabbitMQ
// takes them.

// looseBool is true, false, or one of them as a text.
type looseBool bool

// UnmarshalJSON implements json.Unmarshaler.
func (b *looseBool) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", `"true"`:
		*b = true
	case "false", `"false"`, "null", `""`:
		*b = false
	default:
		return errors.New(string(data) + " is neither true nor false")
	}
	return nil
}

// withNumber returns an object with a field that was a whole number as a text as
// a number; anything else is left for others to judge.
func withNumber(object []byte, field string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return object
	}
	var text string
	if json.Unmarshal(fields[field], &text) != nil {
		return object
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return object
	}
	fields[field] = json.RawMessage(strconv.FormatInt(n, 10))
	return marshal(fields)
}

// tableOf is a table in JSON; what is missing is empty.
type tableOf amqp.Table

// UnmarshalJSON implements json.Unmarshaler.
func (t *tableOf) UnmarshalJSON(data []byte) error {
	if s := string(data); s == "null" || s == "[]" || s == `""` { // the empty list of some encoders
		*t = nil
		return nil
	}
	if len(data) == 0 || data[0] != '{' {
		return errors.New("arguments are not an object")
	}
	table, err := tablejson.Parse(data)
	*t = tableOf(table)
	return err
}

var _ json.Unmarshaler = (*tableOf)(nil)
