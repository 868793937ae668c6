package metrics

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Options are what an Exporter tells of.
type Options struct {
	Broker  *broker.Broker
	AMQP    *amqp.Server
	Loops   []*loop.Loop
	Pool    *arena.Pool
	Version string
	Node    string
	// Attempts are logins; nil: none are told of.
	Attempts *stats.Attempts
	// Space says how much of the disk is free, the floor below which publishers
	// are blocked, and whether they are.
	Space func() (free, floor int64, alarm bool)
}

// Exporter answers Prometheus.
type Exporter struct {
	Options
	began time.Time
}

// NewExporter makes an Exporter.
func NewExporter(o Options) *Exporter { return &Exporter{Options: o, began: time.Now()} }

// Paths are where an Exporter answers; Mount gives each its handler.
var Paths = []string{"/metrics", "/metrics/per-object", "/metrics/detailed"}

// Handler returns the handler of one of Paths.
func (e *Exporter) Handler(path string) http.Handler {
	var content func(q *query, p *page)
	switch path {
	case "/metrics":
		content = e.aggregated
	case "/metrics/per-object":
		content = func(q *query, p *page) {
			q.families, q.perObject = allFamilies, true
			e.aggregated(q, p)
			e.detailed(q, p, "")
		}
	case "/metrics/detailed":
		content = func(q *query, p *page) { e.detailed(q, p, "detailed_") }
	default:
		panic("metrics: there is no " + path)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, problem := parseQuery(r.URL.Query())
		if problem != "" {
			http.Error(w, problem, http.StatusBadRequest)
			return
		}
		open := acceptsOpenMetrics(r.Header.Get("Accept"))
		kind := "text/plain; version=0.0.4; charset=utf-8"
		if open {
			kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		if r.Method == http.MethodHead {
			return
		}
		_ = write(w, q.prefix, open, func(p *page) { content(q, p) }) // the client is gone
	})
}

// ServeHTTP implements http.Handler for a port of its own.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are only read", http.StatusMethodNotAllowed)
		return
	}
	if slices.Contains(Paths, r.URL.Path) {
		e.Handler(r.URL.Path).ServeHTTP(w, r)
		return
	}
	http.Error(w, "there are "+strings.Join(Paths, ", "), http.StatusNotFound)
}

// query is what a request asks for.
type query struct {
	prefix   string
	vhosts   []string // empty: all
	families []string
	// perObject: names that objects have are not used for their sums.
	perObject bool
}

// DefaultPrefix is that of all names.
const DefaultPrefix = "basaltmq"

// prefixes are what may be asked for instead.
var prefixes = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,19}$`)

func parseQuery(v url.Values) (q *query, problem string) {
	q = &query{prefix: DefaultPrefix, vhosts: v["vhost"], families: v["family"]}
	if v.Has("prefix") {
		q.prefix = v.Get("prefix")
	}
	if !prefixes.MatchString(q.prefix) {
		return nil, "a prefix has at most 20 letters, digits and underscores, and no digit first"
	}
	return q, ""
}

func (q *query) wants(vhost string) bool {
	return len(q.vhosts) == 0 || slices.Contains(q.vhosts, vhost)
}

// acceptsOpenMetrics says whether the header prefers OpenMetrics: it is named,
// and not less welcome than plain text.
func acceptsOpenMetrics(accept string) bool {
	const name = "application/openmetrics-text"
	quality := func(name string) string {
		for part := range strings.SplitSeq(accept, ",") {
			kind, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
			if kind != name {
				continue
			}
			for p := range strings.SplitSeq(parameters, ";") {
				if q, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
					return q
				}
			}
			return "1"
		}
		return ""
	}
	open := quality(name)
	return open != "" && strings.Trim(open, "0.") != "" && open >= quality("text/plain")
}

// hosts are the virtual hosts that a request is about, in the order of names.
func (e *Exporter) hosts(q *query) (list []*broker.VHost) {
	e.Broker.EachVHost(func(vh *broker.VHost) {
		if q.wants(vh.Name) {
			list = append(list, vh)
		}
	})
	slices.SortFunc(list, func(a, b *broker.VHost) int { return strings.Compare(a.Name, b.Name) })
	return list
}
