// Package basaltmq_test holds checks over the whole repository.
package basaltmq_test

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/basaltmq/basaltmq/"

// The rooms and who may know whom (ARCHITECTURE.md). A package belongs to the
// first room whose path it starts with; "any" may be imported by everyone.
var rooms = []struct {
	path  string
	knows []string
}{
	{"cmd/basaltmqperf", []string{"perf", "wire"}},
	{"cmd", []string{"engine", "segstore", "wire"}},
	{"engine/loop", []string{"engine/loop", "segstore/arena", "segstore/uring"}},
	{"engine/access", nil},
	{"engine/config", []string{"engine/config"}},
	{"engine/stats", nil},
	{"engine/broker", []string{"engine/broker", "engine/access", "engine/stats", "segstore", "wire"}},
	{"engine", []string{"engine", "segstore", "wire"}},
	{"segstore/arena", nil},
	{"segstore/uring", []string{"segstore/arena", "segstore/uring"}},
	{"segstore/disk", []string{"segstore/arena", "segstore/disk", "segstore/uring"}},
	{"segstore/histogram", nil},
	{"segstore", []string{"segstore"}},
	{"wire", []string{"wire"}},
	{"perf", []string{"perf", "wire"}},
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-tags", "uring"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImportArrows(t *testing.T) {
	for _, line := range goList(t, "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		for _, room := range rooms {
			if pkg != room.path && !strings.HasPrefix(pkg, room.path+"/") {
				continue
			}
			for _, imported := range fields[1:] {
				if !strings.HasPrefix(imported, module) {
					continue
				}
				if to := strings.TrimPrefix(imported, module); !allowed(to, room.knows) {
					t.Errorf("%s imports %s, which the room %q must not know", pkg, to, room.path)
				}
			}
			break
		}
	}
}

func allowed(to string, knows []string) bool {
	for _, k := range knows {
		if to == k || strings.HasPrefix(to, k+"/") {
			return true
		}
	}
	return false
}

// What the broker's binary links besides the standard library is listed in
// ARCHITECTURE.md; this keeps test and tool dependencies out of it.
func TestBrokerLinksOnly(t *testing.T) {
	want := map[string]bool{
		"github.com/BurntSushi/toml":         true,
		"github.com/golang-jwt/jwt/v5":       true,
		"github.com/pawelgaczynski/giouring": true,
		"golang.org/x/crypto":                true,
		"golang.org/x/sys":                   true,
		"golang.org/x/text":                  true,
	}
	for _, line := range goList(t, "-deps", "-f", `{{with .Module}}{{.Path}}{{end}}`, "./cmd/basaltmq") {
		if line == "" || line == strings.TrimSuffix(module, "/") || want[line] {
			continue
		}
		t.Errorf("cmd/basaltmq links the module %s", line)
	}
}
