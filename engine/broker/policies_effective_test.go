package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
)

// TestPolicy_Restart: policies and parameters survive a clean stop, a crash, and
// the deletion of another virtual host; those of a deleted one are gone for good.
func TestPolicy_Restart(t *testing.T) {
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	e.must(e.broker.AddVHost(VHostSpec{Name: "v"}))
	e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.policy("p", "q", `{"max-length":7,"overflow":"reject-publish"}`, priority(-3), applyTo(ApplyToQueues))
	e.policy("gone", "", `{"max-length":1}`)
	e.operatorPolicy("p", "", `{"expires":100000}`)
	for _, vhost := range []string{"/", "v"} {
		e.must(e.broker.SetParameter(Parameter{VHost: vhost, Component: "c", Name: "n", Value: []byte(`{ "a" : [1] }`)}))
	}
	e.must(e.broker.SetParameter(Parameter{Name: "g", Value: []byte(`"text"`)}))
	e.must(e.broker.SetParameter(Parameter{Name: "gone", Value: []byte(`1`)}))
	e.must(e.broker.SetPolicy(Policy{VHost: "v", Name: "p", Definition: definition(t, `{"max-length":9}`)}))
	e.must(e.broker.ClearPolicy("/", "gone"))
	e.must(e.broker.ClearParameter("", "", "gone"))
	e.must(e.broker.DeleteVHost("v"))
	e.durable(e.must(e.broker.AddVHost(VHostSpec{Name: "v"})))
	after := d.PowerCut()
	check := func(e *env) {
		t.Helper()
		q := e.vh.queues["q"]
		if got := e.effective(q); got != `p|p|{"expires":100000,"max-length":7,"overflow":"reject-publish"}` {
			t.Errorf("effective: %s", got)
		}
		if s := q.settings.Load(); s == nil || s.maxLength != 7 || s.expires != 100000 || s.overflow != rejectPublish {
			t.Errorf("in force: %+v", s)
		}
		if got, want := fmt.Sprintf("%+v %+v", e.broker.Policies(""), e.broker.OperatorPolicies("v")), "1 0"; len(e.broker.Policies("")) != 1 || len(e.broker.OperatorPolicies("v")) != 0 {
			t.Errorf("policies %s, want %s", got, want)
		}
		var list []string
		for _, p := range e.broker.Parameters() {
			list = append(list, fmt.Sprintf("%s %s %s %s", p.VHost, p.Component, p.Name, p.Value))
		}
		if want := []string{`  g "text"`, `/ c n {"a":[1]}`}; !slices.Equal(list, want) {
			t.Errorf("parameters %q, want %q", list, want)
		}
	}
	check(e)
	e.crash()
	e = openSim(t, after)
	check(e)
	e.close()
	e = openSim(t, after.Kill())
	check(e)
	e.close()
}

func TestParameter_Refused(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	for want, p := range map[string]Parameter{
		"no name":                 {VHost: "/", Component: "c", Value: []byte("1")},
		"component of parameter":  {VHost: "/", Name: "n", Value: []byte("1")},
		"is not JSON":             {VHost: "/", Component: "c", Name: "n", Value: []byte("{")},
		"no virtual host 'none'":  {VHost: "none", Component: "c", Name: "n", Value: []byte("1")},
		"use the command":         {VHost: "/", Component: "operator_policy", Name: "n", Value: []byte("1")},
		"has 300001 bytes":        {Name: "n", Value: []byte(`"` + strings.Repeat("x", 299_999) + `"`)},
		"global parameter has no": {Value: []byte("1")},
	} {
		if _, err := e.broker.SetParameter(p); !access.IsReason(err, access.Invalid) && !access.IsReason(err, access.NotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, vhost := range []string{"/", ""} {
		if _, err := e.broker.ClearParameter(vhost, "", "n"); !access.IsReason(err, access.NotFound) {
			t.Errorf("clearing what is not there: %v", err)
		}
	}
}

// TestPolicy_Effective_AgainstModel: what counts of arguments, a policy and an
// operator policy, against the rules said plainly.
func TestPolicy_Effective_AgainstModel(t *testing.T) {
	numbers := []string{"message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label, prefix string) (amqp.Table, map[string]int64) {
			var b amqp.TableBuilder
			model := map[string]int64{}
			for _, key := range numbers {
				if rapid.Bool().Draw(t, label+key) {
					model[key] = rapid.Int64Range(1, 5).Draw(t, key)
					b.SetInt64(prefix+key, model[key])
				}
			}
			return b.Table(), model
		}
		arguments, a := draw("argument ", "x-")
		policy, p := draw("policy ", "")
		operator, o := draw("operator ", "")
		both := &applied{policy: &compiled{Policy: Policy{Definition: policy}}, operator: &compiled{Policy: Policy{Definition: operator}}}
		s := effective(arguments, policy, operator)
		if s == nil {
			s = &plainSettings
		}
		shown := both.effective().Definition
		for i, got := range []int64{s.messageTTL, s.expires, s.maxLength, s.maxBytes, s.deliveryLimit} {
			want, wantShown := int64(unlimited), int64(unlimited)
			for n, model := range []map[string]int64{a, p, o} {
				if v, ok := model[numbers[i]]; ok {
					want = min(want, v)
					if n > 0 {
						wantShown = min(wantShown, v)
					}
				}
			}
			gotShown := int64(unlimited)
			if v, ok := shown.Lookup(numbers[i]); ok {
				gotShown, _ = v.Int64()
			}
			if got != want || gotShown != wantShown {
				t.Fatalf("%s: %d in force, %d shown; want %d, %d", numbers[i], got, gotShown, want, wantShown)
			}
		}
	})
}

// TestGolden_Policies holds the format of records of policies and parameters.
func TestGolden_Policies(t *testing.T) {
	const name = "v1-definitions-policies"
	policy := func(vhost, name string, n int64) *compiled {
		c, err := compilePolicy(Policy{VHost: vhost, Name: name, Pattern: "^q", ApplyTo: "queues", Priority: n, Definition: definition(t, `{"max-length":7,"overflow":"drop-head"}`)}, false)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if *updateGolden {
		spec := VHostSpec{Name: "/"}
		records := [][]byte{fields{recNextLogID}.num(9), fields{recAccess}.num(accessVersion), vhostRecord(&spec),
			policyRecord(policy("/", "low", -5), false), policyRecord(policy("/", "high", 5), false), policyRecord(policy("gone", "p", 0), false),
			policyRecord(&compiled{Policy: Policy{VHost: "/", Name: "top", ApplyTo: "all", Definition: definition(t, `{"expires":9}`)}}, true),
			parameterRecord(&Parameter{"/", "shovel", "s", []byte(`{"a":1}`)}), parameterRecord(&Parameter{Name: "g", Value: []byte(`null`)}),
			queueRecord(recQueueDeclare, &VHost{Name: "/"}, &Queue{Name: "q", ID: 7}),
			// What only the journal has otherwise:
			policyRecord(policy("/", "cleared", 0), false), policyClearRecord("/", "cleared", false), policyClearRecord("/", "top2", true),
			parameterRecord(&Parameter{Name: "cleared", Value: []byte(`1`)}), parameterClearRecord(parameterKey{name: "cleared"}),
		}
		if err := os.WriteFile(filepath.Join("testdata", name), snapshotFile(302, records...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, seq := readGolden(t, name)
	b.matchPolicies()
	var lines []string
	for _, operator := range []bool{false, true} {
		for _, c := range b.vhosts["/"].policies.list(operator) {
			lines = append(lines, fmt.Sprint(operator, " ", c.Name, " ", c.Pattern, " ", c.ApplyTo, " ", c.Priority, " ", string(tablejson.Append(nil, c.Definition))))
		}
	}
	for _, p := range b.Parameters() {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", p.VHost, p.Component, p.Name, p.Value))
	}
	q := b.vhosts["/"].queues["q"].EffectivePolicy()
	lines = append(lines, q.Policy+" "+q.OperatorPolicy)
	want := []string{
		`false high ^q queues 5 {"max-length":7,"overflow":"drop-head"}`,
		`false low ^q queues -5 {"max-length":7,"overflow":"drop-head"}`,
		`true top  all 0 {"expires":9}`,
		`  g null`, `/ shovel s {"a":1}`, "high top",
	}
	if seq != 302 || !slices.Equal(lines, want) {
		t.Errorf("up to %d:\n%q\nwant\n%q", seq, lines, want)
	}
}

func BenchmarkPolicy_TenThousandQueues(b *testing.B) {
	e := openSim(b, sim.New(sim.Options{}))
	defer e.close()
	for i := range 10_000 {
		e.queue(QueueDeclare{Name: fmt.Sprint("queue.", i)}, nil)
	}
	b.ResetTimer()
	for i := range b.N {
		e.policy("p", `^queue\.`, fmt.Sprintf(`{"max-length":%d}`, 1000+i%2))
	}
}
