package broker

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker/routing"
)

// countingIndex counts what is asked of an exchange's bindings.
type countingIndex struct {
	routing.Index[Dest]
	calls *[]string
	name  string
}

func (x countingIndex) note(what string) { *x.calls = append(*x.calls, x.name+" "+what) }

func (x countingIndex) Bind(b routing.Binding[Dest]) bool {
	x.note("Bind")
	return x.Index.Bind(b)
}

func (x countingIndex) Unbind(b routing.Binding[Dest]) bool {
	x.note("Unbind")
	return x.Index.Unbind(b)
}

func (x countingIndex) UnbindDestination(d Dest) []routing.Binding[Dest] {
	removed := x.Index.UnbindDestination(d)
	x.note(fmt.Sprint("UnbindDestination ", len(removed)))
	return removed
}

func (x countingIndex) All() iter.Seq[routing.Binding[Dest]] {
	x.note("All")
	return x.Index.All()
}

func (x countingIndex) ForDestination(d Dest) []routing.Binding[Dest] {
	x.note("ForDestination")
	return x.Index.ForDestination(d)
}

// Deleting a queue asks the exchanges it is bound to, once each, and no other;
// what that costs each of them is bounded by a test of package routing. One
// record says it all.
func TestTopology_DeletionCostsItsOwnBindings(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	const exchanges, queues = 200, 50
	for i := range queues {
		e.queue(QueueDeclare{Name: fmt.Sprint("q", i), Durable: true}, nil)
	}
	for i := range exchanges {
		name := fmt.Sprint("e", i)
		e.exchange(ExchangeDeclare{Name: name, Type: typeTopic, Durable: true})
		for j := range queues {
			e.bind(Binding{Source: name, Queue: fmt.Sprint("q", j), RoutingKey: "a.#"})
		}
	}
	e.queue(QueueDeclare{Name: "victim", Durable: true}, nil)
	e.exchange(ExchangeDeclare{Name: "dest", Type: typeFanout, Durable: true})
	for _, source := range []string{"e7", "e11", "e130"} {
		for _, key := range []string{"a.#", "b"} {
			e.bind(Binding{Source: source, Queue: "victim", RoutingKey: key})
			e.bind(Binding{Source: source, Exchange: "dest", ToExchange: true, RoutingKey: key})
		}
	}
	var calls []string
	for _, x := range e.vh.exchanges {
		x.index = countingIndex{x.index, &calls, x.Name}
	}
	want := []string{"e11 UnbindDestination 2", "e130 UnbindDestination 2", "e7 UnbindDestination 2"}
	before := e.broker.defs.Last()
	if _, _, err := e.vh.DeleteQueue([]byte("victim"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(calls); !slices.Equal(calls, want) {
		t.Errorf("deleting a queue: %v", calls)
	}
	calls = nil
	if _, err := e.vh.DeleteExchange("dest", false); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(calls); !slices.Equal(calls, append([]string{"dest All"}, want...)) {
		t.Errorf("deleting an exchange: %v", calls)
	}
	if records := e.broker.defs.Last() - before; records != 2 {
		t.Errorf("%d records for two deletions", records)
	}
}

// manyBindings declares queues with ten topic bindings each; the last record's
// number comes back.
func manyBindings(t tb, vh *VHost, queues int, durable bool) (seq uint64) {
	if _, err := vh.DeclareExchange(ExchangeDeclare{Name: "topic", Type: typeTopic, Durable: durable}); err != nil {
		t.Fatal(err)
	}
	for i := range queues {
		if _, _, _, err := vh.DeclareQueue(QueueDeclare{Name: fmt.Sprint("q", i), Durable: durable}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range queues * 10 {
		n, err := vh.Bind(Binding{Source: "topic", Queue: fmt.Sprint("q", i/10), RoutingKey: fmt.Sprintf("region%d.device%d.*", i%50, i)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		seq = max(seq, n)
	}
	return seq
}

// The life of a topology: declared, restarted, routed through, deleted.
func lifeOfTopology(t tb, dir string, queues int, syncs bool, mark func(what string, count int)) {
	e := openDir(t, dir)
	e.disk.lazy = !syncs
	seq := manyBindings(t, e.vh, queues, true)
	e.durable(seq)
	mark("declared", queues*11)
	e.close()
	mark("closed", 0)
	e = openDir(t, dir)
	mark("reopened", queues*11)
	e.disk.lazy = !syncs
	if got := e.broker.Recovered(); got.Queues != queues || got.Bindings != queues*10 {
		t.Fatalf("recovered %+v", got)
	}
	if got := routeNames(t, e.vh, "topic", Envelope{RoutingKey: []byte("region42.device42.x")}); !slices.Equal(got, []string{"q4"}) {
		t.Fatalf("routed to %v", got)
	}
	for i := range queues {
		n, s, err := e.vh.DeleteQueue(fmt.Append(nil, "q", i), false, false, nil)
		if err != nil || n != 0 {
			t.Fatalf("%d messages, %v", n, err)
		}
		seq = s
	}
	e.durable(seq)
	mark("deleted", queues)
	if n := e.vh.exchanges["topic"].index.Len(); n != 0 {
		t.Fatalf("%d bindings are left", n)
	}
	e.close()
}

func TestTopology_Life(t *testing.T) {
	t.Parallel()
	lifeOfTopology(t, t.TempDir(), 300, false, func(string, int) {})
}

// BenchmarkTopology: 10,000 durable queues and 100,000 bindings, declared in a
// pipeline (the syncs are real), read at a restart, deleted one by one.
func BenchmarkTopology(b *testing.B) {
	for _, queues := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			for b.Loop() {
				at := time.Now()
				lifeOfTopology(b, b.TempDir(), queues, true, func(what string, count int) {
					if count > 0 {
						b.ReportMetric(float64(count)/time.Since(at).Seconds(), what+"/s")
					}
					at = time.Now()
				})
			}
		})
	}
}

// BenchmarkBindings: bindings a second between queues and exchanges that exist.
func BenchmarkBindings(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(fmt.Sprint("durable=", durable), func(b *testing.B) {
			e := openDir(b, b.TempDir())
			defer e.close()
			e.disk.lazy = false
			manyBindings(b, e.vh, 100, durable)
			keys := make([]string, 1<<16)
			for i := range keys {
				keys[i] = fmt.Sprint("key.", i, ".*")
			}
			i, seq := 0, uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				binding := Binding{Source: "topic", Queue: "q50", RoutingKey: keys[i&(len(keys)-1)]}
				var err error
				if i&len(keys) == 0 {
					seq, err = e.vh.Bind(binding, nil)
				} else {
					seq, err = e.vh.Unbind(binding, nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				i++
			}
			e.durable(seq)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "bindings/s")
		})
	}
}
