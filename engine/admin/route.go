package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Role is what a route asks of those who use it. Each includes those before it,
// but for PolicyMaker and Monitoring, which know nothing of each other.
type Role uint8

const (
	None          Role = iota // anybody, without a name
	Management                // any of the tags below: sees what it may use
	PolicyMaker               // policies and parameters of its virtual hosts
	Monitoring                // sees everything
	Administrator             // and changes everything
)

// String names the tag.
func (r Role) String() string {
	return [...]string{"none", "management", "policymaker", "monitoring", "administrator"}[r]
}

// Route is an endpoint. Other packages mount theirs by Options.Routes.
type Route struct {
	// Pattern is a method and a path such as "GET /api/queues/{vhost}/{name}".
	// A segment in braces takes any text but the empty one: slashes and dots, too.
	// Where several patterns match, the one with fewer of them counts. GET
	// answers HEAD, too.
	Pattern string
	Role    Role
	// Summary is one line for the document at /docs.
	Summary string
	// Query are the names of the parameters that the query string may have.
	Query []string
	// Body and Answer are values whose types describe what is sent and answered
	// in JSON; nil: nothing, or not JSON.
	Body, Answer any

	// Handler finds the segments by http.Request.PathValue, and who is asking by
	// IdentityOf.
	Handler http.Handler
}

// router finds the route of a request. The standard one takes the segment %2F,
// the name of the usual virtual host, for the end of the path, and redirects
// where a name has dots. Segments are compared byte by byte after they are taken
// apart and unescaped once: no way of writing a path reaches another's names.
type router struct{ routes []route }

type route struct {
	Route
	method   string
	segments []string
}

// mount adds a route. It panics when there is one with the same pattern, names
// of segments aside.
func (m *router) mount(r Route) {
	method, path, _ := strings.Cut(r.Pattern, " ")
	added := route{r, method, strings.Split(path, "/")[1:]}
	for i := range m.routes {
		if m.routes[i].method == method && slices.EqualFunc(m.routes[i].segments, added.segments, sameSegment) {
			panic("admin: two routes for " + r.Pattern)
		}
	}
	at, _ := slices.BinarySearchFunc(m.routes, added, bySpecificity)
	m.routes = slices.Insert(m.routes, at, added)
}

func sameSegment(a, b string) bool {
	_, p := parameter(a)
	_, q := parameter(b)
	return p && q || a == b
}

// bySpecificity puts fixed segments before those in braces.
func bySpecificity(a, b route) int {
	for i := range min(len(a.segments), len(b.segments)) {
		_, p := parameter(a.segments[i])
		_, q := parameter(b.segments[i])
		switch {
		case p && !q:
			return 1
		case q && !p:
			return -1
		}
	}
	return cmp.Or(cmp.Compare(len(a.segments), len(b.segments)), strings.Compare(a.Pattern, b.Pattern))
}

// split takes a path apart.
func split(escaped string) ([]string, error) {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, s := range segments {
		text, err := url.PathUnescape(s)
		if err != nil {
			return nil, problemf(http.StatusBadRequest, "the path is not escaped properly: %v", err)
		}
		segments[i] = text
	}
	return segments, nil
}

// find returns the route for a method; if there is none, what other methods the
// path takes. At the end of what is read a slash says nothing.
func (m *router) find(method string, segments []string) (found *route, allowed []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if n := len(segments); n > 1 && segments[n-1] == "" && method == http.MethodGet {
		segments = segments[:n-1]
	}
	for i := range m.routes {
		switch rt := &m.routes[i]; {
		case !rt.matches(segments):
		case rt.method == method:
			return rt, nil
		default:
			allowed = append(allowed, rt.method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	return nil, slices.Compact(allowed)
}

func (rt *route) matches(segments []string) bool {
	if len(segments) != len(rt.segments) {
		return false
	}
	for i, s := range rt.segments {
		if _, ok := parameter(s); ok && segments[i] == "" || !ok && segments[i] != s {
			return false
		}
	}
	return true
}

// fill gives the request the values of the segments in braces.
func (rt *route) fill(r *http.Request, segments []string) {
	for i, s := range rt.segments {
		if name, ok := parameter(s); ok {
			r.SetPathValue(name, segments[i])
		}
	}
}

// parameter returns the name of a segment in braces.
func parameter(segment string) (name string, ok bool) {
	if strings.HasPrefix(segment, "{") {
		return segment[1 : len(segment)-1], true
	}
	return "", false
}
