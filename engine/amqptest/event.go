package amqptest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// String renders an event as one line of a transcript: channel, method and its
// arguments, then the body of a content in quotes.
//
//	1 queue.declare-ok Queue=q MessageCount=0 ConsumerCount=0
//	0 connection.close 501 (50,10) FRAME_ERROR - ...
//	1 basic.get-ok DeliveryTag=1 Redelivered=false Exchange= RoutingKey=q MessageCount=0 "body"
func (e Event) String() string {
	if e.Method == nil {
		return "heartbeat"
	}
	s := fmt.Sprintf("%d %s", e.Channel, amqp.MethodName(e.Method.ID()))
	switch m := e.Method.(type) {
	case *amqp.ConnectionClose:
		s += fmt.Sprintf(" %d (%d,%d) %s", m.ReplyCode, m.ClassID, m.MethodID, m.ReplyText)
	case *amqp.ChannelClose:
		s += fmt.Sprintf(" %d (%d,%d) %s", m.ReplyCode, m.ClassID, m.MethodID, m.ReplyText)
	case *amqp.ConnectionStart: // version and properties are checked by their own test
	default:
		v := reflect.ValueOf(m).Elem()
		var fields []string
		for i := range v.NumField() {
			value := v.Field(i).Interface()
			if b, ok := value.([]byte); ok {
				value = string(b)
			}
			fields = append(fields, fmt.Sprintf("%s=%v", v.Type().Field(i).Name, value))
		}
		if len(fields) > 0 {
			s += " " + strings.Join(fields, " ")
		}
	}
	if e.Content {
		s += fmt.Sprintf(" %q", e.Body)
	}
	return s
}

// Matches compares a transcript line with a pattern: equal, or beginning with
// what stands before a final "*".
func Matches(line, pattern string) bool {
	if head, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(line, head)
	}
	return line == pattern
}
