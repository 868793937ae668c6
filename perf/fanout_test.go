package perf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFanout(t *testing.T) {
	t.Parallel()
	var broker *fakeBroker
	var result fanoutResult
	empty := func(row *fanoutRow) bool {
		return row.PublishedPerSecond <= 0 || row.DeliveredPerSecond <= 0 || row.ClientCPU <= 0
	}
	longEnough(func(seconds string) bool {
		var uri string
		uri, broker = startFakeBroker(t, nil)
		code, stdout, stderr := runMain(t.Context(), "fanout", "--uri", uri, "-q", "-j", "-k", "1,3", "-z", seconds, "--warmup", "0.05", "-a", "10", "-c", "100")
		result = fanoutResult{}
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
			t.Fatalf("exit status %d, %v, stderr %q", code, err, stderr)
		}
		if len(result.Rows) != 2 || result.Rows[0].Queues != 1 || result.Rows[1].Queues != 3 {
			t.Fatalf("%s", stdout)
		}
		return !slices.ContainsFunc(result.Rows, empty)
	})
	for _, row := range result.Rows {
		if empty(row) {
			t.Errorf("%+v", row)
		}
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if len(broker.fanouts) != 0 || broker.calls["queue.bind"] != 4 || broker.calls["basic.consume"] != 4 {
		t.Errorf("%d exchanges left, %d bindings, %d consumers", len(broker.fanouts), broker.calls["queue.bind"], broker.calls["basic.consume"])
	}
	if len(broker.queues) != 0 {
		t.Errorf("%d queues left", len(broker.queues))
	}
}

func TestFanoutInterruptedAndFailing(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	broker.wait.Go(func() {
		broker.waitFor(func() bool { return broker.published >= 200 })
		cancel()
	})
	code, stdout, stderr := runMain(ctx, "fanout", "--uri", uri, "-q", "-z", "1000", "-k", "2,3", "-c", "10")
	if code != exitOK || !strings.Contains(stdout, "Interrupted") || strings.Count(stdout, "\n") != 4 {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.refuseBind = true })
	code, stdout, stderr = runMain(t.Context(), "fanout", "--uri", uri, "-q", "-k", "5")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "5 queues: the broker closed the channel: 404") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestFanoutJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "fanout", "--uri", uri, "-k", "2", "-z", "2.1", "--warmup", "0", "-c", "10", "--json", file, "--broker-pid", selfPID())
	if code != exitOK || !strings.Contains(stdout, "delivered/s") || !strings.Contains(stderr, "2 queues:") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, "scenario", "rows.0.queues", "rows.0.seconds", "rows.0.published_per_s", "rows.0.delivered_per_s", "rows.0.broker_cpu_ns_per_delivery",
		"rows.0.broker_busiest_thread", "rows.0.rss.last.vm_rss", "rows.0.client_cpu_ns_per_delivery", "rows.0.client_is_bottleneck",
		"options.queues", "versions.broker_product", "environment.kernel")
}
