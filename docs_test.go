package basaltmq_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)
	unnamed = regexp.MustCompile(`[^\w\- ]`) // what the name of a heading has not
)

// TestDocumentLinks: what documents point to is there, headings included.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, "README.md", "ARCHITECTURE.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(document), m[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s points to %s, which is not there", document, m[1])
				continue
			}
			if m[2] != "" && strings.HasSuffix(target, ".md") && !hasHeading(t, target, m[2][1:]) {
				t.Errorf("%s points to %s%s: there is no such heading", document, m[1], m[2])
			}
		}
	}
}

// hasHeading compares the way repositories' pages name their headings.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		if strings.HasPrefix(line, "#") && strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(title), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
