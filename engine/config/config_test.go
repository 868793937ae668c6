package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// load reads a file's text, an environment and a command line.
func load(t *testing.T, file string, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.toml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cl, err := ParseArgs(append([]string{"-c", path}, args...))
	if err != nil {
		t.Fatal(err)
	}
	l, err := cl.Load(environ)
	if err != nil {
		return l, err
	}
	return l, nil
}

// good is a load that must not fail.
func good(t *testing.T, file string, environ []string, args ...string) *Loaded {
	t.Helper()
	l, err := load(t, file, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPrintDefaults_ParsesBackToTheDefaults(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := PrintDefaults(&b); err != nil {
		t.Fatal(err)
	}
	l := good(t, b.String(), nil)
	if len(l.Warnings) > 0 {
		t.Errorf("warnings %q", l.Warnings)
	}
	want := Default()
	if !reflect.DeepEqual(l.Config, want) {
		t.Errorf("got  %+v\nwant %+v", l.Config, want)
	}
	for _, k := range Keys() {
		if !l.Given(k.Name) {
			t.Errorf("%s is not in the printed file", k.Name)
		}
	}
}

// TestTable: what the table promises holds for each row.
func TestTable(t *testing.T) {
	t.Parallel()
	names, flags, fields := map[string]bool{}, map[string]bool{}, map[any]string{}
	var c Config
	for _, k := range Keys() {
		if names[k.Name] {
			t.Errorf("%s is there twice", k.Name)
		}
		names[k.Name] = true
		if k.Section() != "" && !isSection(k.Section()) {
			t.Errorf("%s: no such section", k.Name)
		}
		if k.Help == "" || strings.HasSuffix(k.Help, ".") || strings.Contains(k.Help, "\n") || strings.Contains(k.Help, "|") {
			t.Errorf("%s: help %q", k.Name, k.Help)
		}
		for _, f := range k.Flags {
			if flags[f] {
				t.Errorf("%s: flag %s is there twice", k.Name, f)
			}
			flags[f] = true
		}
		if len(k.Flags) > 0 && (k.Argument == "") != k.isToggle() {
			t.Errorf("%s: argument %q", k.Name, k.Argument)
		}
		v := k.value(&c)
		field := reflect.ValueOf(v).FieldByName("p").Pointer()
		if other := fields[field]; other != "" {
			t.Errorf("%s and %s are one field", k.Name, other)
		}
		fields[field] = k.Name
		if err := v.set(k.Default); err != nil {
			t.Errorf("%s: its default %q is not allowed", k.Name, k.Default)
		}
		if v.text() != k.Default && !(k.Default == "" && v.text() == "") {
			t.Errorf("%s: default %q is written %q", k.Name, k.Default, v.text())
		}
	}
	if n := countFields(reflect.TypeOf(c)); n != len(Keys())+1 { // and tls.sni
		t.Errorf("Config has %d fields, the table %d rows", n, len(Keys()))
	}
}

func countFields(typ reflect.Type) (n int) {
	for i := range typ.NumField() {
		f := typ.Field(i).Type
		if f.Kind() == reflect.Struct && f.PkgPath() == typ.PkgPath() {
			n += countFields(f)
		} else {
			n++
		}
	}
	return n
}

func TestLoad_Precedence(t *testing.T) {
	t.Parallel()
	const file = "data_dir = \"/file\"\n[amqp]\nport = 1\nheartbeat = 30\n[log]\nlevel = \"error\"\n"
	environ := []string{"BASALTMQ_AMQP_PORT=2", "BASALTMQ_LOG_LEVEL=warn", "HOME=/"}
	l := good(t, file, environ, "-p", "3")
	if l.DataDir != "/file" || l.AMQP.Port != 3 || l.Log.Level != "warn" || l.HTTP.Port != 15672 || l.AMQP.Heartbeat.Seconds() != 30 {
		t.Errorf("%+v", l.Config)
	}
	for key, want := range map[string]string{
		"data_dir": "test.toml:1", "amqp.port": "-p", "log.level": "BASALTMQ_LOG_LEVEL", "http.port": "default",
	} {
		if !strings.HasSuffix(l.Place(key), want) {
			t.Errorf("%s comes from %s, want %s", key, l.Place(key), want)
		}
	}
	// A flag for several keys gives way to one for one of them, in any order.
	l = good(t, "", nil, "--amqp-bind", "10.0.0.1", "-b", "0.0.0.0", "-d")
	if l.AMQP.Bind.String() != "10.0.0.1" || l.HTTP.Bind.String() != "0.0.0.0" || l.Metrics.Bind.String() != "127.0.0.1" || l.Log.Level != "debug" {
		t.Errorf("%+v", l.Config)
	}
}

func TestLoad_Values(t *testing.T) {
	t.Parallel()
	l := good(t, `
loopback_users = []
disk_free_min = 1048576
max_message_size = "64MiB"
set_timestamp = true
drain_timeout = "1m30s"
flush_interval = "25ms"
sync_interval = 2
[amqp]
bind = "::"
frame_max = "64KiB"
proxy_trusted_sources = ["10.0.0.7", "192.168.0.0/16"]
[tls]
cert = "/c.pem"
[[tls.sni]]
host = "*.example.com"
cert = "/e.pem"
verify_peer = "none"
[[tls.sni]]
host = "b"
cert = "/b.pem"
`, nil)
	switch {
	case len(l.LoopbackUsers) != 0, l.DiskFreeMin != 1<<20, l.MessageBytesMax != 64<<20, !l.SetTimestamp, l.DrainTimeout.Seconds() != 90,
		l.FlushInterval != 25*time.Millisecond, l.SyncInterval != 2*time.Second,
		l.AMQP.FrameMax != 64<<10, len(l.AMQP.ProxyTrustedSources) != 2, l.AMQP.ProxyTrustedSources[0].String() != "10.0.0.7/32",
		len(l.TLS.SNI) != 2, l.TLS.SNI[0].Host != "*.example.com", l.TLS.SNI[1].Cert != "/b.pem", l.TLS.SNI[1].VerifyPeer != "":
		t.Errorf("%+v", l.Config)
	}
	l = good(t, "", []string{"BASALTMQ_LOOPBACK_USERS=ann, bob", "BASALTMQ_SET_TIMESTAMP=yes", "BASALTMQ_AMQP_HEARTBEAT=", "BASALTMQ_LOG_FILE="})
	if !reflect.DeepEqual(l.LoopbackUsers, []string{"ann", "bob"}) || !l.SetTimestamp || l.AMQP.Heartbeat.Seconds() != 60 {
		t.Errorf("%+v", l.Config)
	}
}

func TestLoad_SecretsInFiles(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := good(t, "", []string{"BASALTMQ_DEFAULT_USER=ann", "BASALTMQ_DEFAULT_PASSWORD_FILE=" + secret})
	if l.DefaultPassword != "s3cret" || len(l.Warnings) > 0 {
		t.Errorf("%q, %q", l.DefaultPassword, l.Warnings)
	}
	if _, err := load(t, "", []string{"BASALTMQ_DEFAULT_USER=ann", "BASALTMQ_DEFAULT_PASSWORD_FILE=" + secret + "x"}); err == nil || !strings.Contains(err.Error(), "BASALTMQ_DEFAULT_PASSWORD_FILE: ") {
		t.Error(err)
	}
}

func TestLoad_EnvironmentOfOthers(t *testing.T) {
	t.Parallel()
	l := good(t, "", []string{
		"BASALTMQ_PORT=tcp://10.0.0.1:5672", "BASALTMQ_PORT_5672_TCP=tcp://10.0.0.1:5672", "BASALTMQ_PORT_5672_TCP_ADDR=10.0.0.1",
		"BASALTMQ_SERVICE_HOST=10.0.0.1", "BASALTMQ_SERVICE_PORT_AMQP=5672", "BASALTMQ_SOAK=1m", "BASALTMQ_AMQP_PROT=1",
	})
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "BASALTMQ_AMQP_PROT") || !strings.Contains(l.Warnings[0], "BASALTMQ_AMQP_PORT?") {
		t.Errorf("%q", l.Warnings)
	}
	_, err := load(t, "", []string{"BASALTMQ_AMQP_PORT=tcp://10.0.0.1:5672"})
	if err == nil || !strings.Contains(err.Error(), "enableServiceLinks") {
		t.Error(err)
	}
}
