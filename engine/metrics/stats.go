package metrics

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Stats samples the broker for the management API: all virtual hosts that were
// used and the totals always, every five seconds; the numbers of messages in
// them, queues, exchanges, connections and channels while somebody asks.
type Stats struct {
	broker  *broker.Broker
	server  *amqp.Server
	sampler *stats.Sampler
	now     func() time.Time

	mu           sync.Mutex
	lengthsAsked time.Time
	surveyed     survey

	stop chan struct{}
	done chan struct{}
}

// Keys of the sampler.
type (
	totalsKey     struct{}
	connectionKey struct{ id uint64 }
	channelKey    struct {
		id     uint64
		number uint16
	}
)

// survey is what loops said of their connections in this tick.
type survey struct {
	connections, channels           bool // wanted in the next
	connectionPoints, channelPoints map[any]stats.Point
}

// surveyTimeout bounds how long a tick waits for loops.
const surveyTimeout = 2 * time.Second

// lengthsFor is how long the numbers of messages are sampled after a question.
const lengthsFor = time.Minute

// NewStats makes Stats; Start lets them run.
func NewStats(b *broker.Broker, s *amqp.Server) *Stats {
	st := &Stats{broker: b, server: s, sampler: stats.NewSampler(), now: time.Now, stop: make(chan struct{}), done: make(chan struct{})}
	st.sampler.Keep(totalsKey{}, stats.TotalFigures)
	st.Sample()
	return st
}

// Start samples until Close.
func (s *Stats) Start() {
	go func() {
		defer close(s.done)
		ticker := time.NewTicker(stats.Interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.Sample()
			case <-s.stop:
				return
			}
		}
	}()
}

// Close ends what Start began.
func (s *Stats) Close() {
	close(s.stop)
	<-s.done
}

// Sample takes a sample of everything that is sampled, now.
func (s *Stats) Sample() {
	now := s.now()
	s.mu.Lock()
	lengths := now.Sub(s.lengthsAsked) < lengthsFor
	wanted := s.surveyed
	s.surveyed = survey{}
	s.mu.Unlock()
	if wanted.connections {
		wanted.connectionPoints = s.surveyConnections()
	}
	if wanted.channels {
		wanted.channelPoints = s.surveyChannels()
	}
	s.broker.EachVHost(func(vh *broker.VHost) {
		if vh.Used() {
			s.sampler.Keep(vh, stats.VHostFigures)
		}
	})
	s.sampler.Tick(now.UnixMilli(), func(key any) (stats.Point, stats.Outcome) {
		switch k := key.(type) {
		case totalsKey:
			return s.totals(lengths), stats.Seen
		case *broker.VHost:
			p := k.Sample()
			if lengths {
				k.Lengths(&p)
			}
			return p, goneIf(k.Deleted())
		case *broker.Queue:
			p, _ := k.Sample()
			return p, goneIf(k.Deleted())
		case *broker.Exchange:
			return stats.Point{Counts: k.MessageCounts()}, stats.Seen
		case connectionKey:
			s.wantSurvey(func(v *survey) { v.connections = true })
			return find(wanted.connectionPoints, key)
		}
		s.wantSurvey(func(v *survey) { v.channels = true })
		return find(wanted.channelPoints, key)
	})
}

func goneIf(gone bool) stats.Outcome {
	if gone {
		return stats.Gone
	}
	return stats.Seen
}

// find looks an object up in what a survey saw; nil: there was none.
func find(points map[any]stats.Point, key any) (stats.Point, stats.Outcome) {
	if points == nil {
		return stats.Point{}, stats.Unknown
	}
	p, there := points[key]
	return p, goneIf(!there)
}

func (s *Stats) wantSurvey(f func(v *survey)) {
	s.mu.Lock()
	f(&s.surveyed)
	s.mu.Unlock()
}

// totals are the figures of the whole broker.
func (s *Stats) totals(lengths bool) (p stats.Point) {
	p.Counts, p.Events = s.broker.Totals()
	if lengths {
		s.broker.EachVHost(func(vh *broker.VHost) { vh.Lengths(&p) })
	}
	return p
}

// surveyConnections returns the present state of all connections; nil when a
// loop does not answer.
func (s *Stats) surveyConnections() map[any]stats.Point {
	ctx, cancel := context.WithTimeout(context.Background(), surveyTimeout)
	defer cancel()
	list, err := s.server.Connections(ctx)
	if err != nil {
		return nil
	}
	points := make(map[any]stats.Point, len(list))
	for i := range list {
		points[connectionKey{list[i].ID}] = connectionPoint(&list[i])
	}
	return points
}

func connectionPoint(c *amqp.ConnectionInfo) stats.Point {
	return stats.Point{OctetsIn: c.OctetsIn, OctetsOut: c.OctetsOut, Reads: c.Reads, Writes: c.Writes}
}

func (s *Stats) surveyChannels() map[any]stats.Point {
	ctx, cancel := context.WithTimeout(context.Background(), surveyTimeout)
	defer cancel()
	list, err := s.server.Channels(ctx)
	if err != nil {
		return nil
	}
	points := make(map[any]stats.Point, len(list))
	for i := range list {
		points[channelKey{list[i].ConnectionID, list[i].Number}] = stats.Point{Counts: list[i].Counts}
	}
	return points
}

// Spans are the samples that a request asks for.
type Spans struct{ Lengths, MessageRates, DataRates stats.Span }

// SpansOf reads lengths_age, lengths_incr and so on, in seconds. What is not a
// number asks for nothing.
func SpansOf(query url.Values) Spans {
	span := func(name string) stats.Span {
		age, _ := strconv.ParseInt(query.Get(name+"_age"), 10, 32)
		increment, _ := strconv.ParseInt(query.Get(name+"_incr"), 10, 32)
		return stats.Span{Age: age, Increment: increment}
	}
	return Spans{span("lengths"), span("msg_rates"), span("data_rates")}
}

// Lengths are how numbers of messages change.
type Lengths struct {
	Messages stats.Details `json:"messages_details"`
	Ready    stats.Details `json:"messages_ready_details"`
	Unacked  stats.Details `json:"messages_unacknowledged_details"`
}

func lengthsOf(v stats.View, span stats.Span) Lengths {
	return Lengths{v.Details(stats.Messages, span), v.Details(stats.Ready, span), v.Details(stats.Unacked, span)}
}

func (s *Stats) millis() int64 { return s.now().UnixMilli() }

// Queue returns message_stats of a queue and how its length changes.
func (s *Stats) Queue(q *broker.Queue, spans Spans) (*stats.MessageStats, Lengths) {
	p, _ := q.Sample()
	v := s.sampler.Watch(q, stats.QueueFigures, p, s.millis())
	return v.QueueStats(spans.MessageRates), lengthsOf(v, spans.Lengths)
}

// Exchange returns message_stats of an exchange.
func (s *Stats) Exchange(e *broker.Exchange, spans Spans) *stats.MessageStats {
	v := s.sampler.Watch(e, stats.ExchangeFigures, stats.Point{Counts: e.MessageCounts()}, s.millis())
	return v.ExchangeStats(spans.MessageRates)
}

// VHost returns message_stats of a virtual host, how the numbers of messages in it
// change, and what its connections send and receive.
func (s *Stats) VHost(vh *broker.VHost, spans Spans) (*stats.MessageStats, Lengths, Traffic) {
	s.askLengths()
	v := s.sampler.Known(vh)
	v.Point = vh.Sample()
	return v.VHostStats(spans.MessageRates), lengthsOf(v, spans.Lengths),
		Traffic{v.Point.OctetsIn, v.Point.OctetsOut, octetsOf(v, spans.DataRates)}
}

// Totals returns message_stats and churn_rates of the broker, and how the
// numbers of messages change.
func (s *Stats) Totals(spans Spans) (messages, churn *stats.MessageStats, lengths Lengths) {
	s.askLengths()
	v := s.sampler.Known(totalsKey{})
	v.Point = s.totals(false)
	return v.VHostStats(spans.MessageRates), v.ChurnRates(spans.MessageRates), lengthsOf(v, spans.Lengths)
}

// askLengths has the numbers of messages sampled for a while.
func (s *Stats) askLengths() {
	s.mu.Lock()
	s.lengthsAsked = s.now()
	s.mu.Unlock()
}

// Octets are how the traffic of a connection changes.
type Octets struct {
	In  stats.Details `json:"recv_oct_details"`
	Out stats.Details `json:"send_oct_details"`
}

// Traffic is that of many connections.
type Traffic struct {
	Received uint64 `json:"recv_oct"`
	Sent     uint64 `json:"send_oct"`
	Octets
}

func octetsOf(v stats.View, span stats.Span) Octets {
	return Octets{v.Details(stats.OctetsIn, span), v.Details(stats.OctetsOut, span)}
}

// Connection returns how much a connection sends and receives.
func (s *Stats) Connection(c *amqp.ConnectionInfo, spans Spans) Octets {
	s.wantSurvey(func(v *survey) { v.connections = true })
	v := s.sampler.Watch(connectionKey{c.ID}, stats.ConnectionFigures, connectionPoint(c), s.millis())
	return octetsOf(v, spans.DataRates)
}

// Channel returns message_stats of a channel.
func (s *Stats) Channel(c *amqp.ChannelInfo, spans Spans) *stats.MessageStats {
	s.wantSurvey(func(v *survey) { v.channels = true })
	v := s.sampler.Watch(channelKey{c.ConnectionID, c.Number}, stats.ChannelFigures, stats.Point{Counts: c.Counts}, s.millis())
	return v.ChannelStats(spans.MessageRates)
}
