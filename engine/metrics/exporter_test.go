package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/metrics"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// odd is a name with everything that has to be escaped.
const odd = "q \"a\\b\"{}="

// serve runs a broker with some of everything.
func serve(t testing.TB) *engine.Engine {
	t.Helper()
	free := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), Version: "test", Loops: 2, Metrics: free, Debug: free, HTTP: free})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Broker().AddVHost(broker.VHostSpec{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	return e
}

// get collects a page.
func get(t testing.TB, e *engine.Engine, path string, header ...string) (status int, kind, text string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+e.MetricsAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(body)
}

// page collects and parses one.
func page(t testing.TB, e *engine.Engine, path string) map[string]*family {
	t.Helper()
	status, kind, text := get(t, e, path)
	if status != http.StatusOK || kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%s: %d %s\n%s", path, status, kind, text)
	}
	families, err := parse(text, false)
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	return families
}

// busy gives the broker something to count.
func busy(t testing.TB, e *engine.Engine) *amqptest.Client {
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Declare(odd, amqptest.Durable)
	amqptest.Ask[*wire.ConfirmSelectOk](c, 1, &wire.ConfirmSelect{})
	for range 3 {
		c.Publish(1, amqptest.Message{Key: odd, Body: "12345", Persistent: true})
		amqptest.Expect[*wire.BasicAck](c)
	}
	c.Get(1, odd, 0)
	c.Sync(1)
	return c
}

func TestExporter_Values(t *testing.T) {
	t.Parallel()
	e := serve(t)
	busy(t, e)
	families := page(t, e, "/metrics")
	for series, want := range map[string]float64{
		"basaltmq_queue_messages_ready":                                            2,
		"basaltmq_queue_messages_unacked":                                          1,
		"basaltmq_queue_messages":                                                  3,
		"basaltmq_queues":                                                          1,
		"basaltmq_connections":                                                     1,
		"basaltmq_channels":                                                        1,
		"basaltmq_channel_messages_published_total":                                3,
		"basaltmq_channel_messages_confirmed_total":                                3,
		"basaltmq_message_bytes_published_total":                                   15,
		`basaltmq_global_messages_received_total{protocol="amqp091"}`:              3,
		`basaltmq_global_messages_dead_lettered_expired_total{protocol="amqp091"}`: 0,
		`basaltmq_vhost_messages_published_total{vhost="/"}`:                       3,
		`basaltmq_vhost_messages_published_total{vhost="v"}`:                       0,
		`basaltmq_vhost_messages_ready{vhost="/"}`:                                 2,
		"basaltmq_confirm_latency_seconds_count":                                   3,
		"basaltmq_store_fenced_logs":                                               0,
	} {
		name, _, _ := strings.Cut(series, "{")
		f := families[strings.TrimSuffix(name, "_count")]
		if f == nil {
			t.Errorf("there is no %s", name)
		} else if got, ok := f.samples[series]; !ok || got != want {
			t.Errorf("%s is %v (%t), want %v", series, got, ok, want)
		}
	}
	for _, name := range []string{"process_resident_memory_bytes", "process_open_fds", "loop_turns_total", "journal_sync_duration_seconds", "arena_mapped_bytes", "go_heap_objects_bytes", "resident_memory_limit_bytes", "journal_groups_total"} {
		total := 0.0
		if f := families["basaltmq_"+name]; f != nil {
			for _, v := range f.samples {
				total += v
			}
		}
		if total <= 0 {
			t.Errorf("%s is %v", name, total)
		}
	}
}

// TestExporter_Names holds the list of families: dashboards and alerts of users
// rest on it. UPDATE_GOLDEN=1 writes it anew.
func TestExporter_Names(t *testing.T) {
	t.Parallel()
	e := serve(t)
	busy(t, e)
	var lines []string
	for path, families := range map[string]map[string]*family{
		"/metrics":            page(t, e, "/metrics"),
		"/metrics/per-object": page(t, e, "/metrics/per-object"),
		"/metrics/detailed": page(t, e, "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&family=queue_metrics&family=exchange_metrics&"+
			"family=connection_coarse_metrics&family=connection_metrics&family=connection_churn_metrics&family=channel_metrics&family=vhost_status&family=vhost_message_stats&family=ra_metrics"),
	} {
		for name, f := range families {
			lines = append(lines, path+" "+name+" "+f.kind)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/families"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the families have changed; if that is meant, UPDATE_GOLDEN=1 writes the list:\n%s", got)
	}
}

// TestExporter_Objects: names of all kinds, filters, prefixes.
func TestExporter_Objects(t *testing.T) {
	t.Parallel()
	e := serve(t)
	busy(t, e)
	label := `{vhost="/",queue="q \"a\\b\"{}="}`
	if n := page(t, e, "/metrics/per-object")["basaltmq_queue_messages_ready"].samples["basaltmq_queue_messages_ready"+label]; n != 2 {
		t.Errorf("%v ready", n)
	}
	families := page(t, e, "/metrics/detailed?family=queue_coarse_metrics&family=channel_metrics&prefix=rabbitmq")
	if n := families["rabbitmq_detailed_queue_messages"].samples["rabbitmq_detailed_queue_messages"+label]; n != 3 {
		t.Errorf("%v messages", n)
	}
	if f := families["rabbitmq_detailed_channel_messages_published_total"]; len(f.samples) != 1 {
		t.Errorf("%v", f.samples)
	}
	if f := page(t, e, "/metrics/detailed?family=queue_coarse_metrics&vhost=v&vhost=w"); len(f["basaltmq_detailed_queue_messages"].samples) != 0 {
		t.Errorf("queues of another virtual host: %v", f["basaltmq_detailed_queue_messages"].samples)
	}
	if f := page(t, e, "/metrics?vhost=v"); f["basaltmq_queues"].samples["basaltmq_queues"] != 0 || len(f["basaltmq_vhost_queues"].samples) != 1 {
		t.Errorf("%v", f["basaltmq_vhost_queues"])
	}
}

func TestExporter_OpenMetrics(t *testing.T) {
	t.Parallel()
	e := serve(t)
	busy(t, e)
	for accept, open := range map[string]bool{
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": true,
		"text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5":                                                                     false,
		"application/openmetrics-text;q=0": false,
		"*/*":                              false,
		"":                                 false,
	} {
		status, kind, text := get(t, e, "/metrics/per-object", "Accept", accept)
		if status != http.StatusOK || strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0") != open {
			t.Errorf("%q: %d %s", accept, status, kind)
		}
		if _, err := parse(text, open); err != nil {
			t.Errorf("%q: %v", accept, err)
		}
	}
}

func TestExporter_Refuses(t *testing.T) {
	t.Parallel()
	e := serve(t)
	for path, want := range map[string]int{
		"/metrics?prefix=":                           400,
		"/metrics?prefix=a%20b":                      400,
		"/metrics?prefix=9a":                         400,
		"/metrics?prefix=" + strings.Repeat("a", 21): 400,
		"/metrics?prefix=" + strings.Repeat("a", 20): 200,
		"/metrics/":     404,
		"/":             404,
		"/debug/pprof/": 404,
	} {
		if status, _, text := get(t, e, path); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	w := httptest.NewRecorder()
	metrics.NewExporter(metrics.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	// On the port of the API one has to be somebody.
	answer, err := http.Get("http://" + e.HTTPAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a name: %d", answer.StatusCode)
	}
	r, _ := http.NewRequest(http.MethodGet, "http://"+e.HTTPAddr().String()+"/metrics/detailed?family=vhost_status", nil)
	r.SetBasicAuth("guest", "guest")
	if answer, err = http.DefaultClient.Do(r); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if families, err := parse(string(text), false); answer.StatusCode != 200 || err != nil || len(families["basaltmq_detailed_vhost_status"].samples) != 2 {
		t.Errorf("%d %v %s", answer.StatusCode, err, text)
	}
	http.DefaultClient.CloseIdleConnections()
	if answer, err = http.Get("http://" + e.DebugAddr().String() + "/debug/pprof/goroutine?debug=1"); err != nil {
		t.Fatal(err)
	}
	text, _ = io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 200 || !strings.Contains(string(text), "goroutine profile") {
		t.Errorf("profiles: %d %s", answer.StatusCode, text)
	}
	http.DefaultClient.CloseIdleConnections()
}

// BenchmarkAggregated collects the aggregated page of a broker with many queues.
func BenchmarkAggregated(b *testing.B) {
	for _, queues := range []int{100, 50_000} {
		b.Run(fmt.Sprint(queues, " queues"), func(b *testing.B) {
			if testing.Short() && queues > 1000 {
				b.Skip("many queues")
			}
			e := serve(b)
			for i := range queues {
				if _, _, _, err := e.Broker().VHost("/").DeclareQueue(broker.QueueDeclare{Name: fmt.Sprint("q", i)}, nil); err != nil {
					b.Fatal(err)
				}
			}
			x := metrics.NewExporter(metrics.Options{Broker: e.Broker(), AMQP: e.AMQP(), Version: "test"})
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			b.ReportAllocs()
			for b.Loop() {
				x.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// discard is an answer that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }
