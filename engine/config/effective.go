package config

import (
	"encoding/json"
	"net/url"
	"strings"
)

// Setting is a key as it is in force.
type Setting struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"` // what TOML would have there; secrets are masked
	Default json.RawMessage `json:"default"`
	// From is where it was set: a file and line, a variable, a flag, or default.
	From   string `json:"from"`
	Reload bool   `json:"reload"` // a running broker takes a new value
}

// masked is in the place of what is nobody's business.
const masked = "********"

// Effective lists all keys of c, in the order of the file. place says where a key
// was set.
func (c *Config) Effective(place func(name string) string) []Setting {
	list := make([]Setting, 0, len(keys)+1)
	for i := range keys {
		k := &keys[i]
		s := Setting{Name: k.Name, Value: k.shown(c), Default: json.RawMessage(k.Literal()), From: place(k.Name), Reload: k.Reload}
		if k.Secret && k.Default != "" {
			s.Default = json.RawMessage(quote(masked))
		}
		list = append(list, s)
	}
	sni := make([]map[string]string, len(c.TLS.SNI))
	for i := range c.TLS.SNI {
		sni[i] = map[string]string{}
		for _, k := range sniKeys {
			sni[i][k.name] = k.value(&c.TLS.SNI[i]).text()
		}
	}
	data, err := json.Marshal(sni)
	if err != nil {
		panic("config: " + err.Error()) // maps of texts
	}
	return append(list, Setting{Name: "tls.sni", Value: data, Default: json.RawMessage("[]"), From: place("tls.sni"), Reload: true})
}

// shown is a key's value in TOML, of which JSON has the same, without secrets.
func (k *Key) shown(c *Config) json.RawMessage {
	text := k.Text(c)
	if k.Secret && text != "" {
		text = masked
	}
	if strings.Contains(text, "://") {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			text = u.Redacted()
		}
	}
	return json.RawMessage(k.value(c).literal(text))
}
