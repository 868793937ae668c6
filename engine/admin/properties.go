package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// property is a property of messages: where it is in JSON and over AMQP. Exactly
// one of the places is not nil.
type property struct {
	name  string
	flag  uint16
	text  func(p *amqp.Properties) *[]byte
	octet func(p *amqp.Properties) *uint8
}

// properties are all but headers and timestamp.
var properties = []property{
	{"content_type", amqp.FlagContentType, func(p *amqp.Properties) *[]byte { return &p.ContentType }, nil},
	{"content_encoding", amqp.FlagContentEncoding, func(p *amqp.Properties) *[]byte { return &p.ContentEncoding }, nil},
	{"delivery_mode", amqp.FlagDeliveryMode, nil, func(p *amqp.Properties) *uint8 { return &p.DeliveryMode }},
	{"priority", amqp.FlagPriority, nil, func(p *amqp.Properties) *uint8 { return &p.Priority }},
	{"correlation_id", amqp.FlagCorrelationID, func(p *amqp.Properties) *[]byte { return &p.CorrelationID }, nil},
	{"reply_to", amqp.FlagReplyTo, func(p *amqp.Properties) *[]byte { return &p.ReplyTo }, nil},
	{"expiration", amqp.FlagExpiration, func(p *amqp.Properties) *[]byte { return &p.Expiration }, nil},
	{"message_id", amqp.FlagMessageID, func(p *amqp.Properties) *[]byte { return &p.MessageID }, nil},
	{"type", amqp.FlagType, func(p *amqp.Properties) *[]byte { return &p.Type }, nil},
	{"user_id", amqp.FlagUserID, func(p *amqp.Properties) *[]byte { return &p.UserID }, nil},
	{"app_id", amqp.FlagAppID, func(p *amqp.Properties) *[]byte { return &p.AppID }, nil},
	{"cluster_id", amqp.FlagClusterID, func(p *amqp.Properties) *[]byte { return &p.ClusterID }, nil},
}

// parseProperties reads the properties of a message. Names that mean nothing are
// passed over, as RabbitMQ does; an empty array is an empty object, as it writes
// one.
func parseProperties(data json.RawMessage) (p amqp.Properties, err error) {
	if string(data) == "[]" {
		return p, nil
	}
	fields, err := exactjson.Parse(data)
	if err != nil {
		return p, problemf(http.StatusBadRequest, "'properties' %v", err)
	}
	for name, v := range fields {
		if string(v) == "null" {
			continue
		}
		if err := setProperty(&p, name, v); err != nil {
			return p, err
		}
	}
	return p, nil
}

func setProperty(p *amqp.Properties, name string, v json.RawMessage) error {
	bad := func(want string) error {
		return problemf(http.StatusBadRequest, "the property '%s' must be %s", name, want)
	}
	switch name {
	case "headers":
		t, err := tablejson.Parse(v)
		if err != nil {
			return problemf(http.StatusBadRequest, "the property 'headers' %v", err)
		}
		p.Headers, p.Flags = t, p.Flags|amqp.FlagHeaders
		return nil
	case "timestamp":
		n, err := strconv.ParseUint(string(v), 10, 64)
		if err != nil {
			return bad("a number of seconds")
		}
		p.Timestamp, p.Flags = n, p.Flags|amqp.FlagTimestamp
		return nil
	}
	for i := range properties {
		one := &properties[i]
		if one.name != name {
			continue
		}
		if one.octet != nil {
			n, err := strconv.ParseUint(string(v), 10, 8)
			if err != nil {
				return bad("a number from 0 to 255")
			}
			*one.octet(p) = uint8(n)
		} else {
			var text string
			if json.Unmarshal(v, &text) != nil || len(text) > amqp.ShortStringMax {
				return bad("a text of at most 255 bytes")
			}
			*one.text(p) = []byte(text)
		}
		p.Flags |= one.flag
	}
	return nil
}

// appendProperties appends encoded properties as RabbitMQ's API shows them: none
// are an empty array.
func appendProperties(dst []byte, encoded []byte) []byte {
	p, err := amqp.DecodeProperties(encoded)
	if err != nil || p.Flags == 0 {
		return append(dst, "[]"...)
	}
	separator := byte('{')
	begin := func(name string) {
		dst = append(append(append(dst, separator, '"'), name...), '"', ':')
		separator = ','
	}
	for i := range properties {
		one := &properties[i]
		switch {
		case p.Flags&one.flag == 0:
		case one.octet != nil:
			begin(one.name)
			dst = strconv.AppendUint(dst, uint64(*one.octet(&p)), 10)
		default:
			begin(one.name)
			text, _ := json.Marshal(string(*one.text(&p))) // never fails
			dst = append(dst, text...)
		}
	}
	if p.Flags&amqp.FlagTimestamp != 0 {
		begin("timestamp")
		dst = strconv.AppendUint(dst, p.Timestamp, 10)
	}
	if p.Flags&amqp.FlagHeaders != 0 {
		begin("headers")
		if amqp.ValidateTable(p.Headers) != nil {
			p.Headers = nil
		}
		dst = tablejson.Append(dst, p.Headers)
	}
	return append(dst, '}')
}

// payloadText is a payload in JSON: as text if it is one.
func payloadText(body []byte, encoding string) (text, used string) {
	if encoding == encodingAuto && utf8.Valid(body) {
		return string(body), "string"
	}
	return encodeBase64(body), "base64"
}
