package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// request is a request on its way through one of this package's handlers.
type request struct {
	*http.Request
	w       http.ResponseWriter
	id      *Identity
	created bool // what a change asked for was not there before
}

// query reads the query string alone; the body is the handler's.
func (q *request) query(name string) string { return q.URL.Query().Get(name) }

// flag reads a parameter that is true, false or absent.
func (q *request) flag(name string) (bool, error) {
	text := q.query(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, problemf(http.StatusBadRequest, "'%s' must be true or false", name)
	}
	return on, nil
}

// decode reads the body into v, a struct. Fields that v lacks are passed over:
// clients send back what they have read. No body is an empty object.
func (q *request) decode(v any) error {
	o, err := q.object()
	if err != nil {
		return err
	}
	if err := o.Fill(v); err != nil {
		return problemf(http.StatusBadRequest, "the request's body is not understood: %v", err)
	}
	return nil
}

func (q *request) object() (exactjson.Object, error) {
	data, err := io.ReadAll(q.Body)
	switch {
	case err != nil:
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, err
		}
		return nil, problemf(http.StatusBadRequest, "the request's body cannot be read: %v", err)
	case len(data) == 0 || string(data) == "null":
		return exactjson.Object{}, nil
	}
	o, err := exactjson.Parse(data)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "the request's body %v", err)
	}
	return o, nil
}

// get mounts a read; it answers errors, and what is returned unless it is nil.
func (h *Handler) get(path string, role Role, summary string, f func(q *request) (any, error)) {
	h.answer("GET "+path, role, summary, f)
}

// answer mounts a request that is answered with 200 and what is returned, unless
// that is nil: then f has answered.
func (h *Handler) answer(pattern string, role Role, summary string, f func(q *request) (any, error)) {
	h.mount(Route{Pattern: pattern, Role: role, Summary: summary, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := checkSpans(r.URL.Query())
		var v any
		if err == nil {
			v, err = f(&request{Request: r, w: w, id: IdentityOf(r)})
		}
		switch {
		case err != nil:
			fail(w, err)
		case v != nil:
			send(w, http.StatusOK, picked(r, v))
		}
	})})
}

// checkSpans refuses samples that make no sense. What is not a number asks for
// none.
func checkSpans(query url.Values) error {
	for _, name := range []string{"lengths", "msg_rates", "data_rates", "node_stats"} {
		age, ageErr := strconv.Atoi(query.Get(name + "_age"))
		increment, incrementErr := strconv.Atoi(query.Get(name + "_incr"))
		if ageErr == nil && incrementErr == nil && (age < 0 || increment <= 0) {
			return &problem{status: http.StatusBadRequest, name: "invalid_range_parameters", text: fmt.Sprintf("Invalid range parameters: age %d, incr %d", age, increment)}
		}
	}
	return nil
}

// picked is the part of an answer that the query string asks for.
func picked(r *http.Request, v any) any {
	if c := parseColumns(r.URL.Query().Get("columns")); c != nil {
		return json.RawMessage(c.pick(nil, marshal(v)))
	}
	return v
}

// change mounts something that changes definitions: it is answered when the
// record is durable, with 204, or with 201 when f has made something.
func (h *Handler) change(pattern string, role Role, summary string, f func(q *request) (seq uint64, err error)) {
	h.mount(Route{Pattern: pattern, Role: role, Summary: summary, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, id: IdentityOf(r)}
		seq, err := f(q)
		if err == nil {
			err = h.durable(r.Context(), seq)
		}
		switch {
		case err != nil:
			fail(w, err)
		case q.created:
			w.WriteHeader(http.StatusCreated)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})})
}

// host finds the virtual host of a request, for those who may see it. Who may
// not does not learn whether it exists.
func (h *Handler) host(q *request) (*broker.VHost, error) {
	return h.findHost(q, (*Identity).Sees)
}

// enter finds the virtual host of a request for those who want to do something
// there.
func (h *Handler) enter(q *request) (*broker.VHost, error) {
	return h.findHost(q, (*Identity).Enters)
}

// govern finds it for those who want to set rules there, which administrators may
// everywhere.
func (h *Handler) govern(q *request) (*broker.VHost, error) {
	return h.findHost(q, func(id *Identity, vh *broker.VHost) bool { return id.Is(Administrator) || id.Enters(vh) })
}

func (h *Handler) findHost(q *request, may func(*Identity, *broker.VHost) bool) (*broker.VHost, error) {
	name := q.PathValue("vhost")
	vh := h.Broker.VHost(name)
	switch {
	case vh == nil && q.id.Is(Monitoring):
		return nil, problemf(http.StatusNotFound, "there is no virtual host '%s'", name)
	case vh == nil || !may(q.id, vh):
		return nil, problemf(http.StatusUnauthorized, "User not authorised to access virtual host")
	}
	return vh, nil
}

// hosts are the one that a request names, or all that may be seen.
func (h *Handler) hosts(q *request) ([]*broker.VHost, error) {
	if q.PathValue("vhost") != "" {
		vh, err := h.host(q)
		return []*broker.VHost{vh}, err
	}
	var all []*broker.VHost
	for _, s := range h.Broker.VHosts() {
		if vh := h.Broker.VHost(s.Name); vh != nil && q.id.Sees(vh) {
			all = append(all, vh)
		}
	}
	return all, nil
}
