package admin

import (
	"bufio"
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The document of the API is made of the routes when somebody asks, so that it
// tells what there is and nothing else: paths and roles as they are mounted, bodies
// and answers as their Go types are encoded (schema.go).

// object is a JSON object.
type object = map[string]any

// listParameters are what lists take, with what they are for.
var listParameters = [][2]string{
	{"page", "number of the page, from 1; without it everything is one array"},
	{"page_size", "elements of a page (100)"},
	{"name", "only what has this in its name"},
	{"use_regex", "true: name is a regular expression"},
	{"sort", "field to sort by; dots lead into objects"},
	{"sort_reverse", "true: the other way round"},
	{"columns", "fields to show, with commas between them; dots lead into objects"},
	{"disable_stats", "true: only what was declared"},
	{"enable_queue_totals", "true: numbers of messages all the same"},
	{"lengths_age", "samples of queue lengths: so many seconds back"},
	{"lengths_incr", "and one for each so many seconds"},
	{"msg_rates_age", "samples of message rates, likewise"},
	{"msg_rates_incr", ""},
}

// document makes the OpenAPI document.
func (h *Handler) document() object {
	s, described := schemas{}, describedRoutes()
	paths := map[string]object{}
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		_, path, _ := strings.Cut(rt.Pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(rt.method)] = operation(rt, path, s, described[rt.Pattern])
	}
	security := []object{{"basic": []string{}}, {"bearer": []string{}}}
	schemes := object{"basic": object{"type": "http", "scheme": "basic"}, "bearer": object{"type": "http", "scheme": "bearer"}}
	if h.SingleSignOn != nil {
		security = append(security, object{"session": []string{}})
		schemes["session"] = object{"type": "apiKey", "in": "cookie", "name": h.SingleSignOn.Cookie, "description": "From single sign-on: begin at /oauth/authorize."}
	}
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": "BasaltMQ management API", "version": h.Version,
			"description": "RabbitMQ's management API. Names in paths are escaped, slashes included: the usual virtual host is %2F.",
		},
		"servers":  []object{{"url": "/"}},
		"security": security,
		"paths":    paths,
		"components": object{
			"schemas":         s,
			"securitySchemes": schemes,
		},
	}
}

func operation(rt *route, path string, s schemas, d description) object {
	answer, body := rt.Answer, rt.Body
	if answer == nil {
		answer = d.answer
	}
	if body == nil {
		body = d.body
	}
	op := object{
		"operationId": strings.NewReplacer(" ", "", "/", "_", "{", "", "}", "", "-", "_").Replace(rt.Pattern),
		"summary":     rt.Summary, "description": roleText(rt.Role), "tags": []string{group(path)},
	}
	if rt.Role == None {
		op["security"] = []object{}
	}
	parameters := []object{}
	for _, segment := range rt.segments {
		if name, ok := parameter(segment); ok {
			parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	answerSchema := s.of(answer)
	if rt.method == http.MethodGet && answerSchema["type"] == "array" {
		for _, p := range listParameters {
			parameters = append(parameters, object{"name": p[0], "in": "query", "description": p[1], "schema": object{"type": "string"}})
		}
	}
	for _, name := range rt.Query {
		parameters = append(parameters, object{"name": name, "in": "query", "schema": object{"type": "string"}})
	}
	op["parameters"] = parameters
	if body != nil {
		op["requestBody"] = object{"content": jsonContent(s.of(body))}
	}
	responses := object{"default": object{"description": "refused", "content": jsonContent(s.of(errorReply{}))}}
	switch {
	case answer != nil:
		responses["200"] = object{"description": "done", "content": jsonContent(answerSchema)}
	case rt.method == http.MethodGet:
		responses["200"] = object{"description": "done"}
	default:
		responses["201"] = object{"description": "made"}
		responses["204"] = object{"description": "done"}
	}
	op["responses"] = responses
	return op
}

func jsonContent(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

func roleText(r Role) string {
	switch r {
	case None:
		return "For everybody."
	case Management:
		return "For users with any of the tags management, policymaker, monitoring, administrator."
	}
	return fmt.Sprintf("For users with the tag %s or administrator.", r)
}

// group is what a path is about.
func group(path string) string {
	segments := strings.Split(path, "/")
	if len(segments) > 2 && segments[1] == "api" {
		return segments[2]
	}
	return "other"
}

// pageHead begins the document for readers.
const pageHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>BasaltMQ management API</title>
<style>body{font:15px/1.4 sans-serif;margin:2em auto;max-width:70em;padding:0 1em}table{border-collapse:collapse;width:100%}
td{border-top:1px solid #ccc;padding:.3em .6em .3em 0;vertical-align:top}code{white-space:nowrap}</style></head><body>
<h1>BasaltMQ management API</h1>
<p>RabbitMQ's management API. With bodies, answers and parameters: <a href="/docs/openapi.json">openapi.json</a> (OpenAPI 3).
Names in paths are escaped, slashes included: the usual virtual host is <code>%2F</code>.</p>
`

func (h *Handler) docRoutes() {
	h.mount(Route{Pattern: "GET /docs", Role: None, Summary: "This document for readers", Handler: http.HandlerFunc(h.docs)})
	h.mount(Route{Pattern: "GET /", Role: None, Summary: "Leads to the document", Handler: http.RedirectHandler("/docs", http.StatusSeeOther)})
	h.get("/docs/openapi.json", None, "This document", func(*request) (any, error) { return h.document(), nil })
}

func (h *Handler) docs(w http.ResponseWriter, _ *http.Request) {
	byGroup := map[string][]Route{}
	for i := range h.router.routes {
		rt := &h.router.routes[i]
		_, path, _ := strings.Cut(rt.Pattern, " ")
		byGroup[group(path)] = append(byGroup[group(path)], rt.Route)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	out := bufio.NewWriter(w)
	out.WriteString(pageHead)
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		routes := byGroup[name]
		slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(pathOf(a)+a.Pattern, pathOf(b)+b.Pattern) })
		fmt.Fprintf(out, "<h2>%s</h2><table>\n", html.EscapeString(name))
		for _, r := range routes {
			fmt.Fprintf(out, "<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>\n", html.EscapeString(r.Pattern), html.EscapeString(r.Summary), r.Role)
		}
		out.WriteString("</table>\n")
	}
	out.WriteString("</body></html>\n")
	_ = out.Flush() // the client is gone
}

func pathOf(r Route) string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	return path
}
