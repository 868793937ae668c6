package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExtras_Names: dashboards and alerts ask for what there is. The list of
// families is held by TestExporter_Names.
func TestExtras_Names(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/families")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		if f[0] != "/metrics" {
			continue
		}
		known[f[1]] = f[2] != "histogram"
		if f[2] == "histogram" {
			known[f[1]+"_bucket"], known[f[1]+"_sum"], known[f[1]+"_count"] = true, true, true
		}
	}
	name := regexp.MustCompile(`\bbasaltmq_[a-z0-9_]+`)
	for path, least := range map[string]int{"../../extras/grafana/basaltmq.json": 40, "../../extras/prometheus/alerts.yml": 15} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) < least {
			t.Errorf("%s asks for %d metrics", path, len(found))
		}
		for _, n := range found {
			if !known[n] {
				t.Errorf("%s asks for %s, which there is not", path, n)
			}
		}
		if strings.HasSuffix(path, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", path)
		}
	}
}
