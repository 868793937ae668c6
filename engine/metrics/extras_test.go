package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExtras_Names: dashboards, alerts and recording rules ask for what there is,
// and for the rates of counters, the trends of gauges only. The list of families is
// held by TestExporter_Names.
func TestExtras_Names(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/families")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // to kinds
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		if f[0] != "/metrics" {
			continue
		}
		if f[2] == "histogram" {
			known[f[1]+"_bucket"], known[f[1]+"_sum"], known[f[1]+"_count"] = "counter", "counter", "counter"
			continue
		}
		known[f[1]] = f[2]
	}
	// The names that recording rules make have levels around them.
	name := regexp.MustCompile(`(?:^|[^:a-z0-9_])(basaltmq_[a-z0-9_]+)`)
	changing := regexp.MustCompile(`\b(rate|irate|increase|deriv|delta|predict_linear)\((basaltmq_[a-z0-9_]+)`)
	kinds := map[string]string{"rate": "counter", "irate": "counter", "increase": "counter", "deriv": "gauge", "delta": "gauge", "predict_linear": "gauge"}
	for path, least := range map[string]int{
		"../../extras/grafana/basaltmq.json": 40, "../../extras/prometheus/alerts.yml": 15, "../../extras/prometheus/recording.yml": 10,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllStringSubmatch(string(text), -1)
		if len(found) < least {
			t.Errorf("%s asks for %d metrics", path, len(found))
		}
		for _, n := range found {
			if known[n[1]] == "" {
				t.Errorf("%s asks for %s, which there is not", path, n[1])
			}
		}
		for _, n := range changing.FindAllStringSubmatch(string(text), -1) {
			if known[n[2]] != kinds[n[1]] {
				t.Errorf("%s asks for %s of %s, which is a %s", path, n[1], n[2], known[n[2]])
			}
		}
		if strings.HasSuffix(path, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", path)
		}
	}
}
