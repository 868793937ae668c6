package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// TestLogin: who gets in, and what the others are told.
func TestLogin(t *testing.T) {
	h := newTestHandler(t)
	addUser(t, h, "plain", "")
	addUser(t, h, "ann", "management")
	for _, step := range []struct {
		remote, user, password string
		status                 int
		reason                 string
	}{
		{"127.0.0.1:1", "", "", 401, "Login failed"},
		{"127.0.0.1:1", "ann", "wrong", 401, "Login failed"},
		{"127.0.0.1:1", "nobody", "nobody", 401, "Login failed"},
		{"127.0.0.1:1", "ann", "", 401, "Login failed"},
		{"127.0.0.1:1", "plain", "plain", 401, "Not management user"},
		{"127.0.0.1:1", "ann", "ann", 200, ""},
		{"192.0.2.1:1", "ann", "ann", 200, ""},
		{"127.0.0.1:1", "guest", "guest", 200, ""},
		{"[::1]:1", "guest", "guest", 200, ""},
		{"192.0.2.1:1", "guest", "guest", 401, "Login failed"},
		{"@", "guest", "guest", 401, "Login failed"}, // nobody knows from where
	} {
		r := httptest.NewRequest("GET", "/api/whoami", nil)
		r.RemoteAddr = step.remote
		if step.user != "" {
			r.SetBasicAuth(step.user, step.password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		challenge := w.Header().Get("WWW-Authenticate") != ""
		if w.Code != step.status || reasonOf(w) != step.reason || challenge != (step.reason == "Login failed") {
			t.Errorf("%+v: %d %s %v", step, w.Code, w.Body, w.Header())
		}
	}
	if w := as(h, "", "GET", "/api/auth/attempts/"+h.Node, ""); !strings.Contains(w.Body.String(), `[{"protocol":"http","auth_attempts":10,"auth_attempts_failed":5,"auth_attempts_succeeded":5}]`) {
		t.Errorf("attempts: %s", w.Body)
	}
	if w := as(h, "", "GET", "/api/auth/attempts/"+h.Node+"/source", ""); !strings.Contains(w.Body.String(), `{"remote_address":"192.0.2.1","username":"ann","protocol":"http","auth_attempts":1,"auth_attempts_failed":0,"auth_attempts_succeeded":1}`) {
		t.Errorf("attempts by source: %s", w.Body)
	}
	if w := as(h, "", "DELETE", "/api/auth/attempts/"+h.Node, ""); w.Code != http.StatusNoContent {
		t.Errorf("forget: %d %s", w.Code, w.Body)
	}
	if w := as(h, "", "GET", "/api/auth/attempts/"+h.Node+"/source", ""); strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("attempts that were forgotten: %s", w.Body)
	}
}

// tokens takes one token for a user.
type tokens struct {
	*broker.Broker
	later int
}

func (a *tokens) Authenticate(user, password []byte, remote netip.Addr) (broker.Login, error) {
	if len(user) > 0 || string(password) != "a.token" {
		return broker.Login{}, fmt.Errorf("%w: not the token", broker.ErrRefused)
	}
	login, err := a.Identify([]byte("ann"), remote)
	return broker.Login{Later: func() (broker.Login, error) { a.later++; return login, nil }}, err
}

// TestLogin_Bearer: a token comes to the authenticator as the password of nobody,
// and what takes long is waited for.
func TestLogin_Bearer(t *testing.T) {
	h := newTestHandler(t)
	addUser(t, h, "ann", "monitoring")
	a := &tokens{Broker: h.Broker}
	h.Authenticator = a
	for header, status := range map[string]int{"Bearer a.token": 200, "bearer  a.token ": 200, "Bearer b": 401, "Bearer": 401, "Bearer ": 401, "Digest a.token": 401, "Basic !": 401} {
		r := httptest.NewRequest("GET", "/api/whoami", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != status || status == 200 && !strings.Contains(w.Body.String(), `{"name":"ann","tags":["monitoring"]}`) {
			t.Errorf("%q: %d %s", header, w.Code, w.Body)
		}
	}
	if a.later != 2 {
		t.Errorf("the slow part was called %d times", a.later)
	}
}

// TestRoles: each route is closed to each role that it does not name.
func TestRoles(t *testing.T) {
	h := newTestHandler(t)
	refusals := map[string]bool{"Not management user": true, "Not monitor user": true, "Not administrator user": true, "User not authorised to access object": true}
	roles := []string{"none", access.TagManagement, access.TagPolicymaker, access.TagMonitoring, access.TagAdministrator}
	for _, tag := range roles {
		addUser(t, h, tag, strings.ReplaceAll(tag, "none", ""), "/")
	}
	has := func(tag string, needs Role) bool {
		switch needs {
		case None:
			return true
		case Management:
			return tag != "none"
		case PolicyMaker:
			return tag == access.TagPolicymaker || tag == access.TagAdministrator
		case Monitoring:
			return tag == access.TagMonitoring || tag == access.TagAdministrator
		}
		return tag == access.TagAdministrator
	}
	for _, tag := range roles {
		for i := range h.router.routes {
			rt := &h.router.routes[i]
			// Users and virtual hosts that are not there: nobody goes amiss.
			path := concretePath(rt, map[string]string{"vhost": "gone"})
			w := as(h, tag, rt.method, path, `{}`)
			refused := w.Code == http.StatusUnauthorized && refusals[reasonOf(w)]
			if refused == has(tag, rt.Role) {
				t.Errorf("%s as %s: %d %s", rt.Pattern, tag, w.Code, w.Body)
			}
		}
	}
}

// marker is in the name of everything that others must not see.
const marker = "s3cr3t"

// withSecret has a virtual host with one of each, and users that have nothing to do
// with it: the names of their roles.
func withSecret(t testing.TB) *Handler {
	h := newTestHandler(t)
	const vh = marker
	must(t, h, "PUT", "/api/vhosts/"+vh, `{"description":"`+marker+`"}`)
	must(t, h, "PUT", "/api/vhosts/mine", ``)
	for _, host := range []string{vh, "mine"} {
		name := map[string]string{vh: marker, "mine": "x"}[host]
		must(t, h, "PUT", "/api/queues/"+host+"/"+name, `{"durable":true}`)
		must(t, h, "PUT", "/api/exchanges/"+host+"/"+name, `{"type":"topic"}`)
		must(t, h, "POST", "/api/bindings/"+host+"/e/"+name+"/q/"+name, `{"routing_key":"`+name+`"}`)
		must(t, h, "PUT", "/api/policies/"+host+"/"+name, `{"pattern":"`+name+`","definition":{"max-length":5}}`)
		must(t, h, "PUT", "/api/operator-policies/"+host+"/"+name, `{"pattern":"`+name+`","definition":{"max-length":5}}`)
		must(t, h, "PUT", "/api/parameters/c/"+host+"/"+name, `{"value":"`+name+`"}`)
		must(t, h, "PUT", "/api/vhost-limits/"+host+"/max-queues", `{"value":50}`)
	}
	for _, tag := range []string{access.TagManagement, access.TagPolicymaker} {
		addUser(t, h, tag, tag, "mine")
	}
	return h
}

// secretState is all that can be changed in the secret virtual host.
func secretState(t testing.TB, h *Handler) string {
	return must(t, h, "GET", "/api/definitions/"+marker, "")
}

// TestIsolation: who has no permissions in a virtual host reaches nothing in it,
// however he writes its name, and changes nothing.
func TestIsolation(t *testing.T) {
	h := withSecret(t)
	before := secretState(t, h)
	exact := map[string]bool{marker: true, "%73%33cr3t": true}
	spellings := []string{marker, "%73%33cr3t", "S3CR3T", "mine%2F..%2F" + marker, marker + "%00", "%2F" + marker, "./" + marker, "../" + marker, "mine/../" + marker, marker + "/", marker + "%2F", marker + "%20"}
	for _, tag := range []string{access.TagManagement, access.TagPolicymaker} {
		for i := range h.router.routes {
			rt := &h.router.routes[i]
			for _, spelling := range spellings {
				values := map[string]string{"vhost": spelling, "name": marker, "source": marker, "destination": marker, "component": "c", "limit": "max-queues", "props": marker}
				path := concretePath(rt, values)
				w := as(h, tag, rt.method, path, `{"pattern":"a","definition":{"max-length":1},"value":1,"routing_key":"k","configure":"","write":"","read":"","payload":"x","payload_encoding":"string","properties":{},"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`)
				if exact[spelling] && strings.Contains(rt.Pattern, "{vhost}") && w.Code < 400 || w.Code < 300 && strings.Contains(w.Body.String(), marker) {
					t.Errorf("%s %s as %s: %d %s", rt.method, path, tag, w.Code, w.Body)
				}
			}
		}
	}
	if after := secretState(t, h); after != before {
		t.Errorf("%s\nhas become\n%s", before, after)
	}
	if w, v := as(h, access.TagManagement, "GET", "/api/queues/"+marker, ""), as(h, access.TagManagement, "GET", "/api/queues/nope", ""); w.Code != 401 || v.Code != 401 || w.Body.String() != v.Body.String() {
		t.Errorf("what is there and what is not are told apart: %d %s, %d %s", w.Code, w.Body, v.Code, v.Body)
	}
}

// TestPermissions: what is done over HTTP takes the permissions that it takes over
// AMQP, of administrators, too.
func TestPermissions(t *testing.T) {
	h := newTestHandler(t)
	must(t, h, "PUT", "/api/vhosts/v", "")
	addUser(t, h, "ann", "administrator")
	must(t, h, "PUT", "/api/permissions/v/ann", `{"configure":"^c","write":"^w","read":"^r"}`)
	for _, name := range []string{"c", "w", "r", "x"} {
		must(t, h, "PUT", "/api/queues/v/"+name, "")
		must(t, h, "PUT", "/api/exchanges/v/"+name, `{"type":"topic"}`)
	}
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/api/queues/v/c1", "{}", 201},
		{"PUT", "/api/queues/v/x1", "{}", 401},
		{"PUT", "/api/queues/%2F/c1", "{}", 401}, // no permissions there
		{"DELETE", "/api/queues/v/x", "", 401},
		{"DELETE", "/api/queues/v/c1", "", 204},
		{"DELETE", "/api/queues/v/x/contents", "", 401},
		{"DELETE", "/api/queues/v/r/contents", "", 200},
		{"PUT", "/api/exchanges/v/x1", "{}", 401},
		{"PUT", "/api/exchanges/v/c1", `{"type":"fanout"}`, 201},
		{"PUT", "/api/exchanges/v/c1", `{"type":"fanout"}`, 204},
		{"PUT", "/api/exchanges/v/c1", `{"type":"direct"}`, 400},
		{"PUT", "/api/exchanges/v/c2", `{"arguments":{"alternate-exchange":"x"}}`, 401},
		{"DELETE", "/api/exchanges/v/x", "", 401},
		{"DELETE", "/api/exchanges/v/c1", "", 204},
		{"DELETE", "/api/exchanges/v/c1", "", 404},
		{"POST", "/api/bindings/v/e/r/q/w", `{"routing_key":"k"}`, 201},
		{"POST", "/api/bindings/v/e/x/q/w", `{"routing_key":"k"}`, 401},
		{"POST", "/api/bindings/v/e/r/q/x", `{"routing_key":"k"}`, 401},
		{"DELETE", "/api/bindings/v/e/r/q/w/k", "", 204},
		{"DELETE", "/api/bindings/v/e/r/q/w/k", "", 404},
		{"POST", "/api/bindings/v/e/r/e/w", `{"routing_key":"k"}`, 201},
		{"POST", "/api/bindings/v/e/r/q/none", `{"routing_key":"k"}`, 401},
	} {
		if w := as(h, "ann", step.method, step.path, step.body); w.Code != step.status {
			t.Errorf("%s %s: %d %s, want %d", step.method, step.path, w.Code, w.Body, step.status)
		}
	}
}
