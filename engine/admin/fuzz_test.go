package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzRequest sends arbitrary requests: each is answered, with JSON unless there
// is nothing to say, and never with an error of the broker's own.
func FuzzRequest(f *testing.F) {
	h := newTestHandler(f)
	seen := map[string]bool{}
	for _, r := range h.router.routes {
		p := "/" + strings.Join(r.segments, "/")
		for name, value := range map[string]string{"{vhost}": "%2F", "{limit}": "max-queues", "{node}": h.Node, "{port}": "5672"} {
			p = strings.ReplaceAll(p, name, value)
		}
		p = strings.NewReplacer("{", "", "}", "").Replace(p)
		if !seen[r.method+p] {
			f.Add(r.method, p, []byte(`{"pattern":"","definition":{"max-length":1},"value":7,"password":"x"}`))
			seen[r.method+p] = true
		}
	}
	f.Add("PUT", "/api/users/%zz", []byte(`{}`))
	f.Add("POST", "/api/definitions", []byte(`{"queues":[{"name":"q","vhost":"/"}],"vhosts":[{"name":"v"}]}`))
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		r, err := http.NewRequest(method, "http://broker"+path, bytes.NewReader(body))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(trusted(r.Context(), nil)))
		if w.Code >= 500 && !strings.Contains(path, "health") {
			t.Fatalf("%s %s %q: %d %s", method, path, body, w.Code, w.Body)
		}
		if kind := w.Header().Get("Content-Type"); strings.HasPrefix(kind, "text/html") {
			return // pages for readers
		}
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) || w.Body.Len() == 0 && w.Code != http.StatusNoContent && w.Code != http.StatusCreated && method != http.MethodOptions {
			t.Fatalf("%s %s %q: %d, and the answer is %q", method, path, body, w.Code, w.Body)
		}
	})
}

// FuzzPath sends requests of somebody with one virtual host, with paths, query
// strings and headers of any kind: he never sees what is in another, and changes
// nothing there.
func FuzzPath(f *testing.F) {
	h := withSecret(f)
	before := secretState(f, h)
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		f.Add(rt.method, concretePath(rt, map[string]string{"vhost": marker, "name": marker, "node": h.Node}), "page=1&columns=name", "X-Vhost", marker)
	}
	f.Add("GET", "/api/queues/mine%2F..%2F"+marker, "sort=a.b.c&sort_reverse=true", "Authorization", "Bearer x")
	f.Add("DELETE", "/api//queues/%2e%2e/"+marker, "if-unused=1", "Authorization", "Basic Og==")
	f.Add("GET", "/api/definitions", "%zz;&=", "X-Reason", "\r\n")
	f.Fuzz(func(t *testing.T, method, path, query, header, value string) {
		r, err := http.NewRequest(method, "http://broker"+path+"?"+query, strings.NewReader(`{"pattern":"","definition":{"max-length":1},"value":7}`))
		if err != nil {
			return
		}
		if method != "GET" && strings.Contains(r.URL.Path, "mine/") && strings.Contains(r.URL.Path, marker) {
			return // he may name his own things so
		}
		r.RemoteAddr = "127.0.0.1:40000"
		r.SetBasicAuth("policymaker", "policymaker")
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		// Parameters of the broker are a policymaker's to name.
		if w.Code < 300 && strings.Contains(w.Body.String(), marker) && !strings.Contains(path, "global-parameters") {
			t.Fatalf("%s %s?%s %s: %s: %d %s", method, path, query, header, value, w.Code, w.Body)
		}
		if method != "GET" && w.Code < 300 {
			if after := secretState(t, h); after != before {
				t.Fatalf("%s %s?%s: %s\nhas become\n%s", method, path, query, before, after)
			}
		}
	})
}

// TestRouter: names may have anything in them but nothing.
func TestRouter(t *testing.T) {
	var h Handler
	var got []string
	h.mount(Route{Pattern: "GET /api/{vhost}/fixed/{name}", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = []string{r.PathValue("vhost"), r.PathValue("name")}
	})})
	for path, want := range map[string][]string{
		"/api/%2F/fixed/a":        {"/", "a"},
		"/api/%2f/fixed/%2F%2F":   {"/", "//"},
		"/api/../fixed/.":         {"..", "."},
		"/api/a%20b/fixed/%C3%B6": {"a b", "ö"},
		"/api//fixed/a":           nil,
		"/api/v/fixed/":           nil,
		"/api/v/other/a":          nil,
		"/api/v/fixed":            nil,
		"/api/v/fixed/a/":         {"v", "a"},
		"/api/v/fixed/a//":        nil,
		"/api/v/FIXED/a":          nil,
		"/api/v/%66ixed/a":        {"v", "a"},
		"/api/v/fixed/a?x=/b":     {"v", "a"},
		"/api/v%2Ffixed/a":        nil,
		"/x/../api/v/fixed/a":     nil,
		"/api/%252F/fixed/a":      {"%2F", "a"},
	} {
		got = nil
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		h.ServeHTTP(w, r.WithContext(trusted(r.Context(), nil)))
		if len(got) != len(want) || len(want) > 0 && (got[0] != want[0] || got[1] != want[1]) || (want == nil) != (w.Code == 404) {
			t.Errorf("%s: %q (%d), want %q", path, got, w.Code, want)
		}
	}
}
