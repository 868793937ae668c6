package convert

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/config"
)

// Format is a kind of file.
type Format string

// The files that are understood.
const (
	LavinMQ  Format = "lavinmq"
	RabbitMQ Format = "rabbitmq"
)

// Guess tells the kind of a file by its name and text.
func Guess(name, text string) Format {
	switch {
	case filepath.Ext(name) == ".ini":
		return LavinMQ
	case filepath.Ext(name) == ".conf":
		return RabbitMQ
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "[") {
			return LavinMQ
		}
	}
	return RabbitMQ
}

// Note is an entry that is not in the result.
type Note struct {
	Line   int
	Entry  string // as its author calls it
	Reason string
}

func (n Note) String() string { return fmt.Sprintf("line %d: %s: %s", n.Line, n.Entry, n.Reason) }

// Result is a translated file.
type Result struct {
	// Lost entries have a meaning that the result does not have.
	Lost []Note
	// Needless entries are not needed here: nothing is lost.
	Needless []Note

	values map[string]string // by key, as the environment would have them
	from   map[string]entry
	sni    []config.SNI
}

// Convert translates a file. An error means that it cannot be read at all.
func Convert(format Format, text string) (*Result, error) {
	r := &Result{values: map[string]string{}, from: map[string]entry{}}
	var entries []entry
	var err error
	rules := rabbitRules
	if format == LavinMQ {
		rules = lavinRules
		entries, err = readINI(text)
	} else {
		entries, err = readConf(text)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if rule := rules(e); rule != nil {
			rule(r, e)
		} else {
			r.lose(e, "it means nothing here")
		}
	}
	r.finish()
	return r, nil
}

// rule translates an entry.
type rule func(r *Result, e entry)

// put sets a key to a text, as the environment would.
func (r *Result) put(e entry, key, text string) {
	k := config.Find(key)
	if !k.Takes(text) {
		r.lose(e, fmt.Sprintf("%s must be %s", key, k.Allowed()))
		return
	}
	r.values[key], r.from[key] = text, e
}

// add appends to a list.
func (r *Result) add(e entry, key, text string) {
	if old := r.values[key]; old != "" {
		text = old + "," + text
	}
	r.put(e, key, text)
}

func (r *Result) lose(e entry, reason string) {
	r.Lost = append(r.Lost, Note{e.line, e.name(), reason})
}

func (r *Result) spare(e entry, reason string) {
	r.Needless = append(r.Needless, Note{e.line, e.name(), reason})
}

// drop takes a key out again.
func (r *Result) drop(key, reason string) {
	if e, ok := r.from[key]; ok {
		r.lose(e, reason)
		delete(r.values, key)
		delete(r.from, key)
	}
}

// finish mends what does not go together.
func (r *Result) finish() {
	if r.values["amqp.proxy_protocol"] == "true" && r.values["amqp.proxy_trusted_sources"] == "" {
		r.drop("amqp.proxy_protocol", "it needs the proxies' addresses here: set amqp.proxy_protocol and amqp.proxy_trusted_sources")
	}
	if strings.Contains(r.values["auth.backends"], "oauth2") && r.values["oauth2.issuer"] == "" && r.values["oauth2.jwks_uri"] == "" {
		r.drop("auth.backends", "the backend oauth2 needs oauth2.issuer or oauth2.jwks_uri")
	}
	if r.values["oauth2.client_id"] != "" && (r.values["oauth2.mgmt_base_url"] == "" || r.values["oauth2.issuer"] == "" || !strings.Contains(r.values["auth.backends"], "oauth2")) {
		r.drop("oauth2.client_id", "single sign-on needs oauth2.mgmt_base_url, oauth2.issuer and the backend oauth2")
	}
	if r.values["tls.cert"] == "" {
		for _, key := range []string{"tls.key", "tls.ca", "tls.verify_peer"} {
			r.drop(key, "there is no certificate: tls.cert would have to be set")
		}
		if len(r.sni) > 0 {
			r.Lost = append(r.Lost, Note{0, "[sni:...]", "certificates by name need tls.cert, for clients that ask for no name"})
			r.sni = nil
		}
	}
	if v := r.values["tls.verify_peer"]; v != "" && v != "none" && r.values["tls.ca"] == "" {
		r.drop("tls.verify_peer", "it needs tls.ca")
	}
	user, password := r.values["default_user"], r.values["default_password"] != "" || r.values["default_password_hash"] != ""
	switch {
	case user != "" && user != "guest" && !password:
		r.drop("default_user", "a user of that name needs default_password or default_password_hash")
	case user == "" && password:
		r.values["default_user"] = "guest"
	}
	if r.values["default_password"] != "" && r.values["default_password_hash"] != "" {
		r.drop("default_password", "there is default_password_hash as well")
	}
	r.sni = slices.DeleteFunc(r.sni, func(s config.SNI) bool {
		incomplete := s.Host == "" || s.Cert == ""
		if incomplete {
			r.Lost = append(r.Lost, Note{0, "[sni:" + s.Host + "]", "it has no certificate"})
		}
		return incomplete
	})
	for _, key := range []string{"pidfile", "log.file"} {
		if file := r.values[key]; file != "" && filepath.Dir(file) == file {
			r.drop(key, "it is a directory")
		}
	}
	if r.values["amqp.port"] == "-1" && r.values["amqp.unix_path"] == "" && (r.values["tls.cert"] == "" || r.values["amqp.tls_port"] == "-1") {
		r.drop("amqp.port", "no client could connect")
	}
	slices.SortStableFunc(r.Lost, func(a, b Note) int { return a.Line - b.Line })
}

// Write writes the result as a configuration file, with what is lost in comments.
func (r *Result) Write(w io.Writer, source string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Translated from %s. All keys and their defaults: basaltmq --print-default-config\n", source)
	if len(r.Lost) > 0 {
		b.WriteString("#\n# Not translated:\n")
		for _, n := range r.Lost {
			fmt.Fprintf(&b, "# - %s\n", oneLine(n.String()))
		}
	}
	section := "-"
	for _, k := range config.Keys() {
		text, ok := r.values[k.Name]
		if !ok {
			continue
		}
		if k.Section() != section {
			if section = k.Section(); section == "" {
				b.WriteString("\n")
			} else {
				fmt.Fprintf(&b, "\n[%s]\n", section)
			}
		}
		fmt.Fprintf(&b, "%s = %s\n", k.Leaf(), k.LiteralOf(text))
	}
	for _, s := range r.sni {
		b.WriteString("\n[[tls.sni]]\n")
		for _, f := range []struct{ name, text string }{{"host", s.Host}, {"cert", s.Cert}, {"key", s.Key}, {"ca", s.CA}, {"verify_peer", s.VerifyPeer}} {
			if f.text != "" {
				fmt.Fprintf(&b, "%s = %s\n", f.name, config.Quote(f.text))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine keeps a comment a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '\ufffd' {
			return ' '
		}
		return r
	}, s)
}
