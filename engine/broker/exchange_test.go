package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestExchange_Arguments(t *testing.T) {
	t.Parallel()
	hash := func(pairs ...string) ExchangeDeclare {
		return ExchangeDeclare{Name: "n", Type: typeConsistentHash, Arguments: table(func(b *amqp.TableBuilder) {
			for i := 0; i < len(pairs); i += 2 {
				b.SetString(pairs[i], pairs[i+1])
			}
		})}
	}
	invalid := func(argument string) string {
		return "PRECONDITION_FAILED - invalid type 'signedint' for arg '" + argument + "' in exchange 'n' in vhost '/'"
	}
	for name, r := range map[string]struct {
		d    ExchangeDeclare
		code uint16
		text string
	}{
		"alternate":                  {ExchangeDeclare{Name: "n", Type: "topic", Arguments: stringArgument("alternate-exchange", "missing")}, 0, ""},
		"alternate, no string":       {ExchangeDeclare{Name: "n", Type: "topic", Arguments: intArgument("alternate-exchange", 1)}, 406, invalid("alternate-exchange")},
		"alternate, other name":      {ExchangeDeclare{Name: "n", Type: "topic", Arguments: intArgument("x-alternate-exchange", 1)}, 406, invalid("x-alternate-exchange")},
		"passive with nonsense":      {ExchangeDeclare{Name: "e", Passive: true, Arguments: intArgument("alternate-exchange", 1)}, 0, ""},
		"reserved name first":        {ExchangeDeclare{Name: "amq.n", Type: "topic", Arguments: intArgument("alternate-exchange", 1)}, 403, "ACCESS_REFUSED - exchange name 'amq.n' contains reserved prefix 'amq.*'"},
		"hash":                       {hash(), 0, ""},
		"hash by header":             {hash("hash-header", "customer"), 0, ""},
		"hash by header, other name": {hash("x-hash-on", "customer"), 0, ""},
		"hash by message_id":         {hash("hash-property", "message_id"), 0, ""},
		"hash by correlation_id":     {hash("hash-property", "correlation_id"), 0, ""},
		"hash by timestamp":          {hash("hash-property", "timestamp"), 0, ""},
		"hash by app_id":             {hash("hash-property", "app_id"), 406, "PRECONDITION_FAILED - Unsupported property: app_id"},
		"hash by both":               {hash("hash-property", "message_id", "hash-header", "h"), 406, "PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"},
		"hash ring":                  {hash("x-algorithm", "ring"), 0, ""},
		"hash jump":                  {hash("x-algorithm", "jump"), 0, ""},
		"hash maglev":                {hash("x-algorithm", "maglev"), 406, "PRECONDITION_FAILED - invalid arg 'x-algorithm' for exchange 'n' in vhost '/': 'maglev' is neither 'ring' nor 'jump'"},
		"hash by number":             {ExchangeDeclare{Name: "n", Type: typeConsistentHash, Arguments: intArgument("hash-header", 1)}, 406, invalid("hash-header")},
		"others do not hash":         {ExchangeDeclare{Name: "n", Type: "topic", Arguments: intArgument("hash-header", 1)}, 0, ""},
		"modulus":                    {ExchangeDeclare{Name: "n", Type: "x-modulus-hash"}, 0, ""},
		"random":                     {ExchangeDeclare{Name: "n", Type: "x-random"}, 0, ""},
		"unknown x-":                 {ExchangeDeclare{Name: "n", Type: "x-nosuch"}, 503, "COMMAND_INVALID - unknown exchange type 'x-nosuch'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := topologyEnv(t)
			_, err := e.vh.DeclareExchange(r.d)
			wantError(t, err, r.code, r.text)
		})
	}
	t.Run("equivalence", func(t *testing.T) {
		t.Parallel()
		e := topologyEnv(t)
		e.exchange(hash("hash-header", "customer"))
		e.exchange(hash("hash-header", "customer", "x-foo", "bar"))
		_, err := e.vh.DeclareExchange(hash("hash-header", "order"))
		wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'hash-header' for exchange 'n' in vhost '/': received 'order' but current is 'customer'")
		_, err = e.vh.DeclareExchange(hash("hash-header", "customer", "x-algorithm", "jump"))
		wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-algorithm' for exchange 'n' in vhost '/': received the value 'jump' of type 'longstr' but current is none")
	})
	t.Run("weights", func(t *testing.T) {
		t.Parallel()
		e := topologyEnv(t)
		e.exchange(hash())
		for key, want := range map[string]string{
			"3": "", "many": `PRECONDITION_FAILED - The binding key must be an integer: <<"many">>`,
			"0": "PRECONDITION_FAILED - The binding key must be greater than 0",
		} {
			for _, b := range []Binding{{Source: "n", Queue: "q", RoutingKey: key}, {Source: "n", Exchange: "e", ToExchange: true, RoutingKey: key}} {
				_, err := e.vh.Bind(b, me)
				code := uint16(0)
				if want != "" {
					code = 406
				}
				wantError(t, err, code, want)
			}
		}
	})
}

// An exchange's alternate may be declared later, go, and come back as another.
func TestExchange_AlternateComesAndGoes(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	e.exchange(ExchangeDeclare{Name: "a", Type: "direct", Arguments: stringArgument("alternate-exchange", "b")})
	route := func() []string { return e.route(t, "a", "k") }
	if got := route(); got != nil {
		t.Fatalf("nobody takes it, but %v", got)
	}
	version := e.vh.Version()
	e.exchange(ExchangeDeclare{Name: "b", Type: "headers", Internal: true}) // internal ones may be alternates
	e.bind(Binding{Source: "b", Queue: "q"})
	if got := route(); !slices.Equal(got, []string{"q"}) || e.vh.Version() == version {
		t.Fatalf("%v", got)
	}
	if entry, err := e.vh.CheckPublish([]byte("a")); entry.Traits != ByProperties || err != nil {
		t.Fatalf("%v, %v: the alternate's traits count", entry.Traits, err)
	}
	if _, err := e.vh.DeleteExchange("b", false); err != nil {
		t.Fatal(err)
	}
	if got := route(); got != nil {
		t.Fatalf("the alternate is gone, but %v", got)
	}
	e.exchange(ExchangeDeclare{Name: "b", Type: "x-random"})
	e.bind(Binding{Source: "b", Queue: "args"})
	if got := route(); !slices.Equal(got, []string{"args"}) {
		t.Fatalf("%v", got)
	}
	if entry, err := e.vh.CheckPublish([]byte("a")); entry.Traits != ByMessage || err != nil {
		t.Fatalf("%v, %v", entry.Traits, err)
	}
	// A binding that matches keeps the message from the alternate, even if what
	// it leads to drops it.
	e.exchange(ExchangeDeclare{Name: "nowhere", Type: "fanout"})
	e.bind(Binding{Source: "a", Exchange: "nowhere", ToExchange: true, RoutingKey: "k"})
	if got := route(); got != nil {
		t.Fatalf("%v", got)
	}
}

// hashed gives the queue that each of some messages goes to.
func hashed(t *testing.T, e *env, exchange string, message func(i int) Envelope) (to []string) {
	t.Helper()
	for i := range 200 {
		names := routeNames(t, e.vh, exchange, message(i))
		if len(names) != 1 {
			t.Fatalf("%s gives message %d to %v", exchange, i, names)
		}
		to = append(to, names[0])
	}
	return to
}

func byKey(i int) Envelope { return Envelope{RoutingKey: fmt.Append(nil, "key.", i)} }

// The routes of hash exchanges are the same after a restart, after a kill, and
// whatever transient queues were bound in between; and when a queue goes, only
// its messages move.
func TestExchange_HashSurvivesRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	defer func() { e.close() }()
	types := map[string]ExchangeDeclare{
		"ring":    {Name: "ring", Type: typeConsistentHash, Durable: true},
		"jump":    {Name: "jump", Type: typeConsistentHash, Durable: true, Arguments: stringArgument("x-algorithm", "jump")},
		"modulus": {Name: "modulus", Type: typeModulusHash, Durable: true},
	}
	e.queue(QueueDeclare{Name: "passing"}, nil)
	seq := uint64(0)
	for name, d := range types {
		e.exchange(d)
		e.bind(Binding{Source: name, Queue: "passing", RoutingKey: "5"})
	}
	for i := range 8 {
		q := fmt.Sprint("q", i)
		e.queue(QueueDeclare{Name: q, Durable: true}, nil)
		for name := range types {
			var err error
			if seq, err = e.vh.Bind(Binding{Source: name, Queue: q, RoutingKey: fmt.Sprint(1 + i%3)}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	e.durable(seq)
	for name := range types {
		if _, err := e.vh.Unbind(Binding{Source: name, Queue: "passing", RoutingKey: "5"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{}
	for name := range types {
		want[name] = hashed(t, e, name, byKey)
	}
	for _, stop := range []func(){e.crash, nil, nil} {
		if stop == nil {
			stop = e.close
		}
		stop()
		e = openDir(t, dir)
		for name := range types {
			if got := hashed(t, e, name, byKey); !slices.Equal(got, want[name]) {
				t.Fatalf("%s: other routes after a restart:\n%v\n%v", name, got, want[name])
			}
		}
	}
	if _, _, err := e.vh.DeleteQueue([]byte("q3"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i, to := range hashed(t, e, "ring", byKey) {
		switch was := want["ring"][i]; {
		case was == "q3" && to != "q3":
			moved++
		case was != to:
			t.Errorf("message %d moved from %s to %s", i, was, to)
		}
	}
	if moved == 0 {
		t.Error("q3 had no messages")
	}
}

// What is hashed: the routing key, a header of any type, or a property. Messages
// that have it in common go to one queue, and messages without it do too.
func TestExchange_HashOn(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	declare := func(name string, arguments amqp.Table) {
		e.exchange(ExchangeDeclare{Name: name, Type: typeConsistentHash, Arguments: arguments})
		for i := range 10 {
			q := fmt.Sprint("h", i)
			e.queue(QueueDeclare{Name: q}, nil)
			e.bind(Binding{Source: name, Queue: q, RoutingKey: "1"})
		}
	}
	properties := func(i int, set func(p *amqp.Properties)) Envelope {
		var p amqp.Properties
		set(&p)
		return Envelope{RoutingKey: fmt.Append(nil, "key.", i), Properties: p.Append(nil)}
	}
	header := func(i int, v amqp.Value) Envelope {
		return properties(i, func(p *amqp.Properties) {
			p.Flags, p.Headers = amqp.FlagHeaders, table(func(b *amqp.TableBuilder) { b.SetValue("other", amqp.Int32Value(int32(i))); b.SetValue("h", v) })
		})
	}
	some := func(i int) int { return i * 7919 % 13 } // 13 values
	for _, r := range []struct {
		name      string
		arguments amqp.Table
		message   func(i, value int) Envelope
	}{
		{"string header", stringArgument("hash-header", "h"), func(i, value int) Envelope { return header(i, amqp.String(fmt.Sprint("value", value))) }},
		{"int header", stringArgument("hash-header", "h"), func(i, value int) Envelope {
			if i%2 == 0 { // the width is no difference
				return header(i, amqp.Int8Value(int8(value)))
			}
			return header(i, amqp.Int64Value(int64(value)))
		}},
		{"table header", stringArgument("x-hash-on", "h"), func(i, value int) Envelope { return header(i, amqp.TableValue(intArgument("n", int32(value)))) }},
		{"message_id", stringArgument("hash-property", "message_id"), func(i, value int) Envelope {
			return properties(i, func(p *amqp.Properties) { p.Flags, p.MessageID = amqp.FlagMessageID, fmt.Append(nil, "m", value) })
		}},
		{"correlation_id", stringArgument("hash-property", "correlation_id"), func(i, value int) Envelope {
			return properties(i, func(p *amqp.Properties) {
				p.Flags, p.CorrelationID = amqp.FlagCorrelationID, fmt.Append(nil, "c", value)
			})
		}},
		{"timestamp", stringArgument("hash-property", "timestamp"), func(i, value int) Envelope {
			return properties(i, func(p *amqp.Properties) { p.Flags, p.Timestamp = amqp.FlagTimestamp, uint64(1e9+value) })
		}},
	} {
		declare(r.name, r.arguments)
		if entry, err := e.vh.CheckPublish([]byte(r.name)); entry.Traits != ByProperties || err != nil {
			t.Fatalf("%s: %v, %v", r.name, entry.Traits, err)
		}
		byValue, used := map[int]string{}, map[string]bool{}
		for i, to := range hashed(t, e, r.name, func(i int) Envelope { return r.message(i, some(i)) }) {
			if was, known := byValue[some(i)]; known && was != to {
				t.Fatalf("%s: value %d goes to %s and to %s", r.name, some(i), was, to)
			}
			byValue[some(i)], used[to] = to, true
		}
		if len(used) < 4 {
			t.Errorf("%s: 13 values go to %d of 10 queues", r.name, len(used))
		}
		without := hashed(t, e, r.name, func(i int) Envelope { return properties(i, func(*amqp.Properties) {}) })
		if slices.ContainsFunc(without, func(to string) bool { return to != without[0] }) {
			t.Errorf("%s: messages without it go to %v", r.name, without)
		}
	}
	declare("key", nil)
	if entry, err := e.vh.CheckPublish([]byte("key")); entry.Traits != 0 || err != nil {
		t.Fatalf("%v, %v: only the key counts, and routes may be kept", entry.Traits, err)
	}
	used := map[string]bool{}
	for _, to := range hashed(t, e, "key", byKey) {
		used[to] = true
	}
	if len(used) != 10 {
		t.Errorf("200 keys go to %d of 10 queues", len(used))
	}
}

// FuzzExchangeArguments: any table is refused or makes an exchange that routes
// and whose record leads to the same.
func FuzzExchangeArguments(f *testing.F) {
	f.Add(uint8(0), []byte(stringArgument("hash-header", "h")), []byte(headersOf("x")))
	f.Add(uint8(1), []byte(intArgument("alternate-exchange", 1)), []byte{0, 0})
	f.Add(uint8(0), []byte(stringArgument("hash-property", "timestamp")), []byte{0, 0x40, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint8(0), []byte(stringArgument("x-algorithm", "jump")), []byte{})
	f.Fuzz(func(t *testing.T, kind uint8, arguments, properties []byte) {
		if amqp.ValidateTable(arguments) != nil {
			return
		}
		types := []string{typeConsistentHash, typeDirect, typeModulusHash, typeRandom}
		d := ExchangeDeclare{Name: "e", Type: types[int(kind)%len(types)], Arguments: arguments, Durable: true}
		b := emptyBroker()
		vh := b.vhost(DefaultVHost)
		if vh.validateExchange(&d) != nil {
			return
		}
		e := vh.addExchange(d)
		vh.queues["q"] = &Queue{Name: "q", VHost: vh}
		bd := Binding{Source: "e", Queue: "q", RoutingKey: "1"}
		source, dest, _ := vh.ends(&bd, nil)
		vh.bind(source, dest, &bd)
		m := Envelope{RoutingKey: []byte("1"), Properties: properties}
		if got := routeNames(t, vh, "e", m); len(got) != 1 {
			t.Fatalf("goes to %v", got)
		}
		again := emptyBroker()
		if err := again.apply(exchangeRecord(recExchangeDeclare, vh, e)); err != nil {
			t.Fatal(err)
		}
		if other := again.vhosts[DefaultVHost].exchanges["e"]; other.spread != e.spread || other.argAlternate != e.argAlternate || other.hasArgAlternate != e.hasArgAlternate {
			t.Fatalf("the record leads to %+v, want %+v", other, e)
		}
	})
}
