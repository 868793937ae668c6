package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/config"
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
