package perf

import (
	"strings"
	"testing"
)

func TestGateUsage(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		"says what to judge":       {"gate"},
		"exclude each other":       {"gate", "--candidate-binary", "/bin/true", "--baseline-binary", "/bin/true", "--baseline", "/bin/true"},
		"there is no file":         {"gate", "--candidate-binary", "/nonexistent"},
		"--time must be above 0":   {"gate", "--candidate-binary", "/bin/true", "--time", "0"},
		"ab needs the load":        {"ab", "--a", "/bin/true", "--b", "/bin/true"},
		"--pairs is 1 to":          {"ab", "--a", "/bin/true", "--b", "/bin/true", "-n", "0", "throughput"},
		"--b: there is no file":    {"ab", "--a", "/bin/true", "throughput"},
		"unknown option --weather": {"gate", "--weather"},
	} {
		if code, _, stderr := runMain(t.Context(), arguments...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit status %d, %s", arguments, code, stderr)
		}
	}
	// A baseline that nobody has signed, before anything is started.
	code, _, stderr := runMain(t.Context(), "gate", "--candidate-binary", "/bin/true", "--baseline", "/bin/true")
	if code != exitFailure || !strings.Contains(stderr, "not trusted") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
}
