package definitions

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

var updateGolden = flag.Bool("update", false, "write testdata anew")

// TestImport_RabbitMQ imports a file of RabbitMQ, holds what is exported then,
// and that both a restart and another import change nothing of it.
func TestImport_RabbitMQ(t *testing.T) {
	dir := t.TempDir()
	n := open(t, dir)
	file := readFile(t, "rabbitmq.json")
	if r := mustImport(t, n, file, ""); r.Changes == 0 || len(r.Ignored) > 0 {
		t.Errorf("%+v", r)
	}
	got := export(t, n.Broker, "")
	golden := filepath.Join("testdata", "exported.json")
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readFile(t, "exported.json"); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	for _, again := range []string{file, got} {
		if r := mustImport(t, n, again, ""); r.Changes != 0 {
			t.Errorf("importing again changed %d things", r.Changes)
		}
	}
	vh := n.VHost("shop")
	q, err := vh.Queue([]byte("orders"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := q.EffectivePolicy(); p.Policy != "orders" || p.OperatorPolicy != "ceiling" ||
		string(TableJSON(p.Definition)) != `{"dead-letter-exchange":"orders.dead","max-length":100000,"message-ttl":86400000}` {
		t.Errorf("policies %+v: %s", p, TableJSON(p.Definition))
	}
	if u, _ := n.User("shop"); !u.Password.Matches([]byte("test12")) {
		t.Error("the password does not match its hash")
	}

	crashed := open(t, copyDir(t, dir))
	if again := export(t, crashed.Broker, ""); again != got {
		t.Errorf("after a crash\n%s\nwant\n%s", again, got)
	}
	n.stop()
	n = open(t, dir)
	if again := export(t, n.Broker, ""); again != got {
		t.Errorf("after a restart\n%s\nwant\n%s", again, got)
	}
	if q, err := n.VHost("shop").Queue([]byte("orders"), nil); err != nil || q.EffectivePolicy().Policy != "orders" {
		t.Errorf("after a restart the policy does not apply: %v", err)
	}
}

// TestImport_SingleVHost moves what is in one virtual host to another.
func TestImport_SingleVHost(t *testing.T) {
	n := open(t, t.TempDir())
	mustImport(t, n, readFile(t, "rabbitmq.json"), "")
	mustImport(t, n, `{"vhosts":[{"name":"copy"}]}`, "")
	one := export(t, n.Broker, "shop")
	if strings.Contains(one, `"vhost"`) || strings.Contains(one, `"users"`) {
		t.Errorf("the file of a single virtual host has\n%s", one)
	}
	mustImport(t, n, one, "copy")
	if copied := export(t, n.Broker, "copy"); copied != one {
		t.Errorf("copied\n%s\nwant\n%s", copied, one)
	}
	_, err := Import(n.Broker, []byte(readFile(t, "rabbitmq.json")), "copy")
	if err == nil || !strings.Contains(err.Error(), "$.users: belongs to no single virtual host") {
		t.Errorf("a file of everything into one virtual host: %v", err)
	}
	_, err = Import(n.Broker, []byte(one), "")
	if err == nil || !strings.Contains(err.Error(), "$.queues[0]: 'vhost' is missing") {
		t.Errorf("a file of one virtual host into all: %v", err)
	}
}

// TestImport_Refused: each problem is named with its place, and nothing changes.
func TestImport_Refused(t *testing.T) {
	n := open(t, t.TempDir())
	mustImport(t, n, `{"vhosts":[{"name":"v"}],
		"queues":[{"name":"q","vhost":"v","durable":true}],
		"exchanges":[{"name":"e","vhost":"v","type":"topic"}]}`, "")
	before := export(t, n.Broker, "")
	seq := n.Definitions().Last()
	for file, want := range map[string]string{
		``:                 "$: is not a JSON object",
		`[]`:               "$: is array instead of an object",
		`{} {}`:            "$: has something behind",
		`{"queues":{}}`:    "$.queues: is not an array",
		`{"queues":["q"]}`: "$.queues[0]: is string instead of an object",
		`{"queues":[{"name":"a","vhost":"v"},{"vhost":"v"}]}`:                                                      "$.queues[1]: 'name' is missing",
		`{"queues":[{"name":"","vhost":"v"}]}`:                                                                     "$.queues[0]: the queue has no name",
		`{"queues":[{"name":7,"vhost":"v"}]}`:                                                                      "'name' is number instead of a text",
		`{"queues":[{"name":"a","vhost":"none"}]}`:                                                                 "there is no virtual host 'none'",
		`{"queues":[{"name":"q","vhost":"v","durable":false}]}`:                                                    "inequivalent arg 'durable'",
		`{"queues":[{"name":"q","vhost":"v","arguments":{"x-expires":1}}]}`:                                        "inequivalent arg 'x-expires'",
		`{"queues":[{"name":"a","vhost":"v"},{"name":"a","vhost":"v","auto_delete":true}]}`:                        "$.queues[1]: inequivalent arg 'auto_delete'",
		`{"queues":[{"name":"a","vhost":"v","arguments":[1]}]}`:                                                    "'arguments' is not an object",
		`{"queues":[{"name":"a","vhost":"v","arguments":{"x-a":99999999999999999999}}]}`:                           "does not fit 64 bits",
		`{"exchanges":[{"name":"a","vhost":"v","type":"magic"}]}`:                                                  "unknown exchange type 'magic'",
		`{"exchanges":[{"name":"amq.new","vhost":"v","type":"topic"}]}`:                                            "reserved prefix",
		`{"exchanges":[{"name":"e","vhost":"v","type":"direct"}]}`:                                                 "inequivalent arg 'type'",
		`{"exchanges":[{"name":"","vhost":"v","type":"direct"}]}`:                                                  "the exchange has no name",
		`{"bindings":[{"source":"e","vhost":"v","destination":"nq","destination_type":"queue","routing_key":""}]}`: "no queue 'nq'",
		`{"bindings":[{"source":"ne","vhost":"v","destination":"q","destination_type":"queue","routing_key":""}]}`: "no exchange 'ne'",
		`{"bindings":[{"source":"e","vhost":"v","destination":"q","destination_type":"stream","routing_key":""}]}`: "must be queue or exchange",
		`{"bindings":[{"source":"","vhost":"v","destination":"q","destination_type":"queue","routing_key":"x"}]}`:  "default exchange",
		`{"exchanges":[{"name":"h","vhost":"v","type":"x-consistent-hash"}],"bindings":[{"source":"h","vhost":"v","destination":"q","destination_type":"queue","routing_key":"heavy"}]}`: "$.bindings[0]:",
		`{"users":[{"name":"u","password_hash":"nonsense","hashing_algorithm":"rabbit_password_hashing_sha256"}]}`:                                                                       "$.users[0]: the password hash",
		`{"users":[{"name":"u","tags":7}]}`:                                                                                                                               "'tags' is neither",
		`{"users":[{"name":"u","limits":{"max-fun":7}}]}`:                                                                                                                 "there is no limit 'max-fun'",
		`{"permissions":[{"user":"nobody","vhost":"v","configure":"","write":"","read":""}]}`:                                                                             "there is no user 'nobody'",
		`{"permissions":[{"user":"nobody","vhost":"v","configure":""}]}`:                                                                                                  "'write' is missing",
		`{"users":[{"name":"u"}],"permissions":[{"user":"u","vhost":"v","configure":"(?=x)","write":"","read":""}]}`:                                                      "look-ahead",
		`{"users":[{"name":"u"}],"permissions":[{"user":"u","vhost":"w","configure":"","write":"","read":""}]}`:                                                           "there is no virtual host 'w'",
		`{"vhosts":[{"name":"w","default_queue_type":"fast"}]}`:                                                                                                           "'fast' is not a queue type",
		`{"policies":[{"vhost":"v","name":"p","pattern":"(","definition":{"max-length":1}}]}`:                                                                             "is not a regular expression",
		`{"policies":[{"vhost":"v","name":"p","pattern":"","definition":{"max-size":1}}]}`:                                                                                "the key 'max-size', which is not known",
		`{"policies":[{"vhost":"v","name":"p","pattern":"","definition":{"max-length":"1"}}]}`:                                                                            "max-length must be a whole number",
		`{"policies":[{"vhost":"v","name":"p","pattern":"","priority":"high","definition":{"max-length":1}}]}`:                                                            "'priority' is string instead of a whole number",
		`{"policies":[{"vhost":"v","name":"p","pattern":""}]}`:                                                                                                            "'definition' is missing",
		`{"parameters":[{"vhost":"v","component":"operator_policy","name":"p","value":{"pattern":"","definition":{"overflow":"drop-head"}}}]}`:                            "only policies may have",
		`{"parameters":[{"vhost":"v","component":"vhost-limits","name":"limits","value":{"max-queues":"1"}}]}`:                                                            "limits are not an object",
		`{"parameters":[{"vhost":"none","component":"shovel","name":"s","value":{}}]}`:                                                                                    "there is no virtual host 'none'",
		`{"parameters":[{"vhost":"v","component":"shovel","name":"s"}]}`:                                                                                                  "'value' is missing",
		`{"parameters":[{"vhost":"v","component":"vhost-limits","name":"limits","value":{"max-queues":2}}],"queues":[{"name":"a","vhost":"v"},{"name":"b","vhost":"v"}]}`: "$.queues[1]: cannot declare queue 'b': queue limit",
	} {
		_, err := Import(n.Broker, []byte(file), "")
		var refused *Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != len(refused.Lines) {
			t.Errorf("%s:\n%v\nwant %q", file, err, want)
		}
		if got := export(t, n.Broker, ""); got != before || n.Definitions().Last() != seq {
			t.Fatalf("%s was refused, and changed\n%s", file, got)
		}
	}
	// All problems are reported at once.
	_, err := Import(n.Broker, []byte(`{"queues":[{"name":"q","vhost":"v","durable":false},{"name":"ok","vhost":"v"},{"name":"a","vhost":"x"}],
		"policies":[{"vhost":"y","name":"p","pattern":"","definition":{"max-length":1}}]}`), "")
	for _, at := range []string{"$.queues[0]", "$.queues[2]", "$.policies[0]", "3 problems"} {
		if err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%v lacks %s", err, at)
		}
	}
}

// TestImport_NamedTwice: what a file says last of a thing counts, and importing
// it again changes nothing, whatever it said before.
func TestImport_NamedTwice(t *testing.T) {
	n := open(t, t.TempDir())
	twice := func(section, one, two string) string { return fmt.Sprintf("%q:[{%s},{%s}]", section, one, two) }
	file := "{" + strings.Join([]string{
		twice("vhosts", `"name":"v","description":"one"`, `"name":"v","description":"two"`),
		twice("users", `"name":"u","password":"one","tags":"a","limits":{"max-channels":7}`, `"name":"u","password":"two","tags":"b"`),
		twice("permissions", `"user":"u","vhost":"v","configure":"one","write":"","read":""`, `"user":"u","vhost":"v","configure":"two","write":"","read":""`),
		twice("topic_permissions", `"user":"u","vhost":"v","exchange":"amq.topic","write":"one","read":""`, `"user":"u","vhost":"v","exchange":"amq.topic","write":"two","read":""`),
		twice("policies", `"vhost":"v","name":"p","pattern":"one","definition":{"max-length":1}`, `"vhost":"v","name":"p","pattern":"two","definition":{"max-length":2}`),
		twice("parameters", `"vhost":"v","component":"shovel","name":"s","value":"one"`, `"vhost":"v","component":"shovel","name":"s","value":"two"`),
		twice("global_parameters", `"name":"g","value":"one"`, `"name":"g","value":"two"`),
	}, ",") + "}"
	if r, err := Import(n.Broker, []byte(file), ""); err != nil || r.Changes != 7 {
		t.Fatalf("%d changes, %v", r.Changes, err)
	}
	got := export(t, n.Broker, "")
	if strings.Contains(got, `"one"`) || strings.Count(got, `"two"`) != 6 || !strings.Contains(got, `"max-channels":7`) {
		t.Errorf("what came first is there, or what came last is not:\n%s", got)
	}
	users := n.Users()
	if i := slices.IndexFunc(users, func(s access.Spec) bool { return s.Name == "u" }); i < 0 || !users[i].Password.Matches([]byte("two")) || !slices.Equal(users[i].Tags, []string{"b"}) {
		t.Errorf("the users are %+v", users)
	}
	if r, err := Import(n.Broker, []byte(file), ""); err != nil || r.Changes != 0 || export(t, n.Broker, "") != got {
		t.Errorf("importing it again changed %d things: %v", r.Changes, err)
	}
}

// many is a file with so many queues, and bindings for each.
func many(queues, each int) string {
	var b strings.Builder
	b.WriteString(`{"vhosts":[{"name":"v"}],"exchanges":[{"name":"e","vhost":"v","type":"topic"}],"queues":[`)
	for i := range queues {
		fmt.Fprintf(&b, `{"name":"q%d","vhost":"v","durable":true},`, i)
	}
	b.WriteString(`{"name":"last","vhost":"v"}],"bindings":[`)
	for i := range queues * each {
		fmt.Fprintf(&b, `{"source":"e","vhost":"v","destination":"q%d","destination_type":"queue","routing_key":"key.%d.#"},`, i/each, i)
	}
	b.WriteString(`{"source":"e","vhost":"v","destination":"last","destination_type":"queue","routing_key":""}]}`)
	return b.String()
}

// TestImport_Many imports 2,000 queues and 20,000 bindings as one record, and
// finds them after a crash and after a restart.
func TestImport_Many(t *testing.T) {
	const queues, each = 2000, 10
	file := many(queues, each)
	d := sim.New(sim.Options{})
	n := openDisk(t, d)
	before := n.Definitions().Last()
	r := mustImport(t, n, file, "")
	if n.Definitions().Last() != before+2 { // one more says that there are records of virtual hosts
		t.Errorf("the import made %d records", n.Definitions().Last()-before)
	}
	if want := queues + queues*each + 4; r.Changes != want {
		t.Errorf("%d changes, want %d", r.Changes, want)
	}
	if again := mustImport(t, n, file, ""); again.Changes != 0 {
		t.Errorf("importing again changed %d things", again.Changes)
	}
	want := export(t, n.Broker, "")
	crashed, stopped := openDisk(t, d.Kill()), openDisk(t, d.PowerCut())
	if got := export(t, crashed.Broker, ""); got != want {
		t.Error("after a crash there is something else")
	}
	if got := export(t, stopped.Broker, ""); got != want {
		t.Error("after a power cut there is something else")
	}
	n.stop()
	crashed.stop()
	stopped.stop()
}

// BenchmarkImport_TenThousand imports 10,000 queues and 100,000 bindings.
func BenchmarkImport_TenThousand(b *testing.B) {
	file := many(10_000, 10)
	b.SetBytes(int64(len(file)))
	for range b.N {
		n := openDisk(b, sim.New(sim.Options{}))
		mustImport(b, n, file, "")
		b.StopTimer()
		n.stop()
		b.StartTimer()
	}
}
