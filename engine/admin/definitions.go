package admin

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/basaltmq/basaltmq/engine/definitions"
)

// definitionsBytesMax lets the importer itself say that a file is too large.
const definitionsBytesMax = definitions.FileBytesMax + 1

// Imported is the answer to an import.
type Imported struct {
	Changes int      `json:"changes"`
	Ignored []string `json:"ignored,omitempty"`
}

func (h *Handler) definitionRoutes() {
	export := func(q *request) (any, error) {
		if _, err := h.hosts(q); err != nil {
			return nil, err
		}
		q.w.Header().Set("Content-Type", "application/json")
		if name := q.query("download"); name != "" {
			q.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
		}
		_ = definitions.Export(q.w, h.Broker, q.PathValue("vhost"), h.Version) // the client is gone
		return nil, nil
	}
	h.get("/api/definitions", Administrator, "Export definitions", export)
	h.get("/api/definitions/{vhost}", Administrator, "Export the definitions of a virtual host", export)
	for _, path := range []string{"", "/upload"} {
		h.answer("POST /api/definitions"+path, Administrator, "Import definitions, wholly or not at all", h.importDefinitions)
	}
	for _, path := range []string{"", "/upload"} {
		h.answer("POST /api/definitions/{vhost}"+path, Administrator, "Import definitions into a virtual host, wholly or not at all", h.importDefinitions)
	}
}

func (h *Handler) importDefinitions(q *request) (any, error) {
	vhost := q.PathValue("vhost")
	if vhost != "" {
		if _, err := h.host(q); err != nil {
			return nil, err
		}
	}
	file, err := uploaded(q)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	report, err := definitions.Import(h.Broker, data, vhost)
	if err == nil {
		err = h.durable(q.Context(), report.Seq)
	}
	var refused *definitions.Refused
	if errors.As(err, &refused) {
		p := &problem{status: http.StatusBadRequest, text: "the definitions were refused as a whole, nothing has changed"}
		for _, line := range refused.Lines {
			p.lines = append(p.lines, line.String())
		}
		return nil, p
	}
	return Imported{report.Changes, report.Ignored}, err
}

// uploaded is the file of a request: its body, or the part of a form that browsers
// send.
func uploaded(q *request) (io.Reader, error) {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		return q.Body, nil
	}
	form, err := q.MultipartReader()
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "the form is not understood: %v", err)
	}
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF:
			return nil, problemf(http.StatusBadRequest, "the form has no field 'file'")
		case err != nil:
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return nil, err
			}
			return nil, problemf(http.StatusBadRequest, "the form is not understood: %v", err)
		case part.FormName() == "file":
			return part, nil
		}
	}
}
