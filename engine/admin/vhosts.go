package admin

import (
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// VHost is a virtual host.
type VHost struct {
	Name             string            `json:"name"`
	Description      string            `json:"description"`
	Tags             []string          `json:"tags"`
	DefaultQueueType string            `json:"default_queue_type"`
	Metadata         VHostMetadata     `json:"metadata"`
	Tracing          bool              `json:"tracing"`
	ClusterState     map[string]string `json:"cluster_state"`
	Limits           access.Limits     `json:"limits"`
	Connections      int64             `json:"connections"`
	Queues           int               `json:"queues"`
	*QueueTotals
	*metrics.Lengths
	*metrics.Traffic
	MessageStats *stats.MessageStats `json:"message_stats,omitempty"`
}

// VHostMetadata says some of it again, as RabbitMQ does.
type VHostMetadata struct {
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// undefined is how RabbitMQ says that there is no default type of queues.
const undefined = "undefined"

func (h *Handler) vhost(vh *broker.VHost, view *view) any {
	s := vh.Spec()
	if s.DefaultQueueType == "" {
		s.DefaultQueueType = undefined
	}
	v := VHost{
		Name: s.Name, Description: s.Description, Tags: notNil(s.Tags), DefaultQueueType: s.DefaultQueueType,
		Metadata:     VHostMetadata{s.Description, notNil(s.Tags)},
		Tracing:      vh.Tracing(),
		ClusterState: map[string]string{h.Node: "running"}, Limits: limitsOf(s.Limits), Connections: vh.Connections(),
	}
	if view.detail == detailBasic {
		return v
	}
	v.QueueTotals = new(QueueTotals)
	v.Queues = v.QueueTotals.add(vh)
	if h.Stats != nil && view.detail == detailFull {
		var lengths metrics.Lengths
		var traffic metrics.Traffic
		v.MessageStats, lengths, traffic = h.Stats.VHost(vh, view.spans)
		v.Lengths, v.Traffic = &lengths, &traffic
	}
	return v
}

// QueueTotals are figures of many queues together.
type QueueTotals struct {
	Messages       uint64 `json:"messages"`
	Ready          uint64 `json:"messages_ready"`
	Unacknowledged uint64 `json:"messages_unacknowledged"`
	consumers      int
}

// add adds the queues of a virtual host and returns their number.
func (t *QueueTotals) add(vh *broker.VHost) (queues int) {
	for _, q := range vh.Queues() {
		c := q.Counts()
		queues++
		t.Ready += c.Ready
		t.Unacknowledged += c.Unacked
		t.consumers += c.Consumers
	}
	t.Messages = t.Ready + t.Unacknowledged
	return queues
}

// VHostChange is what to set of a virtual host; what is absent stays.
type VHostChange struct {
	Description      *string  `json:"description,omitempty"`
	Tags             *TagList `json:"tags,omitempty"`
	DefaultQueueType *string  `json:"default_queue_type,omitempty"`
	// Tracing is not kept over a restart.
	Tracing *looseBool `json:"tracing,omitempty"`
}

// Tracing is a value for VHostChange.
func Tracing(on bool) *looseBool {
	b := looseBool(on)
	return &b
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
		if s.DefaultQueueType == undefined {
			s.DefaultQueueType = ""
		}
	}
}

// trace turns tracing on or off, if that is asked for.
func (c *VHostChange) trace(vh *broker.VHost) {
	if c.Tracing != nil && vh != nil {
		vh.SetTracing(bool(*c.Tracing))
	}
}

func (h *Handler) vhostRoutes() {
	b := h.Broker
	h.get("/api/vhosts", Management, "Virtual hosts", func(q *request) (any, error) {
		hosts, err := h.hosts(q)
		if err != nil {
			return nil, err
		}
		return sendList(q, listing[*broker.VHost]{
			all:  hosts,
			name: func(vh *broker.VHost) string { return vh.Name },
			show: h.vhost,
		})
	})
	h.get("/api/vhosts/{vhost}", Management, "A virtual host", func(q *request) (any, error) {
		vh, err := h.host(q)
		if err != nil {
			return nil, err
		}
		return h.vhost(vh, &view{spans: metrics.SpansOf(q.URL.Query())}), nil
	})
	h.change("PUT /api/vhosts/{vhost}", Administrator, "Create a virtual host, or change it", h.putVHost)
	h.change("DELETE /api/vhosts/{vhost}", Administrator, "Delete a virtual host with everything in it", func(q *request) (uint64, error) {
		return b.DeleteVHost(q.PathValue("vhost"))
	})
	h.change("POST /api/vhosts/{vhost}/start/{node}", Administrator, "Start a virtual host: here they always run", func(q *request) (uint64, error) {
		if _, err := h.host(q); err != nil {
			return 0, err
		}
		return 0, h.checkNode(q)
	})
}

// putVHost creates a virtual host, in which its creator then has all permissions,
// or changes one. With create=true it has to be new.
func (h *Handler) putVHost(q *request) (uint64, error) {
	b, name := h.Broker, q.PathValue("vhost")
	var c VHostChange
	if err := q.decode(&c); err != nil {
		return 0, err
	}
	create, err := q.flag("create")
	if err != nil {
		return 0, err
	}
	if !create && b.VHost(name) != nil {
		seq, err := b.UpdateVHost(name, c.apply)
		if err == nil {
			c.trace(b.VHost(name))
		}
		return seq, err
	}
	s := broker.VHostSpec{Name: name}
	c.apply(&s)
	seq, err := b.AddVHost(s)
	if err != nil {
		return 0, err
	}
	c.trace(b.VHost(name))
	q.created = true
	if q.id.isLocal() {
		granted, err := b.SetPermissions(q.id.Name(), name, access.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
		if err == nil { // or somebody was faster to delete one of the two
			seq = max(seq, granted)
		}
	}
	return seq, nil
}
