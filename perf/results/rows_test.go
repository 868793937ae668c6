package results

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update writes the golden file anew: go test ./perf/results -run Rows -args -update-rows.
var updateRows = flag.Bool("update-rows", false, "write the golden file of the tables of rows anew")

// testRows is a result of each scenario that measures row by row, and of the
// gate, by scenario.
func testRows(scale float64) map[string]map[string]any {
	cpu, each := 90*scale, 1200*scale
	rss := &RSS{Max: Memory{RSS: uint64(10*scale) << 20}}
	latency := &Latency{P50: 10 * scale, P99: 20 * scale, P999: 30 * scale, Max: 40 * scale}
	of := 0.5 * scale
	all := map[string]map[string]any{
		"latency": {"options": RowsLoad{Size: 16, Publishers: 1, Consumers: 2}, "rows": []*LatencyRow{
			{Rate: 10000, ConsumedPerSecond: 9999 * scale, Latency: latency, BrokerCPU: &cpu, RSS: rss},
			{Rate: 250000, ConsumedPerSecond: 250001 * scale, Latency: latency},
		}},
		"fanout": {"options": RowsLoad{Size: 16, Publishers: 1}, "rows": []*FanoutRow{
			{Queues: 1, PublishedPerSecond: 1000 * scale, DeliveredPerSecond: 1000 * scale, BrokerCPU: &cpu, RSS: rss},
			{Queues: 50, PublishedPerSecond: 100 * scale, DeliveredPerSecond: 5000 * scale},
		}},
		"bind-churn": {"unit": "bindings", "rows": []*ChurnRow{
			{Kind: "transient", Window: 1000, Connections: 2, PerSecond: 90000 * scale, Latency: latency, BrokerCPU: &cpu, RSS: rss},
			{Kind: "durable", Window: 1000, Connections: 2, PerSecond: 50000 * scale, Latency: latency, BrokerWritten: &each},
		}},
		"connection-churn": {"unit": "connections", "rows": []*ChurnRow{{Window: 64, Connections: 1, PerSecond: 3000 * scale}}},
		"queue-count": {"unit": "queues", "rows": []*CountRow{
			{Count: 1000, PerSecond: 7000 * scale, BytesEach: &each, BrokerCPU: &cpu, Look: &BrokerLook{Memory: &Memory{RSS: 20 << 20}}}, {Count: 10000, PerSecond: 1},
		}},
		"gate": {"paired": true, "baseline": "A | 1", "candidate": "A 2", "runs": 6, "verdict": "PASS: none is worse", "figures": []GateFigure{
			{Figure: "throughput-fraction", Better: More, Limit: 0.03, MedianBaseline: 0.5, MedianCandidate: 0.49, Loss: 0.02, LossLow: -0.01, LossHigh: 0.03, P: 0.2, Decision: "fine"},
			{Figure: "rss-idle", Unit: "bytes", Better: Less, Limit: 0.1, MedianBaseline: 8 << 20, MedianCandidate: 4 << 20, Loss: -0.5, LossLow: -0.5, LossHigh: -0.4, P: 1, Decision: "fine"},
		}},
		"features": {"options": FeaturesLoad{Seconds: 2, Size: 16}, "left_out": []LeftOut{{"stream", "refused | 540"}}, "rows": []*FeatureRow{
			{Name: "plain", Load: "1 publisher", Unit: "messages", PerSecond: 1000000 * scale, Relay: &RelayFraction{Fraction: 0.4 * scale}},
			{Name: "ttl", Load: "1 publisher", Unit: "messages", PerSecond: 900000 * scale, Base: "plain", OfBase: &of, BrokerCPU: &cpu, RSS: rss},
		}},
	}
	for scenario, result := range all {
		result["scenario"] = scenario
		result["versions"] = Versions{BrokerProduct: "BasaltMQ", BrokerVersion: "1"}
		result["environment"] = testEnvironment()
	}
	return all
}

// Every scenario that measures has its table.
func TestTableOfRows(t *testing.T) {
	t.Parallel()
	files := map[string]any{}
	for scenario, result := range testRows(1) {
		files["2026-05-01-0123456789ab-"+scenario+"-run1.json"] = result
	}
	for scenario, result := range testRows(2) {
		files["2026-05-01-0123456789ab-"+scenario+"-run2.json"] = result
	}
	text, err := render(writeResults(t, files))
	if err != nil {
		t.Fatal(err)
	}
	text = text[strings.Index(text, "\n## "):]
	path := filepath.Join("testdata", "rows.md")
	if *updateRows {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s is not what it was (-update-rows writes it anew):\n%s", path, text)
	}
}

// A run of the gate without a baseline has no comparison to show.
func TestTableOfARecordedGate(t *testing.T) {
	t.Parallel()
	gate := testRows(1)["gate"]
	delete(gate, "baseline")
	text, err := render(writeResults(t, map[string]any{"gate.json": gate}))
	if err != nil || !strings.Contains(text, "| throughput-fraction | 0.490 |") || strings.Contains(text, "baseline |") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// The figures of rows keep their names apart, and the comparison finds them.
func TestCompareRows(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"latency": "rows.rate=250000.latency.p99_us", "fanout": "rows.queues=50.delivered_per_s",
		"bind-churn": "rows.durable,window=1000,connections=2.operations_per_s", "connection-churn": "rows.window=64,connections=1.operations_per_s",
		"queue-count": "rows.count=1000.vm_rss_bytes_each", "gate": "rss-idle", "features": "rows.ttl.of_base",
	}
	dir := t.TempDir()
	for scenario, result := range testRows(1) {
		if err := WriteFile(filepath.Join(dir, scenario+".json"), result); err != nil {
			t.Fatal(err)
		}
	}
	found, err := ReadRuns(dir)
	if err != nil || len(found) != len(want) {
		t.Fatalf("%d results, %v", len(found), err)
	}
	for _, run := range found {
		seen := map[string]bool{}
		for _, figure := range run.Figures {
			if seen[figure.Name] {
				t.Errorf("%s: two figures are called %s", run.Name, figure.Name)
			}
			seen[figure.Name] = true
		}
		if !seen[want[run.Name]] {
			t.Errorf("%s: no figure %s in %v", run.Name, want[run.Name], seen)
		}
	}
}

func TestTableRefusesRows(t *testing.T) {
	t.Parallel()
	for scenario, wants := range map[string]map[string]any{
		"latency": {"rows": []*LatencyRow{{Rate: 1, Published: 9, Missing: 1}}, "options": nil}, "fanout": {"rows": []any{nil}, "options": nil}, "bind-churn": {"rows": nil},
		"connection-churn": {"rows": []*ChurnRow{{Window: 64}}},
		"queue-count":      {"rows": []any{}}, "gate": {"figures": nil, "verdict": ""}, "features": {"rows": []any{nil}, "options": nil},
	} {
		for member, value := range wants {
			result := testRows(1)[scenario]
			result[member] = value
			if _, err := render(writeResults(t, map[string]any{"x.json": result})); err == nil || !strings.Contains(err.Error(), "x.json: the result") && !strings.Contains(err.Error(), "x.json: a feature") && !strings.Contains(err.Error(), "the broker did nothing") && !strings.Contains(err.Error(), "did not arrive") {
				t.Errorf("%s with %s %v: %v", scenario, member, value, err)
			}
		}
	}
}
