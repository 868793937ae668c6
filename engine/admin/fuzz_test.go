package admin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// newTestHandler is a handler of a broker without loops on a directory of its own.
func newTestHandler(t testing.TB) *Handler {
	t.Helper()
	dir, err := os.MkdirTemp("", "control-test-")
	if err != nil {
		t.Fatal(err)
	}
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	var h *Handler
	store, err := segstore.Open(segstore.Options{Disk: posix, Arena: new(arena.Pool), DurabilityOS: true, OnCommit: func() {
		if h != nil {
			h.Committed()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Options{Store: store, Disk: posix, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		_ = store.Close()
		_ = posix.Close()
		_ = os.RemoveAll(dir)
	})
	h = NewHandler(Options{Broker: b, AMQP: amqp.NewServer(amqp.Options{Broker: b, Logger: slog.New(slog.DiscardHandler)}), Version: "test", Status: func() Status { return Status{} }})
	return h
}

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
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) || w.Body.Len() == 0 && w.Code != http.StatusNoContent && w.Code != http.StatusCreated && method != http.MethodOptions {
			t.Fatalf("%s %s %q: %d, and the answer is %q", method, path, body, w.Code, w.Body)
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
