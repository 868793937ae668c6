package amqp

import (
	"context"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// Tracing of what operators do by the management API. In RabbitMQ that API is a
// client as any other, with a connection and a channel for each request.

const (
	// OperatorName is how the broker's own operator is called where a name has to
	// be, as in RabbitMQ.
	OperatorName = "rmq-internal"
	// operatorConnection and operatorChannel stand for a connection in traces.
	operatorConnection = "management API"
	operatorChannel    = 1
)

func operatorsName(u *access.User) string {
	if u == nil {
		return OperatorName
	}
	return u.Name
}

// tracePosting traces what Post has routed.
func (s *Server) tracePosting(vh *broker.VHost, p *Posting, queues []*broker.Queue, keys [][]byte, properties []byte) {
	batch := s.broker.Store().NewBatch()
	t := traced{
		connection: operatorConnection, user: operatorsName(p.User), channel: operatorChannel,
		exchange: []byte(p.Exchange), keys: keys, properties: properties, body: p.Body,
	}
	t.published(vh, s.node, batch, queues, time.Now().UnixMilli())
}

// Collect is broker.Queue.Collect for a user (nil: the operator), traced as
// deliveries are.
func (s *Server) Collect(ctx context.Context, q *broker.Queue, user *access.User, count, bodyBytes uint64, verdict broker.Verdict) ([]broker.Message, error) {
	if !q.VHost.Tracing() {
		return q.Collect(ctx, count, bodyBytes, verdict)
	}
	// Traces have whole bodies, but for those in files.
	list, err := q.Collect(ctx, count, max(bodyBytes, externalBytesMin), verdict)
	batch := s.broker.Store().NewBatch()
	for i := range list {
		m := &list[i]
		t := traced{
			connection: operatorConnection, user: operatorsName(user), channel: operatorChannel,
			exchange: []byte(m.Exchange), keys: [][]byte{[]byte(m.RoutingKey)}, properties: m.Properties, redelivered: m.Redelivered,
		}
		if !m.External() {
			t.body = m.Body
		}
		t.delivered(q, s.node, batch, time.Now().UnixMilli())
		m.Body = m.Body[:min(uint64(len(m.Body)), bodyBytes)]
	}
	return list, err
}
