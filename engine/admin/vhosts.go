package admin

import (
	"net/http"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// VHost is a virtual host.
type VHost struct {
	Name             string        `json:"name"`
	Description      string        `json:"description"`
	Tags             []string      `json:"tags"`
	DefaultQueueType string        `json:"default_queue_type"`
	Limits           access.Limits `json:"limits"`
	Connections      int64         `json:"connections"`
	Queues           int           `json:"queues"`
	Ready            uint64        `json:"messages_ready"`
	Unacknowledged   uint64        `json:"messages_unacknowledged"`
}

func (h *Handler) vhost(vh *broker.VHost) VHost {
	s := vh.Spec()
	v := VHost{Name: s.Name, Description: s.Description, Tags: notNil(s.Tags), DefaultQueueType: s.DefaultQueueType, Limits: s.Limits, Connections: vh.Connections()}
	if v.Limits == nil {
		v.Limits = access.Limits{}
	}
	for _, q := range vh.Queues() {
		c := q.Counts()
		v.Queues++
		v.Ready += c.Ready
		v.Unacknowledged += c.Unacked
	}
	return v
}

// VHostChange is what to set of a virtual host; what is absent stays.
type VHostChange struct {
	Description      *string   `json:"description,omitempty"`
	Tags             *[]string `json:"tags,omitempty"`
	DefaultQueueType *string   `json:"default_queue_type,omitempty"`
}

func (c *VHostChange) apply(s *broker.VHostSpec) {
	if c.Description != nil {
		s.Description = *c.Description
	}
	if c.Tags != nil {
		s.Tags = *c.Tags
	}
	if c.DefaultQueueType != nil {
		s.DefaultQueueType = *c.DefaultQueueType
	}
}

func (h *Handler) vhostRoutes() {
	b := h.Broker
	h.get("/api/vhosts", func(w http.ResponseWriter, r *http.Request) (any, error) {
		hosts, err := h.hosts(r)
		if err != nil {
			return nil, err
		}
		sendAll(w, func(yield func(VHost) bool) {
			for _, vh := range hosts {
				if !yield(h.vhost(vh)) {
					return
				}
			}
		})
		return nil, nil
	})
	h.get("/api/vhosts/{vhost}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		vh, err := h.host(r)
		if err != nil {
			return nil, err
		}
		return h.vhost(vh), nil
	})
	h.change("PUT /api/vhosts/{vhost}", func(r *http.Request) (uint64, error) {
		var c VHostChange
		if err := body(r, &c); err != nil {
			return 0, err
		}
		create, err := flag(r, "create")
		if err != nil {
			return 0, err
		}
		name := r.PathValue("vhost")
		if !create && b.VHost(name) != nil {
			return b.UpdateVHost(name, c.apply)
		}
		s := broker.VHostSpec{Name: name}
		c.apply(&s)
		return b.AddVHost(s)
	})
	h.change("DELETE /api/vhosts/{vhost}", func(r *http.Request) (uint64, error) { return b.DeleteVHost(r.PathValue("vhost")) })
	h.change("PUT /api/vhost-limits/{vhost}/{limit}", func(r *http.Request) (uint64, error) {
		value, err := limitValue(r)
		if err != nil {
			return 0, err
		}
		return b.SetVHostLimit(r.PathValue("vhost"), r.PathValue("limit"), value)
	})
	h.change("DELETE /api/vhost-limits/{vhost}/{limit}", func(r *http.Request) (uint64, error) {
		return b.SetVHostLimit(r.PathValue("vhost"), r.PathValue("limit"), -1)
	})
}
