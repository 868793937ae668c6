package basaltmq_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestStories holds docs/stories.md to the tests there are: each line names
// some, and each name is that of a test.
func TestStories(t *testing.T) {
	text, err := os.ReadFile("docs/stories.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	tests := map[string]string{} // sources of each package's tests
	count := 0
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what") {
			continue
		}
		found := named.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, name := range found {
			if tests[name[1]] == "" {
				tests[name[1]] = testSources(t, name[1])
			}
			if !strings.Contains(tests[name[1]], "\nfunc "+name[2]+"(") {
				t.Errorf("package %s has no %s", name[1], name[2])
			}
			count++
		}
	}
	if count < 80 {
		t.Errorf("%d tests are named: has the form of the page changed?", count)
	}
}

func testSources(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
