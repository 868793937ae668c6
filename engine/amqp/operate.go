package amqp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What operators change of connections, by the loops that own them (see
// inspect.go).

// UnackedInfo is a message that a client has and has not acknowledged.
type UnackedInfo struct {
	Connection  string `json:"connection"`
	Channel     uint16 `json:"channel"`
	ChannelName string `json:"channel_name"`
	ConsumerTag string `json:"consumer_tag"` // empty: by basic.get
	DeliveryTag uint64 `json:"delivery_tag"`
	Offset      uint64 `json:"offset"`       // in its queue, or in the level of one
	DeliveredAt int64  `json:"delivered_at"` // Unix seconds
	Seconds     int64  `json:"unacked_seconds"`
}

// UnackedMax is how many messages one Unacked lists at most.
const UnackedMax = 10_000

// channelName is how operators call a channel.
func channelName(connection string, number uint16) string {
	return fmt.Sprintf("%s (%d)", connection, number)
}

// Unacked lists what clients have unacknowledged of a queue, the oldest of each
// channel first, up to limit of each loop. Any goroutine but a loop's.
func (s *Server) Unacked(ctx context.Context, q *broker.Queue, limit int) ([]UnackedInfo, error) {
	limit = min(limit, UnackedMax)
	list, err := collect(ctx, s, func(c *conn, list []UnackedInfo) []UnackedInfo {
		for _, ch := range c.channels {
			list = ch.unackedOf(q, list, limit)
		}
		return list
	})
	slices.SortStableFunc(list, func(a, b UnackedInfo) int {
		return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.DeliveryTag, b.DeliveryTag))
	})
	return list[:min(len(list), limit)], err
}

func (ch *channel) unackedOf(q *broker.Queue, list []UnackedInfo, limit int) []UnackedInfo {
	now, name := ch.conn.shard.loop.Now().Unix(), ch.conn.operatorName()
	for _, r := range ch.unacked.live() {
		if len(list) >= limit {
			break
		}
		if !r.queue.IsPartOf(q) {
			continue
		}
		u := UnackedInfo{
			Connection: name, Channel: ch.id, ChannelName: channelName(name, ch.id),
			DeliveredAt: r.since, Seconds: max(now-r.since, 0),
		}
		if r.consumer != nil {
			u.ConsumerTag = r.consumer.Tag
		}
		for i := uint64(0); i < r.count && len(list) < limit; i++ {
			u.DeliveryTag, u.Offset = r.tag+i, r.at(i)
			list = append(list, u)
		}
	}
	return list
}

// onChannel calls do for a channel, on its loop; false when there is none.
func (s *Server) onChannel(ctx context.Context, connection string, number uint16, do func(ch *channel)) (found bool, err error) {
	var n atomic.Int32
	err = s.survey(ctx, func(int) func(c *conn) {
		return func(c *conn) {
			if c.state != stateOpen || c.operatorName() != connection {
				return
			}
			if ch := c.channels.get(number); ch != nil && !ch.closing {
				n.Add(1)
				do(ch)
				c.flush()
			}
		}
	})
	return n.Load() > 0, err
}

// CancelConsumer ends a subscription as the end of its queue would: clients that
// announced consumer_cancel_notify are told. What it has unacknowledged stays with
// its channel. found is false when there is no such consumer. Any goroutine but a
// loop's.
func (s *Server) CancelConsumer(ctx context.Context, vh *broker.VHost, connection string, number uint16, tag string) (found bool, err error) {
	var done atomic.Bool
	_, err = s.onChannel(ctx, connection, number, func(ch *channel) {
		if cs := ch.consumers[tag]; cs != nil && ch.conn.vhost == vh {
			done.Store(true)
			s.logger.Info("an operator cancels a consumer", "peer", ch.conn.peer(), "channel", number, "tag", tag, "queue", cs.Queue.Name)
			cs.end()
		}
	})
	return done.Load(), err
}

// PrefetchMax is what a client could ask for.
const PrefetchMax = 1<<16 - 1

// SetPrefetch sets the prefetch of a channel's consumers, and of those to come: 0
// is unlimited. found is false when there is no such channel. Errors: 406 for 0
// where a consumer of a stream is, which needs one. Any goroutine but a loop's.
func (s *Server) SetPrefetch(ctx context.Context, connection string, number uint16, prefetch uint16) (found bool, err error) {
	var refusal atomic.Pointer[amqp.Error]
	found, err = s.onChannel(ctx, connection, number, func(ch *channel) {
		for _, cs := range ch.consumers {
			if cs.stream != nil && prefetch == 0 {
				refusal.Store(amqp.Errorf(amqp.CodePreconditionFailed, 0, "consumer prefetch count must not be 0 for 'queue '%s' in vhost '%s''", cs.Queue.Name, cs.Queue.VHost.Name))
				return
			}
		}
		ch.prefetch = prefetch
		for _, cs := range ch.consumers {
			cs.prefetch = uint64(prefetch)
			cs.reconsider()
		}
	})
	if e := refusal.Load(); err == nil && e != nil {
		err = e
	}
	return found, err
}
