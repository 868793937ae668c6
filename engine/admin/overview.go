package admin

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Overview is the state of the broker in a few figures.
type Overview struct {
	ManagementVersion string         `json:"management_version"`
	RatesMode         string         `json:"rates_mode"`
	ProductName       string         `json:"product_name"`
	ProductVersion    string         `json:"product_version"`
	RabbitMQVersion   string         `json:"rabbitmq_version"` // whose API this is
	ErlangVersion     string         `json:"erlang_version"`   // of the language it runs on
	ErlangFull        string         `json:"erlang_full_version"`
	ClusterName       string         `json:"cluster_name"`
	Node              string         `json:"node"`
	StatisticsNode    string         `json:"statistics_db_node"`
	EventQueue        int            `json:"statistics_db_event_queue"`
	DisableStats      bool           `json:"disable_stats"`
	EnableQueueTotals bool           `json:"enable_queue_totals"`
	ExchangeTypes     []ExchangeType `json:"exchange_types"`
	QueueTotals       struct {
		QueueTotals
		*metrics.Lengths
	} `json:"queue_totals"`
	MessageStats any          `json:"message_stats"`
	ChurnRates   any          `json:"churn_rates"`
	ObjectTotals ObjectTotals `json:"object_totals"`
	Listeners    []Listener   `json:"listeners"`
	Contexts     []Context    `json:"contexts"`

	// What basaltmqctl asks for besides.
	Product string `json:"product"`
	Version string `json:"version"`
	Status
	VHosts         int    `json:"vhosts"`
	Users          int    `json:"users"`
	Connections    int    `json:"connections"`
	Queues         int    `json:"queues"`
	Exchanges      int    `json:"exchanges"`
	Consumers      int    `json:"consumers"`
	Ready          uint64 `json:"messages_ready"`
	Unacknowledged uint64 `json:"messages_unacknowledged"`
	// DefinitionsError says why definitions cannot be changed any more.
	DefinitionsError string `json:"definitions_error,omitempty"`
}

// apiVersion is that of RabbitMQ's management API that is followed: tools decide
// by it what they may ask for.
const apiVersion = definitions.FormatVersion

// ObjectTotals are numbers of things.
type ObjectTotals struct {
	Channels    int `json:"channels"`
	Connections int `json:"connections"`
	Consumers   int `json:"consumers"`
	Exchanges   int `json:"exchanges"`
	Queues      int `json:"queues"`
}

// ExchangeType is a type that exchanges can have.
type ExchangeType struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Enabled     bool   `json:"enabled"`
}

// Context is where the API is.
type Context struct {
	Description string `json:"description"`
	Path        string `json:"path"`
	Port        string `json:"port"`
	IP          string `json:"ip"`
	Node        string `json:"node,omitempty"`
}

func exchangeTypes() (list []ExchangeType) {
	for _, t := range broker.ExchangeTypes() {
		list = append(list, ExchangeType{t.Name, t.Description, true})
	}
	return list
}

func (h *Handler) overviewRoutes() {
	h.get("/api/overview", Management, "The broker in a few figures; the header X-Vhost restricts it to a virtual host", h.overview)
}

func (h *Handler) overview(q *request) (any, error) {
	if name := q.Header.Get("X-Vhost"); name != "" {
		q.SetPathValue("vhost", name)
	}
	hosts, err := h.hosts(q)
	if err != nil {
		return nil, err
	}
	all := q.id.Is(Monitoring) && q.PathValue("vhost") == ""
	status := h.Status()
	o := Overview{
		ManagementVersion: apiVersion, RatesMode: "basic", ProductName: "BasaltMQ", ProductVersion: h.Version, RabbitMQVersion: apiVersion,
		ErlangVersion: runtime.Version(), ErlangFull: "Go " + strings.TrimPrefix(runtime.Version(), "go"),
		ClusterName: h.clusterName(), Node: h.Node, StatisticsNode: h.Node, ExchangeTypes: exchangeTypes(),
		Listeners: []Listener{}, Contexts: []Context{},
		Product: "BasaltMQ", Version: h.Version, VHosts: len(hosts),
	}
	totals := &o.QueueTotals.QueueTotals
	for _, vh := range hosts {
		o.Exchanges += len(vh.SortedExchanges())
		o.Queues += totals.add(vh)
	}
	o.Consumers, o.Ready, o.Unacknowledged = totals.consumers, totals.Ready, totals.Unacknowledged
	channels := 0
	if all {
		_, churn := h.Broker.Totals()
		o.Connections, channels = h.AMQP.Conns(), int(churn[stats.ChannelCreated]-churn[stats.ChannelClosed])
	} else {
		connections, err := h.connections(q, nil)
		if err != nil {
			return nil, err
		}
		o.Connections = len(connections)
		for _, c := range connections {
			channels += c.Channels
		}
	}
	o.ObjectTotals = ObjectTotals{channels, o.Connections, o.Consumers, o.Exchanges, o.Queues}
	o.addStats(q, h.Stats, hosts, all)
	if all {
		o.Status, o.Users = status, len(h.Broker.Users())
		o.Listeners, o.Contexts = h.listeners(), h.contexts()
	}
	if err := h.Broker.Definitions().Err(); err != nil {
		o.DefinitionsError = err.Error()
	}
	return o, nil
}

// addStats adds what was counted: of the whole broker, or of a virtual host; of
// several, without rates.
func (o *Overview) addStats(q *request, s *metrics.Stats, hosts []*broker.VHost, all bool) {
	spans := metrics.SpansOf(q.URL.Query())
	o.MessageStats, o.ChurnRates = struct{}{}, struct{}{}
	switch {
	case s == nil:
	case all:
		messages, churn, lengths := s.Totals(spans)
		o.MessageStats, o.ChurnRates, o.QueueTotals.Lengths = messages, churn, &lengths
	case len(hosts) == 1:
		messages, lengths, _ := s.VHost(hosts[0], spans)
		o.MessageStats, o.QueueTotals.Lengths = messages, &lengths
	default:
		var sum stats.View
		for _, vh := range hosts {
			counts := vh.MessageCounts()
			sum.Point.Counts.Add(&counts)
		}
		o.MessageStats = sum.VHostStats(stats.Span{})
	}
}

// contexts are the listeners that the API answers on.
func (h *Handler) contexts() []Context {
	list := []Context{}
	for _, l := range h.listeners() {
		if strings.HasPrefix(l.Protocol, "http") && l.Protocol != "http/prometheus" {
			list = append(list, Context{"BasaltMQ Management", "/", portText(l.Port), l.Address, h.Node})
		}
	}
	return list
}

// checkNode says whether the node that a request names is this one.
func (h *Handler) checkNode(q *request) error {
	if node := q.PathValue("node"); node != h.Node {
		return problemf(http.StatusNotFound, "there is no node '%s': this one is '%s'", node, h.Node)
	}
	return nil
}
