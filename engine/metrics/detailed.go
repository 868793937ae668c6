package metrics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Metrics of single objects. A family of the request is several families of the
// page; for each of those the objects are gone through once, and nothing is kept
// of them in between but pointers.

// Names of the families that can be asked for, RabbitMQ's where it has them.
// Others are ignored, as there.
const (
	queueCoarse      = "queue_coarse_metrics"
	queueConsumers   = "queue_consumer_count"
	queueMetrics     = "queue_metrics"
	exchangeMetrics  = "exchange_metrics"
	connectionCoarse = "connection_coarse_metrics"
	connectionChurn  = "connection_churn_metrics"
	connectionMore   = "connection_metrics"
	channelMetrics   = "channel_metrics"
	vhostStatus      = "vhost_status"
	vhostStats       = "vhost_message_stats"
)

// allFamilies are those of /metrics/per-object.
var allFamilies = []string{queueCoarse, queueConsumers, queueMetrics, exchangeMetrics, connectionCoarse, connectionMore, channelMetrics, vhostStatus}

// surveyLimit bounds how long a page waits for loops.
const surveyLimit = 5 * time.Second

// details writes the metrics of one request.
type details struct {
	e     *Exporter
	q     *query
	p     *page
	front string // of all names
	hosts []*broker.VHost
}

func (e *Exporter) detailed(q *query, p *page, front string) {
	d := &details{e, q, p, front, e.hosts(q)}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(q.families, n) })
	}
	if has(queueCoarse, queueConsumers, queueMetrics) {
		d.queues(has)
	}
	if has(exchangeMetrics) {
		d.exchanges()
	}
	if has(connectionCoarse, connectionMore) {
		d.connections(has)
	}
	if has(channelMetrics) {
		d.channels()
	}
	if has(connectionChurn) {
		d.churn()
	}
	if has(vhostStatus) {
		p.family(front+"vhost_status", gauge, "1 for each virtual host that runs.")
		for _, vh := range d.hosts {
			p.uint(1, "vhost", vh.Name)
		}
	}
	if has(vhostStats) {
		d.vhosts()
	}
}

// hostQueues are the queues of a virtual host.
type hostQueues struct {
	name   string
	queues []*broker.Queue
}

func (d *details) queues(has func(...string) bool) {
	var all []hostQueues
	for _, vh := range d.hosts {
		all = append(all, hostQueues{vh.Name, vh.Queues()})
	}
	each := func(name, kind, help string, value func(p *stats.Point, consumers int) uint64) {
		d.p.family(d.front+"queue_"+name, kind, help)
		for _, h := range all {
			for _, queue := range h.queues {
				point, consumers := queue.Sample()
				d.p.uint(value(&point, consumers), "vhost", h.name, "queue", queue.Name)
			}
		}
	}
	if has(queueCoarse) {
		each("messages_ready", gauge, "Messages ready to be delivered.", func(p *stats.Point, _ int) uint64 { return p.Ready })
		each("messages_unacked", gauge, "Messages delivered and not acknowledged yet.", func(p *stats.Point, _ int) uint64 { return p.Unacked })
		each("messages", gauge, "Messages ready and not acknowledged yet.", func(p *stats.Point, _ int) uint64 { return p.Ready + p.Unacked })
	}
	if has(queueConsumers) {
		each("consumers", gauge, "Consumers.", func(_ *stats.Point, n int) uint64 { return uint64(n) })
	}
	if has(queueMetrics) {
		for _, m := range messageMetrics {
			if queueCounts(m.kind) {
				each(m.name, counter, m.help, func(p *stats.Point, _ int) uint64 { return p.Counts[m.kind] })
			}
		}
	}
}

// queueCounts says whether queues count a kind.
func queueCounts(k stats.Kind) bool { return slices.Contains(stats.QueueFigures, stats.Figure(k)) }

func (d *details) exchanges() {
	type hosted struct {
		vhost string
		list  []*broker.Exchange
	}
	var all []hosted
	for _, vh := range d.hosts {
		all = append(all, hosted{vh.Name, vh.SortedExchanges()})
	}
	for _, m := range []struct {
		name, help string
		kind       stats.Kind
	}{
		{"messages_published_in_total", "Messages published to the exchange.", stats.PublishIn},
		{"messages_published_out_total", "Copies of them that went into queues.", stats.PublishOut},
		{"messages_unroutable_total", "Messages for which no queue was found.", stats.DropUnroutable},
		{"message_bytes_published_total", "Bytes of the bodies of published messages.", stats.BytesIn},
	} {
		d.p.family(d.front+"exchange_"+m.name, counter, m.help)
		for _, h := range all {
			for _, x := range h.list {
				counts := x.MessageCounts()
				d.p.uint(counts[m.kind], "vhost", h.vhost, "exchange", x.Name)
			}
		}
	}
}

func (d *details) connections(has func(...string) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), surveyLimit)
	defer cancel()
	list, err := d.e.AMQP.Connections(ctx)
	if err != nil {
		return // a loop is busy: the families are missing this time
	}
	each := func(name, kind, help string, value func(c *amqp.ConnectionInfo) uint64) {
		d.p.family(d.front+"connection_"+name, kind, help)
		for i := range list {
			if c := &list[i]; d.q.wants(c.VHost) {
				d.p.uint(value(c), "vhost", c.VHost, "connection", c.Name)
			}
		}
	}
	if has(connectionCoarse) {
		each("incoming_bytes_total", counter, "Bytes received.", func(c *amqp.ConnectionInfo) uint64 { return c.OctetsIn })
		each("outgoing_bytes_total", counter, "Bytes sent.", func(c *amqp.ConnectionInfo) uint64 { return c.OctetsOut })
	}
	if has(connectionMore) {
		each("incoming_packets_total", counter, "Reads of the socket.", func(c *amqp.ConnectionInfo) uint64 { return c.Reads })
		each("outgoing_packets_total", counter, "Writes to the socket.", func(c *amqp.ConnectionInfo) uint64 { return c.Writes })
		each("channels", gauge, "Channels.", func(c *amqp.ConnectionInfo) uint64 { return uint64(c.Channels) })
	}
}

func (d *details) channels() {
	ctx, cancel := context.WithTimeout(context.Background(), surveyLimit)
	defer cancel()
	list, err := d.e.AMQP.Channels(ctx)
	if err != nil {
		return
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Connection + " (" + strconv.Itoa(int(list[i].Number)) + ")"
	}
	each := func(name, kind, help string, value func(c *amqp.ChannelInfo) uint64) {
		d.p.family(d.front+"channel_"+name, kind, help)
		for i := range list {
			if c := &list[i]; d.q.wants(c.VHost) {
				d.p.uint(value(c), "vhost", c.VHost, "channel", names[i])
			}
		}
	}
	each("consumers", gauge, "Consumers.", func(c *amqp.ChannelInfo) uint64 { return uint64(c.Consumers) })
	each("messages_unacked", gauge, "Messages delivered and not acknowledged yet.", func(c *amqp.ChannelInfo) uint64 { return c.Unacknowledged })
	each("messages_unconfirmed", gauge, "Publishes not confirmed yet.", func(c *amqp.ChannelInfo) uint64 { return c.Unconfirmed })
	each("prefetch", gauge, "Prefetch of new consumers.", func(c *amqp.ChannelInfo) uint64 { return c.Prefetch })
	for _, m := range messageMetrics {
		if m.kind != stats.PublishOut {
			each(m.name, counter, m.help, func(c *amqp.ChannelInfo) uint64 { return c.Counts[m.kind] })
		}
	}
}

func (d *details) churn() {
	_, events := d.e.Broker.Totals()
	o := &overall{events: events}
	for i := range singles {
		if m := &singles[i]; churning[m.name] {
			d.p.family(d.front+m.name, m.kind, m.help)
			d.p.float(m.value(o))
		}
	}
}

var churning = map[string]bool{
	"connections_opened_total": true, "connections_closed_total": true, "channels_opened_total": true, "channels_closed_total": true,
	"queues_declared_total": true, "queues_created_total": true, "queues_deleted_total": true,
}

func (d *details) vhosts() {
	for _, m := range messageMetrics {
		d.p.family(d.front+"vhost_"+m.name, counter, m.help)
		for _, vh := range d.hosts {
			counts := vh.MessageCounts()
			d.p.uint(counts[m.kind], "vhost", vh.Name)
		}
	}
}
