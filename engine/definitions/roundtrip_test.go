package definitions

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func drawName(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"a", "b", "ä/ö", "x y", "%2F", `quo"te`, "c.d", "<&>"}).Draw(t, label)
}

// drawTable draws arguments of all kinds that JSON has.
func drawTable(t *rapid.T) amqp.Table {
	var b amqp.TableBuilder
	for i := range rapid.IntRange(0, 3).Draw(t, "arguments") {
		name := fmt.Sprintf("own-%d", i)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			b.SetInt64(name, rapid.Int64().Draw(t, "number"))
		case 1:
			b.SetString(name, rapid.String().Draw(t, "text"))
		case 2:
			b.SetBool(name, rapid.Bool().Draw(t, "bool"))
		case 3:
			b.SetValue(name, amqp.ArrayValue(amqp.ArrayOf(amqp.VoidValue(), amqp.Float64Value(0.5))))
		case 4:
			var inner amqp.TableBuilder
			inner.SetString("k", "v")
			b.SetTable(name, inner.Table())
		}
	}
	return b.Table()
}

// populate makes things in a broker the way its administration and clients do;
// what is refused (a name taken already) is left out.
func populate(t *rapid.T, n *node) {
	var vhosts []string
	for _, s := range n.VHosts() {
		vhosts = append(vhosts, s.Name)
	}
	for range rapid.IntRange(0, 2).Draw(t, "vhosts") {
		s := broker.VHostSpec{Name: drawName(t, "vhost"), Description: drawName(t, "description"), Tags: []string{drawName(t, "tag")}}
		if rapid.Bool().Draw(t, "limited") {
			s.Limits = access.Limits{access.MaxQueues: 1000}
			s.DefaultQueueType = "classic"
		}
		if _, err := n.AddVHost(s); err == nil {
			vhosts = append(vhosts, s.Name)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "users") {
		name, vhost := drawName(t, "user"), rapid.SampledFrom(vhosts).Draw(t, "in")
		s := access.Spec{Name: name, Tags: []string{"management"}}
		if rapid.Bool().Draw(t, "password") {
			s.Password = access.HashPassword([]byte("secret"))
			s.Limits = access.Limits{access.MaxChannels: 3}
		}
		_, _ = n.AddUser(s)
		_, _ = n.SetPermissions(name, vhost, access.Permissions{Configure: "", Write: "^w", Read: ".*"})
		if rapid.Bool().Draw(t, "topic") {
			_, _ = n.SetTopicPermissions(name, vhost, "amq.topic", access.TopicPermissions{Write: "^w", Read: ""})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "policies") {
		var definition amqp.TableBuilder
		definition.SetInt64("max-length", rapid.Int64Range(0, 100).Draw(t, "max"))
		p := broker.Policy{VHost: rapid.SampledFrom(vhosts).Draw(t, "in"), Name: drawName(t, "policy"), Pattern: "^" + rapid.SampledFrom([]string{"", "a", `\.`}).Draw(t, "pattern"),
			ApplyTo: rapid.SampledFrom(broker.ApplyTos).Draw(t, "to"), Priority: rapid.Int64Range(-2, 2).Draw(t, "priority"), Definition: definition.Table()}
		_, _ = n.SetPolicy(p)
		if rapid.Bool().Draw(t, "operator") {
			_, _ = n.SetOperatorPolicy(p)
		}
		value, _ := json.Marshal(map[string]any{"text": rapid.String().Draw(t, "value")})
		_, _ = n.SetParameter(broker.Parameter{VHost: p.VHost, Component: "shovel", Name: p.Name, Value: value})
		_, _ = n.SetParameter(broker.Parameter{Name: p.Name, Value: value})
	}
	for range rapid.IntRange(0, 6).Draw(t, "topology") {
		vh := n.VHost(rapid.SampledFrom(vhosts).Draw(t, "in"))
		d := broker.QueueDeclare{Name: drawName(t, "queue"), Durable: rapid.Bool().Draw(t, "durable"), AutoDelete: rapid.Bool().Draw(t, "auto"), Arguments: drawTable(t)}
		owner := any(nil)
		if d.Exclusive = rapid.Bool().Draw(t, "exclusive"); d.Exclusive {
			owner = t
		}
		_, _, _, _ = vh.DeclareQueue(d, owner)
		kind := rapid.SampledFrom([]string{"direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random"}).Draw(t, "type")
		e := broker.ExchangeDeclare{Name: drawName(t, "exchange"), Type: kind, Durable: d.Durable, Internal: rapid.Bool().Draw(t, "internal"), Arguments: drawTable(t)}
		_, _ = vh.DeclareExchange(e)
		b := broker.Binding{Source: e.Name, Queue: d.Name, RoutingKey: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "key"), Arguments: drawTable(t)}
		_, _ = vh.Bind(b, owner)
		b.Exchange, b.ToExchange = drawName(t, "destination"), true
		_, _ = vh.Bind(b, owner)
	}
}

// TestRoundTrip: what is exported from any broker can be imported into it
// without effect, and into an empty one, which then exports the same.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from := openDisk(rt, sim.New(sim.Options{}))
		defer from.stop()
		populate(rt, from)
		file := export(rt, from.Broker, "")
		if !json.Valid([]byte(file)) {
			rt.Fatalf("not JSON:\n%s", file)
		}
		if r, err := Import(from.Broker, []byte(file), ""); err != nil || r.Changes != 0 {
			rt.Fatalf("importing what is there changed %d things: %v\n%s", r.Changes, err, file)
		}
		d := sim.New(sim.Options{})
		to := openDisk(rt, d)
		defer to.stop()
		r, err := Import(to.Broker, []byte(file), "")
		if err != nil {
			rt.Fatalf("%v\n%s", err, file)
		}
		if got := export(rt, to.Broker, ""); got != file {
			rt.Fatalf("imported and exported\n%s\nwant\n%s", got, file)
		}
		// A crash after the record is durable leaves all of it.
		to.await(r.Seq)
		crashed := openDisk(rt, d.Kill())
		defer crashed.stop()
		transient := 0
		for _, s := range to.VHosts() {
			for _, q := range to.VHost(s.Name).Queues() {
				if !q.Durable {
					transient++
				}
			}
		}
		if got := export(rt, crashed.Broker, ""); transient == 0 && durable(to) && got != file {
			rt.Fatalf("after a crash\n%s\nwant\n%s", got, file)
		}
	})
}

// durable says whether all exchanges survive.
func durable(n *node) bool {
	for _, s := range n.VHosts() {
		for _, e := range n.VHost(s.Name).SortedExchanges() {
			if !e.Durable {
				return false
			}
		}
	}
	return true
}

// FuzzImport gives arbitrary files to a broker: they are refused and change
// nothing, or they are made, can be exported, and importing them again changes
// nothing.
func FuzzImport(f *testing.F) {
	data, err := os.ReadFile("testdata/rabbitmq.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"vhosts":[{"name":"/"}],"queues":[{"name":"q","vhost":"/","arguments":{"x-max-length":1}}],"bindings":[{"source":"amq.topic","vhost":"/","destination":"q","destination_type":"queue","routing_key":"#"}]}`))
	f.Add([]byte(`{"users":[{"name":"u","password":"p","tags":"a,b"}],"parameters":[{"vhost":"/","component":"c","name":"n","value":[]}],"global_parameters":[{"name":"g","value":null}]}`))
	// A broker is cheap to ask and expensive to make: one for many files, until
	// it has become large.
	dir, err := os.MkdirTemp("", "definitions-fuzz-")
	if err != nil {
		f.Fatal(err)
	}
	n, made := (*node)(nil), 0
	f.Cleanup(func() {
		if n != nil {
			n.stop()
		}
		_ = os.RemoveAll(dir)
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if n != nil && len(export(t, n.Broker, "")) > 64<<10 {
			n.stop()
			n = nil
		}
		if n == nil {
			made++
			n = openFor(t, fmt.Sprintf("%s/%d", dir, made))
		}
		before := export(t, n.Broker, "")
		if _, err := Import(n.Broker, data, ""); err != nil {
			if after := export(t, n.Broker, ""); after != before {
				t.Fatalf("refused with %v, and changed\n%s", err, after)
			}
			return
		}
		after := export(t, n.Broker, "")
		if r, err := Import(n.Broker, data, ""); err != nil || r.Changes != 0 {
			t.Fatalf("importing again changed %d things: %v", r.Changes, err)
		}
		if r, err := Import(n.Broker, []byte(after), ""); err != nil || r.Changes != 0 {
			t.Fatalf("importing what was exported changed %d things: %v\n%s", r.Changes, err, after)
		}
	})
}
