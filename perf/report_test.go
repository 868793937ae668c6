package perf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

func TestReportCommand(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	result := &results.Throughput{
		Scenario: "throughput", ConsumedPerSecond: 1000, Options: &results.ThroughputLoad{Publishers: 1, Consumers: 1, Size: 16},
		Environment: scenario.ReadEnvironment(scenario.Record{}),
	}
	if err := results.WriteFile(filepath.Join(dir, "end-to-end.json"), result); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(out, "r.html")
	code, stdout, stderr := runMain(t.Context(), "report", dir, "-o", page, "--svg", filepath.Join(out, "svg"), "--title", "A title")
	if code != exitOK || !strings.Contains(stdout, "throughput-by-size.svg") {
		t.Fatalf("exit status %d, %s%s", code, stdout, stderr)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<h1>A title</h1>") {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(out, "svg", "throughput-by-size.svg")); err != nil || !strings.HasPrefix(string(text), "<svg") {
		t.Errorf("%v: %s", err, text)
	}
	if code, _, _ := runMain(t.Context(), "report"); code != exitUsage {
		t.Errorf("without a directory: exit status %d", code)
	}
}
