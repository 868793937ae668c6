package perf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/signed"
)

func TestSignAndVerify(t *testing.T) {
	directory := t.TempDir()
	in := func(name string) string { return filepath.Join(directory, name) }
	for _, name := range []string{"a.json", "b.json"} {
		if err := os.WriteFile(in(name), []byte(`{"scenario": "throughput", "consumed_per_s": 1.5}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, line, stderr := runMain(t.Context(), "keygen", "--name", "alice", "--key", in("key"), "--trust", in("trusted"))
	if status != exitOK || !strings.HasPrefix(line, "alice ") || !strings.Contains(stderr, "never commit") {
		t.Fatalf("keygen: %d %q %q", status, line, stderr)
	}
	if listed, err := os.ReadFile(in("trusted")); err != nil || string(listed) != line {
		t.Errorf("trusted keys: %q, %v; want %q", listed, err, line)
	}
	if status, stdout, stderr := runMain(t.Context(), "sign", "--key", in("key"), in("a.json"), in("b.json")); status != exitOK || strings.Count(stdout, "signed by alice") != 2 {
		t.Fatalf("sign: %d %q %q", status, stdout, stderr)
	}
	if status, stdout, stderr := runMain(t.Context(), "verify", in("a.json"), in("b.json"), "--trusted", in("trusted")); status != exitOK || strings.Count(stdout, "signed by alice") != 2 {
		t.Errorf("verify: %d %q %q", status, stdout, stderr)
	}

	if err := os.WriteFile(in("a.json"), []byte(`{"scenario": "throughput", "consumed_per_s": 1.4}`), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := runMain(t.Context(), "verify", "--trusted", in("trusted"), in("a.json"), in("b.json"))
	if status != exitFailure || !strings.Contains(stdout, "REFUSED") || !strings.Contains(stdout, "b.json: signed by alice") || !strings.Contains(stderr, "1 of 2 files refused") {
		t.Errorf("verify: %d %q %q", status, stdout, stderr)
	}
}

func TestSigningCommandsRefuse(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		arguments []string
		status    int
		text      string
	}{
		{[]string{"sign"}, exitUsage, "needs the files"},
		{[]string{"verify"}, exitUsage, "needs the files"},
		{[]string{"verify", ""}, exitUsage, "unexpected argument"},
		{[]string{"keygen"}, exitUsage, "--name"},
		{[]string{"keygen", "extra"}, exitUsage, "unexpected argument"},
		{[]string{"keygen", "--name", "a b", "--key", none}, exitFailure, "letters, digits"},
		{[]string{"sign", "--key", none, "a.json"}, exitFailure, "keygen"},
		{[]string{"verify", "--trusted", none, "a.json"}, exitFailure, "--trusted"},
	} {
		status, _, stderr := runMain(t.Context(), test.arguments...)
		if status != test.status || !strings.Contains(stderr, test.text) {
			t.Errorf("%q: %d %q; want %d %q", test.arguments, status, stderr, test.status, test.text)
		}
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("a key was left behind: %v", err)
	}
}

// What the gate asks: see its --baseline.
func TestResultsAreVerifiedAgainstTheListInTheCheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(defaultTrusted), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("r.json", []byte(`{"a": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := results.Verify("r.json"); err == nil || !strings.Contains(err.Error(), "no list of trusted keys") {
		t.Errorf("without a list: %v", err)
	}
	if status, _, stderr := runMain(t.Context(), "keygen", "--name", "alice", "--key", "key", "--trust", defaultTrusted); status != exitOK {
		t.Fatal(stderr)
	}
	if err := results.Verify("r.json"); !errors.Is(err, signed.ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
	if status, _, stderr := runMain(t.Context(), "sign", "--key", "key", "r.json"); status != exitOK {
		t.Fatal(stderr)
	}
	if err := results.Verify("r.json"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile("r.json", []byte(`{"a": 2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := results.Verify("r.json"); !errors.Is(err, signed.ErrForged) {
		t.Errorf("changed: %v", err)
	}
}
