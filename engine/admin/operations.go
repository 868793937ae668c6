package admin

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// operationRoutes are what operators do with queues, consumers and channels that
// clients cannot do over AMQP.
func (h *Handler) operationRoutes() {
	const one = "/api/queues/{vhost}/{name}"
	h.change("PUT "+one+"/pause", Management, "Deliver nothing from a queue until it is resumed; it goes on taking messages", h.pauseQueue(true))
	h.change("PUT "+one+"/resume", Management, "Let a paused queue deliver again", h.pauseQueue(false))
	h.change("PUT "+one+"/restart", Management, "Open a queue again that a failed write has closed, when the disk works again; its consumers and what they hold stay", h.restartQueue)
	h.get(one+"/unacked", Management, "Messages of a queue that clients have and have not acknowledged", h.unacked)
	h.change("DELETE /api/consumers/{vhost}/{connection}/{channel}/{tag}", Management, "Cancel a consumer; its client is told", h.cancelConsumer)
	h.change("PUT /api/channels/{name}", Management, "Set the prefetch of a channel's consumers", h.setPrefetch)
	h.answer("GET /api/aliveness-test/{vhost}", Management, "Declare a queue, publish a message to it and get it back", h.alive)
}

// configurable finds a queue that the user may configure.
func (h *Handler) configurable(q *request) (*broker.VHost, *broker.Queue, error) {
	vh, queue, err := h.queueToUse(q)
	if err == nil {
		err = q.id.In(vh).Permit(access.Configure, "queue", queue.Name)
	}
	return vh, queue, err
}

func (h *Handler) pauseQueue(paused bool) func(q *request) (uint64, error) {
	return func(q *request) (uint64, error) {
		vh, queue, err := h.configurable(q)
		if err != nil {
			return 0, err
		}
		return vh.PauseQueue(queue, paused)
	}
}

func (h *Handler) restartQueue(q *request) (uint64, error) {
	vh, queue, err := h.configurable(q)
	if err != nil {
		return 0, err
	}
	return 0, vh.RestartQueue(queue)
}

func (h *Handler) unacked(q *request) (any, error) {
	vh, queue, err := h.queueToUse(q)
	if err != nil {
		return nil, err
	}
	if err := q.id.In(vh).Permit(access.Read, "queue", queue.Name); err != nil {
		return nil, err
	}
	ctx, cancel := loops(q)
	defer cancel()
	list, err := h.AMQP.Unacked(ctx, queue, amqp.UnackedMax)
	if err != nil {
		return nil, err
	}
	return paged(q, list)
}

// cancelConsumer takes a channel by its number, or by its name.
func (h *Handler) cancelConsumer(q *request) (uint64, error) {
	vh, err := h.enter(q)
	if err != nil {
		return 0, err
	}
	connection, channel := q.PathValue("connection"), q.PathValue("channel")
	if name, number, ok := channelParts(channel); ok && name == connection {
		channel = strconv.Itoa(int(number))
	}
	number, err := strconv.ParseUint(channel, 10, 16)
	if err != nil {
		return 0, problemf(http.StatusBadRequest, "'%s' is not the number of a channel", channel)
	}
	if err := h.ownConnection(q, connection); err != nil {
		return 0, err
	}
	ctx, cancel := loops(q)
	defer cancel()
	found, err := h.AMQP.CancelConsumer(ctx, vh, connection, uint16(number), q.PathValue("tag"))
	if err == nil && !found {
		err = problemf(http.StatusNotFound, "there is no consumer '%s' on channel %d of connection '%s'", q.PathValue("tag"), number, connection)
	}
	return 0, err
}

// ownConnection says whether the user may meddle with a connection: with one of
// its own, or as an administrator.
func (h *Handler) ownConnection(q *request, name string) error {
	found, err := h.connections(q, func(c *amqp.ConnectionInfo) bool { return c.Name == name })
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return noConnection(name)
	case found[0].User != q.id.Name() && !q.id.Is(Administrator):
		return notA(&route{Route: Route{Role: Administrator}})
	}
	return nil
}

// channelParts takes the name of a channel apart.
func channelParts(name string) (connection string, number uint16, ok bool) {
	connection, rest, ok := cutLast(name, " (")
	digits, closed := strings.CutSuffix(rest, ")")
	n, err := strconv.ParseUint(digits, 10, 16)
	return connection, uint16(n), ok && closed && err == nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// ChannelChange is what to set of a channel, by either name.
type ChannelChange struct {
	Prefetch  Number `json:"prefetch,omitzero"`
	Prefetch2 Number `json:"prefetch_count,omitzero"`
}

func (h *Handler) setPrefetch(q *request) (uint64, error) {
	name := q.PathValue("name")
	var v ChannelChange
	if err := q.decode(&v); err != nil {
		return 0, err
	}
	n := cmp.Or(v.Prefetch, v.Prefetch2)
	if !n.given || n.n > amqp.PrefetchMax {
		return 0, problemf(http.StatusBadRequest, "'prefetch' is a number from 0 to %d; 0 means no limit", amqp.PrefetchMax)
	}
	noChannel := problemf(http.StatusNotFound, "there is no channel '%s'", name)
	connection, number, ok := channelParts(name)
	if !ok {
		return 0, noChannel
	}
	if err := h.ownConnection(q, connection); err != nil {
		return 0, err
	}
	ctx, cancel := loops(q)
	defer cancel()
	found, err := h.AMQP.SetPrefetch(ctx, connection, number, uint16(n.n))
	if err == nil && !found {
		err = noChannel
	}
	return 0, err
}

func (h *Handler) alive(q *request) (any, error) {
	vh, err := h.enter(q)
	if err != nil {
		return nil, err
	}
	for _, p := range []access.Permission{access.Configure, access.Write, access.Read} {
		kind, name := "queue", "aliveness-test"
		if p == access.Write {
			kind, name = "exchange", ""
		}
		if err := q.id.In(vh).Permit(p, kind, name); err != nil {
			return nil, err
		}
	}
	ctx, cancel := loops(q)
	defer cancel()
	if err := h.AMQP.Alive(ctx, vh, q.id.account()); err != nil {
		return nil, err
	}
	return map[string]string{"status": "ok"}, nil
}
