package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// definition reads a policy definition in JSON.
func definition(t tb, text string) amqp.Table {
	t.Helper()
	d, err := tablejson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (e *env) policy(name, pattern, text string, change ...func(*Policy)) uint64 {
	e.t.Helper()
	p := Policy{VHost: "/", Name: name, Pattern: pattern, Definition: definition(e.t, text)}
	for _, f := range change {
		f(&p)
	}
	return e.must(e.broker.SetPolicy(p))
}

func (e *env) operatorPolicy(name, pattern, text string) uint64 {
	e.t.Helper()
	return e.must(e.broker.SetOperatorPolicy(Policy{VHost: "/", Name: name, Pattern: pattern, Definition: definition(e.t, text)}))
}

func priority(n int64) func(*Policy)    { return func(p *Policy) { p.Priority = n } }
func applyTo(what string) func(*Policy) { return func(p *Policy) { p.ApplyTo = what } }

func (e *env) effective(q *Queue) string {
	p := q.EffectivePolicy()
	return p.Policy + "|" + p.OperatorPolicy + "|" + string(tablejson.Append(nil, p.Definition))
}

// TestPolicy_Keys checks each key with values that it takes and does not take.
func TestPolicy_Keys(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	numbers := func(least int) (good, bad []string) {
		return []string{fmt.Sprint(least), "9007199254740993"}, []string{fmt.Sprint(least - 1), `"1"`, "1.5", "true", "null"}
	}
	text := []string{`7`, `true`, `{}`}
	for key, k := range PolicyKeys {
		var good, bad []string
		switch key {
		case "message-ttl", "max-length", "max-length-bytes", "consumer-timeout", "max-in-memory-length", "max-in-memory-bytes":
			good, bad = numbers(0)
		case "expires", "queue-version", "initial-cluster-size", "target-group-size", "ha-sync-batch-size", "stream-max-segment-size-bytes":
			good, bad = numbers(1)
		case "delivery-limit":
			good, bad = numbers(-1)
		case "overflow":
			good, bad = []string{`"drop-head"`, `"reject-publish"`, `"reject-publish-dlx"`}, append(text, `"drop"`, `""`)
		case "dead-letter-strategy":
			good, bad = []string{`"at-most-once"`, `"at-least-once"`}, append(text, `"once"`)
		case "queue-mode":
			good, bad = []string{`"lazy"`, `"default"`}, append(text, `"eager"`)
		case "ha-mode":
			good, bad = []string{`"all"`}, append(text, `"some"`)
		case "ha-sync-mode":
			good, bad = []string{`"manual"`}, append(text, `"some"`)
		case "ha-params":
			good = []string{`2`, `["a","b"]`}
		case "max-age":
			good = []string{`"7D"`, `"1Y"`, `"10m"`, `"5s"`, `"2h"`, `"3M"`}
			bad = append(text, `"7d"`, `"D"`, `"7"`, `"-7D"`, `"7DD"`, `"1.5h"`, `"9999999999s"`)
		case "delayed-message":
			good, bad = []string{`true`, `"true"`}, []string{`1`, `"yes"`}
		default:
			good, bad = []string{`"x"`, `""`}, text
		}
		for _, v := range good {
			d := definition(t, `{"`+key+`":`+v+`}`)
			if _, err := e.broker.SetPolicy(Policy{VHost: "/", Name: "p", Definition: d}); err != nil {
				t.Errorf("%s: %s: %v", key, v, err)
			}
			_, err := e.broker.SetOperatorPolicy(Policy{VHost: "/", Name: "p", Definition: d})
			if k.Operator != (err == nil) {
				t.Errorf("operator policy, %s: %s: %v", key, v, err)
			}
		}
		for _, v := range bad {
			_, err := e.broker.SetPolicy(Policy{VHost: "/", Name: "bad", Definition: definition(t, `{"`+key+`":`+v+`}`)})
			if !access.IsReason(err, access.Invalid) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %s: %v", key, v, err)
			}
		}
	}
}

func TestPolicy_Refused(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	good := definition(t, `{"max-length":1}`)
	for want, p := range map[string]Policy{
		"has no name":                  {VHost: "/", Definition: good},
		"defines nothing":              {VHost: "/", Name: "p"},
		"key 'max-size', which is not": {VHost: "/", Name: "p", Definition: definition(t, `{"max-size":1}`)},
		"cannot apply to 'topics'":     {VHost: "/", Name: "p", ApplyTo: "topics", Definition: good},
		"not a regular expression":     {VHost: "/", Name: "p", Pattern: "[", Definition: good},
		"look-ahead":                   {VHost: "/", Name: "p", Pattern: "^(?!amq)", Definition: good},
		"not a 32-bit number":          {VHost: "/", Name: "p", Priority: 1 << 31, Definition: good},
		"no virtual host 'none'":       {VHost: "none", Name: "p", Definition: good},
	} {
		if _, err := e.broker.SetPolicy(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, clear := range []func(vhost, name string) (uint64, error){e.broker.ClearPolicy, e.broker.ClearOperatorPolicy} {
		for _, vhost := range []string{"/", "none"} {
			if _, err := clear(vhost, "p"); !access.IsReason(err, access.NotFound) {
				t.Errorf("clearing what is not there: %v", err)
			}
		}
	}
	if list := e.broker.Policies(""); len(list) != 0 {
		t.Errorf("refused, and there: %v", list)
	}
}

// TestPolicy_OneAppliesByPriority: of all that match the one with the highest
// priority counts alone; the operator's comes on top, and the lower limit counts.
func TestPolicy_OneAppliesByPriority(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	q := e.queue(QueueDeclare{Name: "orders.new", Durable: true}, nil)
	quorum := e.queue(QueueDeclare{Name: "orders.q", Durable: true, Arguments: definition(t, `{"x-queue-type":"quorum"}`)}, nil)
	step := func(want, wantQuorum string) {
		t.Helper()
		if got := e.effective(q); got != want {
			t.Errorf("classic: %s, want %s", got, want)
		}
		if got := e.effective(quorum); got != wantQuorum {
			t.Errorf("quorum: %s, want %s", got, wantQuorum)
		}
	}
	step("||{}", "||{}")
	e.policy("all", "", `{"max-length":10,"expires":60000}`)
	step(`all||{"expires":60000,"max-length":10}`, `all||{"expires":60000,"max-length":10}`)
	e.policy("b", `^orders\.`, `{"max-length":20}`, priority(1))
	e.policy("a", "new", `{"max-length":30}`, priority(1))
	step(`a||{"max-length":30}`, `b||{"max-length":20}`)
	e.policy("classic", "", `{"max-length":40}`, priority(2), applyTo(ApplyToClassic))
	e.policy("quorum", "", `{"delivery-limit":5}`, priority(3), applyTo(ApplyToQuorum))
	e.policy("exchanges", "", `{"alternate-exchange":"x"}`, priority(4), applyTo(ApplyToExchanges))
	e.policy("streams", "", `{"max-age":"1D"}`, priority(4), applyTo(ApplyToStreams))
	step(`classic||{"max-length":40}`, `quorum||{"delivery-limit":5}`)
	e.operatorPolicy("ceiling", "", `{"max-length":35,"message-ttl":1000}`)
	step(`classic|ceiling|{"max-length":35,"message-ttl":1000}`, `quorum|ceiling|{"delivery-limit":5,"max-length":35,"message-ttl":1000}`)
	if s := q.settings.Load(); s.maxLength != 35 || s.messageTTL != 1000 {
		t.Errorf("in force: %+v", s)
	}
	e.must(e.broker.ClearPolicy("/", "classic"))
	step(`a|ceiling|{"max-length":30,"message-ttl":1000}`, `quorum|ceiling|{"delivery-limit":5,"max-length":35,"message-ttl":1000}`)
	later := e.queue(QueueDeclare{Name: "new"}, e)
	if got := e.effective(later); got != `a|ceiling|{"max-length":30,"message-ttl":1000}` {
		t.Errorf("declared later: %s", got)
	}
	for _, name := range []string{"a", "b", "all", "quorum", "streams", "exchanges"} {
		e.must(e.broker.ClearPolicy("/", name))
	}
	e.must(e.broker.ClearOperatorPolicy("/", "ceiling"))
	step("||{}", "||{}")
	if s := q.settings.Load(); s != nil && *s != plainSettings {
		t.Errorf("without policies in force: %+v", s)
	}
}

// TestPolicy_AppliesToWhatIsThere: limits and times to live count for messages
// that are in the queue, arguments come first for texts, and without the policy
// the arguments count again.
func TestPolicy_AppliesToWhatIsThere(t *testing.T) {
	clock := int64(1_000_000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	dead := e.queue(QueueDeclare{Name: "dead"}, nil)
	other := e.queue(QueueDeclare{Name: "other"}, nil)
	q := e.queue(QueueDeclare{Name: "q", Arguments: definition(t, `{"x-max-length":5}`)}, nil)
	e.put(q, clock, "", "1", "2", "3", "4")
	e.policy("p", "^q$", `{"max-length":3,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`)
	e.steps("one over the new limit is dead", func() bool { return dead.Counts().Ready == 1 })
	e.policy("p", "^q$", `{"max-length":100,"message-ttl":1000,"dead-letter-exchange":"","dead-letter-routing-key":"other"}`)
	clock += 999
	e.broker.keeper.step()
	if n := q.Counts().Ready; n != 3 {
		t.Errorf("%d messages before the time to live is over", n)
	}
	clock += 2
	e.steps("all expired", func() bool { return q.Counts().Ready == 0 && other.Counts().Ready == 3 })
	e.must(e.broker.ClearPolicy("/", "p"))
	e.put(q, clock, "", "1", "2", "3", "4", "5", "6")
	clock += 5000
	e.steps("the argument's limit counts", func() bool { return q.Counts().Ready == 5 })
	if n := dead.Counts().Ready + other.Counts().Ready; n != 4 {
		t.Errorf("%d dead letters after the policy was cleared", n)
	}
}

// TestPolicy_LowersTheDeliveryLimit: what came back more often than the new limit
// is dead at once if it is ready, and when it comes back if somebody has it; also
// in a priority queue.
func TestPolicy_LowersTheDeliveryLimit(t *testing.T) {
	for _, arguments := range []string{`{}`, `{"x-max-priority":2}`} {
		clock := int64(1_000_000)
		e := openAt(t, posixDisk(t, t.TempDir()), &clock)
		e.queue(QueueDeclare{Name: "dead", Durable: true}, nil)
		base := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: definition(t, arguments)}, nil)
		e.policy("p", "^q$", `{"delivery-limit":5,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`)
		q := base
		if base.Ranked() {
			q = base.level(1)
		}
		e.put(q, clock, "", "three times", "held", "twice", "never")
		take := func(offset uint64) {
			if run, _ := base.Get(); run.Count != 1 || run.First != offset {
				t.Fatalf("got %+v, want %d", run, offset)
			}
		}
		take(0)
		take(1)
		take(2)
		for offset, times := range []int{2, 2, 1} {
			for range times {
				q.Requeue(Run{First: uint64(offset), Count: 1})
				take(uint64(offset))
			}
		}
		q.Requeue(Run{First: 0, Count: 1}, Run{First: 2, Count: 1})
		e.policy("p", "^q$", `{"delivery-limit":2,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`)
		dead := e.vh.queues["dead"]
		e.steps("the third return is one too many", func() bool { return dead.Counts().Ready == 1 })
		if c := base.Counts(); c.Ready != 2 {
			t.Errorf("%+v, want the one that came back twice ready, and the new one", c)
		}
		q.Requeue(Run{First: 1, Count: 1})
		e.steps("it dies when it comes back", func() bool { return dead.Counts().Ready == 2 })
		e.close()
	}
}

// TestPolicy_AlternateExchange: routes follow the policy at once, also cached
// ones; the argument comes before it.
func TestPolicy_AlternateExchange(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	q := e.queue(QueueDeclare{Name: "unrouted"}, nil)
	arg := e.queue(QueueDeclare{Name: "by-argument"}, nil)
	e.exchange(ExchangeDeclare{Name: "ae", Type: "fanout"})
	e.exchange(ExchangeDeclare{Name: "ae2", Type: "fanout"})
	e.exchange(ExchangeDeclare{Name: "x", Type: "direct"})
	e.exchange(ExchangeDeclare{Name: "y", Type: "direct", Arguments: definition(t, `{"alternate-exchange":"ae2"}`)})
	e.bind(Binding{Source: "ae", Queue: "unrouted"})
	e.bind(Binding{Source: "ae2", Queue: "by-argument"})
	route := func(exchange string) []*Queue {
		routed, err := e.vh.Route([]byte(exchange), Envelope{RoutingKey: []byte("k")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return routed
	}
	version := e.vh.Version()
	e.policy("p", "", `{"alternate-exchange":"ae"}`)
	if e.vh.Version() == version {
		t.Error("cached routes are not void")
	}
	if got := route("x"); !slices.Equal(got, []*Queue{q}) {
		t.Errorf("with the policy: %v", got)
	}
	if got := route("y"); !slices.Equal(got, []*Queue{arg}) {
		t.Errorf("with an argument: %v", got)
	}
	e.exchange(ExchangeDeclare{Name: "z", Type: "direct"})
	if got := route("z"); !slices.Equal(got, []*Queue{q}) {
		t.Errorf("declared later: %v", got)
	}
	x := e.vh.exchanges["x"]
	if p := e.vh.EffectivePolicy(x); p.Policy != "p" {
		t.Errorf("effective: %+v", p)
	}
	e.must(e.broker.ClearPolicy("/", "p"))
	if got := route("x"); len(got) != 0 {
		t.Errorf("without the policy: %v", got)
	}
}

// TestPolicy_WhileDeclaring changes policies while queues are declared: in the
// end each has what the last set says.
func TestPolicy_WhileDeclaring(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 250 {
				if _, _, _, err := e.vh.DeclareQueue(QueueDeclare{Name: fmt.Sprint("q", w, ".", i)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 50 {
		e.policy("p", `\.\d*[02468]$`, fmt.Sprintf(`{"max-length":%d}`, i))
		if i%5 == 0 {
			e.must(e.broker.ClearPolicy("/", "p"))
		}
	}
	e.policy("p", `\.\d*[02468]$`, `{"max-length":77}`)
	all.Wait()
	seen := map[*applied]bool{}
	for _, q := range e.vh.Queues() {
		even := strings.Contains("02468", q.Name[len(q.Name)-1:])
		s := q.settings.Load()
		if limited := s != nil && s.maxLength == 77; limited != even || even != (q.EffectivePolicy().Policy == "p") {
			t.Errorf("%s has %+v", q.Name, s)
		}
		if a := q.applied.Load(); a != nil {
			seen[a] = true
		}
	}
	// At most one answer more than the set's: of queues that had it already.
	if len(seen) > 2 {
		t.Errorf("%d answers are kept for one policy", len(seen))
	}
}
