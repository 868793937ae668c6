package access

import (
	"fmt"
	"strings"
	"testing"
)

// TestPattern holds RabbitMQ's semantics: re:run without anchors, case counts,
// the empty pattern is ^$.
func TestPattern(t *testing.T) {
	t.Parallel()
	rows := []struct {
		source, name string
		want         bool
	}{
		{"", "q", false},
		{"", "", true},
		{"^$", "q", false},
		{".*", "anything at all", true},
		{"^.*$", "q", true},
		{"a", "bab", true}, // anywhere
		{"^a", "bab", false},
		{"b$", "bab", true},
		{"^app-", "app-queue", true},
		{"^app-", "App-queue", false},
		{"(?i)^app-", "App-queue", true},
		{"^(a|b)$", "ab", false},
		{"^amq\\.gen.*", "amq.gen-x", true},
		{"^amq\\.gen.*", "amqXgen-x", false},
		{"ü", "Grün", true},
		{".", "\xff", true},
		{"^[^.]+\\.x$", "a.b.x", false},
		{"^q{2}$", "qq", true},
	}
	for _, row := range rows {
		p, err := compile(row.source)
		if err != nil {
			t.Errorf("%q: %v", row.source, err)
			continue
		}
		if got := p.match([]byte(row.name)); got != row.want {
			t.Errorf("%q matches %q: %v, want %v", row.source, row.name, got, row.want)
		}
	}
}

func TestPattern_Refused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"(":                          "missing closing )",
		"*":                          "missing argument to repetition operator",
		"[z-a]":                      "invalid character class range",
		"^(?!amq\\.).*":              "look-ahead",
		"(?<=x)y":                    "look-behind",
		"(a)\\1":                     "back-references",
		"a*+":                        "possessive",
		strings.Repeat("a", 5000):    "too long",
		"a{2000}":                    "invalid repeat count",
		"name\\Z":                    `\z`,
		"(?>a)":                      "atomic",
		"\xff":                       "invalid UTF-8",
		strings.Repeat("(", 100_000): "too long",
	} {
		if _, err := compile(source); !IsReason(err, Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", source, err, want)
		}
	}
}

func grantOf(t testing.TB, p Permissions) *Grant {
	t.Helper()
	g, err := (*Grant)(nil).with(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGrant_PerPermission(t *testing.T) {
	t.Parallel()
	g := grantOf(t, Permissions{Configure: "^c", Write: "^w", Read: "^r"})
	for p, letter := range map[Permission]string{Configure: "c", Write: "w", Read: "r"} {
		for _, name := range []string{"c", "w", "r"} {
			for range 2 { // the second answer is the cache's
				if got := g.Allows(p, []byte(name)); got != (name == letter) {
					t.Errorf("%s of %s: %v", p, name, got)
				}
			}
		}
	}
	var none *Grant
	if none.Granted() || none.Allows(Read, []byte("r")) || none.HasTopics() || !none.AllowsTopic(Read, []byte("e"), []byte("k"), "") {
		t.Error("nobody's grant")
	}
}

// TestGrant_CacheIsBounded and still right when it overflows.
func TestGrant_CacheIsBounded(t *testing.T) {
	t.Parallel()
	g := grantOf(t, Permissions{Read: "[02468]$"})
	for round := range 3 {
		for i := range 2 * cacheEntriesMax {
			if got := g.Allows(Read, fmt.Appendf(nil, "q%d", i)); got != (i%2 == 0) {
				t.Fatalf("round %d: q%d: %v", round, i, got)
			}
		}
		if n := len(g.caches[Read].answers); n == 0 || n > cacheEntriesMax {
			t.Fatalf("%d cached answers", n)
		}
	}
}

func TestGrant_KnownAnswersAllocateNothing(t *testing.T) {
	g := grantOf(t, Permissions{Configure: ".*", Write: "^orders", Read: ""})
	g = g.withTopics(map[string]*topicGrant{})
	topic, err := newTopicGrant(TopicPermissions{Write: "^{username}\\."}, "joe", "/")
	if err != nil {
		t.Fatal(err)
	}
	g.topics["amq.topic"] = topic
	exchange, key, name := []byte("amq.topic"), []byte("joe.1"), []byte("orders")
	if n := testing.AllocsPerRun(100, func() {
		if !g.Allows(Write, name) || !g.Allows(Configure, name) || g.Allows(Read, name) || !g.AllowsTopic(Write, exchange, key, "") {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGrant_Topics(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	if err := r.Add(Spec{Name: "a.b"}); err != nil {
		t.Fatal(err)
	}
	set := func(exchange, write, read string) {
		t.Helper()
		if err := r.SetTopicPermissions("a.b", "/v", exchange, TopicPermissions{Write: write, Read: read}); err != nil {
			t.Fatal(err)
		}
	}
	set("t1", "^{vhost}-{username}-", "")
	set("t2", "", "^{client_id}\\.")
	g := r.Grant(r.User([]byte("a.b")), "/v")
	if g.Granted() || g.Allows(Read, []byte("x")) {
		t.Error("topic permissions give no others")
	}
	rows := []struct {
		p                     Permission
		exchange, key, client string
		want                  bool
	}{
		{Write, "t1", "/v-a.b-x", "", true},
		{Write, "t1", "/v-aXb-x", "", false}, // the user's name is no pattern
		{Write, "t1", "x", "", false},
		{Read, "t1", "anything", "", false}, // empty is ^$
		{Read, "t1", "", "", true},
		{Write, "other", "anything", "", true}, // nothing set
		{Read, "t2", "c1.x", "c1", true},
		{Read, "t2", "c1.x", "c2", false},
		{Read, "t2", "anything.x", ".*", false},
		{Read, "t2", "{client_id}.x", "", true}, // no client id: it stands for itself
		{Read, "t2", "c1.x", "", false},
	}
	for _, row := range rows {
		if got := g.AllowsTopic(row.p, []byte(row.exchange), []byte(row.key), row.client); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
	if err := r.SetTopicPermissions("a.b", "/v", "t1", TopicPermissions{Write: "("}); !IsReason(err, Invalid) {
		t.Errorf("bad pattern: %v", err)
	}
	if err := r.SetTopicPermissions("a.b", "/v", "", TopicPermissions{}); !IsReason(err, Invalid) {
		t.Errorf("no exchange: %v", err)
	}
	if got := r.Grant(r.User([]byte("a.b")), "/v"); got != g {
		t.Error("a refused change changed something")
	}
	if err := r.ClearTopicPermissions("a.b", "/v", "t1"); err != nil {
		t.Fatal(err)
	}
	if list := r.ListTopicPermissions("a.b", "/v"); len(list) != 1 || list[0].Exchange != "t2" || list[0].Read != "^{client_id}\\." {
		t.Errorf("%+v", list)
	}
	if err := r.SetPermissions("a.b", "/v", Permissions{Read: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := r.ClearPermissions("a.b", "/v"); err != nil {
		t.Fatal(err)
	}
	if g = r.Grant(r.User([]byte("a.b")), "/v"); !g.HasTopics() || g.Granted() {
		t.Error("topic permissions went with the others")
	}
	if err := r.ClearTopicPermissions("a.b", "/v", ""); err != nil {
		t.Fatal(err)
	}
	if g = r.Grant(r.User([]byte("a.b")), "/v"); g != nil {
		t.Errorf("%+v is left", g)
	}
}
