package config

import (
	"errors"
	"strings"
	"testing"
)

func TestLoad_Problems(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, file, want string }{
		{"misspelt key", "[amqp]\n\nprot = 1\n", ":3: unknown key amqp.prot: did you mean amqp.port?"},
		{"misspelt at the top", "durabilty = \"os\"", ":1: unknown key durabilty: did you mean durability?"},
		{"in the wrong section", "heartbeat = 5", "did you mean amqp.heartbeat?"},
		{"in one of two sections", "port = 5", "did you mean amqp.port or http.port or metrics.port or debug.port?"},
		{"nothing near", "[debug]\nsomething = 1", ":2: unknown key debug.something: [debug] has port"},
		{"nothing near at the top", "something_else_entirely = 1", "--print-default-config"},
		{"misspelt section", "\n[ampq]\nport = 1", ":2: unknown section [ampq]: did you mean [amqp]?"},
		{"unknown section", "[clustering]\n", "there are [log], [amqp]"},
		{"section as a key", "amqp = 5", "write [amqp]"},
		{"wrong type", "[amqp]\nport = \"5672\"", `:2: amqp.port = "5672": it must be a whole number from -1 to 65535`},
		{"too large", "[amqp]\nport = 65536", "amqp.port = 65536: it must be a whole number from -1 to 65535"},
		{"fraction", "loops = 1.5", "loops = 1.5: it must be"},
		{"choice", "durability = \"maybe\"", `durability = "maybe": it must be one of fsync, os`},
		{"toggle", "set_timestamp = 1", "set_timestamp = 1: it must be true or false"},
		{"size", "disk_free_min = \"5GB\"", `disk_free_min = "5GB": it must be a number of bytes`},
		{"size out of range", "max_message_size = \"1GiB\"", "to 512MiB"},
		{"negative size", "disk_free_min = -1", "disk_free_min = -1"},
		{"flush interval", "flush_interval = \"2s\"", `it must be a time such as "90s" or "10m", or whole seconds, from 1ms to 1s`},
		{"sync interval", "sync_interval = \"1ms\"", `from 10ms to 60s`},
		{"duration", "drain_timeout = \"soon\"", `drain_timeout = "soon": it must be a time`},
		{"duration of half a second", "[amqp]\nheartbeat = \"500ms\"", "amqp.heartbeat"},
		{"address", "[http]\nbind = \"localhost\"", `http.bind = "localhost": it must be an IP address`},
		{"network", "[amqp]\nproxy_trusted_sources = [\"10.0.0.1/8\"]", `["10.0.0.1/8"]: it must be a list of addresses`},
		{"list of numbers", "loopback_users = [1]", "loopback_users = [1]: it must be a list of texts"},
		{"list as a text", "loopback_users = \"guest\"", "it must be a list"},
		{"list with a stranger", "[auth]\nmechanisms = [\"PLAIN\", \"LOGIN\"]", "AMQPLAIN"},
		{"empty where it may not be", "data_dir = \"\"", "it must be a text that is not empty"},
		{"not TOML", "[amqp]\nport = = 1", ":2: not TOML: "},
		{"twice", "loops = 1\nloops = 2", "not TOML: "},
		{"sni is no table", "[tls]\nsni = 1", "write [[tls.sni]]"},
		{"sni unknown key", "[tls]\ncert = \"a\"\n[[tls.sni]]\nhost = \"a\"\ncert = \"b\"\ncolour = 1", ":6: unknown key colour"},
		{"sni incomplete", "[tls]\ncert = \"a\"\n[[tls.sni]]\nhost = \"a\"\n[[tls.sni]]\nhost = \"b\"\ncert = \"c\"", ":3: this [[tls.sni]] has no cert"},
		{"user without a password", "default_user = \"joe\"", "default_password"},
		{"password without a user", "default_password = \"s3cret\"", "needs a default_user"},
		{"password and hash", "default_user = \"joe\"\ndefault_password = \"s3cret\"\ndefault_password_hash = \"x\"", ":3: default_password and default_password_hash exclude each other"},
		{"key without certificate", "[tls]\nkey = \"k\"", ":2: tls.key needs tls.cert"},
		{"sni without certificate", "[[tls.sni]]\nhost = \"a\"\ncert = \"b\"", "needs tls.cert"},
		{"verify without ca", "[tls]\nverify_peer = \"required\"", "needs tls.ca"},
		{"single sign-on without an address", "[auth]\nbackends = [\"oauth2\"]\n[oauth2]\nissuer = \"https://id.example.org\"\nclient_id = \"mq\"", "oauth2.mgmt_base_url"},
		{"single sign-on without tokens", "[oauth2]\nissuer = \"https://id.example.org\"\nclient_id = \"mq\"\nmgmt_base_url = \"https://mq.example.org\"", "needs the backend oauth2"},
		{"proxies nobody trusts", "[amqp]\nproxy_protocol = true", "proxy_trusted_sources"},
		{"proxies of the API nobody trusts", "[http]\nproxy_protocol = true", "http.proxy_protocol needs amqp.proxy_trusted_sources"},
		{"oauth2 without issuer", "[auth]\nbackends = [\"oauth2\"]", "oauth2.issuer"},
		{"no listener", "[amqp]\nport = -1", "no client could connect"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, row.file, nil)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
}

// TestLoad_AllProblems: a file's mistakes are told all at once, in their order.
func TestLoad_AllProblems(t *testing.T) {
	t.Parallel()
	_, err := load(t, "loops = -1\nxyz_xyz_xyz = 1\n[http]\nport = true\n[amqp]\nport = \"x\"\n", []string{"BASALTMQ_LOOPS=many"}, "--io", "mmap")
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 6 {
		t.Fatal(err)
	}
	for i, want := range []string{":1", ":2", ":4", ":6", "BASALTMQ_LOOPS", "--io"} {
		if !strings.HasSuffix(problems[i].Place, want) {
			t.Errorf("problem %d is at %s, want %s", i, problems[i].Place, want)
		}
	}
}

func TestParseArgs_Bad(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ arg, want string }{
		{"--amqp-prot", "unknown flag --amqp-prot: did you mean --amqp-port?"},
		{"--frame-max", "no flag; set it in the file, or BASALTMQ_AMQP_FRAME_MAX"},
		{"--amqp-channel-max", "BASALTMQ_AMQP_CHANNEL_MAX"},
		{"-x", "unknown flag -x"},
		{"stray", `unexpected argument "stray"`},
		{"-p", "needs an argument"},
	} {
		if _, err := ParseArgs([]string{row.arg}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", row.arg, err, row.want)
		}
	}
}

func TestLoad_NoFile(t *testing.T) {
	t.Parallel()
	cl, err := ParseArgs([]string{"--config", t.TempDir() + "/none.toml"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Load(nil); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"port", "prot", 1}, {"port", "post", 1}, {"kitten", "sitting", 3}, {"loops", "lops", 1}} {
		if got := editDistance(row.a, row.b); got != row.want || editDistance(row.b, row.a) != got {
			t.Errorf("%q %q: %d, want %d", row.a, row.b, got, row.want)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	for _, seed := range []string{"[[tls.tls.sni]]\nhost = 'a'", "tls.tls.x = 1", "[tls.tls.x]", "amqp.x.y.z = {a.b = 1}", "", "a.b.c = 1", "[amqp]\nport = 5672", "[[tls.sni]]\nhost = 'a'", "x = \"\"\"\n\\\n\"\"\"\ny = [1, # [\n2]", "\"a b\".'c' = {d = 1}", "[a]\n[a.b]\n[[a.c]]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		_, err := readFile("f", text, &c)
		var problems Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("%T", err)
		}
		for _, p := range problems {
			if strings.Contains(p.Text, "unknown key") && !strings.HasPrefix(p.Place, "f:") {
				t.Errorf("without a line: %v", p)
			}
		}
		locate(text) // any text: it must come to an end
	})
}
