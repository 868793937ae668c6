package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Queue is a queue as it was declared.
type Queue struct {
	VHost      string          `json:"vhost"`
	Name       string          `json:"name"`
	Node       string          `json:"node"`
	Type       string          `json:"type"`
	Durable    bool            `json:"durable"`
	AutoDelete bool            `json:"auto_delete"`
	Exclusive  bool            `json:"exclusive"`
	Arguments  json.RawMessage `json:"arguments"`
	State      string          `json:"state"`
	Closed     *string         `json:"closed_reason"` // null unless the state is "closed"
	Policy     *string         `json:"policy"`
	*QueueTotals
	*QueueStats
	*QueueDetails
}

// QueueStats are what changes of a queue.
type QueueStats struct {
	Consumers      int             `json:"consumers"`
	OperatorPolicy *string         `json:"operator_policy"`
	Definition     json.RawMessage `json:"effective_policy_definition"`
	Slaves         []string        `json:"recoverable_slaves"` // null: no mirrors
	*QueueFacts
	*metrics.Lengths
	MessageStats *stats.MessageStats `json:"message_stats,omitempty"`
}

// QueueDetails are about one queue.
type QueueDetails struct {
	ConsumerDetails []Consumer `json:"consumer_details"`
	Deliveries      []any      `json:"deliveries"` // by channel: empty, as RabbitMQ has it at rates_mode basic
	Incoming        []any      `json:"incoming"`   // publishes by exchange: likewise
}

func (h *Handler) queueOf(vh *broker.VHost, q *broker.Queue, v *view) Queue {
	out := Queue{
		VHost: vh.Name, Name: q.Name, Node: h.Node, Type: broker.QueueType(q.Arguments), Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive(),
		Arguments: definitions.TableJSON(q.Arguments), State: q.State(),
	}
	if out.State == broker.StateClosed {
		if why := q.Failure(); why != nil {
			out.Closed = new(why.Error())
		}
	}
	p := q.EffectivePolicy()
	out.Policy = nameOrNull(p.Policy)
	if v.detail == detailBasic {
		return out
	}
	c := q.Counts()
	out.QueueTotals = &QueueTotals{Messages: c.Ready + c.Unacked, Ready: c.Ready, Unacknowledged: c.Unacked}
	if v.detail == detailTotals {
		return out
	}
	out.QueueStats = &QueueStats{
		Consumers:      c.Consumers,
		OperatorPolicy: nameOrNull(p.OperatorPolicy), Definition: definitions.TableJSON(p.Definition),
		QueueFacts: factsOf(q, c, time.Now()),
	}
	if h.Stats != nil {
		var lengths metrics.Lengths
		out.MessageStats, lengths = h.Stats.Queue(q, v.spans)
		out.Lengths = &lengths
	}
	return out
}

// queueKey returns what lists are mostly sorted by without making the rest.
func (h *Handler) queueKey(of hosted[*broker.Queue], path string) (any, bool) {
	if name, counted := strings.CutPrefix(path, "message_stats."); counted && h.Stats != nil {
		return h.queueFigure(of.it, name)
	}
	switch path {
	case "vhost":
		return of.vhost.Name, true
	case "node":
		return h.Node, true
	case "type":
		return broker.QueueType(of.it.Arguments), true
	case "durable":
		return of.it.Durable, true
	case "auto_delete":
		return of.it.AutoDelete, true
	case "exclusive":
		return of.it.Exclusive(), true
	case "state":
		return of.it.State(), true
	case "policy":
		if name := of.it.EffectivePolicy().Policy; name != "" {
			return name, true
		}
		return nil, true
	}
	c := of.it.Counts()
	switch path {
	case "messages":
		return float64(c.Ready + c.Unacked), true
	case "messages_ready":
		return float64(c.Ready), true
	case "messages_unacknowledged":
		return float64(c.Unacked), true
	case "consumers":
		return float64(c.Consumers), true
	}
	return factsOf(of.it, c, time.Now()).number(path)
}

// queueFigure returns one of message_stats, or its rate.
func (h *Handler) queueFigure(q *broker.Queue, name string) (any, bool) {
	name, rate := strings.CutSuffix(name, "_details.rate")
	for f := range stats.DeliverGet + 1 {
		switch {
		case f.String() != name:
		case rate:
			figures, _ := h.Stats.Queue(q, metrics.Spans{})
			return figures.Details(f).Rate, true
		case f == stats.DeliverGet:
			counts := q.MessageCounts()
			return float64(counts.DeliverGet()), true
		default:
			return float64(q.MessageCounts()[f]), true
		}
	}
	return nil, false
}

// QueueDeclaration is what PUT takes.
type QueueDeclaration struct {
	Durable    looseBool `json:"durable"`
	AutoDelete looseBool `json:"auto_delete"`
	Arguments  tableOf   `json:"arguments"`
}

func (h *Handler) queueRoutes() {
	list := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		l := listing[hosted[*broker.Queue]]{
			name: func(of hosted[*broker.Queue]) string { return of.it.Name },
			order: func(a, b hosted[*broker.Queue]) int {
				return cmp.Or(strings.Compare(a.vhost.Name, b.vhost.Name), strings.Compare(a.it.Name, b.it.Name))
			},
			key:  h.queueKey,
			show: func(of hosted[*broker.Queue], v *view) any { return h.queueOf(of.vhost, of.it, v) },
		}
		for _, vh := range hosts {
			queues := vh.Queues()
			l.all = slices.Grow(l.all, len(queues))
			for _, queue := range queues {
				l.all = append(l.all, hosted[*broker.Queue]{vh, queue})
			}
		}
		return sendList(q, l)
	}
	const one = "/api/queues/{vhost}/{name}"
	h.get("/api/queues", Management, "Queues", list)
	h.get("/api/queues/{vhost}", Management, "Queues of a virtual host", list)
	h.get(one, Management, "A queue", h.getQueue)
	h.change("PUT "+one, Management, "Declare a queue", h.putQueue)
	h.change("PUT /api/queues/{vhost}", Management, "Declare a queue with a name that the broker makes up", h.putQueue)
	h.change("DELETE "+one, Management, "Delete a queue", h.deleteQueue)
	h.change("POST "+one+"/actions", Management, "Actions on mirrors, of which there are none: they succeed and do nothing", func(q *request) (uint64, error) {
		var v struct{ Action string }
		if _, _, err := h.queue(q); err != nil {
			return 0, err
		}
		if err := q.decode(&v); err != nil {
			return 0, err
		}
		if v.Action != "sync" && v.Action != "cancel_sync" {
			return 0, problemf(http.StatusBadRequest, "'action' is one of sync and cancel_sync")
		}
		return 0, nil
	})
	h.answer("DELETE "+one+"/contents", Management, "Delete the ready messages of a queue", func(q *request) (any, error) {
		vh, queue, err := h.queueToUse(q)
		if err != nil {
			return nil, err
		}
		if err := q.id.In(vh).Permit(access.Read, "queue", queue.Name); err != nil {
			return nil, err
		}
		if queue.IsStream() {
			return nil, problemf(http.StatusBadRequest, "queue.purge not supported by stream queues queue '%s' in vhost '%s'", queue.Name, vh.Name)
		}
		if err := queue.Unread(); err != nil {
			return nil, err
		}
		if text := q.query("count"); text != "" {
			count, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, problemf(http.StatusBadRequest, "'count' is not a number that is 0 or more")
			}
			n, err := queue.PurgeSome(count)
			return map[string]uint64{"purged": n}, err
		}
		return map[string]uint64{"purged": queue.Purge()}, nil
	})
}

func noQueue(vh *broker.VHost, name string) error {
	return problemf(http.StatusNotFound, "there is no queue '%s' in virtual host '%s'", name, vh.Name)
}

// queue finds a queue, whoever it belongs to, for those who may see it.
func (h *Handler) queue(q *request) (*broker.VHost, *broker.Queue, error) {
	return h.queueFor(q, h.host)
}

// queueToUse finds a queue for those who want to do something with it: what they
// may do is for the caller to ask (Identity.In). One that belongs to a connection
// is for administrators only.
func (h *Handler) queueToUse(q *request) (*broker.VHost, *broker.Queue, error) {
	vh, queue, err := h.queueFor(q, h.enter)
	if err == nil && queue.Exclusive() && !q.id.Is(Administrator) {
		err = problemf(http.StatusBadRequest, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '%s'", queue.Name, vh.Name)
	}
	return vh, queue, err
}

func (h *Handler) queueFor(q *request, host func(*request) (*broker.VHost, error)) (*broker.VHost, *broker.Queue, error) {
	vh, err := host(q)
	if err != nil {
		return nil, nil, err
	}
	name := q.PathValue("name")
	if queue := vh.FindQueue(name); queue != nil {
		return vh, queue, nil
	}
	return vh, nil, noQueue(vh, name)
}

func (h *Handler) getQueue(q *request) (any, error) {
	vh, queue, err := h.queue(q)
	if err != nil {
		return nil, err
	}
	v, err := q.view()
	if err != nil {
		return nil, err
	}
	out := h.queueOf(vh, queue, &v)
	if v.detail != detailFull {
		return out, nil
	}
	consumers, err := h.consumers(q, func(vhost string) bool { return vhost == vh.Name }, queue.Name)
	if err != nil {
		return nil, err
	}
	out.QueueDetails = &QueueDetails{consumers, []any{}, []any{}}
	ctx, cancel := loops(q)
	defer cancel()
	if seconds, ok, err := queue.HeadTimestamp(ctx); err == nil && ok {
		out.HeadTimestamp = &seconds
	}
	return out, nil
}

func (h *Handler) putQueue(q *request) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	var d QueueDeclaration
	if err := q.decode(&d); err != nil {
		return 0, err
	}
	name := q.PathValue("name")
	if err := checkDeclaredName(name); err != nil {
		return 0, err
	}
	queue, created, seq, err := vh.DeclareQueue(broker.QueueDeclare{
		Name: name, Durable: bool(d.Durable), AutoDelete: bool(d.AutoDelete), Arguments: amqp.Table(d.Arguments), By: q.id.In(vh),
	}, nil)
	if q.created = created; created && name == "" {
		q.w.Header().Set("Location", queue.Name)
	}
	return seq, err
}

func (h *Handler) deleteQueue(q *request) (uint64, error) {
	vh, queue, err := h.queueToUse(q)
	if err != nil {
		return 0, err
	}
	unused, err := q.flag("if-unused")
	if err != nil {
		return 0, err
	}
	empty, err := q.flag("if-empty")
	if err != nil {
		return 0, err
	}
	if err := q.id.In(vh).Permit(access.Configure, "queue", queue.Name); err != nil {
		return 0, err
	}
	_, seq, err := vh.DeleteQueue([]byte(queue.Name), unused, empty, queue.Owner)
	return seq, err
}
