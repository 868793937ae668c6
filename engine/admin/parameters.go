package admin

import (
	"encoding/json"
	"net/http"

	"github.com/basaltmq/basaltmq/engine/broker"
)

// Parameter is a parameter of a virtual host.
type Parameter struct {
	VHost     string          `json:"vhost"`
	Component string          `json:"component"`
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
}

// GlobalParameter is one of the whole broker.
type GlobalParameter struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func (h *Handler) parameterRoutes() {
	const all, one = "/api/parameters", "/api/parameters/{component}/{vhost}/{name}"
	list := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		component, parameters := q.PathValue("component"), []Parameter{}
		for _, p := range h.parameters(hosts) {
			if component == "" || component == p.Component {
				parameters = append(parameters, p)
			}
		}
		return paged(q, parameters)
	}
	h.get(all, PolicyMaker, "Parameters of all virtual hosts", list)
	h.get(all+"/{component}", PolicyMaker, "Parameters of a component", list)
	h.get(all+"/{component}/{vhost}", PolicyMaker, "Parameters of a component in a virtual host", list)
	h.get(one, PolicyMaker, "A parameter", func(q *request) (any, error) {
		vh, err := h.host(q)
		if err != nil {
			return nil, err
		}
		for _, p := range h.parameters([]*broker.VHost{vh}) {
			if p.Component == q.PathValue("component") && p.Name == q.PathValue("name") {
				return p, nil
			}
		}
		return nil, noParameter(q)
	})
	h.change("PUT "+one, PolicyMaker, "Create or replace a parameter", func(q *request) (uint64, error) {
		vh, err := h.govern(q)
		if err != nil {
			return 0, err
		}
		if isLimiting(q) {
			return h.setLimiting(q, vh)
		}
		return h.setParameter(q)
	})
	h.change("DELETE "+one, PolicyMaker, "Remove a parameter", func(q *request) (uint64, error) {
		vh, err := h.govern(q)
		if err != nil {
			return 0, err
		}
		if isLimiting(q) {
			return h.clearLimiting(q, vh)
		}
		return h.Broker.ClearParameter(q.PathValue("vhost"), q.PathValue("component"), q.PathValue("name"))
	})

	const globals, global = "/api/global-parameters", "/api/global-parameters/{name}"
	h.get(globals, PolicyMaker, "Parameters of the broker", func(q *request) (any, error) {
		list := h.builtInParameters()
		for _, p := range h.Broker.Parameters() {
			if p.VHost == "" && p.Name != clusterNameParameter && p.Name != clusterIDParameter {
				list = append(list, GlobalParameter{p.Name, p.Value})
			}
		}
		return paged(q, list)
	})
	h.get(global, PolicyMaker, "A parameter of the broker", func(q *request) (any, error) {
		for _, p := range h.builtInParameters() {
			if p.Name == q.PathValue("name") {
				return p, nil
			}
		}
		p, err := h.parameter(q)
		return GlobalParameter{p.Name, p.Value}, err
	})
	h.change("PUT "+global, PolicyMaker, "Create or replace a parameter of the broker", func(q *request) (uint64, error) {
		if name := q.PathValue("name"); name == clusterNameParameter || name == clusterIDParameter {
			return 0, problemf(http.StatusBadRequest, "'%s' is not set as a parameter: PUT /api/cluster-name names the cluster", name)
		}
		return h.setParameter(q)
	})
	h.change("DELETE "+global, PolicyMaker, "Remove a parameter of the broker", func(q *request) (uint64, error) {
		return h.Broker.ClearParameter("", "", q.PathValue("name"))
	})

	h.get("/api/cluster-name", Management, "The name of the cluster", func(*request) (any, error) {
		return map[string]string{"name": h.clusterName()}, nil
	})
	h.change("PUT /api/cluster-name", Administrator, "Name the cluster", func(q *request) (uint64, error) {
		var v struct{ Name string }
		if err := q.decode(&v); err != nil {
			return 0, err
		}
		if v.Name == "" {
			return 0, problemf(http.StatusBadRequest, "'name' is missing")
		}
		return h.Broker.SetParameter(broker.Parameter{Name: clusterNameParameter, Value: marshal(v.Name)})
	})
}

// parameter finds the parameter that a request names.
func (h *Handler) parameter(q *request) (broker.Parameter, error) {
	vhost, component, name := q.PathValue("vhost"), q.PathValue("component"), q.PathValue("name")
	for _, p := range h.Broker.Parameters() {
		if p.VHost == vhost && p.Component == component && p.Name == name {
			return p, nil
		}
	}
	return broker.Parameter{}, noParameter(q)
}

func noParameter(q *request) error {
	return problemf(http.StatusNotFound, "there is no parameter '%s'", q.PathValue("name"))
}

func (h *Handler) setParameter(q *request) (uint64, error) {
	var v struct{ Value json.RawMessage }
	if err := q.decode(&v); err != nil {
		return 0, err
	}
	if v.Value == nil {
		return 0, problemf(http.StatusBadRequest, "a parameter needs a value")
	}
	p := broker.Parameter{VHost: q.PathValue("vhost"), Component: q.PathValue("component"), Name: q.PathValue("name"), Value: v.Value}
	if err := checkLink(p.Component, p.Value); err != nil {
		return 0, err
	}
	_, err := h.parameter(q)
	q.created = err != nil
	return h.Broker.SetParameter(p)
}

// checkLink looks for what links to other brokers cannot do without. The
// parameters are kept; the links themselves are not made yet.
func checkLink(component string, value []byte) error {
	needed := map[string][]string{"federation-upstream": {"uri"}, "shovel": {"src-uri", "dest-uri"}}[component]
	var have map[string]json.RawMessage
	if needed == nil {
		return nil
	}
	_ = json.Unmarshal(value, &have) // whatever else it is has none of them
	for _, name := range needed {
		if len(have[name]) == 0 || string(have[name]) == "null" {
			return problemf(http.StatusBadRequest, "Validation failed\n\nKey \"%s\" not found in %s\n", name, component)
		}
	}
	return nil
}

// Global parameters that are always there. The name can be set.
const (
	clusterNameParameter = "cluster_name"
	clusterIDParameter   = "internal_cluster_id"
)

func (h *Handler) clusterName() string {
	for _, p := range h.Broker.Parameters() {
		var name string
		if p.VHost == "" && p.Name == clusterNameParameter && json.Unmarshal(p.Value, &name) == nil {
			return name
		}
	}
	return h.Node
}

// builtInParameters are there without anybody having set them.
func (h *Handler) builtInParameters() []GlobalParameter {
	return []GlobalParameter{
		{clusterNameParameter, marshal(h.clusterName())},
		{clusterIDParameter, marshal(h.clusterID())},
	}
}
