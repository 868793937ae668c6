package amqp

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Tracing (RabbitMQ's firehose). While it is on in a virtual host, each message
// that a client publishes there, and each that a client gets, is published again
// to amq.rabbitmq.trace, with headers that say what became of it. Publishes then
// do not take the path for equal ones, and deliveries that for records that need a
// look; while it is off, that is all that is asked. The same goes for what the
// management API publishes and gets (operatortrace.go). Messages that come from the
// exchange itself are not traced, and neither is what no client does, dead letters
// on their way to other queues for example, as in RabbitMQ. The body of a message in a file (1 MiB or more)
// is left out, and a message that a client does not get because its connection is
// lost may have been traced all the same.

// tracer is a loop's: the batch that traces are published by, and the delivery
// that was traced last, which may have found no room in the output and come again.
type tracer struct {
	batch  *segstore.Batch
	from   *consumer
	offset uint64
}

// traced is a message that passes through, and by whom.
type traced struct {
	connection, user string
	channel          uint16
	exchange         []byte
	keys             [][]byte
	properties       []byte
	body             []byte
	redelivered      bool
}

// tracePublish traces a publish that was routed to queues.
func (c *conn) tracePublish(ch *channel, queues []*broker.Queue, exchange, key, properties, body []byte) {
	keys := append([][]byte{key}, ch.pub.more...)
	if ch.tx != nil {
		keys = keys[:1]
	}
	t := traced{
		connection: c.operatorName(), user: c.user.Name, channel: ch.id,
		exchange: exchange, keys: keys, properties: properties, body: body,
	}
	t.published(c.vhost, c.shard.srv.node, c.shard.traceBatch(), queues, c.shard.loop.Now().UnixMilli())
}

// traceDelivery traces the record at hand, once.
func (cs *consumer) traceDelivery() {
	c, t := cs.ch.conn, &cs.ch.conn.shard.tracer
	if t.from == cs && t.offset == cs.record.Offset {
		return
	}
	t.from, t.offset = cs, cs.record.Offset
	c.traceDelivered(cs.ch, cs.Queue, &cs.built, cs.record.Body, cs.run.Redelivered)
}

// sent ends the memory of what was traced once it is below next: when it comes
// again it comes anew.
func (t *tracer) sent(cs *consumer, next uint64) {
	if t.from == cs && t.offset < next {
		t.from = nil
	}
}

// beTraced has each record looked at.
func (cs *consumer) beTraced() {
	if !cs.careful {
		cs.careful, cs.deadline = true, broker.NoDeadline
	}
}

// traceDelivered traces a message on its way to a client.
func (c *conn) traceDelivered(ch *channel, q *broker.Queue, of *segstore.Template, body []byte, redelivered bool) {
	t := traced{
		connection: c.operatorName(), user: c.user.Name, channel: ch.id,
		exchange: of.Exchange, keys: [][]byte{of.RoutingKey}, properties: of.Properties, body: body, redelivered: redelivered,
	}
	t.delivered(q, c.shard.srv.node, c.shard.traceBatch(), c.shard.loop.Now().UnixMilli())
}

// traceBatch is the batch that the loop's traces are published by.
func (sh *shard) traceBatch() *segstore.Batch {
	t := &sh.tracer
	if t.batch == nil {
		t.batch = segstore.NewBatch(sh.pool)
	}
	return t.batch
}

// published publishes the trace of a publish that was routed to queues, by means
// of a batch that the caller has for this.
func (t *traced) published(vh *broker.VHost, node string, batch *segstore.Batch, queues []*broker.Queue, now int64) {
	var b amqp.TableBuilder
	b.SetBytes("exchange_name", t.exchange)
	b.SetValue("routing_keys", stringArray(t.keys))
	t.origin(&b, vh, node)
	var names [][]byte
	for _, q := range queues {
		if !q.Hidden() {
			names = append(names, []byte(q.Name))
		}
	}
	b.SetValue("routed_queues", stringArray(names))
	t.publish(vh, "publish."+string(t.exchange), &b, batch, now)
}

// delivered publishes the trace of a delivery, likewise.
func (t *traced) delivered(q *broker.Queue, node string, batch *segstore.Batch, now int64) {
	if string(t.exchange) == broker.TraceExchange {
		return
	}
	var b amqp.TableBuilder
	b.SetBytes("exchange_name", t.exchange)
	b.SetValue("routing_keys", stringArray(t.keys))
	t.origin(&b, q.VHost, node)
	again := int32(0)
	if t.redelivered {
		again = 1
	}
	b.SetInt32("redelivered", again)
	t.publish(q.VHost, "deliver."+q.Name, &b, batch, now)
}

// origin says where a message comes from, or goes to.
func (t *traced) origin(b *amqp.TableBuilder, vh *broker.VHost, node string) {
	b.SetString("node", node)
	b.SetString("vhost", vh.Name)
	b.SetString("connection", t.connection)
	b.SetInt32("channel", int32(t.channel))
	b.SetString("user", t.user)
}

// publish publishes what is known of a message.
func (t *traced) publish(vh *broker.VHost, key string, b *amqp.TableBuilder, batch *segstore.Batch, now int64) {
	properties, body := t.properties, t.body
	if broker.IsExternal(properties) {
		properties = slices.Clone(properties)
		broker.UnmarkExternal(properties)
		body = nil
	}
	if p, err := amqp.DecodeProperties(properties); err == nil {
		b.SetTable("properties", propertyTable(&p))
	}
	headers := amqp.Properties{Flags: amqp.FlagHeaders, Headers: b.Table()}
	vh.Emit(batch, broker.TraceExchange, cutKey(key), headers.Append(nil), body, now)
	batch.Release()
}

// cutKey bounds a routing key: names may be as long as keys are.
func cutKey(key string) string { return key[:min(len(key), amqp.ShortStringMax)] }

func stringArray(list [][]byte) amqp.Value {
	values := make([]amqp.Value, len(list))
	for i, s := range list {
		values[i] = amqp.StringBytes(s)
	}
	return amqp.ArrayValue(amqp.ArrayOf(values...))
}

// propertyTable is the properties of a message as a table, as RabbitMQ shows them.
func propertyTable(p *amqp.Properties) amqp.Table {
	var b amqp.TableBuilder
	for _, s := range []struct {
		flag  uint16
		name  string
		value []byte
	}{
		{amqp.FlagContentType, "content_type", p.ContentType},
		{amqp.FlagContentEncoding, "content_encoding", p.ContentEncoding},
		{amqp.FlagCorrelationID, "correlation_id", p.CorrelationID},
		{amqp.FlagReplyTo, "reply_to", p.ReplyTo},
		{amqp.FlagExpiration, "expiration", p.Expiration},
		{amqp.FlagMessageID, "message_id", p.MessageID},
		{amqp.FlagType, "type", p.Type},
		{amqp.FlagUserID, "user_id", p.UserID},
		{amqp.FlagAppID, "app_id", p.AppID},
		{amqp.FlagClusterID, "cluster_id", p.ClusterID},
	} {
		if p.Flags&s.flag != 0 {
			b.SetBytes(s.name, s.value)
		}
	}
	if p.Flags&amqp.FlagHeaders != 0 {
		b.SetTable("headers", p.Headers)
	}
	if p.Flags&amqp.FlagDeliveryMode != 0 {
		b.SetInt32("delivery_mode", int32(p.DeliveryMode))
	}
	if p.Flags&amqp.FlagPriority != 0 {
		b.SetInt32("priority", int32(p.Priority))
	}
	if p.Flags&amqp.FlagTimestamp != 0 {
		b.SetInt64("timestamp", int64(p.Timestamp))
	}
	return b.Table()
}
