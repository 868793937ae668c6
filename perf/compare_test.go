package perf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

func TestCompareCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, rate float64) string {
		path := filepath.Join(dir, name)
		yardsticks := &results.Calibrate{
			Scenario: "calibrate", Options: &results.CalibrateLoad{Size: 16}, MessagesPerSecond: rate,
			Environment: scenario.ReadEnvironment(scenario.Record{}),
		}
		if err := results.WriteFile(path, yardsticks); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := write("a.json", 100), write("b.json", 150)
	code, stdout, stderr := runMain(t.Context(), "compare", a, b+","+b)
	if code != exitOK || !strings.Contains(stdout, "relay_messages_per_s") || !strings.Contains(stdout, "1.500") || !strings.Contains(stdout, "1+2") {
		t.Errorf("exit status %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, _ := runMain(t.Context(), "compare", "-j", a, b); code != exitOK || !strings.Contains(stdout, `"median_b": 150`) {
		t.Errorf("exit status %d, %s", code, stdout)
	}
	if code, _, stderr := runMain(t.Context(), "compare", a); code != exitUsage || !strings.Contains(stderr, "needs two") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
	if code, _, stderr := runMain(t.Context(), "compare", a, filepath.Join(dir, "none")); code != exitFailure || !strings.Contains(stderr, "no results") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
}
