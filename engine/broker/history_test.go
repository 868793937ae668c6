package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// send publishes bodies to an exchange, as a channel does: routed, then
// appended to each queue.
func (e *env) send(exchange string, properties []byte, bodies ...string) {
	e.t.Helper()
	queues, err := e.vh.Route([]byte(exchange), Envelope{RoutingKey: []byte("k"), Properties: properties}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	for _, body := range bodies {
		b.Add(b.Template([]byte(exchange), []byte("k"), properties), []byte(body))
	}
	for _, q := range queues {
		if _, _, err := q.Publish(b, 0); err != nil {
			e.t.Fatal(err)
		}
	}
}

var noProperties = []byte{0, 0}

// ready lists the bodies of a queue, in order.
func (e *env) ready(q *Queue) (bodies []string) {
	e.t.Helper()
	for at := q.log.Low(); ; at++ {
		first, count := q.log.NextUnsettled(at, 1)
		if count == 0 {
			return bodies
		}
		at = first
		bodies = append(bodies, e.body(q, first))
	}
}

func recent(name string, durable bool, length int32) ExchangeDeclare {
	d := ExchangeDeclare{Name: name, Type: typeRecentHistory, Durable: durable}
	if length > 0 {
		d.Arguments = intArgument("x-recent-history-length", length)
	}
	return d
}

func numbers(from, to int) (bodies []string) {
	for i := from; i < to; i++ {
		bodies = append(bodies, fmt.Sprint("m", i))
	}
	return bodies
}

func (e *env) wantReady(q *Queue, want []string) {
	e.t.Helper()
	if got := e.ready(q); !slices.Equal(got, want) {
		e.t.Fatalf("%s has %v, want %v", q.Name, got, want)
	}
}

func TestHistory_NewBindingsGetIt(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	e.exchange(recent("h", false, 0))
	first, second := e.queue(QueueDeclare{Name: "first"}, nil), e.queue(QueueDeclare{Name: "second"}, nil)
	e.bind(Binding{Source: "h", Queue: "first"})
	e.wantReady(first, nil)
	e.send("h", noProperties, numbers(0, 15)...)
	e.send("h", noProperties, numbers(15, 30)...)
	e.wantReady(first, numbers(0, 30))
	e.bind(Binding{Source: "h", Queue: "second"})
	e.wantReady(second, numbers(10, 30)) // twenty, in order
	e.bind(Binding{Source: "h", Queue: "second"})
	e.wantReady(second, numbers(10, 30)) // an identical binding brings nothing
	e.bind(Binding{Source: "h", Queue: "second", RoutingKey: "another"})
	e.wantReady(second, append(numbers(10, 30), numbers(10, 30)...)) // another one does
	e.send("h", noProperties, "new")
	if got := e.ready(first); len(got) != 31 || got[30] != "new" {
		t.Fatalf("%v", got)
	}
	if got := e.ready(second); len(got) != 41 || got[40] != "new" {
		t.Fatalf("bound twice, delivered once: %v", got)
	}
	if h := e.vh.exchanges["h"].history; h.log.Unsettled() != 20 {
		t.Fatalf("%d messages are kept", h.log.Unsettled())
	}
}

func TestHistory_NoStore(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	e.exchange(recent("h", false, 5))
	if entry, err := e.vh.CheckPublish([]byte("h")); entry.Traits != ByProperties || err != nil {
		t.Fatalf("%v, %v", entry.Traits, err)
	}
	with := func(v amqp.Value) []byte {
		p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: table(func(b *amqp.TableBuilder) { b.SetValue("x-recent-history-no-store", v) })}
		return p.Append(nil)
	}
	e.send("h", with(amqp.BoolValue(true)), "not kept")
	e.send("h", with(amqp.BoolValue(false)), "false")
	e.send("h", with(amqp.String("true")), "a string")
	e.send("h", noProperties, "plain")
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	e.bind(Binding{Source: "h", Queue: "q"})
	e.wantReady(q, []string{"false", "a string", "plain"})
}

func TestHistory_Arguments(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	const invalid = "PRECONDITION_FAILED - Invalid argument, 'x-recent-history-length' must be a positive integer"
	for _, arguments := range []amqp.Table{intArgument("x-recent-history-length", 0), intArgument("x-recent-history-length", -1), stringArgument("x-recent-history-length", "3")} {
		_, err := e.vh.DeclareExchange(ExchangeDeclare{Name: "h", Type: typeRecentHistory, Arguments: arguments})
		wantError(t, err, 406, invalid)
	}
	e.exchange(recent("h", false, 3))
	e.exchange(recent("h", false, 3))
	_, err := e.vh.DeclareExchange(recent("h", false, 4))
	wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-recent-history-length' for exchange 'h' in vhost '/': received '4' but current is '3'")
	_, err = e.vh.Bind(Binding{Source: "h", Queue: "missing"}, nil)
	wantError(t, err, 404, "NOT_FOUND - no queue 'missing' in vhost '/'")
}

// An exchange bound to one with a history gets it as if it were published: its
// bindings, and its alternate exchange, decide.
func TestHistory_OverExchanges(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	e.exchange(recent("h", false, 10))
	e.send("h", noProperties, numbers(0, 4)...)
	e.exchange(ExchangeDeclare{Name: "d", Type: "direct"})
	e.exchange(ExchangeDeclare{Name: "none", Type: "direct", Arguments: stringArgument("alternate-exchange", "f")})
	e.exchange(ExchangeDeclare{Name: "f", Type: "fanout"})
	e.exchange(recent("h2", false, 3))
	var q [3]*Queue
	for i := range q {
		q[i] = e.queue(QueueDeclare{Name: fmt.Sprint("q", i)}, nil)
	}
	e.bind(Binding{Source: "d", Queue: "q0", RoutingKey: "k"})
	e.bind(Binding{Source: "f", Queue: "q1"})
	for _, to := range []string{"d", "none", "h2"} {
		e.bind(Binding{Source: "h", Exchange: to, ToExchange: true})
	}
	e.wantReady(q[0], numbers(0, 4))
	e.wantReady(q[1], numbers(0, 4))
	e.bind(Binding{Source: "h2", Queue: "q2"}) // has a history of what came over h
	e.wantReady(q[2], numbers(1, 4))
}

// A history survives restarts, and is bounded after them too; a transient one
// begins anew with its exchange.
func TestHistory_Restart(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		dir := t.TempDir()
		e := openDir(t, dir)
		e.exchange(recent("h", true, 5))
		e.exchange(recent("gone", false, 5))
		e.exchange(recent("deleted", true, 5))
		for _, name := range []string{"h", "gone", "deleted"} {
			e.send(name, noProperties, numbers(0, 12)...)
		}
		seq, err := e.vh.DeleteExchange("deleted", false)
		if err != nil {
			t.Fatal(err)
		}
		e.durable(seq)
		h := e.vh.exchanges["h"].history
		h.log.WantDurable()
		e.await("the history is durable", func() bool { return h.log.Durable() == h.log.Next() })
		for round := range 3 {
			if clean {
				e.close()
			} else {
				e.crash()
			}
			e = openDir(t, dir)
			h = e.vh.exchanges["h"].history
			if e.vh.exchanges["gone"] != nil || e.vh.exchanges["deleted"] != nil || h == nil || h.keeps() != 5 {
				t.Fatalf("clean %v: there are %v", clean, dump(e.vh))
			}
			if got := e.broker.Recovered(); round == 0 && got.Messages != 0 || got.Queues != round {
				t.Fatalf("%+v", got) // a history does not count among queues
			}
			q := e.queue(QueueDeclare{Name: fmt.Sprint("q", round), Durable: true}, nil)
			seq, err := e.vh.Bind(Binding{Source: "h", Queue: q.Name}, nil)
			if err != nil {
				t.Fatal(err)
			}
			e.durable(seq)
			e.wantReady(q, numbers(7+round, 12+round))
			e.send("h", noProperties, numbers(12+round, 13+round)...)
			h.log.WantDurable()
			e.await("durable", func() bool { return h.log.Durable() == h.log.Next() })
		}
		if log := e.log.String(); strings.Contains(log, "quarantine") {
			t.Errorf("a log was put aside:\n%s", log)
		}
		e.close()
	}
}

// Whichever way an exchange goes, its history's files go too.
func TestHistory_GoesWithItsExchange(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	withBodies(e)
	for name, drop := range map[string]func(){
		"delete": func() { _, _ = e.vh.DeleteExchange("h", false) },
		"unbind": func() { _, _ = e.vh.Unbind(Binding{Source: "h", Queue: "q"}, nil) },
		"queue":  func() { _, _, _ = e.vh.DeleteQueue([]byte("q"), false, false, nil) },
		"owner":  func() { e.vh.DeleteOwned(me, e.vh.Queues()) },
	} {
		d := recent("h", true, 5)
		d.AutoDelete = true
		e.exchange(d)
		owner := any(nil)
		if name == "owner" {
			owner = me
		}
		e.queue(QueueDeclare{Name: "q", Exclusive: owner != nil}, owner)
		h := e.vh.exchanges["h"].history
		e.send("h", noProperties, "m")
		e.publishExternal(h)
		if _, err := e.vh.Bind(Binding{Source: "h", Queue: "q"}, owner); err != nil {
			t.Fatal(err)
		}
		drop()
		if e.vh.exchanges["h"] != nil || h.log.Unsettled() != 0 || len(e.names(h)) != 0 {
			t.Errorf("%s: there are %v, %d messages, bodies %v", name, dump(e.vh), h.log.Unsettled(), e.names(h))
		}
		_, _, _ = e.vh.DeleteQueue([]byte("q"), false, false, owner)
	}
}

// Large bodies are linked for whoever gets the history, and removed from it when
// it is their turn.
func TestHistory_LargeBodies(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{Seed: 1})
	e := openSim(t, d)
	withBodies(e)
	e.exchange(recent("h", true, 4))
	h := e.vh.exchanges["h"].history
	e.publishExternal(h) // two messages: an ordinary and a large one
	e.publishExternal(h)
	e.exchange(ExchangeDeclare{Name: "f", Type: "fanout"})
	var q [3]*Queue
	for i := range q {
		q[i] = e.queue(QueueDeclare{Name: fmt.Sprint("q", i), Durable: i > 0}, nil)
	}
	e.bind(Binding{Source: "f", Queue: "q1"})
	e.bind(Binding{Source: "f", Queue: "q2"})
	e.bind(Binding{Source: "h", Queue: "q0"})
	e.bind(Binding{Source: "h", Exchange: "f", ToExchange: true})
	for range 2 { // twice: each record has a name of its own
		e.bind(Binding{Source: "h", Queue: "q2", RoutingKey: fmt.Sprint(len(e.names(q[2])))})
	}
	for i, want := range []int{0, 2, 6} {
		if got := e.names(q[i]); i > 0 && len(got) != want {
			t.Errorf("q%d has the bodies %v, want %d", i, got, want)
		}
		if n := len(q[i].external.at); n != max(want, 2) {
			t.Errorf("q%d knows %d bodies", i, n)
		}
	}
	if n := q[2].Purge(); n != 12 {
		t.Fatalf("q2 had %d messages", n)
	}
	if got := e.names(q[2]); len(got) != 0 {
		t.Errorf("purged, but %v", got)
	}
	if got := e.names(q[1]); len(got) != 2 {
		t.Errorf("q1 lost bodies to q2: %v", got)
	}
	e.send("h", noProperties, "m", "m", "m")
	if got := e.names(h); len(got) != 1 {
		t.Errorf("the history still has the bodies %v", got)
	}
	e.close()
}

// A body that vanishes under a replay costs its message, not the binding.
func TestHistory_MissingBody(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	withBodies(e)
	e.exchange(recent("h", true, 4))
	h := e.vh.exchanges["h"].history
	_, id := e.publishExternal(h)
	if err := e.disk.Remove(fmt.Sprintf("bodies/%016x/%s", h.ID, nameOf(id))); err != nil {
		t.Fatal(err)
	}
	e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.bind(Binding{Source: "h", Queue: "q"})
	e.wantReady(e.vh.queues["q"], []string{"ordinary"})
}

// After Close no binding waits for a history any more.
func TestHistory_BindAfterClose(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	e.exchange(recent("h", false, 4))
	e.queue(QueueDeclare{Name: "q"}, nil)
	e.broker.Close()
	if _, err := e.vh.Bind(Binding{Source: "h", Queue: "q"}, nil); err != errStopping {
		t.Errorf("%v", err)
	}
	e.close()
}
