package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// Publish is what publishing takes.
type Publish struct {
	Properties json.RawMessage `json:"properties"`
	RoutingKey *string         `json:"routing_key"`
	Payload    *string         `json:"payload"`
	Encoding   *string         `json:"payload_encoding"` // string, base64
}

// Routed is the answer to a publish.
type Routed struct {
	Routed bool `json:"routed"`
}

// Get is what looking at messages takes; each request knows some of it.
type Get struct {
	Count    Number     `json:"count"`
	AckMode  string     `json:"ackmode"`
	AckMode2 string     `json:"ack_mode"` // LavinMQ's name for it
	Requeue  *looseBool `json:"requeue"`  // RabbitMQ's until 3.7
	Encoding string     `json:"encoding"` // auto, base64
	Truncate Number     `json:"truncate"`
	Offset   looseText  `json:"offset"` // of streams: first, last, next, a number or an interval
	Skip     Number     `json:"skip"`   // of peeks
}

// Message is a message in a queue.
type Message struct {
	PayloadBytes uint64          `json:"payload_bytes"`
	Redelivered  bool            `json:"redelivered"`
	Exchange     string          `json:"exchange"`
	RoutingKey   string          `json:"routing_key"`
	MessageCount uint64          `json:"message_count"`
	Properties   json.RawMessage `json:"properties"`
	Payload      string          `json:"payload"`
	Encoding     string          `json:"payload_encoding"`
	// Of peeks and streams.
	Offset  *uint64 `json:"offset,omitempty"`
	Arrived *int64  `json:"arrived,omitempty"` // at the queue, Unix milliseconds
}

// MoveRequest is what moving messages takes.
type MoveRequest struct {
	Destination string  `json:"destination"`
	VHost       *string `json:"destination_vhost,omitempty"` // the source's
	Count       Number  `json:"count,omitzero"`              // all
	Offset      uint64  `json:"offset,omitempty"`            // of a stream: where to begin
}

// Moved is the answer to a move. More says that time was up before the end.
type Moved struct {
	Moved uint64 `json:"moved"`
	Next  uint64 `json:"next,omitempty"` // of a stream: the offset to go on with
	More  bool   `json:"more"`
}

const (
	encodingAuto = "auto"
	getCount     = 1 // RabbitMQ asks for a number; LavinMQ's default
)

// verdicts are the modes of getting messages.
var verdicts = map[string]broker.Verdict{
	"ack_requeue_true": broker.PutBack, "reject_requeue_true": broker.Requeue,
	"ack_requeue_false": broker.Ack, "reject_requeue_false": broker.Reject,
	"get": broker.PutBack, // LavinMQ's
}

func encodeBase64(body []byte) string { return base64.StdEncoding.EncodeToString(body) }

func (h *Handler) messageRoutes() {
	const one = "/api/queues/{vhost}/{name}"
	h.answer("POST /api/exchanges/{vhost}/{name}/publish", Management, "Publish a message", h.publish)
	h.look("POST "+one+"/get", "Take messages from a queue, or look at them", false, h.getMessages)
	h.look("POST "+one+"/peek", "Look at messages and leave everything as it is, redelivered flags included", true, peekMessages)
	h.look("POST "+one+"/stream", "Read messages of a stream from an offset on", true, readStream)
	h.answer("POST "+one+"/move", Management, "Move messages to another queue; those of a stream are copied", h.moveMessages)
}

// holding bounds how many requests have messages in memory.
type holding chan struct{}

func (c holding) enter(ctx context.Context) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c holding) leave() { <-c }

func (h *Handler) publish(q *request) (any, error) {
	if err := h.holding.enter(q.Context()); err != nil {
		return nil, err
	}
	defer h.holding.leave()
	vh, err := h.enter(q)
	if err != nil {
		return nil, err
	}
	exchange := exchangeName(q.PathValue("name"))
	if err := q.id.In(vh).Permit(access.Write, "exchange", exchange); err != nil {
		return nil, err
	}
	p, err := readPublish(q)
	if err != nil {
		return nil, err
	}
	p.Exchange = exchange
	if q.id != nil {
		p.User = q.id.user
		grant := q.id.grant(vh)
		if grant.HasTopics() && vh.IsTopic([]byte(exchange)) && !grant.AllowsTopic(access.Write, []byte(exchange), []byte(p.RoutingKey), "") {
			return nil, wire.Errorf(wire.CodeAccessRefused, 0, "write access to topic '%s' in exchange topic '%s' in vhost '%s' refused for user '%s'", p.RoutingKey, exchange, vh.Name, q.id.Name())
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), durableTimeout)
	defer cancel()
	routed, err := h.AMQP.Post(ctx, vh, p)
	if err != nil {
		return nil, asRequest(err)
	}
	return Routed{routed}, nil
}

// asRequest words an error of AMQP's as RabbitMQ's API does: what there is not,
// for example, is a mistake of the request's.
func asRequest(err error) error {
	var e *wire.Error
	if errors.As(err, &e) && e.Code != wire.CodeAccessRefused && e.Code != wire.CodeInternalError {
		return problemf(http.StatusBadRequest, "%d %s", e.Code, e.Text)
	}
	return err
}

func readPublish(q *request) (*amqp.Posting, error) {
	var v Publish
	if err := q.decode(&v); err != nil {
		return nil, err
	}
	for _, key := range []struct {
		name    string
		missing bool
	}{{"routing_key", v.RoutingKey == nil}, {"properties", v.Properties == nil}, {"payload", v.Payload == nil}, {"payload_encoding", v.Encoding == nil}} {
		if key.missing {
			return nil, problemf(http.StatusBadRequest, "[{key_missing,%s}]", key.name)
		}
	}
	if len(*v.RoutingKey) > wire.ShortStringMax {
		return nil, problemf(http.StatusBadRequest, "the routing key has more than %d bytes", wire.ShortStringMax)
	}
	p := &amqp.Posting{RoutingKey: *v.RoutingKey}
	var err error
	if p.Properties, err = parseProperties(v.Properties); err != nil {
		return nil, err
	}
	switch *v.Encoding {
	case "string":
		p.Body = []byte(*v.Payload)
	case "base64":
		if p.Body, err = base64.StdEncoding.DecodeString(*v.Payload); err != nil {
			return nil, problemf(http.StatusBadRequest, "the payload is not base64")
		}
	default:
		return nil, problemf(http.StatusBadRequest, "unsupported payload_encoding '%s': string or base64", *v.Encoding)
	}
	return p, nil
}

// look mounts a request that is answered with messages of a queue. placed says
// that their places in it are told, too.
func (h *Handler) look(pattern, summary string, placed bool, f func(ctx context.Context, id *Identity, queue *broker.Queue, v *Get) ([]broker.Message, error)) {
	h.mount(Route{Pattern: pattern, Role: Management, Summary: summary, Body: Get{}, Answer: []Message{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, id: IdentityOf(r)}
		ctx, cancel := context.WithTimeout(r.Context(), durableTimeout)
		defer cancel()
		err := h.holding.enter(ctx)
		if err != nil {
			fail(w, err)
			return
		}
		defer h.holding.leave()
		queue, v, err := h.lookingAt(q)
		var list []broker.Message
		if err == nil {
			list, err = f(ctx, q.id, queue, &v)
		}
		if err != nil {
			fail(w, asRequest(err))
			return
		}
		send(w, http.StatusOK, v.messages(list, placed))
	})})
}

// lookingAt finds the queue, and reads what is wanted of it.
func (h *Handler) lookingAt(q *request) (queue *broker.Queue, v Get, err error) {
	vh, queue, err := h.queueToUse(q)
	if err == nil {
		err = q.id.In(vh).Permit(access.Read, "queue", queue.Name)
	}
	if err == nil {
		err = q.decode(&v)
	}
	if v.Encoding == "" {
		v.Encoding = encodingAuto
	}
	if err == nil && v.Encoding != encodingAuto && v.Encoding != "base64" {
		err = problemf(http.StatusBadRequest, "Unsupported encoding. Please use auto or base64.")
	}
	return queue, v, err
}

func (h *Handler) getMessages(ctx context.Context, id *Identity, queue *broker.Queue, v *Get) ([]broker.Message, error) {
	mode := v.AckMode + v.AckMode2
	switch {
	case mode == "" && v.Requeue != nil && bool(*v.Requeue):
		mode = "ack_requeue_true"
	case mode == "" && v.Requeue != nil:
		mode = "ack_requeue_false"
	case mode == "":
		return nil, problemf(http.StatusBadRequest, "[{key_missing,ackmode}]")
	}
	verdict, ok := verdicts[mode]
	if !ok {
		return nil, problemf(http.StatusBadRequest, "'ackmode' is one of ack_requeue_true, ack_requeue_false, reject_requeue_true and reject_requeue_false")
	}
	return h.AMQP.Collect(ctx, queue, id.account(), v.Count.or(getCount), v.Truncate.or(math.MaxUint64), verdict)
}

func peekMessages(ctx context.Context, _ *Identity, queue *broker.Queue, v *Get) ([]broker.Message, error) {
	return queue.Peek(ctx, v.Skip.or(0), v.Count.or(getCount), v.Truncate.or(math.MaxUint64))
}

func readStream(ctx context.Context, _ *Identity, queue *broker.Queue, v *Get) ([]broker.Message, error) {
	if v.Offset == "" {
		v.Offset = "first"
	}
	return queue.ReadStream(ctx, string(v.Offset), v.Count.or(getCount), v.Truncate.or(math.MaxUint64))
}

// messages are copies of messages as they are answered.
func (v *Get) messages(list []broker.Message, placed bool) []Message {
	out := make([]Message, 0, len(list))
	for i := range list {
		m := &list[i]
		one := Message{
			PayloadBytes: m.Size, Redelivered: m.Redelivered, Exchange: m.Exchange, RoutingKey: m.RoutingKey, MessageCount: m.Remaining,
			Properties: appendProperties(nil, m.Properties),
		}
		one.Payload, one.Encoding = payloadText(m.Body, v.Encoding)
		if placed {
			one.Offset, one.Arrived = &m.Offset, &m.Timestamp
		}
		m.Body = nil // it may be large, and is there twice
		out = append(out, one)
	}
	return out
}

func (h *Handler) moveMessages(q *request) (any, error) {
	vh, from, err := h.queueToUse(q)
	if err != nil {
		return nil, err
	}
	if err := q.id.In(vh).Permit(access.Read, "queue", from.Name); err != nil {
		return nil, err
	}
	var v MoveRequest
	if err := q.decode(&v); err != nil {
		return nil, err
	}
	if v.VHost == nil {
		v.VHost = &vh.Name
	}
	q.SetPathValue("vhost", *v.VHost)
	q.SetPathValue("name", v.Destination)
	other, to, err := h.queueToUse(q)
	if err != nil {
		return nil, err
	}
	if err := q.id.In(other).Permit(access.Write, "queue", to.Name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), moveTimeout)
	defer cancel()
	n, err := h.Broker.Move(ctx, from, to, v.Count.or(broker.MoveMax), v.Offset)
	switch {
	case ctx.Err() != nil && q.Context().Err() == nil && n.Messages > 0:
		return Moved{n.Messages, n.Next, true}, nil
	case err != nil && n.Messages > 0:
		return nil, problemf(http.StatusConflict, "%d messages were moved, and then: %v", n.Messages, strings.TrimPrefix(err.Error(), "amqp: "))
	case err != nil:
		return nil, asRequest(err)
	}
	return Moved{Moved: n.Messages, Next: n.Next}, nil
}

// Number is a number that may be absent, or a text that is one, as RabbitMQ takes
// it.
type Number struct {
	n     uint64
	given bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Number) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("is " + strconv.Quote(text) + " and not a number that is 0 or more")
	}
	l.n, l.given = n, true
	return nil
}

// N is a number that is given.
func N(n uint64) Number { return Number{n, true} }

// MarshalJSON implements json.Marshaler.
func (l Number) MarshalJSON() ([]byte, error) { return strconv.AppendUint(nil, l.n, 10), nil }

func (l *Number) or(n uint64) uint64 {
	if l.given {
		return l.n
	}
	return n
}

// looseText is a text, or a number that stands for one.
type looseText string

// UnmarshalJSON implements json.Unmarshaler.
func (l *looseText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*l = looseText(text)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return errors.New("is neither a text nor a number")
	}
	*l = looseText(n)
	return nil
}
