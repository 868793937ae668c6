package admin

import (
	"net/http"

	"github.com/basaltmq/basaltmq/engine/access"
)

// VHostLimits are a virtual host's limits.
type VHostLimits struct {
	VHost string        `json:"vhost"`
	Value access.Limits `json:"value"`
}

// UserLimits are a user's limits.
type UserLimits struct {
	User  string        `json:"user"`
	Value access.Limits `json:"value"`
}

func (h *Handler) quotaRoutes() {
	b := h.Broker
	hosts := func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		list := []VHostLimits{}
		for _, vh := range hosts {
			if l := vh.Spec().Limits; len(l) > 0 {
				list = append(list, VHostLimits{vh.Name, l})
			}
		}
		return paged(q, list)
	}
	h.get("/api/vhost-limits", Management, "Virtual hosts that have limits", hosts)
	h.get("/api/vhost-limits/{vhost}", Management, "The limits of a virtual host", hosts)
	h.change("PUT /api/vhost-limits/{vhost}/{limit}", Administrator, "Set a limit of a virtual host", func(q *request) (uint64, error) {
		value, err := limitValue(q)
		if err != nil {
			return 0, err
		}
		return b.SetVHostLimit(q.PathValue("vhost"), q.PathValue("limit"), value)
	})
	h.change("DELETE /api/vhost-limits/{vhost}/{limit}", Administrator, "Lift a limit of a virtual host", func(q *request) (uint64, error) {
		return b.SetVHostLimit(q.PathValue("vhost"), q.PathValue("limit"), -1)
	})

	h.get("/api/user-limits", Administrator, "Users that have limits", func(q *request) (any, error) {
		list := []UserLimits{}
		for _, s := range b.Users() {
			if len(s.Limits) > 0 {
				list = append(list, UserLimits{s.Name, s.Limits})
			}
		}
		return paged(q, list)
	})
	h.get("/api/user-limits/{user}", Administrator, "The limits of a user", func(q *request) (any, error) {
		s, err := b.User(q.PathValue("user"))
		if err != nil {
			return nil, err
		}
		list := []UserLimits{}
		if len(s.Limits) > 0 {
			list = append(list, UserLimits{s.Name, s.Limits})
		}
		return paged(q, list)
	})
	h.change("PUT /api/user-limits/{user}/{limit}", Administrator, "Set a limit of a user", func(q *request) (uint64, error) {
		value, err := limitValue(q)
		if err != nil {
			return 0, err
		}
		return b.SetUserLimit(q.PathValue("user"), q.PathValue("limit"), value)
	})
	h.change("DELETE /api/user-limits/{user}/{limit}", Administrator, "Lift a limit of a user", func(q *request) (uint64, error) {
		return b.SetUserLimit(q.PathValue("user"), q.PathValue("limit"), -1)
	})
}

func limitValue(q *request) (int64, error) {
	var v struct{ Value *int64 }
	if err := q.decode(&v); err != nil {
		return 0, err
	}
	if v.Value == nil {
		return 0, problemf(http.StatusBadRequest, "a limit needs a value")
	}
	return *v.Value, nil
}
