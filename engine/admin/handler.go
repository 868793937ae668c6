package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Options are what the handler administers.
type Options struct {
	Broker  *broker.Broker
	AMQP    *amqp.Server
	Stats   *metrics.Stats // nil: no counters and rates
	Version string
	Logger  *slog.Logger // nil: nowhere
	// Attempts counts logins, those of other protocols included; nil: those to the
	// API alone.
	Attempts *stats.Attempts
	// Node is the node's name; empty: basaltmq@ and the name of the machine.
	Node string
	// Status says what else there is to know of the process.
	Status func() Status
	// CertificateExpiry returns when the first of the certificates that listeners
	// use expires; ok is false if there are none. nil: likewise.
	CertificateExpiry func() (first time.Time, ok bool)

	// Authenticator decides who may log in; nil means the broker's users. It gets
	// the password of Basic, and a Bearer's token as the password of a user
	// without a name.
	Authenticator broker.Authenticator
	// Session finds the token that a browser has from single sign-on, where a request
	// says nothing else of who sends it; nil: there is none.
	Session func(r *http.Request) (token []byte, ok bool)
	// SingleSignOn is told at /api/auth; nil: there is none.
	SingleSignOn *SingleSignOn
	// Routes are endpoints of other packages.
	Routes []Route
	// Upgrade gets requests that ask for a WebSocket, before anybody has logged in;
	// nil: there is none.
	Upgrade http.Handler
}

// Status is what the process knows of itself.
type Status struct {
	PID           int               `json:"pid"`
	UptimeSeconds int64             `json:"uptime_seconds"`
	DataDir       string            `json:"data_dir"`
	Listeners     map[string]string `json:"addresses"` // by protocol
	Loops         int               `json:"loops"`
	Sockets       string            `json:"sockets"` // backend
	Files         string            `json:"files"`   // backend
	Durability    string            `json:"durability"`
	Alarm         string            `json:"alarm"` // why publishers are blocked
	DiskFree      int64             `json:"disk_free"`
	DiskFloor     int64             `json:"disk_free_limit"` // below it there is an alarm
}

// Handler answers requests.
type Handler struct {
	Options
	commits
	router  router
	holding holding // of messages
}

// NewHandler makes a Handler.
func NewHandler(o Options) *Handler {
	if o.Authenticator == nil {
		o.Authenticator = o.Broker
	}
	if o.Attempts == nil {
		o.Attempts = new(stats.Attempts)
	}
	if o.Node == "" {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "localhost"
		}
		o.Node = "basaltmq@" + name
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{Options: o, holding: make(holding, messageRequestsMax), commits: commits{changed: make(chan struct{})}}
	h.routes()
	for _, r := range o.Routes {
		h.mount(r)
	}
	return h
}

func (h *Handler) mount(r Route) { h.router.mount(r) }

// clusterID tells clusters apart; it stays while node and data directory do.
func (h *Handler) clusterID() string {
	sum := sha256.Sum256([]byte(h.Node + "\n" + h.Status().DataDir))
	return "basaltmq-cluster-id-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Upgrade != nil && asksForWebSocket(r) {
		h.Upgrade.ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding, Origin, Authorization")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if r.TLS != nil {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	// Who says in chunks how long a request is may have said it in another way to
	// somebody in between: what comes behind it is not read.
	if len(r.TransferEncoding) > 0 {
		header.Set("Connection", "close")
	}
	if err := h.serve(w, r); err != nil {
		if r.ContentLength == 0 {
			fail(w, err)
			return
		}
		header.Set("Connection", "close") // not read, and not waited for
		fail(w, err)
		linger(w, r)
	}
}

// linger gives a client that is still sending a while to hear the answer: closing
// at once would reset the connection, and the answer would be lost with it. What
// comes meanwhile is thrown away. net/http does that for others, but not for a
// client that said it would close itself.
func linger(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// asksForWebSocket: other protocols that a client would rather speak, such as
// HTTP/2 (Java's client always asks), are not listened to.
func asksForWebSocket(r *http.Request) bool {
	for _, line := range r.Header.Values("Upgrade") {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "websocket") {
				return true
			}
		}
	}
	return false
}

// serve passes a request to its route, if whoever sends it may use that.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	segments, err := split(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	rt, allowed := h.router.find(r.Method, segments)
	if rt == nil && allowed != nil {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusOK)
			return nil
		}
	}
	if rt == nil || rt.Role != None {
		id, err := h.identify(r) // also before it is told what there is not
		if err != nil {
			return err
		}
		if !id.Is(Management) {
			return notA(nil)
		}
		if rt != nil && !id.Is(rt.Role) {
			return notA(rt)
		}
		r = r.WithContext(context.WithValue(r.Context(), identityKey, id))
	}
	switch {
	case rt != nil:
		limit := bodyLimit(segments)
		if r.ContentLength > limit {
			return &http.MaxBytesError{Limit: limit}
		}
		rt.fill(r, segments)
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		rt.Handler.ServeHTTP(w, r)
		return nil
	case allowed != nil:
		return problemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, strings.Join(allowed, ", "), r.Method)
	}
	return problemf(http.StatusNotFound, "there is no %s", r.URL.Path)
}

// notA is RabbitMQ's answer to who lacks the role that a route asks for.
func notA(rt *route) error {
	role := Management
	if rt != nil {
		role = rt.Role
	}
	switch role {
	case Administrator:
		return problemf(http.StatusUnauthorized, "Not administrator user")
	case Monitoring:
		return problemf(http.StatusUnauthorized, "Not monitor user")
	case PolicyMaker:
		return problemf(http.StatusUnauthorized, "User not authorised to access object")
	}
	return problemf(http.StatusUnauthorized, "Not management user")
}

func bodyLimit(segments []string) int64 {
	switch {
	case len(segments) > 1 && segments[1] == "definitions":
		return definitionsBytesMax
	case len(segments) == 5 && segments[1] == "exchanges" && segments[4] == "publish":
		return publishBytesMax
	}
	return bodyBytesMax
}
