package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Exchange is an exchange.
type Exchange struct {
	VHost      string          `json:"vhost"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Durable    bool            `json:"durable"`
	AutoDelete bool            `json:"auto_delete"`
	Internal   bool            `json:"internal"`
	Arguments  json.RawMessage `json:"arguments"`
	Policy     *string         `json:"policy"`

	MessageStats *stats.MessageStats `json:"message_stats,omitempty"`
}

// ExchangeDetails are about one exchange.
type ExchangeDetails struct {
	Exchange
	Incoming []any `json:"incoming"` // publishes by channel: empty, as RabbitMQ has it at rates_mode basic
	Outgoing []any `json:"outgoing"` // and by queue
}

// hosted is something with the virtual host it is in.
type hosted[T any] struct {
	vhost *broker.VHost
	it    T
}

func (h *Handler) exchange(vh *broker.VHost, e *broker.Exchange, v *view) Exchange {
	out := Exchange{vh.Name, e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, definitions.TableJSON(e.Arguments), nameOrNull(vh.EffectivePolicy(e).Policy), nil}
	if h.Stats != nil && v.detail == detailFull {
		out.MessageStats = h.Stats.Exchange(e, v.spans)
	}
	return out
}

// nameOrNull is null for what has no name.
func nameOrNull(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// ExchangeDeclaration is what PUT takes.
type ExchangeDeclaration struct {
	Type       string    `json:"type"`
	Durable    looseBool `json:"durable"`
	AutoDelete looseBool `json:"auto_delete"`
	Internal   looseBool `json:"internal"`
	Delayed    looseBool `json:"delayed"`
	Arguments  tableOf   `json:"arguments"`
}

func (h *Handler) exchangeRoutes() {
	list := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		l := listing[hosted[*broker.Exchange]]{
			name: func(e hosted[*broker.Exchange]) string { return e.it.Name },
			show: func(e hosted[*broker.Exchange], v *view) any { return h.exchange(e.vhost, e.it, v) },
		}
		for _, vh := range hosts {
			for _, e := range vh.SortedExchanges() {
				l.all = append(l.all, hosted[*broker.Exchange]{vh, e})
			}
		}
		return sendList(q, l)
	}
	const one = "/api/exchanges/{vhost}/{name}"
	h.get("/api/exchanges", Management, "Exchanges", list)
	h.get("/api/exchanges/{vhost}", Management, "Exchanges of a virtual host", list)
	h.get(one, Management, "An exchange", func(q *request) (any, error) {
		vh, err := h.host(q)
		if err != nil {
			return nil, err
		}
		e, err := findExchange(vh, q.PathValue("name"))
		if err != nil {
			return nil, err
		}
		return ExchangeDetails{h.exchange(vh, e, &view{spans: metrics.SpansOf(q.URL.Query())}), []any{}, []any{}}, nil
	})
	h.change("PUT "+one, Management, "Declare an exchange", h.putExchange)
	h.change("DELETE "+one, Management, "Delete an exchange", h.deleteExchange)
	h.change("PUT "+one+"/restart", Management, "Open again what a failed write has closed of what an exchange keeps (delayed messages, a history, values seen), when the disk works again", h.restartExchange)
}

func (h *Handler) restartExchange(q *request) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	e, err := findExchange(vh, q.PathValue("name"))
	if err != nil {
		return 0, err
	}
	if err := q.id.In(vh).Permit(access.Configure, "exchange", e.Name); err != nil {
		return 0, err
	}
	return 0, vh.RestartExchange(e)
}

// exchangeName undoes the name that the default exchange has in paths.
func exchangeName(name string) string {
	if name == "amq.default" {
		return ""
	}
	return name
}

func findExchange(vh *broker.VHost, name string) (*broker.Exchange, error) {
	if e := vh.FindExchange(exchangeName(name)); e != nil {
		return e, nil
	}
	return nil, problemf(http.StatusNotFound, "there is no exchange '%s' in virtual host '%s'", name, vh.Name)
}

func (h *Handler) putExchange(q *request) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	d := ExchangeDeclaration{Type: "direct"}
	if err := q.decode(&d); err != nil {
		return 0, err
	}
	name := exchangeName(q.PathValue("name"))
	if err := checkDeclaredName(name); err != nil {
		return 0, err
	}
	ask := broker.ExchangeDeclare{
		Name: name, Type: d.Type, Durable: bool(d.Durable), AutoDelete: bool(d.AutoDelete), Internal: bool(d.Internal),
		Arguments: amqp.Table(d.Arguments), By: q.id.In(vh),
	}
	if d.Delayed && ask.Type != "x-delayed-message" {
		var b amqp.TableBuilder
		b.SetString("x-delayed-type", ask.Type)
		ask.Type, ask.Arguments = "x-delayed-message", append(append(amqp.Table(nil), ask.Arguments...), b.Table()...)
	}
	q.created = !vh.HasExchange(name)
	return vh.DeclareExchange(ask)
}

// checkDeclaredName refuses what no client could name over AMQP.
func checkDeclaredName(name string) error {
	if len(name) > amqp.ShortStringMax || strings.ContainsAny(name, "\r\n\x00") || strings.ToValidUTF8(name, "") != name {
		return problemf(http.StatusBadRequest, "the name is not one of at most %d bytes of UTF-8 without line ends", amqp.ShortStringMax)
	}
	return nil
}

func (h *Handler) deleteExchange(q *request) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	unused, err := q.flag("if-unused")
	if err != nil {
		return 0, err
	}
	e, err := findExchange(vh, q.PathValue("name"))
	if err != nil {
		return 0, err
	}
	if err := q.id.In(vh).Permit(access.Configure, "exchange", e.Name); err != nil {
		return 0, err
	}
	return vh.DeleteExchange(e.Name, unused)
}

// visible says for which virtual hosts a list of the loops' things is shown.
func (h *Handler) visible(q *request) (func(vhost string) bool, error) {
	hosts, err := h.hosts(q)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, vh := range hosts {
		seen[vh.Name] = true
	}
	all := q.PathValue("vhost") == "" && q.id.Is(Monitoring)
	return func(vhost string) bool { return seen[vhost] || vhost == "" && all }, nil
}

// loops bounds what loops are asked for.
func loops(q *request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(q.Context(), loopTimeout)
}
