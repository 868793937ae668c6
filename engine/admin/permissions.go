package admin

import (
	"net/http"

	"github.com/basaltmq/basaltmq/engine/access"
)

// Permissions are a user's in a virtual host.
type Permissions struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermissions are a user's on a topic exchange.
type TopicPermissions struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

func (h *Handler) permissions(user, vhost string) []Permissions {
	list := []Permissions{}
	for _, p := range h.Broker.Permissions(user, vhost) {
		list = append(list, Permissions{p.User, p.VHost, p.Configure, p.Write, p.Read})
	}
	return list
}

func (h *Handler) topicPermissions(user, vhost string) []TopicPermissions {
	list := []TopicPermissions{}
	for _, p := range h.Broker.TopicPermissions(user, vhost) {
		list = append(list, TopicPermissions{p.User, p.VHost, p.Exchange, p.Write, p.Read})
	}
	return list
}

// each mounts lists of everything, of a user, and of a virtual host.
func eachOwner[T any](h *Handler, kind, what string, list func(user, vhost string) []T) {
	h.get("/api/"+kind, Administrator, "All "+what, func(q *request) (any, error) { return paged(q, list("", "")) })
	h.get("/api/users/{user}/"+kind, Administrator, "The "+what+" of a user", func(q *request) (any, error) {
		s, err := h.Broker.User(q.PathValue("user"))
		if err != nil {
			return nil, err
		}
		return paged(q, list(s.Name, ""))
	})
	h.get("/api/vhosts/{vhost}/"+kind, Administrator, "The "+what+" in a virtual host", func(q *request) (any, error) {
		vh, err := h.host(q)
		if err != nil {
			return nil, err
		}
		return paged(q, list("", vh.Name))
	})
}

func (h *Handler) permissionRoutes() {
	b := h.Broker
	eachOwner(h, "permissions", "permissions", h.permissions)
	eachOwner(h, "topic-permissions", "topic permissions", h.topicPermissions)

	const one = " /api/permissions/{vhost}/{user}"
	h.answer("GET"+one, Administrator, "The permissions of a user in a virtual host", func(q *request) (any, error) {
		if err := h.userAndHost(q); err != nil {
			return nil, err
		}
		for _, p := range h.permissions(q.PathValue("user"), q.PathValue("vhost")) {
			return p, nil
		}
		return nil, noPermissions(q)
	})
	h.change("PUT"+one, Administrator, "Say what a user may do in a virtual host", func(q *request) (uint64, error) {
		var p struct{ Configure, Write, Read *string }
		if err := q.decode(&p); err != nil {
			return 0, err
		}
		if p.Configure == nil || p.Write == nil || p.Read == nil {
			return 0, problemf(http.StatusBadRequest, "permissions need configure, write and read")
		}
		q.created = len(h.permissions(q.PathValue("user"), q.PathValue("vhost"))) == 0
		return b.SetPermissions(q.PathValue("user"), q.PathValue("vhost"), access.Permissions{Configure: *p.Configure, Write: *p.Write, Read: *p.Read})
	})
	h.change("DELETE"+one, Administrator, "Take a user's access to a virtual host away", func(q *request) (uint64, error) {
		if len(h.permissions(q.PathValue("user"), q.PathValue("vhost"))) == 0 {
			return 0, noPermissions(q)
		}
		return b.ClearPermissions(q.PathValue("user"), q.PathValue("vhost"))
	})

	const topics = " /api/topic-permissions/{vhost}/{user}"
	h.answer("GET"+topics, Administrator, "The topic permissions of a user in a virtual host", func(q *request) (any, error) {
		if err := h.userAndHost(q); err != nil {
			return nil, err
		}
		list := h.topicPermissions(q.PathValue("user"), q.PathValue("vhost"))
		if len(list) == 0 {
			return nil, noPermissions(q)
		}
		return paged(q, list)
	})
	h.change("PUT"+topics, Administrator, "Restrict the routing keys that a user may use with a topic exchange", func(q *request) (uint64, error) {
		var p struct {
			Exchange    string
			Write, Read *string
		}
		if err := q.decode(&p); err != nil {
			return 0, err
		}
		if p.Write == nil || p.Read == nil {
			return 0, problemf(http.StatusBadRequest, "topic permissions need exchange, write and read")
		}
		q.created = true
		for _, old := range h.topicPermissions(q.PathValue("user"), q.PathValue("vhost")) {
			q.created = q.created && old.Exchange != p.Exchange
		}
		return b.SetTopicPermissions(q.PathValue("user"), q.PathValue("vhost"), p.Exchange, access.TopicPermissions{Write: *p.Write, Read: *p.Read})
	})
	h.change("DELETE"+topics, Administrator, "Lift a user's restrictions on all topic exchanges, or on the one that ?exchange= names", func(q *request) (uint64, error) {
		if len(h.topicPermissions(q.PathValue("user"), q.PathValue("vhost"))) == 0 {
			return 0, noPermissions(q)
		}
		return b.ClearTopicPermissions(q.PathValue("user"), q.PathValue("vhost"), q.query("exchange"))
	})
	h.change("DELETE"+topics+"/{exchange}", Administrator, "Lift a user's restrictions on a topic exchange", func(q *request) (uint64, error) {
		return b.ClearTopicPermissions(q.PathValue("user"), q.PathValue("vhost"), q.PathValue("exchange"))
	})
}

func noPermissions(q *request) error {
	return problemf(http.StatusNotFound, "user '%s' has none in virtual host '%s'", q.PathValue("user"), q.PathValue("vhost"))
}

// userAndHost says whether both are there.
func (h *Handler) userAndHost(q *request) error {
	if _, err := h.host(q); err != nil {
		return err
	}
	_, err := h.Broker.User(q.PathValue("user"))
	return err
}
