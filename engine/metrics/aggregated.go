package metrics

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/histogram"
)

// overall is everything that the aggregated page is made of.
type overall struct {
	counts  stats.Counts
	events  [stats.Events]uint64
	hosts   []hostFigures
	all     hostFigures
	loops   []loop.Figures
	store   segstore.Stats
	files   segstore.Segments
	arena   arena.Stats
	process process
	uptime  time.Duration

	free, floor    int64
	alarm, pressed bool
	noSpace        bool
}

// hostFigures are those of a virtual host.
type hostFigures struct {
	name              string
	point             stats.Point
	queues, consumers int
	exchanges         int
	connections       int64
}

// single is a metric without labels.
type single struct {
	name, kind, help string
	value            func(o *overall) float64
}

// queueLists are for pages: a list of many queues is not to be made for each.
var queueLists = sync.Pool{New: func() any { return new([]*broker.Queue) }}

// look collects the figures. Queues are looked at one by one, each under its own
// lock for as long as it takes to read a few numbers.
func (e *Exporter) look(q *query) *overall {
	o := &overall{store: e.Broker.Store().Stats(), files: e.Broker.Store().Segments(), process: readProcess(), uptime: time.Since(e.began)}
	o.counts, o.events = e.Broker.Totals()
	if e.Pool != nil {
		o.arena = e.Pool.Stats()
	}
	for _, l := range e.Loops {
		o.loops = append(o.loops, l.Figures())
	}
	if e.Space != nil {
		o.free, o.floor, o.alarm = e.Space()
	}
	o.pressed, o.noSpace = e.Broker.Store().Pressured(), e.Broker.Store().NoSpace()
	list := queueLists.Get().(*[]*broker.Queue)
	defer queueLists.Put(list)
	for _, vh := range e.hosts(q) {
		*list = vh.AppendQueues((*list)[:0])
		h := hostFigures{name: vh.Name, point: vh.Sample(), connections: vh.Connections(), exchanges: vh.ExchangeCount()}
		for _, queue := range *list {
			p, consumers := queue.Sample()
			h.point.Ready += p.Ready
			h.point.Unacked += p.Unacked
			h.consumers += consumers
			h.queues++
		}
		o.all.point.Ready += h.point.Ready
		o.all.point.Unacked += h.point.Unacked
		o.all.queues += h.queues
		o.all.consumers += h.consumers
		o.all.exchanges += h.exchanges
		o.hosts = append(o.hosts, h)
		clear(*list) // deleted queues are nobody's
	}
	return o
}

func (o *overall) open(created, closed stats.Event) float64 {
	return float64(o.events[created]) - float64(o.events[closed])
}

func event(e stats.Event) func(o *overall) float64 {
	return func(o *overall) float64 { return float64(o.events[e]) }
}

func count(k stats.Kind) func(o *overall) float64 {
	return func(o *overall) float64 { return float64(o.counts[k]) }
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// protocol is the label of the global_ metrics.
var protocol = []string{"protocol", "amqp091"}

// aggregated writes /metrics.
func (e *Exporter) aggregated(q *query, p *page) {
	began := time.Now()
	o := e.look(q)
	p.family("build_info", gauge, "The version that runs.")
	p.uint(1, "version", e.Version, "go_version", runtime.Version())
	p.family("identity_info", gauge, "The node.")
	p.uint(1, "node", e.Node)
	for i := range singles {
		m := &singles[i]
		if q.perObject && ofObjects(m.name) {
			continue
		}
		p.family(m.name, m.kind, m.help)
		p.float(m.value(o))
	}
	for i := range globals {
		m := &globals[i]
		p.family("global_"+m.name, m.kind, m.help)
		p.float(m.value(o), protocol...)
	}
	e.deadLetters(p)
	e.attempts(p)
	hostFamilies(p, o.hosts)
	loopFamilies(p, o)
	e.histograms(p)
	p.family("telemetry_scrape_duration_seconds", gauge, "How long making this page took, up to this line.")
	p.float(time.Since(began).Seconds())
	p.family("telemetry_scrape_size_bytes", gauge, "How long this page is, up to this line.")
	p.uint(uint64(p.bytes + len(p.buf)))
}

// ofObjects says that single objects have metrics of that name.
func ofObjects(name string) bool {
	return slices.ContainsFunc([]string{"queue_messages", "connection_incoming", "connection_outgoing", "channel_"}, func(front string) bool {
		return strings.HasPrefix(name, front)
	})
}

func (e *Exporter) histograms(p *page) {
	confirm, delivery := e.AMQP.Latencies()
	p.histogram("confirm_latency_seconds", "From the receipt of a publish to its confirm, of a sample of publishes.", &confirm, times)
	p.histogram("delivery_latency_seconds", "From the arrival of a message in its queue to its delivery to a consumer, of one message of each run of deliveries. Redeliveries and streams do not count.", &delivery, times)
	h := e.Broker.Store().Histograms()
	merged := func(h *histogram.Histogram) *histogram.Snapshot {
		var s histogram.Snapshot
		s.Merge(h)
		return &s
	}
	p.histogram("journal_sync_duration_seconds", "Time of the waves of writes and syncs that make messages durable.", merged(&h.Sync), times)
	p.histogram("journal_group_bytes", "Size of what was committed together.", merged(&h.GroupBytes), sizes)
	p.histogram("journal_group_entries", "Entries of what was committed together: batches, acknowledgements, definitions.", merged(&h.GroupEntries), many)
}

// hostFamilies are the figures of each virtual host.
func hostFamilies(p *page, hosts []hostFigures) {
	each := func(name, kind, help string, value func(h *hostFigures) uint64) {
		p.family("vhost_"+name, kind, help)
		for i := range hosts {
			p.uint(value(&hosts[i]), "vhost", hosts[i].name)
		}
	}
	each("connections", gauge, "Open connections.", func(h *hostFigures) uint64 { return uint64(h.connections) })
	each("queues", gauge, "Queues.", func(h *hostFigures) uint64 { return uint64(h.queues) })
	each("consumers", gauge, "Consumers.", func(h *hostFigures) uint64 { return uint64(h.consumers) })
	each("messages_ready", gauge, "Messages ready to be delivered.", func(h *hostFigures) uint64 { return h.point.Ready })
	each("messages_unacked", gauge, "Messages delivered and not acknowledged yet.", func(h *hostFigures) uint64 { return h.point.Unacked })
	each("received_bytes_total", counter, "Bytes received from clients.", func(h *hostFigures) uint64 { return h.point.OctetsIn })
	each("sent_bytes_total", counter, "Bytes sent to clients.", func(h *hostFigures) uint64 { return h.point.OctetsOut })
	for _, m := range messageMetrics {
		each(m.name, counter, m.help, func(h *hostFigures) uint64 { return h.point.Counts[m.kind] })
	}
}

// messageMetrics are the counters of virtual hosts and, with other names in
// front, of channels and queues.
var messageMetrics = []struct {
	kind       stats.Kind
	name, help string
}{
	{stats.Publish, "messages_published_total", "Messages published."},
	{stats.PublishOut, "messages_routed_total", "Copies of messages that went into queues."},
	{stats.Confirm, "messages_confirmed_total", "Publishes confirmed."},
	{stats.ReturnUnroutable, "messages_unroutable_returned_total", "Mandatory messages returned because no queue was found."},
	{stats.DropUnroutable, "messages_unroutable_dropped_total", "Messages dropped because no queue was found."},
	{stats.Deliver, "messages_delivered_ack_total", "Messages delivered to consumers that acknowledge."},
	{stats.DeliverNoAck, "messages_delivered_total", "Messages delivered to consumers that do not acknowledge."},
	{stats.Get, "get_ack_total", "Messages got by basic.get, to be acknowledged."},
	{stats.GetNoAck, "get_total", "Messages got by basic.get without acknowledgement."},
	{stats.GetEmpty, "get_empty_total", "basic.get on empty queues."},
	{stats.Redeliver, "messages_redelivered_total", "Deliveries that were not the first of their message."},
	{stats.Ack, "messages_acked_total", "Messages acknowledged."},
	{stats.Reject, "messages_rejected_total", "Messages rejected or given back."},
	{stats.BytesIn, "message_bytes_published_total", "Bytes of the bodies of published messages."},
	{stats.BytesOut, "message_bytes_delivered_total", "Bytes of the bodies of delivered messages."},
}

// loopFamilies are the figures of each event loop.
func loopFamilies(p *page, o *overall) {
	var numbers [256]string
	for i := range o.loops {
		numbers[i%len(numbers)] = strconv.Itoa(i)
	}
	each := func(name, kind, help string, value func(f *loop.Figures) float64) {
		p.family("loop_"+name, kind, help)
		for i := range o.loops {
			p.float(value(&o.loops[i]), "loop", numbers[i%len(numbers)])
		}
	}
	each("busy_seconds_total", counter, "Time that the event loop did not sleep: its rate is the part of a core that it uses.", func(f *loop.Figures) float64 {
		return max(0, (o.uptime - f.Slept).Seconds())
	})
	each("turns_total", counter, "Turns of the event loop.", func(f *loop.Figures) float64 { return float64(f.Turns) })
	each("sleeps_total", counter, "Turns before which the loop slept.", func(f *loop.Figures) float64 { return float64(f.Sleeps) })
	each("wakeups_total", counter, "Sleeps ended by another thread.", func(f *loop.Figures) float64 { return float64(f.Wakeups) })
	each("backlog", gauge, "Work from other threads that waits for the loop.", func(f *loop.Figures) float64 { return float64(f.Backlog) })
	each("connections", gauge, "Sockets of the loop.", func(f *loop.Figures) float64 { return float64(f.Conns) })
	each("received_bytes_total", counter, "Bytes received.", func(f *loop.Figures) float64 { return float64(f.BytesRead) })
	each("sent_bytes_total", counter, "Bytes sent.", func(f *loop.Figures) float64 { return float64(f.BytesSent) })
}

// attempts are logins by protocol.
func (e *Exporter) attempts(p *page) {
	if e.Attempts == nil {
		return
	}
	totals := e.Attempts.Totals()
	for _, m := range []struct {
		name, help string
		value      func(c *stats.AttemptCounts) uint64
	}{
		{"auth_attempts_total", "Logins that were tried.", func(c *stats.AttemptCounts) uint64 { return c.All }},
		{"auth_attempts_succeeded_total", "Logins that succeeded.", func(c *stats.AttemptCounts) uint64 { return c.Succeeded }},
		{"auth_attempts_failed_total", "Logins that were refused.", func(c *stats.AttemptCounts) uint64 { return c.Failed }},
	} {
		p.family(m.name, counter, m.help)
		for i := range totals {
			p.uint(m.value(&totals[i].AttemptCounts), "protocol", totals[i].Protocol)
		}
	}
}

// deadLetters are by reason, as RabbitMQ names them.
func (e *Exporter) deadLetters(p *page) {
	e.Broker.EachDeath(func(reason string, n uint64) {
		p.family("global_messages_dead_lettered_"+reason+"_total", counter, "Messages that left their queue for this reason, whether a dead letter exchange took them or not.")
		p.uint(n, protocol...)
	})
}
