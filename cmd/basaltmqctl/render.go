package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

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
	BodyBytes  int            `json:"body_bytes"`
	Truncated  bool           `json:"body_truncated,omitempty"`
	Body       *string        `json:"body,omitempty"`
	BodyHex    *string        `json:"body_hex,omitempty"`
	BodyBase64 *string        `json:"body_base64,omitempty"`
}

// record writes one message.
func (b bodyForm) record(w io.Writer, r *inspect.Record, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(b.json(r))
	}
	settled := ""
	if r.Settled {
		settled = "  settled"
	}
	_, err := fmt.Fprintf(w, "offset %d  %s  exchange %s  key %s%s\n  properties: %s\n  body: %s\n",
		r.Offset, recordTime(r.Timestamp), quote(r.Exchange), quote(r.RoutingKey), settled, propertiesText(r.Properties), b.text(r.Body))
	return err
}

func recordTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeForm) }

// quote shows bytes so that no terminal is confused by them.
func quote(b []byte) string { return strconv.Quote(string(b)) }

// text shows a body on one line.
func (b bodyForm) text(body []byte) string {
	part := b.cut(body)
	line := fmt.Sprintf("%d bytes", len(body))
	if b.form == "none" || len(body) == 0 {
		return line
	}
	if len(part) < len(body) {
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

func (b bodyForm) json(r *inspect.Record) jsonRecord {
	out := jsonRecord{
		Offset: r.Offset, Time: recordTime(r.Timestamp), Exchange: string(r.Exchange), RoutingKey: string(r.RoutingKey),
		Properties: propertiesJSON(r.Properties), Settled: r.Settled, BodyBytes: len(r.Body),
	}
	part := b.cut(r.Body)
	out.Truncated = len(part) < len(r.Body) && b.form != "none"
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
