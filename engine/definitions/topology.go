package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// policyFields are a policy as files and the HTTP API have it, but for its name
// and virtual host.
type policyFields struct {
	Pattern    string          `json:"pattern"`
	ApplyTo    string          `json:"apply-to"`
	Priority   int64           `json:"priority"`
	Definition json.RawMessage `json:"definition"`
}

// ParsePolicy reads a policy as files and the HTTP API have it.
func ParsePolicy(vhost, name string, o exactjson.Object) (broker.Policy, error) {
	var e policyFields
	if err := takeFrom(o, &e, "pattern", "definition"); err != nil {
		return broker.Policy{}, err
	}
	definition, err := tablejson.Parse(e.Definition)
	if err != nil {
		return broker.Policy{}, fmt.Errorf("'definition' %w", err)
	}
	return broker.Policy{VHost: vhost, Name: name, Pattern: e.Pattern, ApplyTo: e.ApplyTo, Priority: e.Priority, Definition: definition}, nil
}

func (p *parser) policy(at string, raw json.RawMessage) error {
	var e struct {
		Name  string  `json:"name"`
		VHost *string `json:"vhost"`
	}
	o, err := exactjson.Parse(raw)
	if err != nil {
		return err
	}
	if err := takeFrom(o, &e, "name"); err != nil {
		return err
	}
	vhost, err := p.home(e.VHost)
	if err != nil {
		return err
	}
	policy, err := ParsePolicy(vhost, e.Name, o)
	if err != nil {
		return err
	}
	p.in.Policies = append(p.in.Policies, broker.Imported[broker.Policy]{At: at, Value: policy})
	return nil
}

func (p *parser) parameter(at string, raw json.RawMessage) error {
	var e struct {
		Component string          `json:"component"`
		Name      string          `json:"name"`
		VHost     *string         `json:"vhost"`
		Value     json.RawMessage `json:"value"`
	}
	if err := take(raw, &e, "component", "name"); err != nil {
		return err
	}
	vhost, err := p.home(e.VHost)
	if err != nil {
		return err
	}
	if len(e.Value) == 0 {
		return fmt.Errorf("'value' is missing")
	}
	switch e.Component {
	case broker.ComponentVHostLimits:
		l, err := limits(e.Value)
		if err != nil {
			return err
		}
		p.in.Limits = append(p.in.Limits, broker.Imported[broker.LimitsImport]{At: at, Value: broker.LimitsImport{VHost: vhost, Limits: l}})
	case broker.ComponentOperatorPolicy:
		o, err := exactjson.Parse(e.Value)
		if err != nil {
			return fmt.Errorf("'value' %w", err)
		}
		policy, err := ParsePolicy(vhost, e.Name, o)
		if err != nil {
			return fmt.Errorf("'value': %w", err)
		}
		p.in.OperatorPolicies = append(p.in.OperatorPolicies, broker.Imported[broker.Policy]{At: at, Value: policy})
	default:
		parameter := broker.Parameter{VHost: vhost, Component: e.Component, Name: e.Name, Value: bytes.Clone(e.Value)}
		p.in.Parameters = append(p.in.Parameters, broker.Imported[broker.Parameter]{At: at, Value: parameter})
	}
	return nil
}

// ownGlobals are global parameters that say something of the cluster they come
// from, and nothing that could be imported.
var ownGlobals = map[string]bool{"cluster_name": true, "internal_cluster_id": true, "cluster_tags": true}

func (p *parser) globalParameter(at string, raw json.RawMessage) error {
	var e struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	if err := take(raw, &e, "name"); err != nil {
		return err
	}
	if len(e.Value) == 0 {
		return fmt.Errorf("'value' is missing")
	}
	if ownGlobals[e.Name] {
		return nil
	}
	parameter := broker.Parameter{Name: e.Name, Value: bytes.Clone(e.Value)}
	p.in.Parameters = append(p.in.Parameters, broker.Imported[broker.Parameter]{At: at, Value: parameter})
	return nil
}

func (p *parser) exchange(at string, raw json.RawMessage) error {
	var e struct {
		Name       string          `json:"name"`
		VHost      *string         `json:"vhost"`
		Type       string          `json:"type"`
		Durable    *bool           `json:"durable"`
		AutoDelete bool            `json:"auto_delete"`
		Internal   bool            `json:"internal"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if err := take(raw, &e, "name", "type"); err != nil {
		return err
	}
	vhost, err := p.home(e.VHost)
	if err != nil {
		return err
	}
	x := broker.ExchangeImport{VHost: vhost}
	x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal = e.Name, e.Type, e.Durable == nil || *e.Durable, e.AutoDelete, e.Internal
	if x.Arguments, err = arguments(e.Arguments); err != nil {
		return err
	}
	p.in.Exchanges = append(p.in.Exchanges, broker.Imported[broker.ExchangeImport]{At: at, Value: x})
	return nil
}

func (p *parser) queue(at string, raw json.RawMessage) error {
	var e struct {
		Name       string          `json:"name"`
		VHost      *string         `json:"vhost"`
		Type       string          `json:"type"`
		Durable    *bool           `json:"durable"`
		AutoDelete bool            `json:"auto_delete"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if err := take(raw, &e, "name"); err != nil {
		return err
	}
	vhost, err := p.home(e.VHost)
	if err != nil {
		return err
	}
	q := broker.QueueImport{VHost: vhost}
	q.Name, q.Durable, q.AutoDelete = e.Name, e.Durable == nil || *e.Durable, e.AutoDelete
	if q.Arguments, err = arguments(e.Arguments); err != nil {
		return err
	}
	p.in.Queues = append(p.in.Queues, broker.Imported[broker.QueueImport]{At: at, Value: q})
	return nil
}

func (p *parser) binding(at string, raw json.RawMessage) error {
	var e struct {
		VHost       *string         `json:"vhost"`
		Source      string          `json:"source"`
		Destination string          `json:"destination"`
		Type        string          `json:"destination_type"`
		Key         string          `json:"routing_key"`
		Arguments   json.RawMessage `json:"arguments"`
	}
	if err := take(raw, &e, "source", "destination", "destination_type"); err != nil {
		return err
	}
	vhost, err := p.home(e.VHost)
	if err != nil {
		return err
	}
	b := broker.BindingImport{VHost: vhost}
	b.Source, b.RoutingKey = e.Source, e.Key
	switch e.Type {
	case "queue":
		b.Queue = e.Destination
	case "exchange":
		b.Exchange, b.ToExchange = e.Destination, true
	default:
		return fmt.Errorf("'destination_type' is '%s', and must be queue or exchange", e.Type)
	}
	if b.Arguments, err = arguments(e.Arguments); err != nil {
		return err
	}
	p.in.Bindings = append(p.in.Bindings, broker.Imported[broker.BindingImport]{At: at, Value: b})
	return nil
}
