package admin

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestOpenAPI: the document has every route and nothing else, and is one: what it
// refers to is there, parameters are those of the path, names are single.
func TestOpenAPI(t *testing.T) {
	h := newTestHandler(t)
	w := as(h, "", "GET", "/docs/openapi.json", "")
	var doc struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Description string
			Tags        []string
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   map[string]any
			}
			RequestBody map[string]any
			Responses   map[string]struct{ Description string }
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || doc.OpenAPI != "3.0.3" || doc.Info.Title == "" || doc.Info.Version == "" {
		t.Fatalf("%d %v: %.300s", w.Code, err, w.Body)
	}
	routes := map[string]bool{}
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		routes[rt.Pattern] = true
		_, path, _ := strings.Cut(rt.Pattern, " ")
		if _, ok := doc.Paths[path][strings.ToLower(rt.method)]; !ok {
			t.Errorf("%s is not in the document", rt.Pattern)
		}
	}
	for pattern := range describedRoutes() {
		if !routes[pattern] {
			t.Errorf("%s is described, and is no route", pattern)
		}
	}
	braces := regexp.MustCompile(`\{(\w+)\}`)
	ids, shapes := map[string]string{}, map[string]string{}
	for path, operations := range doc.Paths {
		shape := braces.ReplaceAllString(path, "{}")
		if other := shapes[shape]; other != "" {
			t.Errorf("%s and %s differ in names of segments only", path, other)
		}
		shapes[shape] = path
		for method, op := range operations {
			what := strings.ToUpper(method) + " " + path
			if !routes[what] {
				t.Errorf("%s is in the document, and is no route", what)
			}
			if other := ids[op.OperationID]; op.OperationID == "" || other != "" {
				t.Errorf("%s and %s have the same id %q", what, other, op.OperationID)
			}
			ids[op.OperationID] = what
			if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 || len(op.Responses) < 2 {
				t.Errorf("%s: %+v", what, op)
			}
			inPath, named := map[string]bool{}, map[string]bool{}
			for _, m := range braces.FindAllStringSubmatch(path, -1) {
				inPath[m[1]] = true
			}
			for _, p := range op.Parameters {
				if named[p.In+p.Name] || p.Schema == nil || p.In == "path" && (!inPath[p.Name] || !p.Required) || p.In != "path" && p.In != "query" {
					t.Errorf("%s: parameter %+v", what, p)
				}
				named[p.In+p.Name] = true
				if p.In == "path" {
					delete(inPath, p.Name)
				}
			}
			if len(inPath) > 0 {
				t.Errorf("%s: the parameters %v are missing", what, inPath)
			}
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref":"#/components/schemas/(\w+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		if doc.Components.Schemas[m[1]] == nil {
			t.Errorf("there is no schema %s", m[1])
		}
	}
	if w := as(h, "", "GET", "/docs", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "GET /api/queues/{vhost}/{name}") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	if w := as(h, "", "GET", "/", ""); w.Code != 303 || w.Header().Get("Location") != "/docs" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestOpenAPI_Answers: answers have the fields that the document says, and no others.
func TestOpenAPI_Answers(t *testing.T) {
	h := withSecret(t)
	doc := h.document()
	var check func(where string, schema object, v any)
	check = func(where string, schema object, v any) {
		if ref, ok := schema["$ref"].(string); ok {
			schema = doc["components"].(object)["schemas"].(schemas)[strings.TrimPrefix(ref, "#/components/schemas/")].(object)
		}
		switch v := v.(type) {
		case map[string]any:
			properties, ok := schema["properties"].(object)
			if !ok {
				return
			}
			for name, value := range v {
				below, ok := properties[name].(object)
				if !ok {
					t.Errorf("%s has a field %s", where, name)
					continue
				}
				check(where+"."+name, below, value)
			}
		case []any:
			if schema["type"] != "array" && len(schema) > 0 {
				t.Errorf("%s is an array", where)
				return
			}
			items, _ := schema["items"].(object)
			for _, value := range v {
				check(where+"[]", items, value)
			}
		case string:
			if kind := schema["type"]; kind != nil && kind != "string" {
				t.Errorf("%s is a text, not %v", where, kind)
			}
		case bool:
			if kind := schema["type"]; kind != nil && kind != "boolean" {
				t.Errorf("%s is a truth, not %v", where, kind)
			}
		case float64:
			if kind := schema["type"]; kind != nil && kind != "integer" && kind != "number" {
				t.Errorf("%s is a number, not %v", where, kind)
			}
		}
	}
	looked, described := 0, describedRoutes()
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		answer := described[rt.Pattern].answer
		if rt.method != "GET" || answer == nil {
			continue
		}
		path := concretePath(rt, map[string]string{"vhost": "mine", "name": "x", "user": "management", "node": h.Node, "source": "x", "destination": "x", "props": "x", "component": "c", "port": "5672", "protocol": "amqp", "within": "1", "unit": "days"})
		if strings.Contains(path, "connections/") || strings.Contains(path, "channels/") || strings.Contains(path, "/e/x/e/x") || strings.Contains(path, "topic-permissions/mine") {
			continue // there are none
		}
		if rt.Pattern == "GET /api/global-parameters/{name}" {
			path = "/api/global-parameters/cluster_name"
		}
		var v any
		if err := json.Unmarshal([]byte(must(t, h, "GET", path, "")), &v); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		check(rt.Pattern, schemas{}.withAll(doc).of(answer), v)
		looked++
	}
	if looked < 60 {
		t.Errorf("only %d answers were looked at", looked)
	}
}

// withAll has the types of the document, so that references lead there.
func (s schemas) withAll(doc object) schemas { return doc["components"].(object)["schemas"].(schemas) }
