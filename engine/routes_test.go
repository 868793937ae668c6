package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
)

// routesFile says which role each route of the API needs. It is written by hand:
// what a route says of itself, and what it does, are held against it.
const routesFile = "testdata/routes.txt"

// mayUse are the roles that each role includes.
var mayUse = map[string][]string{
	"":              {"none"},
	"management":    {"none", "management"},
	"policymaker":   {"none", "management", "policymaker"},
	"monitoring":    {"none", "management", "monitoring"},
	"administrator": {"none", "management", "policymaker", "monitoring", "administrator"},
}

// TestRoutes: every route that is mounted, by whatever package, is in the table
// with its role, and is open to those who have it and closed to all others.
func TestRoutes(t *testing.T) {
	e, _ := logged(t, func(c *engine.Config) {
		c.OnReload = func() (engine.Reloaded, error) { return engine.Reloaded{}, nil }
	})
	data, err := os.ReadFile(routesFile)
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for line := range strings.Lines(string(data)) {
		route, role, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !slices.Contains(mayUse["administrator"], role) || !ok || table[route] != "" {
			t.Fatalf("%s: %q", routesFile, line)
		}
		table[route] = role
	}
	all := mounted(t, e)
	for route, role := range all {
		if table[route] != role {
			t.Errorf("%s is mounted for %q: write that into %s if it is meant (there: %q)", route, role, routesFile, table[route])
		}
	}
	for route := range table {
		if all[route] == "" {
			t.Errorf("%s is in %s and is not mounted", route, routesFile)
		}
	}
	b := e.Broker()
	for tag := range mayUse {
		s := access.Spec{Name: "as-" + tag, Password: access.HashPassword([]byte("p"))}
		if tag != "" {
			s.Tags = []string{tag}
		}
		if _, err := b.AddUser(s); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	refusals := regexp.MustCompile(`Not \w+ user|User not authorised to access object|Login failed`)
	braces := regexp.MustCompile(`\{\w+\}`)
	for route, needs := range table {
		method, path, _ := strings.Cut(route, " ")
		for tag, roles := range mayUse {
			// Nothing has these names: nobody goes amiss.
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, method, "http://"+e.HTTPAddr().String()+braces.ReplaceAllString(path, "nothing-has-this-name"), strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth("as-"+tag, "p")
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			refused := response.StatusCode == http.StatusUnauthorized
			if refused {
				answer, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				refused = refusals.Match(answer)
			}
			cancel() // some answers have no end
			response.Body.Close()
			if refused == slices.Contains(roles, needs) {
				t.Errorf("%s as %q: %d, which needs %s", route, tag, response.StatusCode, needs)
			}
		}
	}
}

// mounted returns the role of each route as the broker's document tells it.
func mounted(t *testing.T, e *engine.Engine) map[string]string {
	t.Helper()
	response, err := http.Get("http://" + e.HTTPAddr().String() + "/docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var doc struct {
		Paths map[string]map[string]struct{ Description string }
	}
	if err := json.NewDecoder(response.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			role := ""
			switch {
			case op.Description == "For everybody.":
				role = "none"
			case strings.Contains(op.Description, "any of the tags"):
				role = "management"
			default:
				role = regexp.MustCompile(`tag (\w+)`).FindStringSubmatch(op.Description)[1]
			}
			all[strings.ToUpper(method)+" "+path] = role
		}
	}
	return all
}
