package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// newTestHandler is a handler of a broker without loops on a directory of its own.
func newTestHandler(t testing.TB) *Handler {
	t.Helper()
	dir, err := os.MkdirTemp("", "admin-test-")
	if err != nil {
		t.Fatal(err)
	}
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	var handler atomic.Pointer[Handler] // the store begins before there is one
	store, err := segstore.Open(segstore.Options{Disk: posix, Arena: new(arena.Pool), DurabilityOS: true, OnCommit: func() {
		if h := handler.Load(); h != nil {
			h.Committed()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Options{
		Store: store, Disk: posix, Logger: slog.New(slog.DiscardHandler), DefaultUser: &broker.DefaultUser{Name: "guest", Password: "guest"}, LoopbackUsers: []string{"guest"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		_ = store.Close()
		_ = posix.Close()
		_ = os.RemoveAll(dir)
	})
	h := NewHandler(Options{
		Broker: b, AMQP: amqp.NewServer(amqp.Options{Broker: b, Logger: slog.New(slog.DiscardHandler)}), Version: "test",
		Status: func() Status {
			return Status{DataDir: dir, Listeners: map[string]string{"amqp": "127.0.0.1:5672", "http": "127.0.0.1:15672"}}
		},
	})
	handler.Store(h)
	return h
}

// addUser makes a user whose password is its name; with vhost it may do everything
// there.
func addUser(t testing.TB, h *Handler, name, tags string, vhosts ...string) {
	t.Helper()
	_, err := h.Broker.AddUser(access.Spec{Name: name, Password: access.HashPassword([]byte(name)), Tags: strings.Fields(tags)})
	for _, vh := range vhosts {
		if err == nil {
			_, err = h.Broker.SetPermissions(name, vh, access.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// as sends a request of a user from this machine; "" is the control socket's.
func as(h http.Handler, user, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:40000"
	if user == "" {
		r = r.WithContext(trusted(r.Context(), nil))
	} else {
		r.SetBasicAuth(user, user)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// must sends a request of the operator, which has to succeed.
func must(t testing.TB, h http.Handler, method, path, body string) string {
	t.Helper()
	w := as(h, "", method, path, body)
	if w.Code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

// reasonOf is the reason of an error.
func reasonOf(w *httptest.ResponseRecorder) string {
	var reply errorReply
	_ = json.Unmarshal(w.Body.Bytes(), &reply)
	return reply.Reason
}

// concretePath fills a pattern's segments in braces: with what values has for their
// names, or the names.
func concretePath(rt *route, values map[string]string) string {
	var b strings.Builder
	for _, s := range rt.segments {
		if name, ok := parameter(s); ok {
			if s = values[name]; s == "" {
				s = name
			}
		}
		b.WriteString("/" + s)
	}
	return b.String()
}
