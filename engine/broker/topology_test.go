package broker

import (
	"regexp"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

func table(set func(b *amqp.TableBuilder)) amqp.Table {
	var b amqp.TableBuilder
	set(&b)
	return b.Table()
}

func intArgument(name string, n int32) amqp.Table {
	return table(func(b *amqp.TableBuilder) { b.SetInt32(name, n) })
}

func stringArgument(name, s string) amqp.Table {
	return table(func(b *amqp.TableBuilder) { b.SetString(name, s) })
}

const (
	me    = "my connection"
	other = "another connection"
)

const lockedText = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'x' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."

// topologyEnv has exchange 'e' (direct), exchange 'bound' with queue 'q' bound,
// exchange 'in' (internal), queues 'q' and 'args' and other's exclusive 'x'.
func topologyEnv(t *testing.T) *env {
	e := openDir(t, t.TempDir())
	t.Cleanup(e.close)
	e.exchange(ExchangeDeclare{Name: "e", Type: "direct"})
	e.exchange(ExchangeDeclare{Name: "bound", Type: "direct"})
	e.exchange(ExchangeDeclare{Name: "in", Type: "fanout", Internal: true})
	e.queue(QueueDeclare{Name: "q"}, me)
	e.queue(QueueDeclare{Name: "args", Arguments: intArgument("x-max-length", 5)}, me)
	e.queue(QueueDeclare{Name: "x", Exclusive: true}, other)
	e.bind(Binding{Source: "bound", Queue: "q", RoutingKey: "k"})
	if _, err := e.vh.Bind(Binding{Source: "bound", Queue: "x", RoutingKey: "k"}, other); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTopology_ReplyCodes holds what RabbitMQ 3.10 answers (but for the texts
// about x-match, which are worded for people who don't read Erlang).
func TestTopology_ReplyCodes(t *testing.T) {
	t.Parallel()
	exchange := func(d ExchangeDeclare) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.DeclareExchange(d); return err }
	}
	queue := func(d QueueDeclare) func(*VHost) error {
		return func(vh *VHost) error { _, _, _, err := vh.DeclareQueue(d, me); return err }
	}
	asOther := func(d QueueDeclare) func(*VHost) error {
		return func(vh *VHost) error { _, _, _, err := vh.DeclareQueue(d, other); return err }
	}
	bind := func(b Binding) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.Bind(b, me); return err }
	}
	unbind := func(b Binding) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.Unbind(b, me); return err }
	}
	deleteExchange := func(name string, ifUnused bool) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.DeleteExchange(name, ifUnused); return err }
	}
	deleteQueue := func(name string, ifUnused, ifEmpty bool) func(*VHost) error {
		return func(vh *VHost) error { _, _, err := vh.DeleteQueue([]byte(name), ifUnused, ifEmpty, me); return err }
	}
	publish := func(name string) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.CheckPublish([]byte(name)); return err }
	}
	use := func(name string) func(*VHost) error {
		return func(vh *VHost) error { _, err := vh.Queue([]byte(name), me); return err }
	}
	const onDefault = "ACCESS_REFUSED - operation not permitted on the default exchange"

	rows := []struct {
		name string
		op   func(*VHost) error
		code uint16
		text string
	}{
		{"exchange new", exchange(ExchangeDeclare{Name: "n", Type: "topic"}), 0, ""},
		{"exchange again", exchange(ExchangeDeclare{Name: "e", Type: "direct"}), 0, ""},
		{"exchange other type", exchange(ExchangeDeclare{Name: "e", Type: "fanout"}), 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'e' in vhost '/': received 'fanout' but current is 'direct'"},
		{"exchange durable differs", exchange(ExchangeDeclare{Name: "e", Type: "direct", Durable: true}), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'e' in vhost '/': received 'true' but current is 'false'"},
		{"exchange auto-delete differs", exchange(ExchangeDeclare{Name: "e", Type: "direct", AutoDelete: true}), 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for exchange 'e' in vhost '/': received 'true' but current is 'false'"},
		{"exchange internal differs", exchange(ExchangeDeclare{Name: "e", Type: "direct", Internal: true}), 406, "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange 'e' in vhost '/': received 'true' but current is 'false'"},
		{"exchange unknown argument differs", exchange(ExchangeDeclare{Name: "e", Type: "direct", Arguments: intArgument("x-foo", 1)}), 0, ""},
		{"exchange alternate-exchange differs", exchange(ExchangeDeclare{Name: "e", Type: "direct", Arguments: stringArgument("alternate-exchange", "y")}), 406, "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'e' in vhost '/': received the value 'y' of type 'longstr' but current is none"},
		{"exchange unknown type", exchange(ExchangeDeclare{Name: "n", Type: "nosuch"}), 503, "COMMAND_INVALID - unknown exchange type 'nosuch'"},
		{"exchange empty type", exchange(ExchangeDeclare{Name: "n"}), 503, "COMMAND_INVALID - invalid exchange type ''"},
		{"exchange passive missing", exchange(ExchangeDeclare{Name: "n", Passive: true}), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"exchange passive, other type", exchange(ExchangeDeclare{Name: "e", Type: "fanout", Passive: true}), 0, ""},
		{"exchange passive default", exchange(ExchangeDeclare{Name: "", Passive: true}), 403, onDefault},
		{"exchange default", exchange(ExchangeDeclare{Name: "", Type: "direct"}), 403, onDefault},
		{"exchange reserved", exchange(ExchangeDeclare{Name: "amq.foo", Type: "direct"}), 403, "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"},
		{"exchange predeclared, equal", exchange(ExchangeDeclare{Name: "amq.direct", Type: "direct", Durable: true}), 0, ""},
		{"exchange predeclared, differs", exchange(ExchangeDeclare{Name: "amq.direct", Type: "direct"}), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true'"},
		{"exchange passive amq.direct", exchange(ExchangeDeclare{Name: "amq.direct", Passive: true}), 0, ""},
		{"exchange passive amq.fanout", exchange(ExchangeDeclare{Name: "amq.fanout", Passive: true}), 0, ""},
		{"exchange passive amq.topic", exchange(ExchangeDeclare{Name: "amq.topic", Passive: true}), 0, ""},
		{"exchange passive amq.headers", exchange(ExchangeDeclare{Name: "amq.headers", Passive: true}), 0, ""},
		{"exchange passive amq.match", exchange(ExchangeDeclare{Name: "amq.match", Passive: true}), 0, ""},
		{"exchange delete", deleteExchange("e", false), 0, ""},
		{"exchange delete predeclared", deleteExchange("amq.direct", false), 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"},
		{"exchange delete reserved, missing", deleteExchange("amq.foo", false), 403, "ACCESS_REFUSED - deletion of system exchange 'amq.foo' in vhost '/' not allowed"},
		{"exchange delete default", deleteExchange("", false), 403, onDefault},
		{"exchange delete missing", deleteExchange("n", false), 0, ""},
		{"exchange delete missing if-unused", deleteExchange("n", true), 0, ""},
		{"exchange delete if-unused, bound", deleteExchange("bound", true), 406, "PRECONDITION_FAILED - exchange 'bound' in vhost '/' in use"},
		{"exchange delete if-unused, unbound", deleteExchange("e", true), 0, ""},
		{"exchange delete bound", deleteExchange("bound", false), 0, ""},

		{"publish default", publish(""), 0, ""},
		{"publish", publish("e"), 0, ""},
		{"publish missing", publish("n"), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"publish amq.default", publish("amq.default"), 404, "NOT_FOUND - no exchange 'amq.default' in vhost '/'"},
		{"publish internal", publish("in"), 403, "ACCESS_REFUSED - cannot publish to internal exchange 'in' in vhost '/'"},

		{"queue new", queue(QueueDeclare{Name: "n"}), 0, ""},
		{"queue again", queue(QueueDeclare{Name: "q"}), 0, ""},
		{"queue durable differs", queue(QueueDeclare{Name: "q", Durable: true}), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"},
		{"queue auto-delete differs", queue(QueueDeclare{Name: "q", AutoDelete: true}), 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"},
		{"queue as exclusive", asOther(QueueDeclare{Name: "x", Exclusive: true}), 0, ""},
		{"queue max-length added", queue(QueueDeclare{Name: "q", Arguments: intArgument("x-max-length", 5)}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '5' of type 'signedint' but current is none"},
		{"queue max-length missing", queue(QueueDeclare{Name: "args"}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'args' in vhost '/': received none but current is the value '5' of type 'signedint'"},
		{"queue max-length differs", queue(QueueDeclare{Name: "args", Arguments: intArgument("x-max-length", 6)}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'args' in vhost '/': received '6' but current is '5'"},
		{"queue max-length of another width", queue(QueueDeclare{Name: "args", Arguments: table(func(b *amqp.TableBuilder) { b.SetInt64("x-max-length", 5) })}), 0, ""},
		{"queue unknown argument differs", queue(QueueDeclare{Name: "q", Arguments: stringArgument("x-foo", "bar")}), 0, ""},
		{"queue passive, all differs", queue(QueueDeclare{Name: "args", Passive: true, Durable: true, AutoDelete: true}), 0, ""},
		{"queue passive missing", queue(QueueDeclare{Name: "n", Passive: true}), 404, "NOT_FOUND - no queue 'n' in vhost '/'"},
		{"queue passive reserved", queue(QueueDeclare{Name: "amq.foo", Passive: true}), 404, "NOT_FOUND - no queue 'amq.foo' in vhost '/'"},
		{"queue passive without a name", queue(QueueDeclare{Passive: true}), 404, "NOT_FOUND - no queue '' in vhost '/'"},
		{"queue reserved", queue(QueueDeclare{Name: "amq.foo"}), 403, "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"},
		{"queue reserved gen", queue(QueueDeclare{Name: "amq.gen-foo"}), 403, "ACCESS_REFUSED - queue name 'amq.gen-foo' contains reserved prefix 'amq.*'"},
		{"queue delete missing", deleteQueue("n", false, false), 0, ""},
		{"queue delete missing if-empty", deleteQueue("n", true, true), 0, ""},

		{"locked: declare exclusive", queue(QueueDeclare{Name: "x", Exclusive: true}), 405, lockedText},
		{"locked: declare", queue(QueueDeclare{Name: "x"}), 405, lockedText},
		{"locked: declare with all different", queue(QueueDeclare{Name: "x", Durable: true, AutoDelete: true}), 405, lockedText},
		{"locked: passive", queue(QueueDeclare{Name: "x", Passive: true}), 405, lockedText},
		{"locked: use", use("x"), 405, lockedText},
		{"locked: delete", deleteQueue("x", false, false), 405, lockedText},
		{"locked: bind", bind(Binding{Source: "e", Queue: "x"}), 405, lockedText},
		{"locked: unbind", unbind(Binding{Source: "bound", Queue: "x", RoutingKey: "k"}), 405, lockedText},
		{"locked: unbind missing binding", unbind(Binding{Source: "e", Queue: "x", RoutingKey: "k"}), 0, ""},
		{"locked: unbind missing key", unbind(Binding{Source: "bound", Queue: "x", RoutingKey: "K"}), 0, ""},
		{"locked: owner declares non-exclusive", asOther(QueueDeclare{Name: "x"}), 405, lockedText},
		{"use missing", use("n"), 404, "NOT_FOUND - no queue 'n' in vhost '/'"},

		{"bind", bind(Binding{Source: "e", Queue: "q"}), 0, ""},
		{"bind again", bind(Binding{Source: "bound", Queue: "q", RoutingKey: "k"}), 0, ""},
		{"bind missing queue", bind(Binding{Source: "e", Queue: "n"}), 404, "NOT_FOUND - no queue 'n' in vhost '/'"},
		{"bind missing exchange", bind(Binding{Source: "n", Queue: "q"}), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"bind both missing", bind(Binding{Source: "n", Queue: "n2"}), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"bind default", bind(Binding{Source: "", Queue: "q"}), 403, onDefault},
		{"bind x-match unknown", bind(Binding{Source: "amq.headers", Queue: "q", Arguments: stringArgument("x-match", "nope")}), 406, "PRECONDITION_FAILED - Invalid x-match field value <<\"nope\">>; expected all, any, all-with-x, or any-with-x"},
		{"bind x-match not a string", bind(Binding{Source: "amq.headers", Queue: "q", Arguments: intArgument("x-match", 1)}), 406, "PRECONDITION_FAILED - Invalid x-match field type signedint; expected longstr"},
		{"bind x-match any-with-x", bind(Binding{Source: "amq.headers", Queue: "q", Arguments: stringArgument("x-match", "any-with-x")}), 0, ""},
		{"bind x-match elsewhere", bind(Binding{Source: "amq.topic", Queue: "q", Arguments: stringArgument("x-match", "nope")}), 0, ""},
		{"unbind", unbind(Binding{Source: "bound", Queue: "q", RoutingKey: "k"}), 0, ""},
		{"unbind missing binding", unbind(Binding{Source: "e", Queue: "q"}), 0, ""},
		{"unbind missing queue", unbind(Binding{Source: "e", Queue: "n"}), 0, ""},
		{"unbind missing exchange", unbind(Binding{Source: "n", Queue: "q"}), 0, ""},
		{"unbind default", unbind(Binding{Source: "", Queue: "q"}), 403, onDefault},

		{"exchange.bind", bind(Binding{Source: "e", Exchange: "in", ToExchange: true}), 0, ""},
		{"exchange.bind missing source", bind(Binding{Source: "n", Exchange: "e", ToExchange: true}), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"exchange.bind missing destination", bind(Binding{Source: "e", Exchange: "n", ToExchange: true}), 404, "NOT_FOUND - no exchange 'n' in vhost '/'"},
		{"exchange.bind source default", bind(Binding{Source: "", Exchange: "e", ToExchange: true}), 403, onDefault},
		{"exchange.bind destination default", bind(Binding{Source: "e", Exchange: "", ToExchange: true}), 403, onDefault},
		{"exchange.unbind missing binding", unbind(Binding{Source: "e", Exchange: "in", ToExchange: true}), 0, ""},
		{"exchange.unbind missing source", unbind(Binding{Source: "n", Exchange: "e", ToExchange: true}), 0, ""},
		{"exchange.unbind missing destination", unbind(Binding{Source: "e", Exchange: "n", ToExchange: true}), 0, ""},
		{"exchange.unbind default", unbind(Binding{Source: "", Exchange: "e", ToExchange: true}), 403, onDefault},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			wantError(t, row.op(topologyEnv(t).vh), row.code, row.text)
		})
	}
}

func TestTopology_DeleteQueue_Conditions(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	q := e.queue(QueueDeclare{Name: "q"}, me)
	remove := func(ifUnused, ifEmpty bool) (uint64, error) {
		n, _, err := e.vh.DeleteQueue([]byte("q"), ifUnused, ifEmpty, me)
		return n, err
	}
	c := attach(t, q, "a")
	_, err := remove(true, false)
	wantError(t, err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use")
	q.Leave(c)
	e.publish(q, "one", "two", "three")
	_, err = remove(false, true)
	wantError(t, err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty")
	run, _ := q.Get()
	if n, err := remove(false, false); n != 2 || err != nil {
		t.Errorf("deleted with %d ready messages (%v), want 2: unacked ones don't count", n, err)
	}
	q.Settle(run.First, run.Count)
	if owner(c).cancelled != 1 {
		t.Error("the consumer was not told")
	}
	// if-empty looks at ready messages only.
	q = e.queue(QueueDeclare{Name: "q"}, me)
	e.publish(q, "one")
	q.Get()
	if n, err := remove(true, true); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

func TestTopology_GeneratedName(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	form := regexp.MustCompile(`^amq\.gen-[A-Za-z0-9_-]{22}$`)
	a, b := e.queue(QueueDeclare{}, me), e.queue(QueueDeclare{}, me)
	if !form.MatchString(a.Name) || !form.MatchString(b.Name) || a.Name == b.Name {
		t.Errorf("names %q and %q", a.Name, b.Name)
	}
	if again := e.queue(QueueDeclare{Name: a.Name}, me); again != a {
		t.Error("declaring a generated name again gives another queue")
	}
}

func TestTopology_DeleteQueue_RemovesItsBindings(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	e.queue(QueueDeclare{Name: "keep"}, nil)
	sources := []string{"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "e"}
	for _, source := range sources {
		for i := range 20 {
			key := string(rune('a' + i))
			e.bind(Binding{Source: source, Queue: "args", RoutingKey: key, Arguments: stringArgument("k", key)})
			e.bind(Binding{Source: source, Queue: "keep", RoutingKey: key, Arguments: stringArgument("k", key)})
		}
	}
	if _, _, err := e.vh.DeleteQueue([]byte("args"), false, false, me); err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		index := e.vh.exchanges[source].index
		if index.Len() != 20 {
			t.Errorf("%s has %d bindings left, want 20", source, index.Len())
		}
		for b := range index.All() {
			if b.Destination.Queue.Name != "keep" {
				t.Errorf("%s still leads to %s", source, b.Destination.Queue.Name)
			}
		}
	}
	if n := len(e.vh.queues["keep"].bound); n != len(sources) {
		t.Errorf("the other queue counts %d sources", n)
	}
}

func TestTopology_DeleteOwned(t *testing.T) {
	t.Parallel()
	e := topologyEnv(t)
	x, q := e.vh.queues["x"], e.vh.queues["q"]
	e.vh.DeleteOwned(me, []*Queue{x, q}) // neither is an exclusive queue of me
	if e.vh.queues["x"] == nil || e.vh.queues["q"] == nil {
		t.Fatal("removed what is not owned")
	}
	c := &Consumer{Queue: x, Owner: &fakeOwner{}}
	if err := x.Attach(c); err != nil {
		t.Fatal(err)
	}
	e.vh.DeleteOwned(other, []*Queue{x, q})
	if e.vh.queues["x"] != nil || e.vh.queues["q"] == nil || owner(c).cancelled != 1 {
		t.Fatal("the exclusive queue was not removed, or others were")
	}
}
