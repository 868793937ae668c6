package admin

import (
	"encoding/json"
	"errors"
	"io"
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

// Parameter is a parameter; global ones have a name and a value only.
type Parameter struct {
	VHost     string          `json:"vhost,omitempty"`
	Component string          `json:"component,omitempty"`
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
}

func (h *Handler) policyRoutes() {
	b := h.Broker
	h.policyKind("policies", "policy", b.Policies, b.SetPolicy, b.ClearPolicy)
	h.policyKind("operator-policies", "operator policy", b.OperatorPolicies, b.SetOperatorPolicy, b.ClearOperatorPolicy)

	parameters := func(global bool) []Parameter {
		list := []Parameter{}
		for _, p := range b.Parameters() {
			if global == (p.VHost == "") {
				list = append(list, Parameter{p.VHost, p.Component, p.Name, p.Value})
			}
		}
		return list
	}
	h.get("/api/parameters", func(http.ResponseWriter, *http.Request) (any, error) { return parameters(false), nil })
	h.get("/api/global-parameters", func(http.ResponseWriter, *http.Request) (any, error) { return parameters(true), nil })
	set := func(r *http.Request) (uint64, error) {
		var v struct{ Value json.RawMessage }
		if err := body(r, &v); err != nil {
			return 0, err
		}
		if v.Value == nil {
			return 0, problemf(http.StatusBadRequest, "a parameter needs a value")
		}
		return b.SetParameter(broker.Parameter{VHost: r.PathValue("vhost"), Component: r.PathValue("component"), Name: r.PathValue("name"), Value: v.Value})
	}
	clear := func(r *http.Request) (uint64, error) {
		return b.ClearParameter(r.PathValue("vhost"), r.PathValue("component"), r.PathValue("name"))
	}
	h.change("PUT /api/parameters/{component}/{vhost}/{name}", set)
	h.change("DELETE /api/parameters/{component}/{vhost}/{name}", clear)
	h.change("PUT /api/global-parameters/{name}", set)
	h.change("DELETE /api/global-parameters/{name}", clear)
}

// policyKind registers the routes of policies or of operator policies.
func (h *Handler) policyKind(path, what string, list func(vhost string) []broker.Policy, set func(broker.Policy) (uint64, error), clear func(vhost, name string) (uint64, error)) {
	all := func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if _, err := h.hosts(r); err != nil {
			return nil, err
		}
		policies := []Policy{}
		for _, p := range list(r.PathValue("vhost")) {
			policies = append(policies, policyOf(p))
		}
		return policies, nil
	}
	h.get("/api/"+path, all)
	h.get("/api/"+path+"/{vhost}", all)
	one := "/api/" + path + "/{vhost}/{name}"
	h.get(one, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if _, err := h.host(r); err != nil {
			return nil, err
		}
		for _, p := range list(r.PathValue("vhost")) {
			if p.Name == r.PathValue("name") {
				return policyOf(p), nil
			}
		}
		return nil, problemf(http.StatusNotFound, "there is no %s '%s' in virtual host '%s'", what, r.PathValue("name"), r.PathValue("vhost"))
	})
	h.change("PUT "+one, func(r *http.Request) (uint64, error) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return 0, err
		}
		p, err := definitions.ParsePolicy(r.PathValue("vhost"), r.PathValue("name"), data)
		if err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return 0, err
			}
			return 0, problemf(http.StatusBadRequest, "the %s %v", what, definitions.ErrorText(err))
		}
		return set(p)
	})
	h.change("DELETE "+one, func(r *http.Request) (uint64, error) { return clear(r.PathValue("vhost"), r.PathValue("name")) })
}
