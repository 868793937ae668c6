package admin

import "net/http"

// FeatureFlag is something that RabbitMQ's tools want to know of: all of what
// means anything here is on, and stays so.
type FeatureFlag struct {
	Name       string `json:"name"`
	Desc       string `json:"desc"`
	DocURL     string `json:"doc_url"`
	State      string `json:"state"`
	Stability  string `json:"stability"`
	ProvidedBy string `json:"provided_by"`
}

var featureFlags = func() (list []FeatureFlag) {
	for _, f := range [][2]string{
		{"classic_queue_type_delivery_support", "Classic queues tell consumers about deliveries"},
		{"direct_exchange_routing_v2", "Direct exchanges have an index"},
		{"drop_unroutable_metric", "Unroutable messages that are dropped are counted"},
		{"empty_basic_get_metric", "basic.get on empty queues is counted"},
		{"implicit_default_bindings", "Bindings of the default exchange are implicit"},
		{"quorum_queue", "Queues of type quorum can be declared"},
		{"stream_queue", "Queues of type stream can be declared"},
		{"user_limits", "Users have limits of connections and channels"},
		{"virtual_host_metadata", "Virtual hosts have descriptions and tags"},
	} {
		list = append(list, FeatureFlag{Name: f[0], Desc: f[1], State: "enabled", Stability: "stable", ProvidedBy: "basaltmq"})
	}
	return list
}()

// DeprecatedFeature is something that works and should not be begun with.
type DeprecatedFeature struct {
	Name       string `json:"name"`
	Desc       string `json:"desc"`
	Phase      string `json:"deprecation_phase"`
	DocURL     string `json:"doc_url"`
	ProvidedBy string `json:"provided_by"`
}

var deprecatedFeatures = []DeprecatedFeature{
	{"global_qos", "A prefetch limit for a whole channel (basic.qos with global)", "permitted_by_default", "", "basaltmq"},
	{"transient_nonexcl_queues", "Queues that are neither durable nor exclusive", "permitted_by_default", "", "basaltmq"},
}

func (h *Handler) featureRoutes() {
	h.get("/api/feature-flags", Administrator, "Feature flags: all are on", func(q *request) (any, error) { return paged(q, featureFlags) })
	h.change("PUT /api/feature-flags/{name}/enable", Administrator, "Turn a feature flag on: it is", func(q *request) (uint64, error) {
		for _, f := range featureFlags {
			if f.Name == q.PathValue("name") {
				return 0, nil
			}
		}
		return 0, problemf(http.StatusBadRequest, "there is no feature flag '%s'", q.PathValue("name"))
	})
	h.get("/api/deprecated-features", Administrator, "What works and should not be begun with", func(q *request) (any, error) { return paged(q, deprecatedFeatures) })
	h.get("/api/deprecated-features/used", Administrator, "What of it is in use", func(q *request) (any, error) {
		used := []DeprecatedFeature{}
		for _, f := range deprecatedFeatures {
			if f.Name == "transient_nonexcl_queues" && h.hasTransientQueues() {
				used = append(used, f)
			}
		}
		return paged(q, used)
	})
	h.get("/api/extensions", Management, "Extensions of a user interface: none", func(*request) (any, error) { return []any{}, nil })
	h.change("POST /api/rebalance/queues", Administrator, "Spread queues over nodes: there is one", func(*request) (uint64, error) { return 0, nil })
	for _, path := range []string{"/api/federation-links", "/api/federation-links/{vhost}", "/api/shovels", "/api/shovels/{vhost}"} {
		h.get(path, Management, "Links to other brokers: none", func(q *request) (any, error) {
			if _, err := h.hosts(q); err != nil {
				return nil, err
			}
			return paged(q, []any{})
		})
	}
}

func (h *Handler) hasTransientQueues() bool {
	for _, s := range h.Broker.VHosts() {
		if vh := h.Broker.VHost(s.Name); vh != nil {
			for _, q := range vh.Queues() {
				if !q.Durable && !q.Exclusive() {
					return true
				}
			}
		}
	}
	return false
}
