package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// Binding is a binding; those of the default exchange are among them.
type Binding struct {
	Source          string          `json:"source"`
	VHost           string          `json:"vhost"`
	Destination     string          `json:"destination"`
	DestinationType string          `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       json.RawMessage `json:"arguments"`
	PropertiesKey   string          `json:"properties_key"`
}

func bindingOf(vh *broker.VHost, b broker.Binding) Binding {
	out := Binding{b.Source, vh.Name, b.Queue, "queue", b.RoutingKey, definitions.TableJSON(b.Arguments), propertiesKey(b)}
	if b.ToExchange {
		out.Destination, out.DestinationType = b.Exchange, "exchange"
	}
	return out
}

// propertiesKey tells bindings between the same two apart: the routing key, and a
// digest of the arguments behind a tilde.
func propertiesKey(b broker.Binding) string {
	key := strings.ReplaceAll(url.QueryEscape(b.RoutingKey), "~", "%7E")
	if len(b.Arguments) == 0 {
		if key == "" {
			return "~"
		}
		return key
	}
	sum := sha256.Sum256(definitions.TableJSON(b.Arguments))
	return key + "~" + base64.RawURLEncoding.EncodeToString(sum[:9])
}

// implicit is the binding of the default exchange to a queue.
func implicit(queue string) broker.Binding {
	return broker.Binding{Queue: queue, RoutingKey: queue}
}

func (h *Handler) bindingRoutes() {
	list := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		var l listing[hosted[broker.Binding]]
		for _, vh := range hosts {
			for _, queue := range vh.SortedQueues() {
				l.all = append(l.all, hosted[broker.Binding]{vh, implicit(queue.Name)})
			}
			vh.EachBinding(func(b broker.Binding, _ bool) { l.all = append(l.all, hosted[broker.Binding]{vh, b}) })
		}
		return sendBindings(q, l)
	}
	h.get("/api/bindings", Management, "Bindings", list)
	h.get("/api/bindings/{vhost}", Management, "Bindings of a virtual host", list)
	h.get("/api/queues/{vhost}/{name}/bindings", Management, "Bindings to a queue", func(q *request) (any, error) {
		vh, queue, err := h.queue(q)
		if err != nil {
			return nil, err
		}
		var l listing[hosted[broker.Binding]]
		l.all = append(l.all, hosted[broker.Binding]{vh, implicit(queue.Name)})
		vh.EachBindingToQueue(queue, func(b broker.Binding) { l.all = append(l.all, hosted[broker.Binding]{vh, b}) })
		return sendBindings(q, l)
	})
	for _, end := range []string{"source", "destination"} {
		what := map[string]string{"source": "Bindings from an exchange", "destination": "Bindings to an exchange"}[end]
		h.get("/api/exchanges/{vhost}/{name}/bindings/"+end, Management, what, func(q *request) (any, error) {
			vh, err := h.host(q)
			if err != nil {
				return nil, err
			}
			e, err := findExchange(vh, q.PathValue("name"))
			if err != nil {
				return nil, err
			}
			var l listing[hosted[broker.Binding]]
			visit := func(b broker.Binding) { l.all = append(l.all, hosted[broker.Binding]{vh, b}) }
			switch {
			case end == "destination":
				vh.EachBindingToExchange(e, visit)
			case e.Name == "":
				for _, queue := range vh.SortedQueues() {
					visit(implicit(queue.Name))
				}
			default:
				vh.EachBinding(func(b broker.Binding, _ bool) {
					if b.Source == e.Name {
						visit(b)
					}
				})
			}
			return sendBindings(q, l)
		})
	}
	for _, kind := range []string{"q", "e"} {
		what := map[string]string{"q": "a queue", "e": "an exchange"}[kind]
		path := "/api/bindings/{vhost}/e/{source}/" + kind + "/{destination}"
		h.get(path, Management, "Bindings between an exchange and "+what, func(q *request) (any, error) {
			vh, found, err := h.between(q, kind == "e", h.host)
			if err != nil {
				return nil, err
			}
			var l listing[hosted[broker.Binding]]
			for _, b := range found {
				l.all = append(l.all, hosted[broker.Binding]{vh, b})
			}
			return sendBindings(q, l)
		})
		h.change("POST "+path, Management, "Bind an exchange to "+what, func(q *request) (uint64, error) { return h.bind(q, kind == "e") })
		one := path + "/{props}"
		h.get(one, Management, "A binding between an exchange and "+what, func(q *request) (any, error) {
			vh, b, err := h.binding(q, kind == "e", h.host)
			if err != nil {
				return nil, err
			}
			return bindingOf(vh, b), nil
		})
		h.change("DELETE "+one, Management, "Remove a binding between an exchange and "+what, func(q *request) (uint64, error) {
			vh, b, err := h.binding(q, kind == "e", h.enter)
			if err == nil {
				err = q.permitBinding(vh, &b)
			}
			if err != nil {
				return 0, err
			}
			return vh.Unbind(b, ownerOf(vh, &b))
		})
	}
}

func sendBindings(q *request, l listing[hosted[broker.Binding]]) (any, error) {
	l.name = func(b hosted[broker.Binding]) string { return b.it.Source }
	l.show = func(b hosted[broker.Binding], _ *view) any { return bindingOf(b.vhost, b.it) }
	return sendList(q, l)
}

// between finds the bindings between the two ends that a request names. Both have
// to be there.
func (h *Handler) between(q *request, toExchange bool, host func(*request) (*broker.VHost, error)) (vh *broker.VHost, found []broker.Binding, err error) {
	if vh, err = host(q); err != nil {
		return nil, nil, err
	}
	source, err := findExchange(vh, q.PathValue("source"))
	if err != nil {
		return vh, nil, err
	}
	visit := func(b broker.Binding) {
		if b.Source == source.Name {
			found = append(found, b)
		}
	}
	if toExchange {
		e, err := findExchange(vh, q.PathValue("destination"))
		if err != nil {
			return vh, nil, err
		}
		vh.EachBindingToExchange(e, visit)
		return vh, found, nil
	}
	queue := vh.FindQueue(q.PathValue("destination"))
	if queue == nil {
		return vh, nil, noQueue(vh, q.PathValue("destination"))
	}
	visit(implicit(queue.Name))
	vh.EachBindingToQueue(queue, visit)
	return vh, found, nil
}

// binding finds one of them. The key is that of Binding.PropertiesKey, escaped in
// the path or, as some clients have it, not.
func (h *Handler) binding(q *request, toExchange bool, host func(*request) (*broker.VHost, error)) (*broker.VHost, broker.Binding, error) {
	vh, found, err := h.between(q, toExchange, host)
	if err != nil {
		return vh, broker.Binding{}, err
	}
	for _, exact := range []bool{true, false} {
		for _, b := range found {
			key := propertiesKey(b)
			if !exact {
				key, _ = url.QueryUnescape(key)
			}
			if key == q.PathValue("props") {
				return vh, b, nil
			}
		}
	}
	return vh, broker.Binding{}, problemf(http.StatusNotFound, "there is no binding '%s'", q.PathValue("props"))
}

// bind makes a binding and says where it is.
func (h *Handler) bind(q *request, toExchange bool) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	var v bindingBody
	if err := q.decode(&v); err != nil {
		return 0, err
	}
	if len(v.RoutingKey) > wire.ShortStringMax {
		return 0, problemf(http.StatusBadRequest, "a routing key has at most %d bytes", wire.ShortStringMax)
	}
	destination := q.PathValue("destination")
	b := broker.Binding{Source: exchangeName(q.PathValue("source")), ToExchange: toExchange, RoutingKey: v.RoutingKey, Arguments: wire.Table(v.Arguments)}
	if toExchange {
		b.Exchange = exchangeName(destination)
	} else {
		b.Queue = destination
	}
	if err := q.permitBinding(vh, &b); err != nil {
		return 0, err
	}
	seq, err := vh.Bind(b, ownerOf(vh, &b))
	if err != nil {
		return 0, err
	}
	q.created = true
	q.w.Header().Set("Location", url.QueryEscape(destination)+"/"+url.QueryEscape(propertiesKey(b)))
	return seq, nil
}

// permitBinding asks for what binding and unbinding need.
func (q *request) permitBinding(vh *broker.VHost, b *broker.Binding) error {
	if q.id == nil {
		return nil
	}
	kind, destination := "queue", b.Queue
	if b.ToExchange {
		kind, destination = "exchange", b.Exchange
	}
	by := q.id.In(vh)
	if err := by.Permit(access.Write, kind, destination); err != nil {
		return err
	}
	if err := by.Permit(access.Read, "exchange", b.Source); err != nil {
		return err
	}
	if vh.IsTopic([]byte(b.Source)) && !q.id.grant(vh).AllowsTopic(access.Read, []byte(b.Source), []byte(b.RoutingKey), "") {
		return wire.Errorf(wire.CodeAccessRefused, 0, "%s access to topic '%s' in exchange topic '%s' in vhost '%s' refused for user '%s'", access.Read, b.RoutingKey, b.Source, vh.Name, q.id.Name())
	}
	return nil
}

// ownerOf is the connection that the destination belongs to, if any: whoever
// administers it does so on its behalf.
func ownerOf(vh *broker.VHost, b *broker.Binding) any {
	if b.ToExchange {
		return nil
	}
	if queue := vh.FindQueue(b.Queue); queue != nil {
		return queue.Owner
	}
	return nil
}
