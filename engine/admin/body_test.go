package admin

import (
	"net/http"
	"strings"
	"testing"
)

// withEverything is a handler with all that routes name when their segments are
// filled with their own names.
func withEverything(t testing.TB) *Handler {
	h := newTestHandler(t)
	must(t, h, "PUT", "/api/vhosts/vhost", "")
	addUser(t, h, "user", "")
	for _, name := range []string{"name", "destination"} {
		must(t, h, "PUT", "/api/queues/vhost/"+name, "")
	}
	for _, name := range []string{"name", "source", "destination"} {
		must(t, h, "PUT", "/api/exchanges/vhost/"+name, "")
	}
	return h
}

// TestBodies: what others read in another way than it is meant is refused, by all
// that take a body; and what is said of it is no matter of Go's.
func TestBodies(t *testing.T) {
	h := withEverything(t)
	before := must(t, h, "GET", "/api/definitions", "")
	described := describedRoutes()
	asked := 0
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		if rt.method == http.MethodGet || rt.Body == nil && described[rt.Pattern].body == nil {
			continue
		}
		asked++
		path := concretePath(rt, map[string]string{"limit": "max-connections"})
		for _, body := range []string{
			`{"a":1,"a":2}`, `{"value":1,"v\u0061lue":2}`, "{\"a\":\"\xff\"}", "{\"\xc3\x28\":1}", "{\"value\":1}\x00", `{"value":1}}`, `{"value":1}{}`, `{"value":1`,
			`[]`, `"{}"`, `7`, `true`, "\xff\xfe{\x00}\x00", strings.Repeat(`{"value":`, 20000), strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
		} {
			w := as(h, "", rt.method, path, body)
			if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "Go ") || strings.Contains(w.Body.String(), "json:") {
				t.Errorf("%s with %.30q: %d %s", rt.Pattern, body, w.Code, w.Body)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d routes are said to take a body", asked)
	}
	if after := must(t, h, "GET", "/api/definitions", ""); after != before {
		t.Errorf("%s\nhas become\n%s", before, after)
	}
}

// TestBodies_Spelling: a field under another spelling of its name is another field.
func TestBodies_Spelling(t *testing.T) {
	h := withEverything(t)
	must(t, h, "PUT", "/api/users/eve", `{"password":"eve","tags":"","Tags":"administrator","TAGS":["administrator"]}`)
	must(t, h, "POST", "/api/definitions", `{"users":[{"name":"mal","password_hash":"","tags":"","Tags":"administrator"}]}`)
	for _, name := range []string{"eve", "mal"} {
		if s, err := h.Broker.User(name); err != nil || len(s.Tags) > 0 {
			t.Errorf("%v, %v", s, err)
		}
	}
	must(t, h, "PUT", "/api/queues/vhost/q", `{"durable":true,"Durable":false,"arguments":{"x-expires":100000},"Arguments":{"x-expires":1}}`)
	if q := h.Broker.VHost("vhost").FindQueue("q"); !q.Durable {
		t.Errorf("%+v", q)
	}
	must(t, h, "PUT", "/api/policies/vhost/p", `{"pattern":"a","PATTERN":"","definition":{"max-length":1},"Definition":{"max-length":2},"apply-to":"queues","Apply-To":"all"}`)
	if got := must(t, h, "GET", "/api/policies/vhost/p", ""); got != `{"vhost":"vhost","name":"p","pattern":"a","apply-to":"queues","priority":0,"definition":{"max-length":1}}`+"\n" {
		t.Error(got)
	}
}

// TestBodies_Nested: nothing is kept that readers of lists cannot read.
func TestBodies_Nested(t *testing.T) {
	h := withEverything(t)
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for path, status := range map[string]int{"/api/global-parameters/a": 201, "/api/parameters/c/vhost/a": 201} {
		if w := as(h, "", "PUT", path, `{"value":`+nest(64)+`}`); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := as(h, "", "PUT", path, `{"value":`+nest(65)+`}`); w.Code != 400 || !strings.Contains(w.Body.String(), "nested") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := as(h, "", "POST", "/api/definitions", `{"global_parameters":[{"name":"b","value":{"\"[":`+nest(64)+`}}]}`); w.Code != 400 || !strings.Contains(w.Body.String(), "nested") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	must(t, h, "PUT", "/api/global-parameters/c", `{"value":"`+strings.Repeat("[", 1000)+`\"`+strings.Repeat("{", 1000)+`"}`)
}
