package definitions

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// FormatVersion is that of RabbitMQ whose definitions files and management API
// are followed.
const FormatVersion = "4.0.0"

// Export writes what a broker has; vhost names a single virtual host, or is
// empty for everything. Exclusive queues and what every virtual host has anyway
// are left out. It takes locks for one thing at a time.
func Export(w io.Writer, b *broker.Broker, vhost, version string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	x := &exporter{out: out, single: vhost != ""}
	x.open("basaltmq_version", version)
	// The version whose files these are: readers of RabbitMQ's decide by it.
	for _, name := range []string{"rabbit_version", "rabbitmq_version"} {
		x.member(name, FormatVersion)
	}
	x.member("product_name", "BasaltMQ")
	x.member("product_version", version)
	var hosts []*broker.VHost
	for _, s := range b.VHosts() {
		if vh := b.VHost(s.Name); vh != nil && (vhost == "" || s.Name == vhost) {
			hosts = append(hosts, vh)
		}
	}
	if !x.single {
		x.users(b)
	}
	x.parameters(b, hosts)
	x.section("policies")
	for _, vh := range hosts {
		for _, p := range b.Policies(vh.Name) {
			x.element(policyElement(&p, x.home(vh)))
		}
	}
	x.end()
	x.topology(hosts)
	x.close()
	return out.Flush()
}

// exporter writes the object piece by piece; errors stick in the buffered writer.
type exporter struct {
	out    *bufio.Writer
	single bool
	first  bool // element of its section
}

func (x *exporter) open(name, value string) {
	x.out.WriteString("{\n  ")
	x.json(name)
	x.out.WriteString(": ")
	x.json(value)
}

func (x *exporter) member(name, value string) {
	x.out.WriteString(",\n  ")
	x.json(name)
	x.out.WriteString(": ")
	x.json(value)
}

func (x *exporter) close() { x.out.WriteString("\n}\n") }

func (x *exporter) section(name string) {
	x.out.WriteString(",\n  ")
	x.json(name)
	x.out.WriteString(": [")
	x.first = true
}

func (x *exporter) element(v any) {
	if !x.first {
		x.out.WriteByte(',')
	}
	x.first = false
	x.out.WriteString("\n    ")
	x.json(v)
}

func (x *exporter) end() {
	if !x.first {
		x.out.WriteString("\n  ")
	}
	x.out.WriteByte(']')
}

func (x *exporter) json(v any) {
	data, _ := json.Marshal(v) // structs of texts and numbers
	x.out.Write(data)
}

// home is the vhost field of an element: absent in the file of a single one.
func (x *exporter) home(vh *broker.VHost) *string {
	if x.single {
		return nil
	}
	return &vh.Name
}

// Elements, in the order of RabbitMQ's fields.
type (
	userJSON struct {
		Name      string        `json:"name"`
		Hash      string        `json:"password_hash"`
		Algorithm string        `json:"hashing_algorithm"`
		Scram     string        `json:"scram_sha_256,omitempty"` // RabbitMQ passes over it
		Tags      []string      `json:"tags"`
		Limits    access.Limits `json:"limits"`
	}
	vhostJSON struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
		Type        string   `json:"default_queue_type,omitempty"`
	}
	permissionsJSON struct {
		User      string `json:"user"`
		VHost     string `json:"vhost"`
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	}
	topicJSON struct {
		User     string `json:"user"`
		VHost    string `json:"vhost"`
		Exchange string `json:"exchange"`
		Write    string `json:"write"`
		Read     string `json:"read"`
	}
	parameterJSON struct {
		VHost     *string         `json:"vhost,omitempty"`
		Component string          `json:"component,omitempty"`
		Name      string          `json:"name"`
		Value     json.RawMessage `json:"value"`
	}
	policyJSON struct {
		VHost      *string         `json:"vhost,omitempty"`
		Name       string          `json:"name,omitempty"`
		Pattern    string          `json:"pattern"`
		ApplyTo    string          `json:"apply-to"`
		Definition json.RawMessage `json:"definition"`
		Priority   int64           `json:"priority"`
	}
	queueJSON struct {
		Name       string          `json:"name"`
		VHost      *string         `json:"vhost,omitempty"`
		Durable    bool            `json:"durable"`
		AutoDelete bool            `json:"auto_delete"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	exchangeJSON struct {
		Name       string          `json:"name"`
		VHost      *string         `json:"vhost,omitempty"`
		Type       string          `json:"type"`
		Durable    bool            `json:"durable"`
		AutoDelete bool            `json:"auto_delete"`
		Internal   bool            `json:"internal"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	bindingJSON struct {
		Source      string          `json:"source"`
		VHost       *string         `json:"vhost,omitempty"`
		Destination string          `json:"destination"`
		Type        string          `json:"destination_type"`
		Key         string          `json:"routing_key"`
		Arguments   json.RawMessage `json:"arguments"`
	}
)

// TableJSON is a table as JSON.
func TableJSON(t amqp.Table) json.RawMessage { return tablejson.Append(nil, t) }

func policyElement(p *broker.Policy, home *string) policyJSON {
	return policyJSON{VHost: home, Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Definition: TableJSON(p.Definition), Priority: p.Priority}
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (x *exporter) users(b *broker.Broker) {
	x.section("users")
	for _, s := range b.Users() {
		limits := s.Limits
		if limits == nil {
			limits = access.Limits{}
		}
		x.element(userJSON{s.Name, s.Password.Text, string(s.Password.Algorithm), s.Password.Scram, notNil(s.Tags), limits})
	}
	x.end()
	x.section("vhosts")
	for _, s := range b.VHosts() {
		x.element(vhostJSON{s.Name, s.Description, notNil(s.Tags), s.DefaultQueueType})
	}
	x.end()
	x.section("permissions")
	for _, p := range b.Permissions("", "") {
		x.element(permissionsJSON{p.User, p.VHost, p.Configure, p.Write, p.Read})
	}
	x.end()
	x.section("topic_permissions")
	for _, p := range b.TopicPermissions("", "") {
		x.element(topicJSON{p.User, p.VHost, p.Exchange, p.Write, p.Read})
	}
	x.end()
}

func (x *exporter) parameters(b *broker.Broker, hosts []*broker.VHost) {
	all := b.Parameters()
	x.section("parameters")
	for _, vh := range hosts {
		if l := vh.Spec().Limits; len(l) > 0 {
			value, _ := json.Marshal(l)
			x.element(parameterJSON{x.home(vh), broker.ComponentVHostLimits, "limits", value})
		}
		for _, p := range b.OperatorPolicies(vh.Name) {
			fields := policyElement(&p, nil)
			fields.Name = ""
			value, _ := json.Marshal(fields)
			x.element(parameterJSON{x.home(vh), broker.ComponentOperatorPolicy, p.Name, value})
		}
		for _, p := range all {
			if p.VHost == vh.Name {
				x.element(parameterJSON{x.home(vh), p.Component, p.Name, p.Value})
			}
		}
	}
	x.end()
	if x.single {
		return
	}
	x.section("global_parameters")
	for _, p := range all {
		if p.VHost == "" {
			x.element(parameterJSON{nil, "", p.Name, p.Value})
		}
	}
	x.end()
}

func (x *exporter) topology(hosts []*broker.VHost) {
	x.section("queues")
	for _, vh := range hosts {
		for _, q := range vh.SortedQueues() {
			if !q.Exclusive() {
				x.element(queueJSON{q.Name, x.home(vh), q.Durable, q.AutoDelete, TableJSON(q.Arguments)})
			}
		}
	}
	x.end()
	x.section("exchanges")
	for _, vh := range hosts {
		for _, e := range vh.SortedExchanges() {
			if !e.Predeclared() {
				x.element(exchangeJSON{e.Name, x.home(vh), e.Type, e.Durable, e.AutoDelete, e.Internal, TableJSON(e.Arguments)})
			}
		}
	}
	x.end()
	x.section("bindings")
	for _, vh := range hosts {
		vh.EachBinding(func(b broker.Binding, toExclusive bool) {
			if toExclusive {
				return
			}
			e := bindingJSON{b.Source, x.home(vh), b.Queue, "queue", b.RoutingKey, TableJSON(b.Arguments)}
			if b.ToExchange {
				e.Destination, e.Type = b.Exchange, "exchange"
			}
			x.element(e)
		})
	}
	x.end()
}
