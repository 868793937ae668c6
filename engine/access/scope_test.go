package access

import (
	"strings"
	"testing"
)

func scoped(t testing.TB, list ...Scope) *User {
	t.Helper()
	u, err := NewScopedUser(Spec{Name: "joe", Tags: []string{"management"}}, list)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestScopes(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	u := scoped(t,
		Scope{Permission: Read, VHost: "*", Name: "*"},
		Scope{Permission: Write, VHost: "prod-*", Name: "orders.*"},
		Scope{Permission: Write, VHost: "prod-*", Name: "a+b"},
		Scope{Permission: Configure, VHost: "dev", Name: "*-tmp-*"},
	)
	if !u.HasTag("management") || u.HasTag("administrator") {
		t.Error("tags")
	}
	rows := []struct {
		vhost string
		p     Permission
		name  string
		want  bool
	}{
		{"any", Read, "x", true}, {"any", Read, "", true}, {"any", Write, "x", false}, {"any", Write, "", false}, {"any", Configure, "x", false},
		{"prod-1", Write, "orders.x", true}, {"prod-1", Write, "orders.", true}, {"prod-1", Write, "ordersXx", false}, {"prod-1", Write, "my-orders.x", false},
		{"prod-1", Write, "orders.\nx", true}, {"prod-1", Write, "a+b", true}, {"prod-1", Write, "aab", false},
		{"dev", Configure, "my-tmp-q", true}, {"dev", Configure, "tmp", false}, {"development", Configure, "a-tmp-b", false},
	}
	for _, row := range rows {
		for range 2 {
			if got := r.Grant(u, row.vhost).Allows(row.p, []byte(row.name)); got != row.want {
				t.Errorf("%+v: %v", row, got)
			}
		}
	}
	none := scoped(t, Scope{Permission: Read, VHost: "v", Name: "*"})
	if r.Grant(none, "w").Granted() || !r.Grant(none, "v").Granted() || r.Grant(none, "v").HasTopics() {
		t.Error("virtual hosts")
	}
	if g := r.Grant(scoped(t), "v"); g.Granted() {
		t.Error("no scopes, and yet")
	}
}

func TestScopes_RoutingKeys(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	u := scoped(t,
		Scope{Permission: Write, VHost: "v", Name: "t*", RoutingKey: "eu.*"},
		Scope{Permission: Write, VHost: "v", Name: "free"},
		Scope{Permission: Read, VHost: "v", Name: "*", RoutingKey: "a"},
	)
	g := r.Grant(u, "v")
	if !g.HasTopics() || !g.Allows(Write, []byte("topic")) {
		t.Fatal("not restricted")
	}
	for _, row := range []struct {
		p             Permission
		exchange, key string
		want          bool
	}{
		{Write, "topic", "eu.x", true}, {Write, "topic", "us.x", false}, {Write, "free", "us.x", true},
		{Read, "topic", "a", true}, {Read, "topic", "b", false}, {Write, "other", "eu.x", false},
	} {
		if got := g.AllowsTopic(row.p, []byte(row.exchange), []byte(row.key), ""); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

func TestScopes_Bounds(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]Scope{
		"many":  make([]Scope, scopesMax+1),
		"UTF-8": {{Name: "\xff"}},
		"long":  {{Name: strings.Repeat("x", scopeBytesMax+1)}},
	} {
		if _, err := NewScopedUser(Spec{Name: "joe"}, list); !IsReason(err, Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewScopedUser(Spec{}, nil); !IsReason(err, Invalid) {
		t.Errorf("no name: %v", err)
	}
	u, r := scoped(t, Scope{Permission: Read, VHost: "*", Name: "*"}), NewRegistry()
	for i := range 3 * scopedVHostsMax {
		if !r.Grant(u, strings.Repeat("v", i+1)).Granted() {
			t.Fatal(i)
		}
	}
	if n := len(u.scopes.grants); n > scopedVHostsMax {
		t.Errorf("%d grants are kept", n)
	}
}
