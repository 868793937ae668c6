package admin

import (
	"encoding/json"
	"net/http"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
)

// Policy is a policy or an operator policy.
type Policy struct {
	VHost      string          `json:"vhost"`
	Name       string          `json:"name"`
	Pattern    string          `json:"pattern"`
	ApplyTo    string          `json:"apply-to"`
	Priority   int64           `json:"priority"`
	Definition json.RawMessage `json:"definition"`
}

func policyOf(p broker.Policy) Policy {
	return Policy{p.VHost, p.Name, p.Pattern, p.ApplyTo, p.Priority, definitions.TableJSON(p.Definition)}
}

func (h *Handler) policyRoutes() {
	b := h.Broker
	h.policyKind("policies", "policy", PolicyMaker, b.Policies, b.SetPolicy, b.ClearPolicy)
	h.policyKind("operator-policies", "operator policy", Administrator, b.OperatorPolicies, b.SetOperatorPolicy, b.ClearOperatorPolicy)
	h.parameterRoutes()
}

// policyKind mounts the routes of policies or of operator policies; changes is
// the role that may change them.
func (h *Handler) policyKind(path, what string, changes Role, list func(vhost string) []broker.Policy, set func(broker.Policy) (uint64, error), clear func(vhost, name string) (uint64, error)) {
	all := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		policies := []Policy{}
		for _, vh := range hosts {
			for _, p := range list(vh.Name) {
				policies = append(policies, policyOf(p))
			}
		}
		return paged(q, policies)
	}
	h.get("/api/"+path, Management, "All of kind "+what, all)
	h.get("/api/"+path+"/{vhost}", Management, "Those of kind "+what+" in a virtual host", all)
	one := "/api/" + path + "/{vhost}/{name}"
	find := func(q *request) (p broker.Policy, err error) {
		vh, err := h.host(q)
		if err != nil {
			return p, err
		}
		for _, p := range list(vh.Name) {
			if p.Name == q.PathValue("name") {
				return p, nil
			}
		}
		return p, problemf(http.StatusNotFound, "there is no %s '%s' in virtual host '%s'", what, q.PathValue("name"), vh.Name)
	}
	h.get(one, Management, "One of kind "+what, func(q *request) (any, error) {
		p, err := find(q)
		return policyOf(p), err
	})
	h.change("PUT "+one, changes, "Create or replace one of kind "+what, func(q *request) (uint64, error) {
		if _, err := h.govern(q); err != nil {
			return 0, err
		}
		o, err := q.object()
		if err != nil {
			return 0, err
		}
		withNumber(o, "priority")
		p, err := definitions.ParsePolicy(q.PathValue("vhost"), q.PathValue("name"), o)
		if err != nil {
			return 0, problemf(http.StatusBadRequest, "the %s %v", what, err)
		}
		_, err = find(q)
		q.created = err != nil
		return set(p)
	})
	h.change("DELETE "+one, changes, "Remove one of kind "+what, func(q *request) (uint64, error) {
		if _, err := h.govern(q); err != nil {
			return 0, err
		}
		return clear(q.PathValue("vhost"), q.PathValue("name"))
	})
}
