package session

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Address is a parsed AMQP URI.
type Address struct {
	HostPort       string
	Secure         bool // over TLS; see secure.go
	user, password string
	virtualHost    string
	Redacted       string // the URI without its password
	Client         string // how the tool introduces itself
	ClientVersion  string
	Timeout        time.Duration
}

// ParseURI reads amqp://user:password@host:port/vhost; parts may be missing. With
// amqps:// the connection is over TLS.
// The vhost is percent-decoded; an absent or empty one is "/".
func ParseURI(text string) (Address, error) {
	uri, err := url.Parse(text)
	if err != nil {
		return Address{}, fmt.Errorf("--uri is not a URI: %w", err)
	}
	if uri.Scheme != "amqp" && uri.Scheme != "amqps" {
		return Address{}, errors.New("--uri must start with amqp:// or amqps://")
	}
	address := Address{
		user: "guest", password: "guest", virtualHost: "/",
		Redacted: uri.Redacted(), Timeout: 10 * time.Second, Secure: uri.Scheme == "amqps",
	}
	if uri.User != nil {
		address.user = uri.User.Username()
		address.password, _ = uri.User.Password()
	}
	host, port := uri.Hostname(), uri.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "5672"
		if address.Secure {
			port = "5671"
		}
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	address.HostPort = host + ":" + port
	if name := strings.TrimPrefix(uri.EscapedPath(), "/"); name != "" {
		if address.virtualHost, err = url.PathUnescape(name); err != nil {
			return Address{}, fmt.Errorf("--uri: %w", err)
		}
	}
	return address, nil
}
