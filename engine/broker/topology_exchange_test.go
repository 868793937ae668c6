package broker

import (
	"slices"
	"testing"
)

func TestTopology_AutoDeleteExchange(t *testing.T) {
	t.Parallel()
	// Each way of losing the last binding removes 'auto', and never earlier.
	setup := func(t *testing.T) *env {
		e := topologyEnv(t)
		e.exchange(ExchangeDeclare{Name: "auto", Type: "topic", AutoDelete: true})
		return e
	}
	has := func(e *env, name string) bool {
		_, err := e.vh.DeclareExchange(ExchangeDeclare{Name: name, Passive: true})
		return err == nil
	}
	t.Run("unbind", func(t *testing.T) {
		e := setup(t)
		a, b := Binding{Source: "auto", Queue: "q", RoutingKey: "a"}, Binding{Source: "auto", Queue: "q", RoutingKey: "b"}
		e.bind(a)
		e.bind(b)
		for i, binding := range []Binding{a, a, b} {
			if !has(e, "auto") {
				t.Fatalf("gone before unbinding %d", i)
			}
			if _, err := e.vh.Unbind(binding, me); err != nil {
				t.Fatal(err)
			}
		}
		if has(e, "auto") {
			t.Fatal("still there")
		}
	})
	t.Run("queue delete", func(t *testing.T) {
		e := setup(t)
		e.bind(Binding{Source: "auto", Queue: "q", RoutingKey: "a"})
		e.bind(Binding{Source: "auto", Queue: "args", RoutingKey: "a"})
		for _, name := range []string{"q", "args"} {
			if !has(e, "auto") {
				t.Fatalf("gone before %s", name)
			}
			if _, _, err := e.vh.DeleteQueue([]byte(name), false, false, me); err != nil {
				t.Fatal(err)
			}
		}
		if has(e, "auto") {
			t.Fatal("still there")
		}
	})
	t.Run("cascade over exchanges", func(t *testing.T) {
		e := setup(t)
		e.exchange(ExchangeDeclare{Name: "auto2", Type: "fanout", AutoDelete: true})
		e.bind(Binding{Source: "auto", Exchange: "auto2", ToExchange: true})
		e.bind(Binding{Source: "auto2", Queue: "q"})
		if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, me); err != nil {
			t.Fatal(err)
		}
		if has(e, "auto2") || has(e, "auto") {
			t.Fatal("still there")
		}
	})
	t.Run("cycle", func(t *testing.T) {
		e := setup(t)
		e.exchange(ExchangeDeclare{Name: "auto2", Type: "fanout", AutoDelete: true})
		e.bind(Binding{Source: "auto", Exchange: "auto2", ToExchange: true})
		e.bind(Binding{Source: "auto2", Exchange: "auto", ToExchange: true})
		e.bind(Binding{Source: "auto", Exchange: "auto", ToExchange: true})
		if _, err := e.vh.DeleteExchange("auto2", false); err != nil {
			t.Fatal(err)
		}
		if !has(e, "auto") { // it still has its binding to itself
			t.Fatal("gone too early")
		}
		if _, err := e.vh.Unbind(Binding{Source: "auto", Exchange: "auto", ToExchange: true}, me); err != nil {
			t.Fatal(err)
		}
		if has(e, "auto") {
			t.Fatal("still there")
		}
	})
	t.Run("never bound", func(t *testing.T) {
		e := setup(t)
		e.bind(Binding{Source: "e", Exchange: "auto", ToExchange: true})
		if _, err := e.vh.Unbind(Binding{Source: "e", Exchange: "auto", ToExchange: true}, me); err != nil {
			t.Fatal(err)
		}
		if !has(e, "auto") { // a binding to it does not count
			t.Fatal("gone")
		}
	})
}

// route gives the names of the queues that a message reaches, in order of name.
func (e *env) route(t *testing.T, exchange, key string) []string {
	t.Helper()
	queues, err := e.vh.Route([]byte(exchange), Envelope{RoutingKey: []byte(key)}, nil)
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

func TestTopology_Route_ExchangesInCycles(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	for _, name := range []string{"a", "b", "c"} {
		e.exchange(ExchangeDeclare{Name: name, Type: "fanout"})
		e.queue(QueueDeclare{Name: "q" + name}, nil)
		e.bind(Binding{Source: name, Queue: "q" + name})
		e.bind(Binding{Source: name, Queue: "q"}) // reached three times, delivered once
	}
	edges := [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "a"}, {"c", "b"}}
	for _, edge := range edges {
		e.bind(Binding{Source: edge[0], Exchange: edge[1], ToExchange: true})
	}
	all := []string{"q", "qa", "qb", "qc"}
	for _, name := range []string{"a", "b", "c"} {
		if got := e.route(t, name, "k"); !slices.Equal(got, all) {
			t.Errorf("from %s: %v, want %v", name, got, all)
		}
	}
	if entry, err := e.vh.CheckPublish([]byte("a")); entry.Traits != 0 || err != nil {
		t.Errorf("routes over fanout exchanges depend on the key: %v, %v", entry.Traits, err)
	}
	for _, edge := range edges {
		if _, err := e.vh.Unbind(Binding{Source: edge[0], Exchange: edge[1], ToExchange: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.route(t, "a", "k"); !slices.Equal(got, []string{"q", "qa"}) {
		t.Errorf("after unbinding: %v", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		if x := e.vh.exchanges[name]; len(x.outgoing) != 0 || len(x.incoming) != 0 {
			t.Errorf("%s counts %v outgoing and %d incoming", name, x.outgoing, len(x.incoming))
		}
		if entry, err := e.vh.CheckPublish([]byte(name)); entry.Traits != 0 || err != nil {
			t.Errorf("%s: %v, %v", name, entry.Traits, err)
		}
	}
}

// TestTopology_Route_DeletedExchangeInBetween: nothing leads through an exchange
// that is gone, and its namesake starts afresh.
func TestTopology_Route_DeletedExchangeInBetween(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	e.exchange(ExchangeDeclare{Name: "mid", Type: "fanout"})
	e.bind(Binding{Source: "e", Exchange: "mid", ToExchange: true, RoutingKey: "k"})
	e.bind(Binding{Source: "mid", Queue: "q"})
	if got := e.route(t, "e", "k"); !slices.Equal(got, []string{"q"}) {
		t.Fatalf("%v", got)
	}
	version := e.vh.Version()
	if _, err := e.vh.DeleteExchange("mid", false); err != nil {
		t.Fatal(err)
	}
	if e.vh.Version() == version {
		t.Error("route caches were not invalidated")
	}
	e.exchange(ExchangeDeclare{Name: "mid", Type: "fanout"})
	if got := e.route(t, "e", "k"); got != nil {
		t.Errorf("%v", got)
	}
	if n := len(e.vh.exchanges["e"].outgoing); n != 0 {
		t.Errorf("%d outgoing", n)
	}
	if got := e.route(t, "", "q"); !slices.Equal(got, []string{"q"}) {
		t.Errorf("default exchange: %v", got)
	}
	if _, err := e.vh.Route([]byte("n"), Envelope{}, nil); err == nil {
		t.Error("routed through nothing")
	}
}
