package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/definitions"
)

// definitionsBytesMax lets the importer itself say that a file is too large.
const definitionsBytesMax = definitions.FileBytesMax + 1

func (h *Handler) routes() {
	h.get("/api/overview", h.overview)
	h.definitionRoutes()
	h.userRoutes()
	h.vhostRoutes()
	h.policyRoutes()
	h.topologyRoutes()
	h.connectionRoutes()
}

// Overview is the state of the broker in a few figures.
type Overview struct {
	Product string `json:"product"`
	Version string `json:"version"`
	Status
	VHosts         int    `json:"vhosts"`
	Users          int    `json:"users"`
	Connections    int    `json:"connections"`
	Queues         int    `json:"queues"`
	Exchanges      int    `json:"exchanges"`
	Consumers      int    `json:"consumers"`
	Ready          uint64 `json:"messages_ready"`
	Unacknowledged uint64 `json:"messages_unacknowledged"`
	// DefinitionsError says why definitions cannot be changed any more.
	DefinitionsError string `json:"definitions_error,omitempty"`
}

func (h *Handler) overview(_ http.ResponseWriter, r *http.Request) (any, error) {
	hosts, err := h.hosts(r)
	if err != nil {
		return nil, err
	}
	o := Overview{Product: "BasaltMQ", Version: h.Version, Status: h.Status(), VHosts: len(hosts), Users: len(h.Broker.Users()), Connections: h.AMQP.Conns()}
	for _, vh := range hosts {
		o.Exchanges += len(vh.SortedExchanges())
		for _, q := range vh.Queues() {
			c := q.Counts()
			o.Queues++
			o.Consumers += c.Consumers
			o.Ready += c.Ready
			o.Unacknowledged += c.Unacked
		}
	}
	if err := h.Broker.Definitions().Err(); err != nil {
		o.DefinitionsError = err.Error()
	}
	return o, nil
}

// Imported is the answer to an import.
type Imported struct {
	Changes int      `json:"changes"`
	Ignored []string `json:"ignored,omitempty"`
}

func (h *Handler) definitionRoutes() {
	export := func(w http.ResponseWriter, r *http.Request) (any, error) {
		if _, err := h.hosts(r); err != nil {
			return nil, err
		}
		w.Header().Set("Content-Type", "application/json")
		_ = definitions.Export(w, h.Broker, r.PathValue("vhost"), h.Version) // the client is gone
		return nil, nil
	}
	h.get("/api/definitions", export)
	h.get("/api/definitions/{vhost}", export)
	load := func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var report definitions.Report
		if err == nil {
			report, err = definitions.Import(h.Broker, data, r.PathValue("vhost"))
		}
		if err == nil {
			err = h.durable(r.Context(), report.Seq)
		}
		var refused *definitions.Refused
		switch {
		case errors.As(err, &refused):
			var lines []string
			for _, line := range refused.Lines {
				lines = append(lines, line.String())
			}
			fail(w, problemf(http.StatusBadRequest, "the definitions were refused as a whole, nothing has changed"), lines...)
		case err != nil:
			fail(w, err)
		default:
			send(w, http.StatusOK, Imported{report.Changes, report.Ignored})
		}
	}
	h.mux.HandleFunc("POST /api/definitions", load)
	h.mux.HandleFunc("POST /api/definitions/{vhost}", load)
}

func (h *Handler) connectionRoutes() {
	h.get("/api/connections", list(h.AMQP.Connections))
	h.get("/api/channels", list(h.AMQP.Channels))
	h.get("/api/consumers", list(h.AMQP.Consumers))
	h.mux.HandleFunc("DELETE /api/connections/{name}", func(w http.ResponseWriter, r *http.Request) {
		sel := amqp.Select{Name: r.PathValue("name")}
		n, err := h.closeConnections(r, sel)
		switch {
		case err != nil:
			fail(w, err)
		case n == 0:
			fail(w, problemf(http.StatusNotFound, "there is no connection '%s'", sel.Name))
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	h.mux.HandleFunc("DELETE /api/connections", func(w http.ResponseWriter, r *http.Request) {
		n, err := h.closeConnections(r, amqp.Select{User: r.FormValue("user"), VHost: r.FormValue("vhost")})
		if err != nil {
			fail(w, err)
			return
		}
		send(w, http.StatusOK, map[string]int{"closed": n})
	})
}

func (h *Handler) closeConnections(r *http.Request, sel amqp.Select) (int, error) {
	ctx, cancel := context.WithTimeout(r.Context(), loopTimeout)
	defer cancel()
	reason := r.Header.Get("X-Reason")
	if reason == "" {
		reason = "closed by an operator"
	}
	return h.AMQP.CloseConnections(ctx, sel, reason)
}

// list makes a handler of what loops are asked for.
func list[T any](f func(ctx context.Context) ([]T, error)) func(http.ResponseWriter, *http.Request) (any, error) {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), loopTimeout)
		defer cancel()
		all, err := f(ctx)
		if err != nil {
			return nil, err
		}
		sendAll(w, func(yield func(T) bool) {
			for _, v := range all {
				if !yield(v) {
					return
				}
			}
		})
		return nil, nil
	}
}

// flag reads a parameter that is true, false or absent.
func flag(r *http.Request, name string) (bool, error) {
	text := r.FormValue(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, problemf(http.StatusBadRequest, "%s", fmt.Sprintf("'%s' must be true or false", name))
	}
	return on, nil
}
