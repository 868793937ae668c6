package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// TestDefinitions_Model runs random topology histories, with snapshots, restarts,
// kills and power cuts, against a model of plain sets: RabbitMQ's rules written
// down a second time.
func TestDefinitions_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &topologyModel{disk: sim.New(sim.Options{Seed: rapid.Uint64().Draw(rt, "seed")}), exchanges: map[string]ExchangeDeclare{}, queues: map[string]QueueDeclare{}, bindings: map[modelBinding]bool{}}
		m.e = openSim(rt, m.disk)
		defer func() { m.e.crash() }()
		rt.Repeat(map[string]func(*rapid.T){
			"declare exchange":  m.declareExchange,
			"declare exchange2": m.declareExchange,
			"delete exchange":   m.deleteExchange,
			"declare queue":     m.declareQueue,
			"declare queue2":    m.declareQueue,
			"delete queue":      m.deleteQueue,
			"bind":              m.bind,
			"bind2":             m.bind,
			"bind3":             m.bind,
			"unbind":            m.unbind,
			"checkpoint":        m.checkpoint,
			"restart":           m.restart,
			"kill":              m.kill,
			"power cut":         m.powerCut,
			"":                  m.check,
		})
	})
}

type modelBinding struct {
	source, destination string
	toExchange          bool
	key                 string
	argument            int32 // 0: none
}

type topologyModel struct {
	disk      *sim.Disk
	e         *env
	exchanges map[string]ExchangeDeclare
	queues    map[string]QueueDeclare
	bindings  map[modelBinding]bool
}

var (
	exchangeNames = []string{"e1", "e2", "e3", "e4"}
	queueNames    = []string{"q1", "q2", "q3"}
)

// often draws true three times out of four.
func often(t *rapid.T, label string) bool { return rapid.IntRange(0, 3).Draw(t, label) > 0 }

func (m *topologyModel) declareExchange(t *rapid.T) {
	d := ExchangeDeclare{
		Name:       rapid.SampledFrom(exchangeNames).Draw(t, "name"),
		Type:       rapid.SampledFrom([]string{"direct", "fanout", "topic", "headers", "x-random", "x-recent-history"}).Draw(t, "type"),
		Durable:    often(t, "durable"),
		AutoDelete: rapid.Bool().Draw(t, "auto-delete"),
		Internal:   rapid.Bool().Draw(t, "internal"),
		Arguments:  table(func(b *amqp.TableBuilder) { b.SetString("alternate-exchange", "e1") }),
	}
	seq, err := m.e.vh.DeclareExchange(d)
	old, have := m.exchanges[d.Name]
	if same := have && old.Type == d.Type && old.Durable == d.Durable && old.AutoDelete == d.AutoDelete && old.Internal == d.Internal; (err == nil) != (!have || same) {
		t.Fatalf("declared %+v over %+v (there: %v): %v", d, old, have, err)
	}
	if have {
		return
	}
	if (seq > 0) != d.Durable {
		t.Fatalf("durable %v, but record %d", d.Durable, seq)
	}
	m.exchanges[d.Name] = d
}

func (m *topologyModel) deleteExchange(t *rapid.T) {
	name := rapid.SampledFrom(exchangeNames).Draw(t, "name")
	if _, err := m.e.vh.DeleteExchange(name, false); err != nil {
		t.Fatal(err)
	}
	m.dropExchange(name)
}

// dropExchange and remove state the rule for auto-delete exchanges: one goes
// when its last binding is removed, unless it is by its own deletion.
func (m *topologyModel) dropExchange(name string) {
	delete(m.exchanges, name)
	for b := range m.bindings {
		if b.source == name {
			delete(m.bindings, b)
		}
	}
	m.remove(func(b modelBinding) bool { return b.toExchange && b.destination == name })
}

func (m *topologyModel) remove(which func(modelBinding) bool) {
	lost := map[string]bool{}
	for b := range m.bindings {
		if which(b) {
			delete(m.bindings, b)
			lost[b.source] = true
		}
	}
	for b := range m.bindings {
		delete(lost, b.source)
	}
	for name := range lost {
		if m.exchanges[name].AutoDelete {
			m.dropExchange(name)
		}
	}
}

func (m *topologyModel) declareQueue(t *rapid.T) {
	d := QueueDeclare{
		Name:       rapid.SampledFrom(queueNames).Draw(t, "name"),
		Durable:    often(t, "durable"),
		Exclusive:  !often(t, "shared"),
		AutoDelete: rapid.Bool().Draw(t, "auto-delete"),
		Arguments:  intArgument("x-max-length", 7),
	}
	_, created, seq, err := m.e.vh.DeclareQueue(d, me)
	old, have := m.queues[d.Name]
	same := have && old.Durable == d.Durable && old.Exclusive == d.Exclusive && old.AutoDelete == d.AutoDelete
	if (err == nil) != (!have || same) || created == have {
		t.Fatalf("declared %+v over %+v (there: %v): created %v, %v", d, old, have, created, err)
	}
	if have {
		return
	}
	if (seq > 0) != (d.Durable && !d.Exclusive) {
		t.Fatalf("%+v made record %d", d, seq)
	}
	m.queues[d.Name] = d
}

func (m *topologyModel) deleteQueue(t *rapid.T) {
	name := rapid.SampledFrom(queueNames).Draw(t, "name")
	if _, _, err := m.e.vh.DeleteQueue([]byte(name), false, false, me); err != nil {
		t.Fatal(err)
	}
	delete(m.queues, name)
	m.remove(func(b modelBinding) bool { return !b.toExchange && b.destination == name })
}

func (m *topologyModel) draw(t *rapid.T) (modelBinding, Binding) {
	mb := modelBinding{
		source:     rapid.SampledFrom(append([]string{"amq.topic"}, exchangeNames...)).Draw(t, "source"),
		toExchange: !often(t, "to queue"),
		key:        rapid.SampledFrom([]string{"", "a.#", "b"}).Draw(t, "key"),
		argument:   rapid.Int32Range(0, 1).Draw(t, "argument"),
	}
	b := Binding{Source: mb.source, RoutingKey: mb.key, ToExchange: mb.toExchange}
	if mb.argument > 0 {
		b.Arguments = intArgument("n", mb.argument)
	}
	if mb.toExchange {
		mb.destination = rapid.SampledFrom(exchangeNames).Draw(t, "exchange")
		b.Exchange = mb.destination
	} else {
		mb.destination = rapid.SampledFrom(queueNames).Draw(t, "queue")
		b.Queue = mb.destination
	}
	return mb, b
}

// ends says whether both ends of a binding are there, and durable.
func (m *topologyModel) ends(b modelBinding) (there, durable bool) {
	source, there := m.exchanges[b.source]
	if b.source == "amq.topic" {
		there, source.Durable = true, true
	}
	if b.toExchange {
		e, ok := m.exchanges[b.destination]
		return there && ok, source.Durable && e.Durable
	}
	q, ok := m.queues[b.destination]
	return there && ok, source.Durable && q.Durable && !q.Exclusive
}

func (m *topologyModel) bind(t *rapid.T) {
	mb, b := m.draw(t)
	seq, err := m.e.vh.Bind(b, me)
	there, durable := m.ends(mb)
	if (err == nil) != there {
		t.Fatalf("bind %+v: %v", mb, err)
	}
	if !there || m.bindings[mb] {
		return
	}
	if (seq > 0) != durable {
		t.Fatalf("bind %+v made record %d", mb, seq)
	}
	m.bindings[mb] = true
}

func (m *topologyModel) unbind(t *rapid.T) {
	mb, b := m.draw(t)
	if len(m.bindings) > 0 && often(t, "existing") {
		all := slices.SortedFunc(maps.Keys(m.bindings), func(a, b modelBinding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		mb = rapid.SampledFrom(all).Draw(t, "binding")
		b = Binding{Source: mb.source, RoutingKey: mb.key, ToExchange: mb.toExchange}
		if mb.argument > 0 {
			b.Arguments = intArgument("n", mb.argument)
		}
		if mb.toExchange {
			b.Exchange = mb.destination
		} else {
			b.Queue = mb.destination
		}
	}
	if _, err := m.e.vh.Unbind(b, me); err != nil {
		t.Fatal(err)
	}
	m.remove(func(other modelBinding) bool { return other == mb })
}

func (m *topologyModel) checkpoint(t *rapid.T) {
	if err := m.e.broker.checkpoint(); err != nil {
		t.Fatal(err)
	}
}

func (m *topologyModel) restart(t *rapid.T) {
	m.e.t = t
	last := m.e.broker.defs.Last()
	m.e.close()
	if seq := savedSeq(t, m.disk); seq != last {
		t.Fatalf("after a stop in good order the snapshot includes %d, want %d", seq, last)
	}
	m.disk = m.disk.Kill() // it was closed; as good as a power cut
	m.reopen(t)
}

// kill and powerCut come when everything is durable. What may be lost otherwise
// is TestDefinitions_PowerCutAfterDurable's.
func (m *topologyModel) kill(t *rapid.T) { m.stop(t, m.disk.Kill) }

func (m *topologyModel) powerCut(t *rapid.T) { m.stop(t, m.disk.PowerCut) }

func (m *topologyModel) stop(t *rapid.T, how func() *sim.Disk) {
	m.e.t = t
	m.e.durable(m.e.broker.defs.Last())
	m.disk = how()
	m.e.crash()
	m.reopen(t)
}

// reopen leaves what is durable, and bindings between such.
func (m *topologyModel) reopen(t *rapid.T) {
	for b := range m.bindings {
		if _, durable := m.ends(b); !durable {
			delete(m.bindings, b)
		}
	}
	maps.DeleteFunc(m.exchanges, func(_ string, d ExchangeDeclare) bool { return !d.Durable })
	maps.DeleteFunc(m.queues, func(_ string, d QueueDeclare) bool { return !d.Durable || d.Exclusive })
	m.e = openSim(t, m.disk)
	want := Recovered{Queues: len(m.queues), Exchanges: len(m.exchanges), Bindings: len(m.bindings)}
	if got := m.e.broker.Recovered(); got != want {
		t.Fatalf("recovered %+v, want %+v", got, want)
	}
}

func (m *topologyModel) check(t *rapid.T) {
	var want []string
	for _, d := range m.exchanges {
		want = append(want, fmt.Sprintf("exchange %s %s durable=%v auto-delete=%v internal=%v", d.Name, d.Type, d.Durable, d.AutoDelete, d.Internal))
	}
	for _, d := range m.queues {
		want = append(want, fmt.Sprintf("queue %s durable=%v auto-delete=%v exclusive=%v", d.Name, d.Durable, d.AutoDelete, d.Exclusive))
	}
	for b := range m.bindings {
		want = append(want, fmt.Sprintf("binding %s -> %s %v %q %d", b.source, b.destination, b.toExchange, b.key, b.argument))
	}
	slices.Sort(want)
	got := dump(m.e.vh)
	if !slices.Equal(got, want) {
		t.Fatalf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	checkBookkeeping(t, m.e.vh)
}

// dump lists what a vhost holds beyond the predeclared.
func dump(vh *VHost) (lines []string) {
	for _, e := range vh.exchanges {
		if !isPredeclared(e.Name) {
			lines = append(lines, fmt.Sprintf("exchange %s %s durable=%v auto-delete=%v internal=%v", e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal))
		}
		for b := range e.index.All() {
			destination := ""
			if b.Destination.Queue != nil {
				destination = b.Destination.Queue.Name
			} else {
				destination = b.Destination.Exchange.Name
			}
			n := int64(0)
			if v, ok := b.Arguments.Lookup("n"); ok {
				n, _ = v.Int64()
			}
			lines = append(lines, fmt.Sprintf("binding %s -> %s %v %q %d", e.Name, destination, b.Destination.Exchange != nil, b.RoutingKey, n))
		}
	}
	for _, q := range vh.queues {
		lines = append(lines, fmt.Sprintf("queue %s durable=%v auto-delete=%v exclusive=%v", q.Name, q.Durable, q.AutoDelete, q.Exclusive()))
	}
	slices.Sort(lines)
	return lines
}

// checkBookkeeping compares the counts kept beside the indexes with them.
func checkBookkeeping(t tb, vh *VHost) {
	t.Helper()
	toQueue, toExchange := map[*Queue]map[*Exchange]int{}, map[*Exchange]map[*Exchange]int{}
	for name, e := range vh.exchanges {
		if e.Name != name || e.deleted {
			t.Fatalf("exchange %q is listed as %q (deleted: %v)", e.Name, name, e.deleted)
		}
		outgoing, n := map[*Exchange]int{}, 0
		for b := range e.index.All() {
			n++
			if q := b.Destination.Queue; q != nil {
				if vh.queues[q.Name] != q {
					t.Fatalf("exchange %s leads to queue %s, which is gone", name, q.Name)
				}
				if toQueue[q] == nil {
					toQueue[q] = map[*Exchange]int{}
				}
				toQueue[q][e]++
				continue
			}
			d := b.Destination.Exchange
			outgoing[d]++
			if vh.exchanges[d.Name] != d {
				t.Fatalf("exchange %s leads to exchange %s, which is gone", name, d.Name)
			}
			if toExchange[d] == nil {
				toExchange[d] = map[*Exchange]int{}
			}
			toExchange[d][e]++
		}
		if n != e.index.Len() || !maps.Equal(outgoing, e.outgoing) {
			t.Fatalf("exchange %s: Len %d of %d, outgoing %v of %v", name, e.index.Len(), n, e.outgoing, outgoing)
		}
	}
	for name, e := range vh.exchanges {
		if !maps.Equal(e.incoming, toExchange[e]) {
			t.Fatalf("exchange %s counts its incoming bindings wrongly: %v, want %v", name, e.incoming, toExchange[e])
		}
	}
	for name, q := range vh.queues {
		if !maps.Equal(q.bound, toQueue[q]) {
			t.Fatalf("queue %s counts its bindings wrongly: %v, want %v", name, q.bound, toQueue[q])
		}
	}
}
