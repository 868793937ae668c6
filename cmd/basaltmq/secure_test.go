package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
)

// TestSecureConfig: what the file says of TLS, proxies and logging in arrives.
func TestSecureConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	text := `data_dir = "/data"
[amqp]
tls_port = 7
unix_path = "/run/mq.sock"
proxy_protocol = true
proxy_trusted_sources = ["10.0.0.0/8"]
[http]
tls_port = 8
proxy_protocol = true
[tls]
cert = "c"
key = "k"
ca = "a"
verify_peer = "optional"
min_version = "1.3"
[[tls.sni]]
host = "one"
cert = "c1"
[[tls.sni]]
host = "two"
cert = "c2"
ca = "a2"
verify_peer = "none"
[auth]
backends = ["oauth2", "local"]
mechanisms = ["PLAIN"]
lockout_failures = 3
lockout_time = "2m"
[oauth2]
issuer = "https://id.example.org"
resource_server_id = "mq"
verify_aud = false
client_id = "broker"
client_secret = "s"
mgmt_base_url = "https://mq.example.org"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := config.ParseArgs([]string{"-c", file})
	if err != nil {
		t.Fatal(err)
	}
	c, err := line.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := engineConfig(&c.Config)
	s := e.Secure
	if s.AMQPSPort != 7 || s.UnixPath != "/run/mq.sock" || s.HTTPS.Port() != 8 || len(s.Proxies) != 1 || s.Proxies[0].String() != "10.0.0.0/8" || !slices.Equal(s.HTTPProxies, s.Proxies) || s.Identify == nil {
		t.Errorf("%+v", s)
	}
	tls := s.TLS
	if tls.Cert != "c" || tls.Key != "k" || tls.MinVersion != "1.3" || tls.VerifyPeer != "optional" || len(tls.SNI) != 2 {
		t.Fatalf("%+v", tls)
	}
	if one, two := tls.SNI[0], tls.SNI[1]; one.CA != "a" || one.VerifyPeer != "optional" || two.CA != "a2" || two.VerifyPeer != "none" {
		t.Errorf("%+v", tls.SNI)
	}
	a := e.Auth
	if !slices.Equal(a.Backends, []string{"oauth2", "local"}) || !slices.Equal(a.Mechanisms, []string{"PLAIN"}) || a.LockoutFailures != 3 || a.LockoutTime != 2*time.Minute {
		t.Errorf("%+v", a)
	}
	if o := a.OAuth2; o.Issuer != "https://id.example.org" || o.ResourceServerID != "mq" || o.VerifyAudience || len(o.PreferredUsernameClaims) == 0 || o.CacheTTL != time.Hour {
		t.Errorf("%+v", o)
	}
	if o := a.SSO; o.ClientID != "broker" || o.ClientSecret != "s" || o.BaseURL != "https://mq.example.org" || !slices.Equal(o.Scopes, []string{"openid", "profile"}) {
		t.Errorf("%+v", o)
	}
	off, err := config.ParseArgs([]string{"-D", "/data"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = off.Load(nil); err != nil {
		t.Fatal(err)
	}
	if s := engineConfig(&c.Config).Secure; s.TLS != nil || s.HTTPS.IsValid() || len(s.Proxies) != 0 || len(s.HTTPProxies) != 0 {
		t.Errorf("without TLS: %+v", s)
	}
}

// TestReload_RenewedCertificate: renewed files are named by the log, which said
// that nothing had changed; and so is a client's certificate that names no user.
func TestReload_RenewedCertificate(t *testing.T) {
	t.Parallel()
	ca, files := securetest.NewCA(t), t.TempDir()
	certFile, keyFile := securetest.Write(t, files, "server", ca.Certificate(t, "localhost"))
	file := filepath.Join(files, "basaltmq.toml")
	text := fmt.Sprintf("[amqp]\ntls_port = 0\n[tls]\ncert = %q\nkey = %q\nca = %q\nverify_peer = \"required\"\nuser_from = \"san_email\"\n", certFile, keyFile, ca.WriteCA(t, files))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startBroker(t, t.TempDir(), "-c", file, "--https-port", "-1")
	client := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", Certificates: []tls.Certificate{ca.Certificate(t, "joe")}}
	c, err := tls.Dial("tcp", p.start["amqps"], client)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line := p.line("has no name where tls.user_from looks for it"); !strings.Contains(line, "subject=\"CN=joe\"") && !strings.Contains(line, "subject=CN=joe") {
		t.Errorf("said %s", line)
	}
	securetest.Write(t, files, "server", ca.Certificate(t, "localhost"))
	p.signal(syscall.SIGHUP)
	if line := p.line("new certificates are taken over"); !strings.Contains(line, certFile+" "+keyFile) || strings.Contains(p.stderr(), "nothing has changed") {
		t.Errorf("said %s in\n%s", line, p.stderr())
	}
	p.signal(syscall.SIGHUP)
	p.line("nothing has changed")
}
