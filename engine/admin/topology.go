package admin

import (
	"encoding/json"
	"net/http"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
)

// Queue is a queue with its figures.
type Queue struct {
	VHost          string          `json:"vhost"`
	Name           string          `json:"name"`
	Type           string          `json:"type"`
	Durable        bool            `json:"durable"`
	AutoDelete     bool            `json:"auto_delete"`
	Exclusive      bool            `json:"exclusive"`
	Arguments      json.RawMessage `json:"arguments"`
	Messages       uint64          `json:"messages"`
	Ready          uint64          `json:"messages_ready"`
	Unacknowledged uint64          `json:"messages_unacknowledged"`
	Consumers      int             `json:"consumers"`
	Policy         string          `json:"policy"`
	OperatorPolicy string          `json:"operator_policy"`
	Definition     json.RawMessage `json:"effective_policy_definition"`
}

func queueOf(vh *broker.VHost, q *broker.Queue) Queue {
	c, p := q.Counts(), q.EffectivePolicy()
	return Queue{
		VHost: vh.Name, Name: q.Name, Type: broker.QueueType(q.Arguments), Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive(),
		Arguments: definitions.TableJSON(q.Arguments), Messages: c.Ready + c.Unacked, Ready: c.Ready, Unacknowledged: c.Unacked, Consumers: c.Consumers,
		Policy: p.Policy, OperatorPolicy: p.OperatorPolicy, Definition: definitions.TableJSON(p.Definition),
	}
}

// Exchange is an exchange.
type Exchange struct {
	VHost      string          `json:"vhost"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Durable    bool            `json:"durable"`
	AutoDelete bool            `json:"auto_delete"`
	Internal   bool            `json:"internal"`
	Arguments  json.RawMessage `json:"arguments"`
	Policy     string          `json:"policy"`
}

// Binding is a binding; those of the default exchange are among them.
type Binding struct {
	VHost           string          `json:"vhost"`
	Source          string          `json:"source"`
	Destination     string          `json:"destination"`
	DestinationType string          `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       json.RawMessage `json:"arguments"`
}

// listRoutes registers a list of everything and of one virtual host.
func listRoutes[T any](h *Handler, path string, each func(vh *broker.VHost, yield func(T) bool) bool) {
	f := func(w http.ResponseWriter, r *http.Request) (any, error) {
		hosts, err := h.hosts(r)
		if err != nil {
			return nil, err
		}
		sendAll(w, func(yield func(T) bool) {
			for _, vh := range hosts {
				if !each(vh, yield) {
					return
				}
			}
		})
		return nil, nil
	}
	h.get("/api/"+path, f)
	h.get("/api/"+path+"/{vhost}", f)
}

func (h *Handler) topologyRoutes() {
	listRoutes(h, "queues", func(vh *broker.VHost, yield func(Queue) bool) bool {
		for _, q := range vh.SortedQueues() {
			if !yield(queueOf(vh, q)) {
				return false
			}
		}
		return true
	})
	listRoutes(h, "exchanges", func(vh *broker.VHost, yield func(Exchange) bool) bool {
		for _, e := range vh.SortedExchanges() {
			if !yield(Exchange{vh.Name, e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, definitions.TableJSON(e.Arguments), vh.EffectivePolicy(e).Policy}) {
				return false
			}
		}
		return true
	})
	listRoutes(h, "bindings", func(vh *broker.VHost, yield func(Binding) bool) bool {
		empty := definitions.TableJSON(nil)
		for _, q := range vh.SortedQueues() {
			if !yield(Binding{vh.Name, "", q.Name, "queue", q.Name, empty}) {
				return false
			}
		}
		going := true
		vh.EachBinding(func(b broker.Binding, _ bool) {
			out := Binding{vh.Name, b.Source, b.Queue, "queue", b.RoutingKey, definitions.TableJSON(b.Arguments)}
			if b.ToExchange {
				out.Destination, out.DestinationType = b.Exchange, "exchange"
			}
			going = going && yield(out)
		})
		return going
	})
	h.get("/api/queues/{vhost}/{name}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		vh, q, err := h.queue(r)
		if err != nil {
			return nil, err
		}
		return queueOf(vh, q), nil
	})
	h.mux.HandleFunc("DELETE /api/queues/{vhost}/{name}/contents", func(w http.ResponseWriter, r *http.Request) {
		_, q, err := h.queue(r)
		if err != nil {
			fail(w, err)
			return
		}
		send(w, http.StatusOK, map[string]uint64{"purged": q.Purge()})
	})
	h.change("DELETE /api/queues/{vhost}/{name}", func(r *http.Request) (uint64, error) {
		vh, q, err := h.queue(r)
		if err != nil {
			return 0, err
		}
		unused, err := flag(r, "if-unused")
		if err != nil {
			return 0, err
		}
		empty, err := flag(r, "if-empty")
		if err != nil {
			return 0, err
		}
		_, seq, err := vh.DeleteQueue([]byte(q.Name), unused, empty, q.Owner)
		return seq, err
	})
	h.change("DELETE /api/exchanges/{vhost}/{name}", func(r *http.Request) (uint64, error) {
		vh, err := h.host(r)
		if err != nil {
			return 0, err
		}
		unused, err := flag(r, "if-unused")
		if err != nil {
			return 0, err
		}
		name := r.PathValue("name")
		if !vh.HasExchange(name) {
			return 0, problemf(http.StatusNotFound, "there is no exchange '%s' in virtual host '%s'", name, vh.Name)
		}
		return vh.DeleteExchange(name, unused)
	})
}

// queue finds a queue, whoever it belongs to.
func (h *Handler) queue(r *http.Request) (*broker.VHost, *broker.Queue, error) {
	vh, err := h.host(r)
	if err != nil {
		return nil, nil, err
	}
	name := r.PathValue("name")
	q := vh.FindQueue(name)
	if q == nil {
		return nil, nil, problemf(http.StatusNotFound, "there is no queue '%s' in virtual host '%s'", name, vh.Name)
	}
	return vh, q, nil
}
