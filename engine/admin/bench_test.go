package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/metrics"
)

// withQueues is a handler of a broker with n queues.
func withQueues(t testing.TB, n int) *Handler {
	h := newTestHandler(t)
	h.Stats = metrics.NewStats(h.Broker, h.AMQP)
	vh := h.Broker.VHost("/")
	for i := range n {
		if _, _, _, err := vh.DeclareQueue(broker.QueueDeclare{Name: fmt.Sprintf("orders.%d.%d", i*7919%n, i), Durable: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// discard is a client that reads everything at once.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// listed sends a request of the operator's and returns the length of the answer.
func listed(h *Handler, path string) int {
	r := httptest.NewRequest("GET", path, nil)
	d := &discard{header: http.Header{}}
	h.ServeHTTP(d, r.WithContext(trusted(r.Context(), nil)))
	return d.bytes
}

// BenchmarkListQueues is what lists of 50,000 queues cost.
func BenchmarkListQueues(b *testing.B) {
	h := withQueues(b, 50_000)
	for _, query := range []string{
		"page=1", "page=1&page_size=500", "page=500", "page=1&name=777", "page=1&sort=messages&sort_reverse=true", "page=1&sort=message_stats.publish", "page=1&sort=memory",
		"disable_stats=true&enable_queue_totals=true", "",
	} {
		b.Run(query, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.ReportMetric(float64(listed(h, "/api/queues?"+query)), "B/answer")
			}
		})
	}
}

// TestListQueues_Small: the benchmark's lists of a few queues have them.
func TestListQueues_Small(t *testing.T) {
	h := withQueues(t, 250)
	one, two := listed(h, "/api/queues?page=1"), listed(h, "/api/queues?page=1&page_size=200")
	if one == 0 || two < one*3/2 {
		t.Errorf("a page of 100 has %d bytes, one of 200 %d", one, two)
	}
}

// TestQueueKey: what lists are sorted by without making the rest is what they show.
func TestQueueKey(t *testing.T) {
	h := withQueues(t, 5)
	vh := h.Broker.VHost("/")
	must(t, h, "PUT", "/api/policies/%2F/p", `{"pattern":"orders.1","definition":{"max-length":5}}`)
	must(t, h, "PUT", "/api/queues/%2F/other", `{"auto_delete":true,"arguments":{"x-max-priority":3}}`)
	must(t, h, "PUT", "/api/queues/%2F/stream", `{"durable":true,"arguments":{"x-queue-type":"stream"}}`)
	shortcuts := 0
	for _, q := range vh.Queues() {
		of := hosted[*broker.Queue]{vh, q}
		shown := marshal(h.queueOf(vh, q, &view{}))
		var walk func(path string, raw []byte)
		walk = func(path string, raw []byte) {
			if raw[0] == '{' {
				eachMember(raw, func(key, value []byte) bool {
					walk(strings.TrimPrefix(path+"."+unquote(key), "."), value)
					return true
				})
				return
			}
			got, ok := h.queueKey(of, path)
			if !ok {
				return
			}
			shortcuts++
			if want := keyIn(shown, strings.Split(path, ".")); compareKeys(got, want) != 0 {
				t.Errorf("%s of %s is %v, and shown as %v", path, q.Name, got, want)
			}
		}
		walk("", shown)
	}
	if shortcuts < 7*30 {
		t.Errorf("only %d fields have shortcuts", shortcuts)
	}
}
