package config

import (
	"os"
	"strings"
	"testing"
)

// TestDocs: the tables of docs/configuration.md are what the table of keys says.
// BASALTMQ_UPDATE_DOCS=1 writes them anew.
func TestDocs(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/configuration.md", "<!-- keys -->\n", "<!-- end of keys -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q or no %q", file, begin, end)
	}
	var b strings.Builder
	if err := PrintMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	want := before + begin + b.String() + end + after
	if string(data) == want {
		return
	}
	if os.Getenv("BASALTMQ_UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s does not say what engine/config's table of keys says: run BASALTMQ_UPDATE_DOCS=1 go test -run TestDocs ./engine/config", file)
}
