package broker

import (
	"slices"
	"testing"
)

// A message with more routing keys reaches each queue once, over bound exchanges
// too; an alternate exchange gets it only when none of the keys leads anywhere.
func TestRoute_MoreKeys(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	for _, q := range []string{"a", "b", "c", "other"} {
		e.queue(QueueDeclare{Name: q}, nil)
	}
	e.exchange(ExchangeDeclare{Name: "alternate", Type: "fanout"})
	e.exchange(ExchangeDeclare{Name: "x", Type: "direct", Arguments: values("alternate-exchange", "alternate")})
	e.exchange(ExchangeDeclare{Name: "t", Type: "topic"})
	e.bind(Binding{Source: "alternate", Queue: "other"})
	e.bind(Binding{Source: "x", Queue: "a", RoutingKey: "1"})
	e.bind(Binding{Source: "x", Queue: "a", RoutingKey: "2"})
	e.bind(Binding{Source: "x", Queue: "b", RoutingKey: "2"})
	e.bind(Binding{Source: "x", Exchange: "t", ToExchange: true, RoutingKey: "3"})
	e.bind(Binding{Source: "t", Queue: "c", RoutingKey: "#"})
	e.bind(Binding{Source: "t", Queue: "a", RoutingKey: "1"})
	for _, row := range []struct {
		exchange, key string
		more          []string
		want          []string
	}{
		{"x", "1", nil, []string{"a"}},
		{"x", "1", []string{"2", "1", "nowhere"}, []string{"a", "b"}},
		{"x", "nowhere", []string{"2"}, []string{"a", "b"}},
		{"x", "nowhere", []string{"nor here"}, []string{"other"}},
		{"x", "3", []string{"1", "2"}, []string{"a", "b", "c"}},
		{"t", "0", []string{"1", "1"}, []string{"a", "c"}},
		{"", "a", []string{"b", "a", "none"}, []string{"a", "b"}},
		{"", "none", []string{"c"}, []string{"c"}},
	} {
		m := Envelope{RoutingKey: []byte(row.key), Properties: []byte{0, 0}}
		for _, key := range row.more {
			m.More = append(m.More, []byte(key))
		}
		queues, err := e.vh.Route([]byte(row.exchange), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, q := range queues {
			got = append(got, q.Name)
		}
		if slices.Sort(got); !slices.Equal(got, row.want) {
			t.Errorf("%q by %q and %q: %q, want %q", row.exchange, row.key, row.more, got, row.want)
		}
	}
}
