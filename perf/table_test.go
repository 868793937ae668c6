package perf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

func TestTableCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yardsticks := &results.Calibrate{
		Scenario: "calibrate", Options: &results.CalibrateLoad{Size: 16}, MessagesPerSecond: 123456,
		Environment: scenario.ReadEnvironment(scenario.Record{}),
	}
	if err := results.WriteFile(filepath.Join(dir, "yardsticks.json"), yardsticks); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runMain(t.Context(), "table", dir); code != exitOK || stdout != "" {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	path := filepath.Join(dir, tableFile)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "| yardsticks | 123,456 |") {
		t.Fatalf("%v: %s", err, text)
	}
	if code, _, stderr := runMain(t.Context(), "table", dir, "--check"); code != exitOK {
		t.Errorf("--check of what was just written: %s", stderr)
	}
	if err := os.WriteFile(path, []byte("better figures"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runMain(t.Context(), "table", "--check", dir); code != exitFailure || !strings.Contains(stderr, "not up to date") {
		t.Errorf("--check of an edited file: exit status %d, %s", code, stderr)
	}
	if code, stdout, _ := runMain(t.Context(), "table", dir, "--stdout"); code != exitOK || stdout != string(text) {
		t.Error("--stdout prints something else")
	}
	if code, _, stderr := runMain(t.Context(), "table", filepath.Join(dir, "none")); code != exitFailure || !strings.Contains(stderr, "not a directory") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
}
