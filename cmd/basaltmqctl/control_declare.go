package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
)

// declarations are the commands that make queues and exchanges.
func declarations() []command {
	return []command{
		remote("create_queue", "QUEUE", "declare a queue", `The options become arguments of the queue (x-max-length and so on); --arguments gives
any others, such as '{"x-max-priority": 5}'. A queue that is there already must be
equivalent.`, true, createQueue),
		remote("create_exchange", "TYPE EXCHANGE", "declare an exchange", "TYPE is direct, fanout, topic, headers, x-consistent-hash, …", true, createExchange),
	}
}

// numberArgument is an option that becomes a number among the arguments.
type numberArgument struct {
	key  string
	text *string
}

func createQueue(f *flagSet) func(*session, []string) error {
	autoDelete := f.toggle("", "auto-delete", "it goes with its last consumer")
	durable := f.toggle("", "durable", "it survives a restart")
	reject := f.toggle("", "reject-on-overflow", "at its limit it refuses messages, instead of dropping the oldest")
	stream := f.toggle("", "stream-queue", "it is a stream")
	numbers := []numberArgument{
		{"x-expires", f.text("", "expires", "MS", "", "it goes when nobody has used it for so long")},
		{"x-max-length", f.text("", "max-length", "N", "", "most ready messages")},
		{"x-message-ttl", f.text("", "message-ttl", "MS", "", "how long messages live")},
		{"x-delivery-limit", f.text("", "delivery-limit", "N", "", "how often messages come back before they are dead")},
		{"x-max-priority", f.text("", "max-priority", "N", "", "priorities up to N")},
	}
	exchange := f.text("", "dead-letter-exchange", "NAME", "", "where dead messages go")
	key := f.text("", "dead-letter-routing-key", "KEY", "", "with this routing key")
	more := f.text("", "arguments", "JSON", "", "other arguments")
	return func(s *session, o []string) error {
		arguments, err := objectOption("arguments", *more)
		if err != nil {
			return err
		}
		for _, one := range numbers {
			if *one.text == "" {
				continue
			}
			n, err := strconv.ParseInt(*one.text, 10, 64)
			if err != nil {
				return usagef("%q is not a whole number", *one.text)
			}
			arguments[one.key] = n
		}
		if *exchange != "" {
			arguments["x-dead-letter-exchange"] = *exchange
		}
		if *key != "" {
			arguments["x-dead-letter-routing-key"] = *key
		}
		if *reject {
			arguments["x-overflow"] = "reject-publish"
		}
		if *stream {
			arguments["x-queue-type"] = "stream"
		}
		return s.change(http.MethodPut, api("queues", s.vhost, o[0]), map[string]any{
			"durable": *durable || *stream, "auto_delete": *autoDelete, "arguments": arguments,
		})
	}
}

func createExchange(f *flagSet) func(*session, []string) error {
	autoDelete := f.toggle("", "auto-delete", "it goes with its last binding")
	durable := f.toggle("", "durable", "it survives a restart")
	internal := f.toggle("", "internal", "only other exchanges publish to it")
	delayed := f.toggle("", "delayed", "it keeps messages with the header x-delay until they are due")
	alternate := f.text("", "alternate-exchange", "NAME", "", "where messages go that it has no binding for")
	more := f.text("", "arguments", "JSON", "", "other arguments")
	f.text("", "persist-messages", "N", "", "accepted for scripts, does nothing")
	f.text("", "persist-ms", "MS", "", "accepted for scripts, does nothing")
	return func(s *session, o []string) error {
		arguments, err := objectOption("arguments", *more)
		if err != nil {
			return err
		}
		if *alternate != "" {
			arguments["alternate-exchange"] = *alternate
		}
		return s.change(http.MethodPut, api("exchanges", s.vhost, o[1]), map[string]any{
			"type": o[0], "durable": *durable, "auto_delete": *autoDelete, "internal": *internal, "delayed": *delayed, "arguments": arguments,
		})
	}
}

// objectOption reads an option that is a JSON object.
func objectOption(name, text string) (map[string]any, error) {
	object := map[string]any{}
	if text == "" {
		return object, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, usagef("--%s is not a JSON object: quote it for the shell, such as '{\"x-max-priority\": 5}'", name)
	}
	maps.Insert(object, func(yield func(string, any) bool) {
		for k, v := range fields {
			if !yield(k, v) {
				return
			}
		}
	})
	return object, nil
}
