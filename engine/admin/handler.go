package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// Options are what the handler administers.
type Options struct {
	Broker  *broker.Broker
	AMQP    *amqp.Server
	Version string
	// Status says what else there is to know of the process.
	Status func() Status
}

// Status is what the process knows of itself.
type Status struct {
	PID           int               `json:"pid"`
	UptimeSeconds int64             `json:"uptime_seconds"`
	DataDir       string            `json:"data_dir"`
	Listeners     map[string]string `json:"listeners"` // addresses by protocol
	Loops         int               `json:"loops"`
	Sockets       string            `json:"sockets"` // backend
	Files         string            `json:"files"`   // backend
	Durability    string            `json:"durability"`
}

// Handler answers requests.
type Handler struct {
	Options
	mux router

	// Those who wait for the disk.
	waiting atomic.Int64
	mu      sync.Mutex
	changed chan struct{} // closed when something became durable
}

// NewHandler makes a Handler.
func NewHandler(o Options) *Handler {
	h := &Handler{Options: o, changed: make(chan struct{})}
	h.routes()
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := int64(bodyBytesMax)
	if strings.HasPrefix(r.URL.Path, "/api/definitions") {
		limit = definitionsBytesMax
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	h.mux.ServeHTTP(w, r)
}

// Committed must be called when definition records may have become durable. Any
// goroutine; it costs nothing while nobody waits.
func (h *Handler) Committed() {
	h.Broker.Committed()
	if h.waiting.Load() == 0 {
		return
	}
	h.mu.Lock()
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
}

// durable waits until a definition record is durable.
func (h *Handler) durable(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, durableTimeout)
	defer cancel()
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	defs := h.Broker.Definitions()
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if seq <= defs.Durable() {
			return nil
		}
		if err := defs.Err(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("admin: the change is made, but the disk has not confirmed it: %w", ctx.Err())
		}
	}
}

// problem is an error that knows its status.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func problemf(status int, format string, args ...any) error {
	return &problem{status, fmt.Sprintf(format, args...)}
}

// reply is the body of an error.
type reply struct {
	Error  string   `json:"error"`
	Reason string   `json:"reason"`
	Lines  []string `json:"problems,omitempty"`
}

// statusOf maps errors to HTTP.
func statusOf(err error) (int, string) {
	var p *problem
	if errors.As(err, &p) {
		return p.status, p.text
	}
	var a *access.Error
	if errors.As(err, &a) {
		switch a.Reason {
		case access.NotFound:
			return http.StatusNotFound, a.Text
		case access.Exists:
			return http.StatusConflict, a.Text
		}
		return http.StatusBadRequest, a.Text
	}
	var e *wire.Error
	if errors.As(err, &e) {
		text := e.Text
		if _, rest, ok := strings.Cut(text, " - "); ok {
			text = rest
		}
		switch e.Code {
		case wire.CodeNotFound:
			return http.StatusNotFound, text
		case wire.CodeResourceLocked, wire.CodePreconditionFailed:
			return http.StatusConflict, text
		case wire.CodeInternalError:
			return http.StatusInternalServerError, text
		}
		return http.StatusBadRequest, text
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", large.Limit)
	}
	return http.StatusServiceUnavailable, err.Error()
}

func fail(w http.ResponseWriter, err error, lines ...string) {
	status, text := statusOf(err)
	send(w, status, reply{strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "_")), text, lines})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client is gone
}

// sendAll sends a list piece by piece; it ends early when the client is gone.
func sendAll[T any](w http.ResponseWriter, each func(yield func(T) bool)) {
	w.Header().Set("Content-Type", "application/json")
	separator := "["
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for v := range each {
		if _, err := io.WriteString(w, separator); err != nil || e.Encode(v) != nil {
			return
		}
		separator = ","
	}
	if separator == "[" {
		_, _ = io.WriteString(w, separator)
	}
	_, _ = io.WriteString(w, "]\n")
}

// body decodes the request into v; unknown fields are mistakes.
func body(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return err
		}
		return problemf(http.StatusBadRequest, "the request's body is not understood: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return problemf(http.StatusBadRequest, "the request's body has something behind its end")
	}
	return nil
}

// get registers a read; it answers errors, and what is returned unless it is nil.
func (h *Handler) get(pattern string, f func(w http.ResponseWriter, r *http.Request) (any, error)) {
	h.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(w, r)
		switch {
		case err != nil:
			fail(w, err)
		case v != nil:
			send(w, http.StatusOK, v)
		}
	})
}

// change registers something that changes definitions.
func (h *Handler) change(pattern string, f func(r *http.Request) (seq uint64, err error)) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		seq, err := f(r)
		if err == nil {
			err = h.durable(r.Context(), seq)
		}
		if err != nil {
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// host finds the virtual host of a request.
func (h *Handler) host(r *http.Request) (*broker.VHost, error) {
	name := r.PathValue("vhost")
	if vh := h.Broker.VHost(name); vh != nil {
		return vh, nil
	}
	return nil, problemf(http.StatusNotFound, "there is no virtual host '%s'", name)
}

// hosts are the one that a request names, or all.
func (h *Handler) hosts(r *http.Request) ([]*broker.VHost, error) {
	if r.PathValue("vhost") != "" {
		vh, err := h.host(r)
		return []*broker.VHost{vh}, err
	}
	var all []*broker.VHost
	for _, s := range h.Broker.VHosts() {
		if vh := h.Broker.VHost(s.Name); vh != nil {
			all = append(all, vh)
		}
	}
	return all, nil
}
