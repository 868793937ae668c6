package convert

import (
	"maps"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/config"
)

// translate converts a text and checks that the result is a good configuration.
func translate(t *testing.T, format Format, text string) (*Result, string) {
	t.Helper()
	r, err := Convert(format, text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := config.CheckText("result", b.String()); err != nil {
		t.Fatalf("the result is not good: %v\n%s", err, b.String())
	}
	return r, b.String()
}

func wantValues(t *testing.T, r *Result, want map[string]string) {
	t.Helper()
	got := r.values
	for key, text := range want {
		if got[key] != text {
			t.Errorf("%s = %q, want %q", key, got[key], text)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("more than expected: %v", got)
	}
}

func wantNotes(t *testing.T, kind string, notes []Note, want ...string) {
	t.Helper()
	if len(notes) != len(want) {
		t.Errorf("%s: %d notes, want %d: %v", kind, len(notes), len(want), notes)
		return
	}
	for i, n := range notes {
		if !strings.Contains(n.String(), want[i]) {
			t.Errorf("%s: %q, want %q", kind, n, want[i])
		}
	}
}

func TestLavinMQ(t *testing.T) {
	t.Parallel()
	r, text := translate(t, LavinMQ, `; a comment
[main]
data_dir = /var/lib/lavinmq
log_level = warning
sync = false
free_disk_min = 1073741824
set_timestamp = true
consumer_timeout = 1800000
default_consumer_prefetch = 65535
default_user = admin
default_password_hash = +pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+
default_user_only_loopback = false
auth_backends = local,oauth
tls_cert = /etc/lavinmq/cert.pem
tls_ciphers = ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:DES-CBC-SHA
tls_min_version = 1.1
stats_interval = 5000
[amqp]
bind = 0.0.0.0
port = 5672 ; usual
heartbeat = 300
channel_max = 0
tcp_proxy_protocol = 2
proxy_protocol_trusted_sources = 10.0.0.0/8,192.168.1.1
[mgmt]
bind = ::
port = 15672
[mqtt]
port = 1883
[oauth]
issuer = https://id.example.com
jwks_cache_ttl = 600
client_id = x
mgmt_base_url = https://mq.example.com
mgmt_scopes = openid roles
[sni:*.example.com]
tls_cert = /etc/e.pem
tls_verify_peer = true
tls_ca_cert = /etc/ca.pem
[sni:bare]
tls_key = /etc/k.pem
`)
	wantValues(t, r, map[string]string{
		"log.level": "warn", "durability": "os", "disk_free_min": "1073741824", "set_timestamp": "true",
		"amqp.consumer_timeout": "30m0s", "amqp.default_prefetch": "0", "default_user": "admin",
		"default_password_hash": "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+", "loopback_users": "none",
		"auth.backends": "local,oauth2", "tls.cert": "/etc/lavinmq/cert.pem",
		"tls.ciphers": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"amqp.bind":   "0.0.0.0", "amqp.port": "5672", "amqp.heartbeat": "300", "amqp.channel_max": "65535",
		"amqp.proxy_protocol": "true", "amqp.proxy_trusted_sources": "10.0.0.0/8,192.168.1.1",
		"http.bind": "::", "http.port": "15672", "oauth2.issuer": "https://id.example.com", "oauth2.jwks_cache_ttl": "600",
		"oauth2.client_id": "x", "oauth2.mgmt_base_url": "https://mq.example.com", "oauth2.mgmt_scopes": "openid,roles",
	})
	wantNotes(t, "lost", r.Lost, "[sni:bare]: it has no certificate", "line 3: [main] data_dir = /var/lib/lavinmq: ", "DES-CBC-SHA", "before 1.2", "MQTT")
	wantNotes(t, "needless", r.Needless, "stats_interval")
	for _, want := range []string{"\n[[tls.sni]]\nhost = \"*.example.com\"\ncert = \"/etc/e.pem\"\nca = \"/etc/ca.pem\"\nverify_peer = \"required\"\n", "# - line 3: [main] data_dir"} {
		if !strings.Contains(text, want) {
			t.Errorf("the result lacks %q:\n%s", want, text)
		}
	}
}

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	r, text := translate(t, RabbitMQ, `# a comment
listeners.tcp.local = 10.0.0.5:5673
listeners.tcp.other = 127.0.0.1:5672
listeners.ssl.default = 5671
ssl_options.cacertfile = /ca.pem
ssl_options.certfile   = /cert.pem
ssl_options.keyfile    = /key.pem
ssl_options.verify     = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
ssl_options.versions.2 = tlsv1.2
ssl_cert_login_from = subject_alternative_name
ssl_cert_login_san_type = email
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
auth_backends.1 = internal
auth_backends.2 = ldap
loopback_users.guest = false
default_user = admin
default_pass = 's3cret #1'
default_permissions.configure = .*
default_user_tags.administrator = true
heartbeat = 30
frame_max = 131072
channel_max = 2047
max_message_size = 134217728
consumer_timeout = 3600000
disk_free_limit.absolute = 2GB
vm_memory_high_watermark.relative = 0.6
log.dir = /var/log/rabbitmq
log.file = rabbit.log
log.file.level = warning
log.file.formatter = json
management.tcp.port = 15673
prometheus.tcp.port = 15693
cluster_formation.peer_discovery_backend = classic_config
mqtt.listeners.tcp.default = 1883
something_unheard_of = 1
`)
	wantValues(t, r, map[string]string{
		"amqp.port": "5673", "amqp.bind": "10.0.0.5", "amqp.tls_port": "5671", "tls.ca": "/ca.pem", "tls.cert": "/cert.pem", "tls.key": "/key.pem",
		"tls.verify_peer": "required", "tls.min_version": "1.2", "tls.user_from": "san_email", "auth.mechanisms": "PLAIN,EXTERNAL",
		"auth.backends": "local", "loopback_users": "none", "default_user": "admin", "default_password": "s3cret #1",
		"amqp.heartbeat": "30", "amqp.frame_max": "131072", "amqp.channel_max": "2047", "max_message_size": "134217728",
		"amqp.consumer_timeout": "1h0m0s", "disk_free_min": "2000000000", "log.file": "/var/log/rabbitmq/rabbit.log", "log.level": "warn",
		"log.format": "json", "http.port": "15673", "metrics.port": "15693",
	})
	wantNotes(t, "lost", r.Lost, "line 3: listeners.tcp.other = 127.0.0.1:5672: there is one listener", "ldap", "clustering", "MQTT", "something_unheard_of = 1: it means nothing here")
	wantNotes(t, "needless", r.Needless, "default_permissions", "default_user_tags", "vm_memory")
	if !strings.Contains(text, `default_password = "s3cret #1"`) {
		t.Error(text)
	}
}

// TestMends: what does not go together here is listed, and the rest is good.
func TestMends(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		format Format
		text   string
		values map[string]string
		lost   string
	}{
		{RabbitMQ, "proxy_protocol = true", nil, "needs the proxies' addresses"},
		{RabbitMQ, "auth_backends.1 = oauth2", nil, "oauth2.issuer"},
		{RabbitMQ, "management.oauth_client_id = x", nil, "oauth2.client_id"},
		{LavinMQ, "[oauth]\nclient_id = x", nil, "oauth2.mgmt_base_url"},
		{RabbitMQ, "default_user = joe", nil, "default_password"},
		{RabbitMQ, "default_pass = x", map[string]string{"default_user": "guest", "default_password": "x"}, ""},
		{RabbitMQ, "listeners.tcp = none", nil, "no client could connect"},
		{RabbitMQ, "ssl_options.verify = verify_peer", nil, "tls.cert"},
		{RabbitMQ, "heartbeat = 100000", nil, "heartbeat = 100000: amqp.heartbeat must be"},
		{RabbitMQ, "channel_max = 0", map[string]string{"amqp.channel_max": "65535"}, ""},
		{RabbitMQ, "consumer_timeout = undefined", map[string]string{"amqp.consumer_timeout": "0s"}, ""},
		{RabbitMQ, "disk_free_limit.absolute = 5 bananas", nil, "is no size"},
		{RabbitMQ, "loopback_users = none", map[string]string{"loopback_users": "none"}, ""},
		{RabbitMQ, "log.file = false", nil, ""},
		{LavinMQ, "[main]\ndefault_user_only_loopback = true", map[string]string{"loopback_users": "guest"}, ""},
		{LavinMQ, "[main]\nsync = maybe", nil, "neither true nor false"},
		{LavinMQ, "[sni:a]\ntls_cert = b", nil, "need tls.cert"},
		{LavinMQ, "[nonsense]\na = b", nil, "means nothing here"},
	} {
		r, _ := translate(t, row.format, row.text)
		if got := r.values; !maps.Equal(got, row.values) {
			t.Errorf("%q: %v", row.text, got)
		}
		if row.lost == "" && len(r.Lost) > 0 || row.lost != "" && (len(r.Lost) == 0 || !strings.Contains(r.Lost[0].String(), row.lost)) {
			t.Errorf("%q: lost %v", row.text, r.Lost)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		format     Format
		text, want string
	}{
		{LavinMQ, "[main\na = b", "line 1: a section's name ends with ]"},
		{LavinMQ, "[main]\nnothing", "line 2"},
		{RabbitMQ, "\n[{rabbit, []}].", "line 2: not key = value (an Erlang file"},
	} {
		if _, err := Convert(row.format, row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v", row.text, err)
		}
	}
	for name, want := range map[string]Format{"a.ini": LavinMQ, "a.conf": RabbitMQ, "a": RabbitMQ} {
		if got := Guess(name, "a = b"); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	if Guess("-", "# x\n[main]\n") != LavinMQ {
		t.Error("sections are LavinMQ's")
	}
}

// TestRules: whatever a rule is for, it names a key that there is.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "1", "true", "/a", "x:y"} {
		for key := range rabbitKeys {
			translate(t, RabbitMQ, key+" = "+value)
		}
		for section, rules := range lavinSections {
			for key := range rules {
				translate(t, LavinMQ, "["+section+"]\n"+key+" = "+value)
			}
		}
	}
}

func fuzz(f *testing.F, format Format) {
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Convert(format, text)
		if err != nil {
			return
		}
		var b strings.Builder
		_ = r.Write(&b, "test")
		if _, err := config.CheckText("result", b.String()); err != nil {
			t.Fatalf("the result is not good: %v\n%s", err, b.String())
		}
	})
}

func FuzzLavinMQ(f *testing.F) {
	f.Add("[main]\nlog_level = debug\n[sni:a]\ntls_cert = b\n[amqp]\nport=1 ; x")
	f.Add("[main]\ndefault_user = a\ndefault_password_hash = b\nlog_file = /\ntls_cert = c\ntls_ciphers = x:y")
	fuzz(f, LavinMQ)
}

func FuzzRabbitMQ(f *testing.F) {
	f.Add("listeners.tcp.1 = [::1]:5672\nloopback_users.guest = true\nlog.dir = /\nlog.file = a")
	f.Add("default_pass = 'x\"\\'\nauth_mechanisms.1 = PLAIN\ndisk_free_limit.absolute = 1TiB")
	fuzz(f, RabbitMQ)
}
