package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEffective: all keys with their values, where those come from, and nothing
// that is secret.
func TestEffective(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	text := `default_user = "admin"
default_password = "hidden-1"
[amqp]
proxy_trusted_sources = ["10.0.0.0/8"]
[log]
file = "/var/log/\u0001\"x\".log"
[tls]
cert = "c"
[[tls.sni]]
host = "one"
cert = "c1"
[oauth2]
issuer = "https://user:hidden-2@id.example.org"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := ParseArgs([]string{"-c", file, "--amqp-port", "7"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := line.Load([]string{"BASALTMQ_OAUTH2_CLIENT_SECRET=hidden-3", "BASALTMQ_LOOPS=3"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(l.Effective(l.Place))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hidden-") {
		t.Errorf("a secret is shown: %s", data)
	}
	var list []struct {
		Name, From     string
		Value, Default any
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range list {
		value, err := json.Marshal(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Name] = string(value) + " " + strings.Replace(s.From, file, "FILE", 1)
	}
	for name, want := range map[string]string{
		"default_user": `"admin" FILE:1`, "default_password": `"********" FILE:2`, "default_password_hash": `"" default`,
		"amqp.port": "7 --amqp-port", "amqp.proxy_trusted_sources": `["10.0.0.0/8"] FILE:4`, "amqp.proxy_protocol": "false default", "loops": "3 BASALTMQ_LOOPS",
		"log.file": `"/var/log/\u0001\"x\".log" FILE:6`, "oauth2.client_secret": `"********" BASALTMQ_OAUTH2_CLIENT_SECRET`,
		"oauth2.issuer": `"https://user:xxxxx@id.example.org" FILE:13`, "disk_free_min": `"128MiB" default`,
		"tls.sni": `[{"ca":"","cert":"c1","host":"one","key":"","verify_peer":""}] FILE:9`,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if len(list) != len(keys)+1 {
		t.Errorf("%d keys", len(list))
	}
}
