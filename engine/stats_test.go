package engine_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestStats_Samples: what the management API gets to show of each kind of object,
// sample by sample.
func TestStats_Samples(t *testing.T) {
	t.Parallel()
	e := start(t)
	s := metrics.NewStats(e.Broker(), e.AMQP())
	c := open(t, e)
	c.Declare("q", 0)
	vh := e.Broker().VHost("/")
	q := vh.FindQueue("q")
	exchange := vh.SortedExchanges()[0]
	spans := metrics.SpansOf(url.Values{
		"lengths_age": {"60"}, "lengths_incr": {"1"}, "msg_rates_age": {"60"}, "msg_rates_incr": {"1"},
		"data_rates_age": {"60"}, "data_rates_incr": {"nonsense"},
	})
	look := func() (ready []stats.Sample, published [4]uint64) {
		t.Helper()
		connections, err := e.AMQP().Connections(context.Background())
		if err != nil || len(connections) != 1 {
			t.Fatal(connections, err)
		}
		channels, err := e.AMQP().Channels(context.Background())
		if err != nil || len(channels) != 1 {
			t.Fatal(channels, err)
		}
		ofQueue, lengths := s.Queue(q, spans)
		ofVHost, inVHost, traffic := s.VHost(vh, spans)
		if traffic.Received != connections[0].OctetsIn || traffic.Sent != connections[0].OctetsOut {
			t.Errorf("the virtual host's only connection has %+v, the virtual host %+v", connections[0], traffic)
		}
		totals, churn, _ := s.Totals(spans)
		octets := s.Connection(&connections[0], spans)
		if octets.In.Samples != nil {
			t.Errorf("samples without an increment: %v", octets.In)
		}
		if connections[0].OctetsIn == 0 || connections[0].OctetsOut == 0 || connections[0].Reads == 0 || connections[0].Writes == 0 {
			t.Errorf("connection %+v", connections[0])
		}
		if n := churn.Value(stats.FirstEvent + stats.Figure(stats.QueueCreated)); n != 1 {
			t.Errorf("%d queues created", n)
		}
		if n := s.Exchange(exchange, spans).Value(stats.Figure(stats.PublishIn)); n != ofQueue.Value(stats.Figure(stats.Publish)) {
			t.Errorf("%d came in", n)
		}
		for _, v := range []any{ofQueue, ofVHost, totals, churn, lengths, inVHost, octets, traffic} {
			if raw, err := json.Marshal(v); err != nil || !json.Valid(raw) {
				t.Errorf("%s: %v", raw, err)
			}
		}
		publish := stats.Figure(stats.Publish)
		return lengths.Ready.Samples, [4]uint64{ofQueue.Value(publish), ofVHost.Value(publish), totals.Value(publish), s.Channel(&channels[0], spans).Value(publish)}
	}
	if ready, published := look(); len(ready) != 1 || ready[0].Value != 0 || published != [4]uint64{} {
		t.Errorf("at first: %v, %v", ready, published)
	}
	c.PublishAll(1, "q", "a", "b", "c")
	c.Sync(1)
	s.Sample()
	ready, published := look()
	if len(ready) == 0 || ready[0].Value != 3 || published != [4]uint64{3, 3, 3, 3} {
		t.Errorf("after three publishes: %v, %v", ready, published)
	}
	if d := mustTotals(s, spans); d.Ready.Samples == nil || d.Ready.Samples[0].Value != 3 {
		t.Errorf("in all: %v", d.Ready)
	}
	amqptest.Ask[*wire.ChannelCloseOk](c, 1, &wire.ChannelClose{})
	s.Sample() // the channel is gone
	if ready, _ := s.Queue(q, spans); ready.Value(stats.Figure(stats.Publish)) != 3 {
		t.Error("the queue's counters went with the channel")
	}
}

func mustTotals(s *metrics.Stats, spans metrics.Spans) metrics.Lengths {
	_, _, lengths := s.Totals(spans)
	return lengths
}
