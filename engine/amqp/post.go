package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Posting is a message that is published without a connection.
type Posting struct {
	Exchange, RoutingKey string
	Properties           amqp.Properties
	Body                 []byte
	// User is who publishes it; nil: an operator, who may name any user.
	User *access.User
}

// ErrBlocked: the broker takes no messages for now.
var ErrBlocked = errors.New("amqp: publishers are blocked")

// Post publishes a message as a mandatory one with a confirm: routed says that a
// queue has it, and all queues it goes to took it; then it is as durable as
// confirmed messages are. It goes the way of all messages, direct replies and
// deduplication included, but may have to wait: not for a loop. Permissions are
// the caller's business. Errors: those of basic.publish, ErrBlocked, the context's.
func (s *Server) Post(ctx context.Context, vh *broker.VHost, p *Posting) (routed bool, err error) {
	exchange, key := []byte(p.Exchange), []byte(p.RoutingKey)
	entry, err := vh.CheckPublish(exchange)
	if err != nil {
		return false, err
	}
	if limit := s.tuning.Load().MessageBytesMax; uint64(len(p.Body)) > limit {
		return false, amqp.Errorf(amqp.CodePreconditionFailed, amqp.BasicPublishID, "message size %d is larger than configured max size %d", len(p.Body), limit)
	}
	properties, more, err := s.postProperties(p)
	if err != nil {
		return false, err
	}
	if reason := s.alarm.Load(); reason != nil {
		return false, fmt.Errorf("%w: %s", ErrBlocked, *reason)
	}
	if err := s.broker.AwaitRoom(ctx); err != nil {
		return false, fmt.Errorf("%w: the disk does not keep up: %w", ErrBlocked, err)
	}
	queues, err := vh.Route(exchange, broker.Envelope{RoutingKey: key, More: more, Properties: properties}, nil)
	if err != nil {
		return false, err
	}
	if vh.Tracing() {
		s.tracePosting(vh, p, queues, append([][]byte{key}, more...), properties)
	}
	copies, bytes := visible(queues), uint64(len(p.Body))
	nowhere := broker.Nowhere(queues)
	routed = nowhere && isReplyKey(exchange, key) && s.reply(vh, key, properties, p.Body)
	entry.Exchange.CountPublished(1, copies, bytes)
	counts := vh.LoopCounts(0) // anybody may count by it
	counts.Add(stats.Publish, 1)
	counts.Add(stats.BytesIn, bytes)
	counts.Add(stats.PublishOut, copies)
	if nowhere && !routed {
		counts.Add(stats.ReturnUnroutable, 1)
	}
	if routed {
		return true, nil
	}
	properties = broker.ForQueues(queues, more, properties)
	return s.postTo(ctx, vh, queues, entry.Dedup, exchange, key, properties, p.Body)
}

// postProperties encodes the properties as they are stored, and returns the
// routing keys that they name.
func (s *Server) postProperties(p *Posting) (encoded []byte, more [][]byte, err error) {
	props := p.Properties
	if err := vouch(&props, p.User); err != nil {
		return nil, nil, err
	}
	if props.Flags&amqp.FlagReplyTo != 0 && string(props.ReplyTo) == replyQueue {
		return nil, nil, amqp.Errorf(amqp.CodePreconditionFailed, amqp.BasicPublishID, "fast reply consumer does not exist")
	}
	if s.setTimestamp && props.Flags&amqp.FlagTimestamp == 0 {
		props.Flags |= amqp.FlagTimestamp
		props.Timestamp = uint64(time.Now().Unix())
	}
	if props.Flags&amqp.FlagHeaders != 0 {
		if more, props.Headers, err = broker.CarbonCopies(props.Headers); err != nil {
			return nil, nil, err
		}
	}
	return props.Append(nil), more, nil
}

// postTo appends the message to its queues and waits until it is durable there.
func (s *Server) postTo(ctx context.Context, vh *broker.VHost, queues []*broker.Queue, dedup *broker.Deduplicator, exchange, key, properties, body []byte) (routed bool, err error) {
	now := time.Now().UnixMilli()
	batch := s.broker.Store().NewBatch()
	defer batch.Release()
	batch.Reset(now)
	batch.Add(batch.Template(exchange, key, properties), body)
	var tx *segstore.Tx
	if expires(properties) && expectExpirations(queues) {
		tx = s.broker.Store().Begin()
	}
	ends, taken, err := s.append(batch, queues, dedup, tx, now)
	if tx != nil {
		tx.End()
	}
	if err != nil || !taken || broker.Nowhere(queues) {
		return false, err
	}
	if amqp.DeliveryMode(properties) == 2 {
		for i, q := range queues {
			if err := s.broker.AwaitMessages(ctx, q, ends[i]); err != nil {
				return false, fmt.Errorf("amqp: queue '%s' in vhost '%s' has the message, but not on disk: %w", q.Name, vh.Name, err)
			}
		}
	}
	return true, nil
}

// append gives a batch of one message to its queues; taken is false when one of
// them refused it, or it is a duplicate.
func (s *Server) append(batch *segstore.Batch, queues []*broker.Queue, dedup *broker.Deduplicator, tx *segstore.Tx, now int64) (ends []uint64, taken bool, err error) {
	records := batch
	if dedup != nil {
		if err := dedup.Unread(); err != nil {
			return nil, false, err
		}
		records, _ = dedup.Judge(batch, nil, now)
	}
	var refused []int
	var failure error
	ends = make([]uint64, len(queues))
	taken = records.Count() > 0
	for i, q := range queues {
		if !taken {
			break
		}
		end, _, err := q.Publish(records, now)
		more, inLog, err := refusedBy(err, records.Count())
		if tx != nil && err == nil && end > 0 {
			tx.Appended(q.Log(), end-uint64(inLog), end)
		}
		if err != nil {
			failure = amqp.Errorf(amqp.CodeInternalError, amqp.BasicPublishID, "queue '%s' in vhost '%s' takes no messages: %v", q.Name, q.VHost.Name, err)
		}
		ends[i] = end
		refused = broker.MergeRefused(refused, more)
	}
	if dedup != nil {
		refused = dedup.Done(queues, refused, failure != nil, tx)
	}
	return ends, taken && len(refused) == 0, failure
}

// alivenessQueue is what RabbitMQ uses for it, too.
const alivenessQueue = "aliveness-test"

// Alive declares a queue, publishes a message to it and gets it back, for a user
// (nil: the operator).
func (s *Server) Alive(ctx context.Context, vh *broker.VHost, user *access.User) error {
	q, _, _, err := vh.DeclareQueue(broker.QueueDeclare{Name: alivenessQueue}, nil)
	if err != nil {
		return err
	}
	routed, err := s.Post(ctx, vh, &Posting{RoutingKey: q.Name, Body: []byte("test_message"), User: user})
	if err != nil {
		return err
	}
	got, err := s.Collect(ctx, q, user, 1, 100, broker.Ack)
	if err == nil && (!routed || len(got) == 0) {
		err = fmt.Errorf("amqp: a message to queue '%s' in vhost '%s' did not come back", q.Name, vh.Name)
	}
	return err
}
