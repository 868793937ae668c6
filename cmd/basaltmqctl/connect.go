package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/basaltmq/basaltmq/engine/admin"
)

// How a command finds its broker: by the control socket of a data directory, which
// needs no password, or by the HTTP API. What the command line says comes first,
// then the environment, then the directory that a packaged broker uses.

// defaultDataDir is that of a broker that was not told another.
const defaultDataDir = "/var/lib/basaltmq"

// Variables of the environment.
const (
	envURI      = "BASALTMQCTL_URI"
	envHostname = "BASALTMQCTL_HOSTNAME"
	envUser     = "BASALTMQCTL_USER"
	envPassword = "BASALTMQCTL_PASSWORD"
	envSocket   = "BASALTMQCTL_SOCKET"
	envDataDir  = "BASALTMQCTL_DATA_DIR"
)

// target is what the options say of the broker.
type target struct {
	dir, socket                  *string
	uri, scheme, hostname, port  *string
	user, password, certificates *string
}

// options declares the options that all commands for a running broker have.
func (t *target) options(f *flagSet) {
	t.dir = f.text("D", "data-dir", "DIR", "", "data directory of the broker on this machine")
	t.socket = f.text("", "socket", "FILE", "", "its control socket, instead of the one in the data directory")
	f.alias("socket", "control-unix-path")
	t.uri = f.text("U", "uri", "URI", "", "the HTTP API instead: http(s)://USER:PASSWORD@HOST:PORT")
	t.hostname = f.text("", "hostname", "HOST", "", "the HTTP API of this host")
	f.alias("hostname", "host", "H")
	t.port = f.text("P", "port", "N", "", "its port (15672, with https 15671)")
	t.scheme = f.text("", "scheme", "SCHEME", "http", "http or https")
	t.user = f.text("", "user", "NAME", "", "user of the HTTP API (guest)")
	t.password = f.text("", "password", "TEXT", "", "its password; better in "+envPassword)
	t.certificates = f.text("", "cacert", "FILE", "", "with https: trust the certificates in FILE (PEM)")
	f.text("n", "node", "NAME", "", "ignored: there is one node")
}

// link is the way to a broker.
type link struct {
	base           string // of URLs
	place          string // for messages
	socket         bool
	user, password string
	client         *http.Client
}

func (t *target) connect() (*link, error) {
	remote := *t.uri != "" || *t.hostname != "" || *t.port != ""
	local := *t.socket != "" || *t.dir != ""
	switch {
	case remote && local:
		return nil, usagef("give --uri or --hostname for the HTTP API, or -D or --socket for the control socket, not both")
	case remote:
		return t.overHTTP(*t.uri, *t.hostname)
	case *t.socket != "":
		return overSocket(*t.socket), nil
	case local:
		return overSocket(filepath.Join(*t.dir, admin.SocketName)), nil
	}
	if uri, hostname := os.Getenv(envURI), os.Getenv(envHostname); uri != "" || hostname != "" {
		return t.overHTTP(uri, hostname)
	}
	if name := os.Getenv(envSocket); name != "" {
		return overSocket(name), nil
	}
	dir := os.Getenv(envDataDir)
	if dir == "" {
		dir = defaultDataDir
		if _, err := os.Lstat(filepath.Join(dir, admin.SocketName)); err != nil {
			return nil, usagef("which broker? Give its data directory with -D, its socket with --socket, or the address of its HTTP API with --uri (%s has no %s)", dir, admin.SocketName)
		}
	}
	return overSocket(filepath.Join(dir, admin.SocketName)), nil
}

func overSocket(name string) *link {
	return &link{base: "http://broker", place: name, socket: true, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return admin.Dial(ctx, name) },
	}}}
}

func (t *target) overHTTP(uri, hostname string) (*link, error) {
	from := "--uri"
	if uri == "" {
		from = "--hostname with --port"
		port := *t.port
		if port == "" {
			port = map[string]string{"http": "15672", "https": "15671"}[*t.scheme]
		}
		if hostname == "" {
			hostname = "127.0.0.1"
		}
		uri = *t.scheme + "://" + net.JoinHostPort(hostname, port)
	}
	u, err := url.Parse(uri)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err // without the address, which may have a password in it
		}
		return nil, usagef("%s is not understood: %v", from, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, usagef("%s must be http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ before HOST if need be", from)
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return nil, usagef("%q is not a port", u.Port())
	}
	l := &link{user: "guest", password: "guest"}
	if name := firstOf(*t.user, u.User.Username(), os.Getenv(envUser)); name != "" {
		l.user, l.password = name, ""
	}
	given, _ := u.User.Password()
	l.password = firstOf(*t.password, given, os.Getenv(envPassword), l.password)
	u.User = nil
	u.RawQuery, u.Fragment = "", ""
	l.base = strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/api")
	l.place = l.base
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	if *t.certificates != "" {
		pem, err := os.ReadFile(*t.certificates)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, usagef("%s has no certificate in PEM", *t.certificates)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	l.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return l, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// unreachable says what a failed connection is likely to mean.
func (l *link) unreachable(err error) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var dns *net.DNSError
	var header tls.RecordHeaderError
	switch {
	case l.socket && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s: no broker is running on this data directory, or it is another one that the broker got with -D", l.place)
	case l.socket && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody answers on %s: the broker that made it was killed; start it again", l.place)
	case l.socket && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is for the broker's user only: run as that user or as root, or use the HTTP API with --uri", l.place)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody answers on %s: is the broker running, and its HTTP API on this address and port? By default it listens on 127.0.0.1:15672 only", l.place)
	case errors.As(err, &dns):
		return fmt.Errorf("%s: the host's name is not known: %v", l.place, dns.Err)
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &name):
		return fmt.Errorf("%s: the broker's certificate is not trusted: %w; give its authority with --cacert FILE", l.place, err)
	case errors.As(err, &header), strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s: the broker does not speak TLS there: use http:// or the port for https", l.place)
	case strings.Contains(err.Error(), `malformed HTTP response "AMQP`):
		return fmt.Errorf("%s is for AMQP clients: give the port of the HTTP API, 15672 by default", l.place)
	}
	return fmt.Errorf("the broker did not answer on %s: %w", l.place, err)
}
