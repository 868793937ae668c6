package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// problem is an error that knows its status.
type problem struct {
	status    int
	text      string
	name      string   // RabbitMQ's word, where it is not the status's
	challenge bool     // ask for a login
	lines     []string // what is wrong, one by one
}

func (p *problem) Error() string { return p.text }

func problemf(status int, format string, args ...any) error {
	return &problem{status: status, text: fmt.Sprintf(format, args...)}
}

// errorReply is the body of an error. RabbitMQ's clients compare the first two,
// so that what they say of a missing object is what RabbitMQ says; Detail says
// which one.
type errorReply struct {
	Error  string   `json:"error"`
	Reason string   `json:"reason"`
	Detail string   `json:"detail,omitempty"`
	Lines  []string `json:"problems,omitempty"`
}

// errorNames are RabbitMQ's words.
var errorNames = map[int]string{
	http.StatusBadRequest:            "bad_request",
	http.StatusUnauthorized:          "not_authorised",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "Object Not Found",
	http.StatusMethodNotAllowed:      "Method Not Allowed",
	http.StatusConflict:              "conflict",
	http.StatusRequestEntityTooLarge: "payload_too_large",
	http.StatusServiceUnavailable:    "service_unavailable",
	http.StatusInternalServerError:   "internal_server_error",
}

func errorName(status int) string {
	if name := errorNames[status]; name != "" {
		return name
	}
	return strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "_"))
}

// statusOf maps errors to HTTP.
func statusOf(err error) (int, string) {
	var p *problem
	if errors.As(err, &p) {
		return p.status, p.text
	}
	var a *access.Error
	if errors.As(err, &a) {
		switch a.Reason {
		case access.NotFound:
			return http.StatusNotFound, a.Text
		case access.Exists:
			return http.StatusConflict, a.Text
		}
		return http.StatusBadRequest, a.Text
	}
	var e *wire.Error
	if errors.As(err, &e) {
		switch e.Code {
		case wire.CodeAccessRefused, wire.CodeNotAllowed:
			return http.StatusUnauthorized, e.Text
		}
		text := e.Text
		if _, rest, ok := strings.Cut(text, " - "); ok {
			text = rest
		}
		switch e.Code {
		case wire.CodeNotFound:
			return http.StatusNotFound, text
		case wire.CodeInternalError:
			return http.StatusInternalServerError, text
		}
		return http.StatusBadRequest, text
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", large.Limit)
	}
	return http.StatusServiceUnavailable, err.Error()
}

func fail(w http.ResponseWriter, err error) {
	status, text := statusOf(err)
	reply := errorReply{Error: errorName(status), Reason: text}
	var p *problem
	if errors.As(err, &p) {
		reply.Lines = p.lines
		if p.name != "" {
			reply.Error = p.name
		}
		if p.challenge {
			w.Header().Set("WWW-Authenticate", `Basic realm="BasaltMQ Management"`)
		}
	}
	if status == http.StatusNotFound {
		reply.Reason, reply.Detail = "Not Found", text
	}
	var body bytes.Buffer
	_ = encoder(&body).Encode(reply) // texts cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len())) // it may leave before the request has been read
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone
}

// Answer sends a value as JSON, for routes of other packages.
func Answer(w http.ResponseWriter, v any) { send(w, http.StatusOK, v) }

// Refuse sends an error as this package does, for routes of others.
func Refuse(w http.ResponseWriter, status int, reason string) {
	send(w, status, errorReply{Error: errorName(status), Reason: reason})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = encoder(w).Encode(v) // the client is gone
}

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
