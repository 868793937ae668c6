package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Channel is a channel.
type Channel struct {
	amqp.ChannelInfo
	Name              string              `json:"name"`
	Node              string              `json:"node"`
	State             string              `json:"state"`
	ConnectionDetails ConnectionDetails   `json:"connection_details"`
	PerformedBy       string              `json:"user_who_performed_action"`
	Uncommitted       int                 `json:"messages_uncommitted"`
	AcksUncommitted   int                 `json:"acks_uncommitted"`
	FlowBlocked       bool                `json:"client_flow_blocked"`
	MessageStats      *stats.MessageStats `json:"message_stats,omitempty"`
	*ChannelDetails
}

// ChannelDetails are about one channel.
type ChannelDetails struct {
	ConsumerDetails []Consumer `json:"consumer_details"`
	Deliveries      []any      `json:"deliveries"` // by queue: empty, as at rates_mode basic
	Publishes       []any      `json:"publishes"`  // by exchange: likewise
}

// ConnectionDetails name a connection.
type ConnectionDetails struct {
	Name     string `json:"name"`
	PeerHost string `json:"peer_host"`
	PeerPort uint16 `json:"peer_port"`
}

func channelName(connection string, number uint16) string {
	return connection + " (" + strconv.Itoa(int(number)) + ")"
}

func (h *Handler) channel(c amqp.ChannelInfo, v *view) Channel {
	remote, _ := endpoints(c.Connection)
	out := Channel{
		ChannelInfo: c, Name: channelName(c.Connection, c.Number), Node: h.Node, State: "running", PerformedBy: c.User,
		ConnectionDetails: ConnectionDetails{c.Connection, remote.Addr().String(), remote.Port()},
	}
	if h.Stats != nil && v.detail == detailFull {
		out.MessageStats = h.Stats.Channel(&c, v.spans)
	}
	return out
}

func (h *Handler) channels(q *request, keep func(c *amqp.ChannelInfo) bool) ([]amqp.ChannelInfo, error) {
	visible, err := h.visible(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := loops(q)
	defer cancel()
	all, err := h.AMQP.Channels(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c amqp.ChannelInfo) bool {
		return !visible(c.VHost) || !q.id.Is(Monitoring) && c.User != q.id.Name() || keep != nil && !keep(&c)
	}), nil
}

func (h *Handler) sendChannels(q *request, keep func(c *amqp.ChannelInfo) bool) (any, error) {
	all, err := h.channels(q, keep)
	if err != nil {
		return nil, err
	}
	return sendList(q, listing[amqp.ChannelInfo]{
		all:  all,
		name: func(c amqp.ChannelInfo) string { return channelName(c.Connection, c.Number) },
		show: func(c amqp.ChannelInfo, v *view) any { return h.channel(c, v) },
	})
}

func (h *Handler) channelRoutes() {
	list := func(q *request) (any, error) { return h.sendChannels(q, nil) }
	h.get("/api/channels", Management, "Channels", list)
	h.get("/api/vhosts/{vhost}/channels", Management, "Channels in a virtual host", list)
	h.get("/api/channels/{name}", Management, "A channel", func(q *request) (any, error) {
		name := q.PathValue("name")
		found, err := h.channels(q, func(c *amqp.ChannelInfo) bool { return channelName(c.Connection, c.Number) == name })
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, problemf(http.StatusNotFound, "there is no channel '%s'", name)
		}
		out := h.channel(found[0], &view{spans: metrics.SpansOf(q.URL.Query())})
		consumers, err := h.consumers(q, func(vhost string) bool { return vhost == out.VHost }, "")
		if err != nil {
			return nil, err
		}
		consumers = slices.DeleteFunc(consumers, func(c Consumer) bool { return c.Channel.Name != name })
		out.ChannelDetails = &ChannelDetails{consumers, []any{}, []any{}}
		return out, nil
	})
	consumers := func(q *request) (any, error) {
		visible, err := h.visible(q)
		if err != nil {
			return nil, err
		}
		all, err := h.consumers(q, visible, "")
		if err != nil {
			return nil, err
		}
		return sendList(q, listing[Consumer]{
			all:  all,
			name: func(c Consumer) string { return c.Tag },
			show: func(c Consumer, _ *view) any { return c },
		})
	}
	h.get("/api/consumers", Management, "Consumers", consumers)
	h.get("/api/consumers/{vhost}", Management, "Consumers in a virtual host", consumers)
}

// Consumer is a consumer.
type Consumer struct {
	Tag         string          `json:"consumer_tag"`
	AckRequired bool            `json:"ack_required"`
	Active      bool            `json:"active"`
	Status      string          `json:"activity_status"`
	Exclusive   bool            `json:"exclusive"`
	Prefetch    uint64          `json:"prefetch_count"`
	Unacked     uint64          `json:"messages_unacknowledged"`
	Arguments   json.RawMessage `json:"arguments"`
	Queue       QueueName       `json:"queue"`
	Channel     ChannelName     `json:"channel_details"`
}

// QueueName names a queue.
type QueueName struct {
	Name  string `json:"name"`
	VHost string `json:"vhost"`
}

// ChannelName names a channel.
type ChannelName struct {
	Name       string `json:"name"`
	Number     uint16 `json:"number"`
	Connection string `json:"connection_name"`
	Node       string `json:"node"`
	PeerHost   string `json:"peer_host"`
	PeerPort   uint16 `json:"peer_port"`
	User       string `json:"user"`
}

// consumers lists those in virtual hosts that are visible; of one queue, if it is
// named.
func (h *Handler) consumers(q *request, visible func(vhost string) bool, queue string) ([]Consumer, error) {
	ctx, cancel := loops(q)
	defer cancel()
	all, err := h.AMQP.Consumers(ctx)
	if err != nil {
		return nil, err
	}
	list := []Consumer{}
	for _, c := range all {
		if !visible(c.VHost) || queue != "" && queue != c.Queue {
			continue
		}
		remote, _ := endpoints(c.Connection)
		status := "up"
		switch {
		case c.Single && c.Active:
			status = "single_active"
		case c.Single:
			status = "waiting"
		}
		list = append(list, Consumer{
			Tag: c.Tag, AckRequired: c.AckRequired, Active: c.Active, Status: status, Exclusive: c.Exclusive, Prefetch: c.Prefetch, Unacked: c.Unacked,
			Arguments: definitions.TableJSON(c.Arguments), Queue: QueueName{c.Queue, c.VHost},
			Channel: ChannelName{channelName(c.Connection, c.Channel), c.Channel, c.Connection, h.Node, remote.Addr().String(), remote.Port(), c.User},
		})
	}
	return list, nil
}
