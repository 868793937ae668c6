package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
		"page=1", "page=1&page_size=500", "page=500", "page=1&name=777", "page=1&sort=messages&sort_reverse=true", "page=1&sort=message_stats.publish",
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
