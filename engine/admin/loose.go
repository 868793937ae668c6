package admin

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
	"github.com/basaltmq/basaltmq/wire/exactjson"
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
		return errors.New("is " + string(data) + ", which is neither true nor false")
	}
	return nil
}

// withNumber makes a number of a field that is a whole number as a text; anything
// else is left for others to judge.
func withNumber(o exactjson.Object, field string) {
	var text string
	if json.Unmarshal(o[field], &text) != nil {
		return
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		o[field] = strconv.AppendInt(nil, n, 10)
	}
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
		return errors.New("is not an object")
	}
	table, err := tablejson.Parse(data)
	*t = tableOf(table)
	return err
}

var _ json.Unmarshaler = (*tableOf)(nil)
