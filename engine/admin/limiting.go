package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// RabbitMQ keeps limits of virtual hosts and operator policies among parameters,
// and tools look for them there. They have paths of their own, too, and those who
// may use these may use this.

// limitsName is the name of the one parameter that has a virtual host's limits.
const limitsName = "limits"

// parameters are those of virtual hosts, in order.
func (h *Handler) parameters(hosts []*broker.VHost) []Parameter {
	seen := map[string]bool{}
	var all []Parameter
	for _, vh := range hosts {
		seen[vh.Name] = true
		if l := vh.Spec().Limits; len(l) > 0 {
			all = append(all, Parameter{vh.Name, broker.ComponentVHostLimits, limitsName, marshal(l)})
		}
		for _, p := range h.Broker.OperatorPolicies(vh.Name) {
			all = append(all, Parameter{vh.Name, broker.ComponentOperatorPolicy, p.Name, marshal(object{
				"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": definitions.TableJSON(p.Definition),
			})})
		}
	}
	for _, p := range h.Broker.Parameters() {
		if p.VHost != "" && seen[p.VHost] {
			all = append(all, Parameter{p.VHost, p.Component, p.Name, p.Value})
		}
	}
	slices.SortStableFunc(all, func(a, b Parameter) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// isLimiting says whether a parameter is an operator policy or limits.
func isLimiting(q *request) bool {
	component := q.PathValue("component")
	return component == broker.ComponentVHostLimits || component == broker.ComponentOperatorPolicy
}

func (h *Handler) setLimiting(q *request, vh *broker.VHost) (uint64, error) {
	if !q.id.Is(Administrator) {
		return 0, notA(&route{Route: Route{Role: Administrator}})
	}
	o, err := q.object()
	if err == nil {
		err = o.Need("value")
	}
	var value exactjson.Object
	if err == nil {
		value, err = exactjson.Parse(o["value"])
	}
	if err != nil {
		return 0, problemf(http.StatusBadRequest, "the parameter's value: %v", err)
	}
	name := q.PathValue("name")
	q.created = !slices.ContainsFunc(h.parameters([]*broker.VHost{vh}), func(p Parameter) bool {
		return p.Component == q.PathValue("component") && p.Name == name
	})
	if q.PathValue("component") == broker.ComponentOperatorPolicy {
		withNumber(value, "priority")
		p, err := definitions.ParsePolicy(vh.Name, name, value)
		if err != nil {
			return 0, problemf(http.StatusBadRequest, "the operator policy %v", err)
		}
		return h.Broker.SetOperatorPolicy(p)
	}
	if name != limitsName {
		return 0, problemf(http.StatusBadRequest, "the limits of a virtual host are the parameter '%s', not '%s'", limitsName, name)
	}
	limits := access.Limits{}
	for limit, raw := range value {
		var n int64
		if json.Unmarshal(raw, &n) != nil {
			return 0, problemf(http.StatusBadRequest, "'%s' is not a whole number", limit)
		}
		limits[limit] = n
	}
	if limits, err = access.CheckLimits(access.VHostLimits, limits); err != nil {
		return 0, err
	}
	return h.limit(vh, limits)
}

func (h *Handler) clearLimiting(q *request, vh *broker.VHost) (uint64, error) {
	switch {
	case !q.id.Is(Administrator):
		return 0, notA(&route{Route: Route{Role: Administrator}})
	case q.PathValue("component") == broker.ComponentOperatorPolicy:
		return h.Broker.ClearOperatorPolicy(vh.Name, q.PathValue("name"))
	case q.PathValue("name") != limitsName || len(vh.Spec().Limits) == 0:
		return 0, noParameter(q)
	}
	return h.limit(vh, nil)
}

// limit gives a virtual host these limits and no others.
func (h *Handler) limit(vh *broker.VHost, limits access.Limits) (seq uint64, err error) {
	for _, name := range access.VHostLimits {
		value, limited := limits.Get(name)
		if !limited {
			value = -1
		}
		one, err := h.Broker.SetVHostLimit(vh.Name, name, value)
		if err != nil {
			return 0, err
		}
		seq = max(seq, one)
	}
	return seq, nil
}
