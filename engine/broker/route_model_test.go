package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// routeModel is a topology as lists, routed through by the rule as RabbitMQ
// states it: an exchange passes a message on to what its bindings match, and if
// none does to its alternate exchange; each exchange does so once.
type routeModel struct {
	kinds      map[string]string // of exchanges
	alternates map[string]string
	bindings   []Binding
}

func (m *routeModel) route(exchange, key, header string) []string {
	var queues []string
	done := map[string]bool{}
	for list := []string{exchange}; len(list) > 0; list = list[1:] {
		name := list[0]
		if done[name] {
			continue
		}
		done[name] = true
		if name == "" {
			if !slices.Contains(queues, key) && strings.HasPrefix(key, "q") {
				queues = append(queues, key)
			}
			continue
		}
		matched := false
		for _, b := range m.bindings {
			if b.Source != name || !m.matches(&b, key, header) {
				continue
			}
			matched = true
			if b.ToExchange {
				list = append(list, b.Exchange)
			} else if !slices.Contains(queues, b.Queue) {
				queues = append(queues, b.Queue)
			}
		}
		if other, ok := m.alternates[name]; ok && !matched {
			if _, there := m.kinds[other]; there || other == "" {
				list = append(list, other)
			}
		}
	}
	slices.Sort(queues)
	return queues
}

func (m *routeModel) matches(b *Binding, key, header string) bool {
	switch m.kinds[b.Source] {
	case typeDirect:
		return b.RoutingKey == key
	case typeFanout:
		return true
	case typeTopic:
		return b.RoutingKey == "#" || b.RoutingKey == key
	}
	want, _ := b.Arguments.Lookup("h")
	return isString(want, header)
}

// headersOf encodes properties that have one header, h.
func headersOf(value string) []byte {
	p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: stringArgument("h", value)}
	return p.Append(nil)
}

// TestRoute_Model: random topologies with alternate exchanges, bindings between
// exchanges, and cycles of both. What does not have the trait ByProperties does
// not depend on them.
func TestRoute_Model(t *testing.T) {
	t.Parallel()
	exchanges := []string{"e0", "e1", "e2", "e3", "e4", "e5"}
	queues := []string{"q0", "q1", "q2", "q3"}
	keys := []string{"a", "b", "q0", "q3", "#"}
	values := []string{"x", "y"}
	rapid.Check(t, func(t *rapid.T) {
		b := emptyBroker()
		vh := b.vhost(DefaultVHost)
		m := &routeModel{kinds: map[string]string{}, alternates: map[string]string{}}
		for _, name := range exchanges {
			if rapid.IntRange(0, 7).Draw(t, "missing") == 0 {
				continue
			}
			d := ExchangeDeclare{Name: name, Type: rapid.SampledFrom([]string{typeDirect, typeFanout, typeTopic, typeHeaders}).Draw(t, "type")}
			if other := rapid.SampledFrom(append(exchanges, "", "-", "-", "-")).Draw(t, "alternate"); other != "-" {
				d.Arguments = stringArgument(rapid.SampledFrom([]string{argAlternate, argAlternateToo}).Draw(t, "argument"), other)
				m.alternates[name] = other
			}
			vh.addExchange(d)
			m.kinds[name] = d.Type
		}
		for _, name := range queues {
			vh.queues[name] = &Queue{Name: name, VHost: vh}
		}
		for range rapid.IntRange(0, 14).Draw(t, "bindings") {
			bd := Binding{
				Source:     rapid.SampledFrom(exchanges).Draw(t, "source"),
				RoutingKey: rapid.SampledFrom(keys).Draw(t, "key"),
				Arguments:  stringArgument("h", rapid.SampledFrom(values).Draw(t, "h")),
			}
			if bd.ToExchange = rapid.Bool().Draw(t, "to exchange"); bd.ToExchange {
				bd.Exchange = rapid.SampledFrom(exchanges).Draw(t, "destination")
			} else {
				bd.Queue = rapid.SampledFrom(queues).Draw(t, "queue")
			}
			if source, d, err := vh.ends(&bd, nil); err == nil && vh.bind(source, d, &bd) {
				m.bindings = append(m.bindings, bd)
			}
		}
		for name := range m.kinds {
			entry, err := vh.CheckPublish([]byte(name))
			traits := entry.Traits
			if err != nil || traits&ByMessage != 0 {
				t.Fatalf("%s: %v, %v", name, traits, err)
			}
			for _, key := range keys {
				var first []string
				for i, value := range values {
					want := m.route(name, key, value)
					got := routeNames(t, vh, name, Envelope{RoutingKey: []byte(key), Properties: headersOf(value)})
					if !slices.Equal(got, want) {
						t.Fatalf("%s %q %q: %v, want %v\n%+v", name, key, value, got, want, m)
					}
					if i == 0 {
						first = got
					} else if traits == 0 && !slices.Equal(first, got) {
						t.Fatalf("%s %q depends on headers, but its traits do not say so", name, key)
					}
				}
			}
		}
	})
}

func routeNames(t tb, vh *VHost, exchange string, m Envelope) []string {
	t.Helper()
	queues, err := vh.Route([]byte(exchange), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return names
}

// Wide routes are told apart by a set instead of a list: nothing comes twice,
// nothing is missing.
func TestRoute_Wide(t *testing.T) {
	t.Parallel()
	vh := emptyBroker().vhost(DefaultVHost)
	const count = 5 * inTurnMax
	var want []string
	vh.addExchange(ExchangeDeclare{Name: "source", Type: typeFanout})
	for i := range count {
		name := fmt.Sprintf("q%03d", i)
		want = append(want, name)
		vh.queues[name] = &Queue{Name: name, VHost: vh}
	}
	bind := func(bd Binding) {
		source, d, err := vh.ends(&bd, nil)
		if err != nil || !vh.bind(source, d, &bd) {
			t.Fatalf("%+v: %v", bd, err)
		}
	}
	for i := range count {
		e := fmt.Sprint("e", i)
		vh.addExchange(ExchangeDeclare{Name: e, Type: typeFanout})
		bind(Binding{Source: "source", Exchange: e, ToExchange: true})
		for j := range 3 {
			bind(Binding{Source: e, Queue: want[(i+j*7)%count]})
		}
		bind(Binding{Source: e, Exchange: "source", ToExchange: true})
	}
	for range 2 { // the second time with a router that has been used
		if got := routeNames(t, vh, "source", Envelope{}); !slices.Equal(got, want) {
			t.Fatalf("%d queues: %v", len(got), got)
		}
	}
}

// Routing allocates nothing once its working memory has grown, on any way.
func TestRoute_AllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items under the race detector")
	}
	vh := emptyBroker().vhost(DefaultVHost)
	vh.queues["q"] = &Queue{Name: "q", VHost: vh}
	for _, d := range []ExchangeDeclare{
		{Name: "direct", Type: typeDirect},
		{Name: "headers", Type: typeHeaders},
		{Name: "unroutable", Type: typeDirect, Arguments: stringArgument(argAlternate, "source")},
		{Name: "source", Type: typeFanout},
		{Name: "ring", Type: typeConsistentHash, Arguments: stringArgument(argHashHeader, "h")},
		{Name: "random", Type: typeRandom},
	} {
		vh.addExchange(d)
		if d.Name == "unroutable" {
			continue
		}
		bd := Binding{Source: d.Name, Queue: "q", RoutingKey: "1", Arguments: stringArgument("h", "x")}
		source, dest, _ := vh.ends(&bd, nil)
		vh.bind(source, dest, &bd)
	}
	for _, other := range []string{"direct", "headers", "ring"} {
		bd := Binding{Source: "source", Exchange: other, ToExchange: true}
		source, dest, _ := vh.ends(&bd, nil)
		vh.bind(source, dest, &bd)
	}
	m := Envelope{RoutingKey: []byte("1"), Properties: headersOf("x")}
	dst := make([]*Queue, 0, 8)
	for _, name := range []string{"", "direct", "headers", "unroutable", "source", "ring", "random"} {
		exchange := []byte(name)
		route := func() {
			if got, err := vh.Route(exchange, m, dst); err != nil || (len(got) != 1) != (name == "") {
				t.Fatalf("%s: %d queues, %v", name, len(got), err)
			}
			if _, err := vh.CheckPublish(exchange); err != nil {
				t.Fatal(err)
			}
		}
		route()
		if n := testing.AllocsPerRun(200, route); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	vh := emptyBroker().vhost(DefaultVHost)
	vh.queues["q"] = &Queue{Name: "q", VHost: vh}
	vh.addExchange(ExchangeDeclare{Name: "direct", Type: typeDirect})
	vh.addExchange(ExchangeDeclare{Name: "alternate", Type: typeDirect, Arguments: stringArgument(argAlternate, "direct")})
	vh.addExchange(ExchangeDeclare{Name: "source", Type: typeFanout})
	for _, bd := range []Binding{{Source: "direct", Queue: "q", RoutingKey: "k"}, {Source: "source", Exchange: "direct", ToExchange: true}} {
		source, d, _ := vh.ends(&bd, nil)
		vh.bind(source, d, &bd)
	}
	m := Envelope{RoutingKey: []byte("k"), Properties: []byte{0, 0}}
	dst := make([]*Queue, 0, 8)
	for _, name := range []string{"direct", "alternate", "source"} {
		b.Run(name, func(b *testing.B) {
			exchange := []byte(name)
			b.ReportAllocs()
			for b.Loop() {
				if got, _ := vh.Route(exchange, m, dst); len(got) != 1 {
					b.Fatal(got)
				}
			}
		})
	}
}
