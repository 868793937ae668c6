package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// FuzzProperties: what is taken for properties can be sent, and comes back as
// JSON that says the same.
func FuzzProperties(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"delivery_mode":2,"priority":255,"timestamp":17,"headers":{"a":[1,"x",null,{"b":1.5}]},"type":"t\u0000\"","app_id":""}`))
	f.Add([]byte(`{"headers":{},"expiration":"5","user_id":null,"unknown":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseProperties(data)
		if err != nil {
			return
		}
		encoded := p.Append(nil)
		if _, err := amqp.DecodeProperties(encoded); err != nil {
			t.Fatalf("%s becomes %x: %v", data, encoded, err)
		}
		shown := appendProperties(nil, encoded)
		if !json.Valid(shown) {
			t.Fatalf("%s is shown as %s", data, shown)
		}
		again, err := parseProperties(shown)
		if err != nil || string(appendProperties(nil, again.Append(nil))) != string(shown) {
			t.Fatalf("%s is shown as %s, and that as %s: %v", data, shown, appendProperties(nil, again.Append(nil)), err)
		}
	})
}

// FuzzPublish: what comes as a publish is refused, or a message that fits.
func FuzzPublish(f *testing.F) {
	f.Add([]byte(`{"properties":{},"routing_key":"k","payload":"x","payload_encoding":"string"}`))
	f.Add([]byte(`{"properties":{"priority":1},"routing_key":"","payload":"/wA=","payload_encoding":"base64"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readPublish(&request{Request: newPublishRequest(t, data)})
		if err == nil && (len(p.RoutingKey) > amqp.ShortStringMax || len(p.Body) > len(data)) {
			t.Fatalf("%s becomes %+v", data, p)
		}
	})
}

func newPublishRequest(t *testing.T, body []byte) *http.Request {
	r, err := http.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
