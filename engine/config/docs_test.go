package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

var (
	keyInText  = regexp.MustCompile("`([a-z0-9]+\\.[a-z0-9_]+)(?: = [^`]*)?`")
	tomlInText = regexp.MustCompile("(?s)```toml\n(.*?)```")
	variable   = regexp.MustCompile(`BASALTMQ_[A-Z0-9_]+`)
)

// TestDocuments_Keys: keys, variables and pieces of configuration files in any
// document are of keys that there are.
func TestDocuments_Keys(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(documents) == 0 {
		t.Fatal("there are no documents")
	}
	variables := map[string]bool{"BASALTMQ_CONFIG": true}
	names := map[string]bool{}
	var sections []string
	for i := range keys {
		k := &keys[i]
		names[k.Name] = true
		name := "BASALTMQ_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
		variables[name] = true
		variables[name+"_FILE"] = k.Secret
		sections = append(sections, k.Section())
	}
	for _, name := range []string{"BASALTMQ_PORT", "BASALTMQ_SERVICE_HOST"} {
		variables[name] = true // what Kubernetes sets
	}
	for _, document := range append(documents, "../../README.md", "../../extras/docker/Dockerfile") {
		data, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, m := range keyInText.FindAllStringSubmatch(text, -1) {
			section, _, _ := strings.Cut(m[1], ".")
			if slices.Contains(sections, section) && !names[m[1]] {
				t.Errorf("%s: there is no key %s", document, m[1])
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			if name = strings.TrimSuffix(name, "_"); name != "BASALTMQ" && !variables[name] {
				t.Errorf("%s: there is no variable %s", document, name)
			}
		}
		for _, m := range tomlInText.FindAllStringSubmatch(text, -1) {
			if _, err := readFile(document, m[1], new(Config)); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}
