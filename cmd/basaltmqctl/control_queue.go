package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/engine/admin"
)

// moveStep is how many messages one request moves: between two of them the
// progress is told, and an interruption is heeded.
const moveStep = 50_000

// publishBytesMax is what the broker takes by a request.
const publishBytesMax = 4 << 20

// queueOperations are the commands for what is in queues.
func queueOperations() []command {
	put := func(what string) func(s *session, o []string) error {
		return func(s *session, o []string) error {
			return s.change(http.MethodPut, api("queues", s.vhost, o[0], what), nil)
		}
	}
	return []command{
		simple("pause_queue", "QUEUE", "deliver nothing from a queue, which goes on taking messages, until it is resumed", true, put("pause")),
		simple("resume_queue", "QUEUE", "let a paused queue deliver again", true, put("resume")),
		simple("restart_queue", "QUEUE", "open a queue again that a failed write has closed, when the disk works again", true, put("restart")),
		simple("restart_exchange", "EXCHANGE", "the same for what an exchange keeps: delayed messages, a history, values seen", true, func(s *session, o []string) error {
			return s.change(http.MethodPut, api("exchanges", s.vhost, o[0], "restart"), nil)
		}),
		remote("queue peek", "QUEUE", "show messages and leave them as they are", "Nothing is taken: order and redelivered flags stay.", true, peekQueue),
		remote("queue get", "QUEUE", "take messages, or look at them", `Modes: ack_requeue_true (look, and put back, flagged redelivered), ack_requeue_false
(take), reject_requeue_true (put back, and count it as a failed delivery),
reject_requeue_false (make dead letters).`, true, getQueue),
		remote("queue publish", "QUEUE [TEXT]", "publish a message to a queue, or with --exchange by a routing key", `Without TEXT the message is read from the input. Status 1: no queue took it.`, true, publishQueue),
		remote("queue move", "QUEUE TO", "move the ready messages of a queue to another", `A batch at a time, each in one transaction: an interruption, or a crash, leaves every
message in one of the two queues. Messages keep their properties, exchange and
routing key; they count as newly arrived. Those of a stream are copied.`, true, moveQueue),
		lister("queue unacked", "list the messages of a queue that clients have and have not acknowledged", true,
			func(s *session, o []string) string { return api("queues", s.vhost, o[0], "unacked") }, "QUEUE",
			"channel_name", "consumer_tag", "delivery_tag", "unacked_seconds"),
		simple("cancel_consumer", "CONNECTION CHANNEL TAG", "cancel a consumer, named as list_consumers does", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("consumers", s.vhost, o[0], o[1], o[2]), nil)
		}),
		simple("set_prefetch", "CONNECTION CHANNEL N", "set the prefetch of a channel's consumers; 0 is no limit", false, func(s *session, o []string) error {
			n, err := strconv.ParseUint(o[2], 10, 16)
			if err != nil {
				return usagef("%q is not a number from 0 to 65535", o[2])
			}
			return s.change(http.MethodPut, api("channels", o[0]+" ("+o[1]+")"), map[string]uint64{"prefetch": n})
		}),
	}
}

// bodyOptions are how bodies are shown, as in "store dump".
func bodyOptions(f *flagSet) (form *string, most *uint64) {
	form = f.choice("", "body", "text", "text", "hex", "base64", "none")
	return form, f.number("", "body-bytes", "N", 1024, "show so much of each body; 0: all of it")
}

// ask sends what a request for messages needs, and shows the answer.
func (s *session) messages(path string, request map[string]any, form bodyForm) error {
	switch form.form {
	case "text", "hex", "base64", "none":
	default:
		return usagef("--body %q is neither text, hex, base64 nor none", form.form)
	}
	request["encoding"] = "base64"
	if form.form == "none" {
		request["truncate"] = 0
	} else if form.bytesMax > 0 {
		request["truncate"] = form.bytesMax
	}
	answer, err := s.do(http.MethodPost, path, request)
	if err != nil {
		return err
	}
	defer answer.Close()
	var list []admin.Message
	if err := json.NewDecoder(answer).Decode(&list); err != nil {
		return fmt.Errorf("the broker's answer ended early: %w", err)
	}
	for i := range list {
		if err := form.show(s.out.stdout, &list[i], s.format == "json"); err != nil {
			return err
		}
	}
	return nil
}

// show writes a message that the broker sent.
func (b bodyForm) show(w io.Writer, m *admin.Message, asJSON bool) error {
	body, err := base64.StdEncoding.DecodeString(m.Payload)
	if err != nil {
		return fmt.Errorf("the broker sent a body that is not base64: %w", err)
	}
	one := message{size: m.PayloadBytes, body: body}
	if asJSON {
		m.Payload, m.Encoding = "", ""
		shown := struct {
			*admin.Message
			Body any `json:"payload,omitempty"`
			Form any `json:"payload_encoding,omitempty"`
		}{Message: m}
		switch {
		case b.form == "none":
		case b.form == "text" && isText(body):
			shown.Body, shown.Form = string(body), "string"
		case b.form == "hex":
			shown.Body, shown.Form = fmt.Sprintf("%x", body), "hex"
		default:
			shown.Body, shown.Form = base64.StdEncoding.EncodeToString(body), "base64"
		}
		return encodeLine(w, shown)
	}
	head := ""
	if m.Offset != nil {
		head = fmt.Sprintf("offset %d  %s  ", *m.Offset, recordTime(*m.Arrived))
	}
	if m.Redelivered {
		head += "redelivered  "
	}
	_, err = fmt.Fprintf(w, "%sexchange %s  key %s\n  properties: %s\n  body: %s\n",
		head, quote([]byte(m.Exchange)), quote([]byte(m.RoutingKey)), shownProperties(m.Properties), b.text(&one))
	return err
}

func shownProperties(raw json.RawMessage) string {
	if string(raw) == "[]" {
		return "none"
	}
	return cell(raw)
}

func encodeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func peekQueue(f *flagSet) func(*session, []string) error {
	count := f.number("c", "count", "N", 10, "how many")
	skip := f.number("", "skip", "N", 0, "pass over the first N")
	offset := f.text("", "offset", "FROM", "", "of a stream: first, last, next, a number or an interval such as 2h")
	form, most := bodyOptions(f)
	return func(s *session, o []string) error {
		request := map[string]any{"count": *count, "skip": *skip}
		where := "peek"
		if *offset != "" {
			where, request["offset"] = "stream", *offset
		}
		return s.messages(api("queues", s.vhost, o[0], where), request, bodyForm{*form, *most})
	}
}

func getQueue(f *flagSet) func(*session, []string) error {
	count := f.number("c", "count", "N", 1, "how many")
	mode := f.choice("", "ackmode", "ack_requeue_true", "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
	form, most := bodyOptions(f)
	return func(s *session, o []string) error {
		return s.messages(api("queues", s.vhost, o[0], "get"), map[string]any{"count": *count, "ackmode": *mode}, bodyForm{*form, *most})
	}
}

func publishQueue(f *flagSet) func(*session, []string) error {
	exchange := f.text("", "exchange", "NAME", "", "publish to this exchange; QUEUE is the routing key")
	persistent := f.toggle("", "persistent", "the message is persistent, and on disk when this ends")
	properties := f.text("", "properties", "JSON", "", `properties, such as '{"content_type": "text/plain", "headers": {"a": 1}}'`)
	return func(s *session, o []string) error {
		given, err := objectOption("properties", *properties)
		if err != nil {
			return err
		}
		if *persistent {
			given["delivery_mode"] = 2
		}
		body := []byte(nil)
		if len(o) > 1 {
			body = []byte(o[1])
		} else if body, err = io.ReadAll(io.LimitReader(stdin, publishBytesMax+1)); err != nil {
			return err
		}
		if len(body) > publishBytesMax {
			return usagef("the message has more than %d MiB: publish such messages over AMQP", publishBytesMax>>20)
		}
		where := *exchange
		if where == "" {
			where = "amq.default"
		}
		answer, err := s.do(http.MethodPost, api("exchanges", s.vhost, where, "publish"), map[string]any{
			"properties": given, "routing_key": o[0], "payload": base64.StdEncoding.EncodeToString(body), "payload_encoding": "base64",
		})
		if err != nil {
			return err
		}
		defer answer.Close()
		var done admin.Routed
		if err := json.NewDecoder(answer).Decode(&done); err != nil {
			return err
		}
		if s.format == "json" {
			err = encodeLine(s.out.stdout, done)
		}
		if err == nil && !done.Routed {
			err = &refusal{text: "no queue took the message: there is none for it, or it is full"}
		}
		return err
	}
}

func moveQueue(f *flagSet) func(*session, []string) error {
	count := f.number("c", "count", "N", 0, "how many; 0: all that are there now")
	vhost := f.text("", "to-vhost", "NAME", "", "virtual host of TO, if it is another")
	return func(s *session, o []string) error {
		left := *count
		if left == 0 {
			var q struct {
				Ready uint64 `json:"messages_ready"`
			}
			if err := s.get(api("queues", s.vhost, o[0]), &q); err != nil {
				return err
			}
			left = q.Ready
		}
		if *vhost == "" {
			*vhost = s.vhost
		}
		began := time.Now()
		total := uint64(0)
		for offset := uint64(0); left > 0; {
			done, err := s.moveSome(o[0], admin.MoveRequest{Destination: o[1], VHost: vhost, Count: admin.N(min(left, moveStep)), Offset: offset})
			n := done.Moved
			total += n
			offset = done.Next
			if err != nil {
				if total > 0 {
					fmt.Fprintf(s.out.stderr, "%d messages were moved before\n", total)
				}
				return err
			}
			if n == 0 {
				break
			}
			left -= min(n, left)
			if time.Since(began) > time.Second && left > 0 && !s.quiet {
				began = time.Now()
				fmt.Fprintf(s.out.stderr, "%d moved, %d to go\n", total, left)
			}
		}
		if s.format == "json" {
			return encodeLine(s.out.stdout, map[string]uint64{"moved": total})
		}
		_, err := fmt.Fprintf(s.out.stdout, "%d messages are moved\n", total)
		return err
	}
}

func (s *session) moveSome(from string, request admin.MoveRequest) (done admin.Moved, err error) {
	answer, err := s.do(http.MethodPost, api("queues", s.vhost, from, "move"), request)
	if err != nil {
		return done, err
	}
	defer answer.Close()
	if err := json.NewDecoder(answer).Decode(&done); err != nil {
		return done, errors.New("the broker's answer ended early: some of the messages may have been moved")
	}
	return done, nil
}

func isText(b []byte) bool { return utf8.Valid(b) }
