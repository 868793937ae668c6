package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/admin"
)

// TestConnect_Mistakes: what is wrong with an address, and what to do.
func TestConnect_Mistakes(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.99.3:0") // where nobody else takes a port
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	for want, line := range map[string]string{
		"not both":                                   "ping --uri http://127.0.0.1:1 -D /tmp",
		"--uri must be http://HOST:PORT":             "ping --uri ftp://127.0.0.1",
		"--uri is not understood":                    "ping --uri http://guest:secret@[::1",
		`"99999" is not a port`:                      "ping --uri http://127.0.0.1:99999",
		"is the broker running, and its HTTP API":    "ping --uri http://" + nobody,
		"nobody answers on http://" + nobody:         "ping --hostname 127.0.99.3 --port " + nobody[strings.LastIndex(nobody, ":")+1:],
		"neither text nor json":                      "ping --format xml",
		"--hostname with --port is not understood":   "ping --port abc",
		"No such file":                               "",
		"no certificate in PEM":                      "ping --uri https://127.0.0.1 --cacert /dev/null",
		"open /none/such: no such file":              "ping --uri https://127.0.0.1 --cacert /none/such",
		"there is no /none/such/" + admin.SocketName: "ping -D /none/such",
	} {
		if line == "" {
			continue
		}
		got := ctl(words(line)...)
		if got.status != exitUsage || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 || strings.Contains(got.stderr, "secret") {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
}

// TestConnect_HTTP: names and passwords from the command line, the address and the
// environment; what the broker refuses.
func TestConnect_HTTP(t *testing.T) {
	e, dir := running(t)
	if got := ctl("add_user", "ann", "p:w/d", "--tags", "monitoring", "-D", dir); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	where := e.HTTPAddr().String()
	host, port, _ := strings.Cut(where, ":")
	for _, c := range []struct {
		line        string
		environment map[string]string
		status      int
		stderr      string
	}{
		{"ping --uri http://" + where, nil, 0, ""}, // guest
		{"ping --uri http://" + where + "/api/", nil, 0, ""},
		{"ping --uri http://ann:p%3Aw%2Fd@" + where, nil, 0, ""},
		{"ping --uri http://ann@" + where + " --password p:w/d", nil, 0, ""},
		{"ping --hostname " + host + " -P " + port + " --user ann", map[string]string{envPassword: "p:w/d"}, 0, ""},
		{"ping", map[string]string{envURI: "http://ann:p%3Aw%2Fd@" + where}, 0, ""},
		{"ping", map[string]string{envHostname: host, envUser: "ann", envPassword: "p:w/d"}, 0, ""},
		{"ping", map[string]string{envDataDir: dir}, 0, ""},
		{"ping", map[string]string{envSocket: filepath.Join(dir, admin.SocketName)}, 0, ""},
		{"ping --control-unix-path " + filepath.Join(dir, admin.SocketName), nil, 0, ""},
		{"ping --uri http://ann:wrong@" + where, nil, 1, "Login failed for user 'ann': give a user and its password"},
		{"ping --uri http://ann@" + where, nil, 1, "Login failed"},
		{"list_users --uri http://ann:p%3Aw%2Fd@" + where, nil, 1, "Not administrator user: the tags of user 'ann' do not allow this"},
		{"ping --uri http://" + e.Addr().String(), nil, 2, "is for AMQP clients: give the port of the HTTP API"},
		{"ping --uri https://" + where, nil, 2, "does not speak TLS"},
	} {
		for _, name := range []string{envURI, envHostname, envUser, envPassword, envSocket, envDataDir} {
			t.Setenv(name, c.environment[name])
		}
		if c.environment[envHostname] != "" {
			c.line += " -P " + port
		}
		got := ctl(words(c.line)...)
		if got.status != c.status || !strings.Contains(got.stderr, c.stderr) || c.stderr == "" && got.stderr != "" {
			t.Errorf("%s with %v: %+v, want %d %q", c.line, c.environment, got, c.status, c.stderr)
		}
	}
}

// TestConnect_TLS: a certificate is checked, against an authority that may be
// given; a redirection is not followed.
func TestConnect_TLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/whoami" {
			_, _ = io.WriteString(w, `{"name":"guest"}`)
			return
		}
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, c := range []struct {
		line   string
		status int
		stderr string
	}{
		{"ping --uri " + server.URL, 2, "give its authority with --cacert FILE"},
		{"ping --uri http" + strings.TrimPrefix(server.URL, "https"), 2, "the broker speaks TLS there: use https://"},
		{"ping --uri " + server.URL + " --cacert " + authority, 0, ""},
		{"status --uri " + server.URL + " --cacert " + authority, 2, "is that a broker's HTTP API"},
	} {
		if got := ctl(words(c.line)...); got.status != c.status || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s: %+v, want %d %q", c.line, got, c.status, c.stderr)
		}
	}
}

// TestAwaitStartup: it waits for a broker that comes, and not for ever.
func TestAwaitStartup(t *testing.T) {
	if got := ctl("await_startup", "-D", t.TempDir(), "-t", "0"); got.status != exitUsage || !strings.Contains(got.stderr, "waited for 0s") {
		t.Errorf("%+v", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked <- struct{}{}; len(asked) < 3 {
			hijacked, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				hijacked.Close() // not ready
			}
			return
		}
		_, _ = io.WriteString(w, `{"name":"guest"}`)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if got := ctl("await_startup", "--uri", "http://"+l.Addr().String()); got.status != 0 || len(asked) != 3 {
		t.Errorf("%+v after %d requests", got, len(asked))
	}
}

// TestHealth_Failed: the status tells scripts.
func TestHealth_Failed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/alarms") {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":"failed","reason":"There are alarms in effect in the cluster"}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	if got := ctl("health", "--uri", server.URL); got != (result{exitProblems, "alarms: There are alarms in effect in the cluster\n", ""}) {
		t.Errorf("%+v", got)
	}
	if got := ctl("health", "-f", "json", "--uri", server.URL); got.status != exitProblems || got.stdout != `{"failed":{"alarms":"There are alarms in effect in the cluster"},"status":"failed"}`+"\n" {
		t.Errorf("%+v", got)
	}
}

// TestWithoutBroker: commands that need none.
func TestWithoutBroker(t *testing.T) {
	input(t, "from-input\n")
	for _, c := range []struct {
		line   string
		status int
		part   string
	}{
		{"list_shovels", 2, "this broker has no shovels yet, and nothing was changed"},
		{"add_shovel name --src-uri amqp://", 2, "this broker has no shovels yet, and nothing was changed"},
		{"list_federations -D /none/such", 2, "no federation yet"},
		{"list_queues -f", 2, "option -f needs a value behind it"},
		{"delete_shovel name", 2, "no shovels yet"},
		{"list_federations", 2, "no federation yet"},
		{"add_federation name uri", 2, "no federation yet"},
		{"delete_federation name", 2, "no federation yet"},
		{"completion tcsh", 2, "none of bash, zsh and fish"},
		{"--build-info", 0, "basaltmqctl"},
		{"help queue move", 0, "leaves every"},
	} {
		if got := ctl(words(c.line)...); got.status != c.status || !strings.Contains(got.stdout+got.stderr, c.part) {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
	first, second := ctl("hash_password"), ctl("hash_password", "secret")
	if len(first.stdout) != 49 || len(second.stdout) != 49 || first.stdout == second.stdout {
		t.Errorf("%+v %+v", first, second)
	}
	for _, c := range commands() { // their options do not contradict each other
		if got := ctl(append([]string{"help"}, strings.Fields(c.path)...)...); got.status != 0 || !strings.Contains(got.stdout, "Usage: basaltmqctl "+c.path) {
			t.Errorf("help %s: %+v", c.path, got)
		}
	}
}

// TestDocumented: docs/ctl.md names each command.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/ctl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if !strings.Contains(string(text), "`"+c.path) {
			t.Errorf("docs/ctl.md does not name %s", c.path)
		}
	}
}
