package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// router finds the handler of a request. The standard one takes the segment %2F,
// the name of the usual virtual host, for the end of the path, and redirects
// where a name has dots.
type router struct{ routes []route }

type route struct {
	method   string
	segments []string // {name} takes any text but the empty one
	handler  http.HandlerFunc
}

// HandleFunc registers a pattern such as "GET /api/queues/{vhost}". Of several
// that match, the first counts.
func (m *router) HandleFunc(pattern string, handler http.HandlerFunc) {
	method, path, _ := strings.Cut(pattern, " ")
	m.routes = append(m.routes, route{method, strings.Split(path, "/")[1:], handler})
}

// ServeHTTP implements http.Handler.
func (m *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i, s := range segments {
		text, err := url.PathUnescape(s)
		if err != nil {
			fail(w, problemf(http.StatusBadRequest, "the path is not escaped properly: %v", err))
			return
		}
		segments[i] = text
	}
	var allowed []string
	for i := range m.routes {
		switch rt := &m.routes[i]; {
		case !rt.matches(segments):
		case rt.method != r.Method:
			allowed = append(allowed, rt.method)
		default:
			for i, s := range rt.segments {
				if name, ok := parameter(s); ok {
					r.SetPathValue(name, segments[i])
				}
			}
			rt.handler(w, r)
			return
		}
	}
	if allowed != nil {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		fail(w, problemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, strings.Join(allowed, ", "), r.Method))
		return
	}
	fail(w, problemf(http.StatusNotFound, "there is no %s", r.URL.Path))
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

// parameter returns the name of a segment in braces.
func parameter(segment string) (name string, ok bool) {
	if strings.HasPrefix(segment, "{") {
		return segment[1 : len(segment)-1], true
	}
	return "", false
}
