package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/inspect"
)

// timeForm shows times in UTC with the milliseconds that records keep.
const timeForm = "2006-01-02T15:04:05.000Z"

// bodyForm says how bodies are shown.
type bodyForm struct {
	form     string // text, hex, base64, none
	bytesMax uint64 // 0: all
}

// cut returns the part of a body that is shown: of text, whole characters.
func (b bodyForm) cut(body []byte) []byte {
	if b.bytesMax == 0 || uint64(len(body)) <= b.bytesMax {
		return body
	}
	part := body[:b.bytesMax]
	if b.form != "text" {
		return part
	}
	for back := 1; back < utf8.UTFMax && back <= len(part); back++ {
		last := part[len(part)-back:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return part[:len(part)-back]
			}
			break
		}
	}
	return part
}

// jsonRecord is a message as JSON. Exactly one of body, body_hex and
// body_base64 is there, unless bodies are not wanted: text that is not UTF-8
// goes as base64.
type jsonRecord struct {
	Offset     uint64         `json:"offset"`
	Time       string         `json:"time"`
	Exchange   string         `json:"exchange"`
	RoutingKey string         `json:"routing_key"`
	Properties map[string]any `json:"properties"`
	Settled    bool           `json:"settled"`
	BodyBytes  uint64         `json:"body_bytes"`
	BodyFile   string         `json:"body_file,omitempty"`
	Truncated  bool           `json:"body_truncated,omitempty"`
	Body       *string        `json:"body,omitempty"`
	BodyHex    *string        `json:"body_hex,omitempty"`
	BodyBase64 *string        `json:"body_base64,omitempty"`
}

// message is a record with its body, which may be in a file of its own.
type message struct {
	*inspect.Record
	size     uint64 // of the whole body
	body     []byte // the part of it that is there; nil with a size: not readable
	bodyFile string
}

// loadBody finds the body of a message of log id: as much of it as is shown.
func (m *message) loadBody(files fs.FS, id uint64, form bodyForm) error {
	m.size, m.body = uint64(len(m.Body)), m.Body
	ref, ok := bodies.DecodeRef(m.Body)
	if !ok || !broker.IsExternal(m.Properties) {
		return nil
	}
	m.Properties = bytes.Clone(m.Properties)
	broker.UnmarkExternal(m.Properties)
	m.size, m.body, m.bodyFile = ref.Size, nil, inspect.BodyFile(id, ref)
	most := form.bytesMax
	if form.form == "none" {
		most = 1
	}
	var err error
	m.body, err = inspect.ReadBody(files, id, ref, most)
	if m.Settled && errors.Is(err, inspect.ErrBody) {
		return nil // it was removed with the message
	}
	return err
}

// record writes one message.
func (b bodyForm) record(w io.Writer, r *message, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(b.json(r))
	}
	settled := ""
	if r.Settled {
		settled = "  settled"
	}
	_, err := fmt.Fprintf(w, "offset %d  %s  exchange %s  key %s%s\n  properties: %s\n  body: %s\n",
		r.Offset, recordTime(r.Timestamp), quote(r.Exchange), quote(r.RoutingKey), settled, propertiesText(r.Properties), b.text(r))
	return err
}

func recordTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeForm) }

// quote shows bytes so that no terminal is confused by them.
func quote(b []byte) string { return strconv.Quote(string(b)) }

// text shows a body on one line.
func (b bodyForm) text(m *message) string {
	part := b.cut(m.body)
	line := fmt.Sprintf("%d bytes", m.size)
	if m.bodyFile != "" {
		line += " in " + m.bodyFile
	}
	if b.form == "none" || len(part) == 0 {
		return line
	}
	if uint64(len(part)) < m.size {
		line += fmt.Sprintf(", the first %d", len(part))
	}
	switch b.form {
	case "hex":
		return line + ": " + hex.EncodeToString(part)
	case "base64":
		return line + ": " + base64.StdEncoding.EncodeToString(part)
	}
	return line + ": " + quote(part)
}

func (b bodyForm) json(r *message) jsonRecord {
	out := jsonRecord{
		Offset: r.Offset, Time: recordTime(r.Timestamp), Exchange: string(r.Exchange), RoutingKey: string(r.RoutingKey),
		Properties: propertiesJSON(r.Properties), Settled: r.Settled, BodyBytes: r.size, BodyFile: r.bodyFile,
	}
	part := b.cut(r.body)
	out.Truncated = uint64(len(part)) < r.size && b.form != "none"
	encoded := ""
	switch {
	case b.form == "none":
	case b.form == "hex":
		encoded = hex.EncodeToString(part)
		out.BodyHex = &encoded
	case b.form == "text" && utf8.Valid(part):
		encoded = string(part)
		out.Body = &encoded
	default:
		encoded = base64.StdEncoding.EncodeToString(part)
		out.BodyBase64 = &encoded
	}
	return out
}
