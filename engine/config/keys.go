package config

import (
	"slices"
	"strings"
	"time"
)

// Key is one row of the table.
type Key struct {
	// Name is the path in the file: "data_dir", "amqp.port".
	Name string
	// Flags are the command line's names, the first of one letter or not; none
	// for what nobody sets by hand. Argument stands for the value in the help.
	Flags    []string
	Argument string
	// Default is the value as the environment would have it.
	Default string
	// Help is one line, without a full stop.
	Help string
	// Reload: a running broker takes a new value on SIGHUP.
	Reload bool
	// Secret values are never shown; the variable with _FILE behind its name may
	// name a file that holds one.
	Secret bool

	value func(c *Config) value
}

// Section returns "amqp" of "amqp.port", and "" for keys above all sections.
func (k *Key) Section() string {
	section, _, ok := strings.Cut(k.Name, ".")
	if !ok {
		return ""
	}
	return section
}

// Leaf returns "port" of "amqp.port".
func (k *Key) Leaf() string { return k.Name[strings.LastIndexByte(k.Name, '.')+1:] }

// Env is the name of the environment variable.
func (k *Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Allowed completes "must be ...".
func (k *Key) Allowed() string { return k.value(new(Config)).allowed() }

// Literal is the default in TOML.
func (k *Key) Literal() string { return k.value(new(Config)).literal(k.Default) }

// Text is the key's value in c, as the environment would have it.
func (k *Key) Text(c *Config) string { return k.value(c).text() }

func (k *Key) isToggle() bool {
	_, ok := k.value(new(Config)).(toggle)
	return ok
}

const envPrefix = "BASALTMQ_"

// Section is a table of the file.
type Section struct{ Name, Help string }

// Sections are all sections, in the order of the file.
var Sections = []Section{
	{"", "The broker"},
	{"log", "Logs"},
	{"amqp", "Clients that speak AMQP 0-9-1"},
	{"http", "The HTTP API, and AMQP over WebSockets"},
	{"metrics", "Prometheus metrics, without a password"},
	{"debug", "Profiling of the broker itself"},
	{"tls", "TLS, for AMQPS and HTTPS"},
	{"auth", "Who may log in, and how"},
	{"oauth2", "Tokens instead of passwords"},
}

// Limits of values.
const (
	messageBytesMax = 512 << 20 // as RabbitMQ's
	frameBytesMin   = 4 << 10   // the specification's frame-min-size
	frameBytesMax   = 1 << 20
	diskFreeMax     = 16 << 40
	day             = 24 * time.Hour
)

func port(p func(c *Config) *int) func(c *Config) value {
	return func(c *Config) value { return number{p(c), -1, 65535} }
}

func text(p func(c *Config) *string) func(c *Config) value {
	return func(c *Config) value { return word{p: p(c)} }
}

func oneOf(p func(c *Config) *string, from ...string) func(c *Config) value {
	return func(c *Config) value { return choice{p: p(c), from: from} }
}

// keys is the table. A new key is a row here and a field in Config.
var keys = slices.Concat(brokerKeys, logKeys, amqpKeys, httpKeys, tlsKeys, authKeys)

// Keys returns the table, in the order of the file.
func Keys() []Key { return keys }

var brokerKeys = []Key{
	{Name: "data_dir", Flags: []string{"D", "data-dir"}, Argument: "DIR", Default: "/var/lib/basaltmq",
		Help:  "where messages and definitions are kept; made if it is missing",
		value: func(c *Config) value { return word{p: &c.DataDir, filled: true} }},
	{Name: "durability", Flags: []string{"durability"}, Argument: "LEVEL", Default: "fsync",
		Help:  "what a publisher confirm means: fsync, on stable storage; os, in the page cache, which survives a crash of the broker but not of the machine",
		value: oneOf(func(c *Config) *string { return &c.Durability }, "fsync", "os")},
	{Name: "flush_interval", Flags: []string{"flush-interval"}, Argument: "TIME", Default: "10ms",
		Help:  "how long a persistent message that nobody has confirmed may stay in the broker's memory alone",
		value: func(c *Config) value { return duration{p: &c.FlushInterval, min: time.Millisecond, max: time.Second} }},
	{Name: "sync_interval", Flags: []string{"sync-interval"}, Argument: "TIME", Default: "1s",
		Help: "how long it, and acks, may stay in the page cache alone, where the end of the machine takes them; confirms do not wait for it",
		value: func(c *Config) value {
			return duration{p: &c.SyncInterval, min: 10 * time.Millisecond, max: time.Minute}
		}},
	{Name: "io", Flags: []string{"io"}, Argument: "BACKEND", Default: "auto",
		Help:  "how sockets and files are driven: posix, uring (io_uring), or auto, what measured faster",
		value: oneOf(func(c *Config) *string { return &c.IO }, "auto", "posix", "uring")},
	{Name: "loops", Flags: []string{"loops"}, Argument: "N", Default: "0",
		Help:  "event loops; 0 is one per core",
		value: func(c *Config) value { return number{&c.Loops, 0, 256} }},
	{Name: "definitions", Flags: []string{"definitions"}, Argument: "FILE",
		Help:  "a definitions file, as RabbitMQ and LavinMQ export them, imported at every start, wholly or not at all; if it has users, the default user is not made",
		value: text(func(c *Config) *string { return &c.Definitions })},
	{Name: "default_user", Flags: []string{"default-user"}, Argument: "NAME", Default: "guest",
		Help:  "the user that the first start on a data directory makes: an administrator with all permissions",
		value: func(c *Config) value { return word{p: &c.DefaultUser, filled: true} }},
	{Name: "default_password", Flags: []string{"default-password"}, Argument: "PASSWORD", Default: "guest", Secret: true,
		Help:  "the default user's password",
		value: text(func(c *Config) *string { return &c.DefaultPassword })},
	{Name: "default_password_hash", Flags: []string{"default-password-hash"}, Argument: "HASH", Secret: true,
		Help:  "the hash of the default user's password instead of the password (basaltmqctl hash_password makes one)",
		value: text(func(c *Config) *string { return &c.DefaultPasswordHash })},
	{Name: "loopback_users", Flags: []string{"loopback-users"}, Argument: "LIST", Default: "guest",
		Help:  "users that may only connect from this machine",
		value: func(c *Config) value { return words{p: &c.LoopbackUsers} }},
	{Name: "disk_free_min", Flags: []string{"disk-free-min"}, Argument: "SIZE", Default: "128MiB", Reload: true,
		Help:  "below this much free space in the data directory publishers are blocked; 0 turns it off",
		value: func(c *Config) value { return size{&c.DiskFreeMin, 0, diskFreeMax} }},
	{Name: "max_message_size", Flags: []string{"max-message-size", "max-message"}, Argument: "SIZE", Default: "128MiB", Reload: true,
		Help:  "largest body of a message; a larger one is refused with 406",
		value: func(c *Config) value { return size{&c.MessageBytesMax, 1, messageBytesMax} }},
	{Name: "set_timestamp", Flags: []string{"set-timestamp"}, Default: "false",
		Help:  "give messages that come without a timestamp property the time of their arrival",
		value: func(c *Config) value { return toggle{&c.SetTimestamp} }},
	{Name: "pidfile", Flags: []string{"pidfile"}, Argument: "FILE",
		Help:  "a file that holds the process's number while the broker runs",
		value: text(func(c *Config) *string { return &c.PIDFile })},
	{Name: "drain_timeout", Flags: []string{"drain-timeout"}, Argument: "TIME", Default: "5s", Reload: true,
		Help:  "how long a stop waits for clients to answer that they have closed",
		value: func(c *Config) value { return duration{p: &c.DrainTimeout, max: time.Hour} }},
}

var logKeys = []Key{
	{Name: "log.level", Flags: []string{"l", "log-level"}, Argument: "LEVEL", Default: "info", Reload: true,
		Help:  "the least important lines that are written: debug, info, warn or error",
		value: oneOf(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error")},
	{Name: "log.format", Flags: []string{"log-format"}, Argument: "FORMAT", Default: "text",
		Help:  "text (key=value), json, or journald",
		value: oneOf(func(c *Config) *string { return &c.Log.Format }, "text", "json", "journald")},
	{Name: "log.file", Flags: []string{"log-file"}, Argument: "FILE",
		Help:  "the file that lines are appended to, opened anew on SIGHUP; empty is standard error",
		value: text(func(c *Config) *string { return &c.Log.File })},
	{Name: "log.exchange", Flags: []string{"log-exchange"}, Default: "false",
		Help:  "publish lines to the exchange amq.basaltmq.log of the virtual host /",
		value: func(c *Config) value { return toggle{&c.Log.Exchange} }},
}

var amqpKeys = []Key{
	{Name: "amqp.bind", Flags: []string{"amqp-bind"}, Argument: "ADDR", Default: "127.0.0.1",
		Help:  "address to listen on; 0.0.0.0 or :: is all",
		value: func(c *Config) value { return address{p: &c.AMQP.Bind} }},
	{Name: "amqp.port", Flags: []string{"p", "amqp-port"}, Argument: "PORT", Default: "5672",
		Help:  "port without TLS; 0 picks a free one, -1 turns it off",
		value: port(func(c *Config) *int { return &c.AMQP.Port })},
	{Name: "amqp.tls_port", Flags: []string{"amqps-port"}, Argument: "PORT", Default: "5671",
		Help:  "port with TLS, open when tls.cert is given; 0 picks a free one, -1 turns it off",
		value: port(func(c *Config) *int { return &c.AMQP.TLSPort })},
	{Name: "amqp.unix_path", Flags: []string{"amqp-unix-path"}, Argument: "FILE",
		Help:  "a unix socket to listen on as well",
		value: text(func(c *Config) *string { return &c.AMQP.UnixPath })},
	{Name: "amqp.heartbeat", Flags: []string{"heartbeat"}, Argument: "TIME", Default: "60s", Reload: true,
		Help: "heartbeat proposed to clients; 0 proposes none",
		value: func(c *Config) value {
			return duration{p: &c.AMQP.Heartbeat, max: 65535 * time.Second, unit: time.Second}
		}},
	{Name: "amqp.frame_max", Default: "128KiB", Reload: true,
		Help:  "largest frame",
		value: func(c *Config) value { return size{&c.AMQP.FrameMax, frameBytesMin, frameBytesMax} }},
	{Name: "amqp.channel_max", Default: "2047", Reload: true,
		Help:  "channels of a connection",
		value: func(c *Config) value { return number{&c.AMQP.ChannelMax, 1, 65535} }},
	{Name: "amqp.handshake_timeout", Default: "10s", Reload: true,
		Help:  "how long a client may take from connecting to having opened its virtual host",
		value: func(c *Config) value { return duration{p: &c.AMQP.HandshakeTimeout, min: time.Second, max: time.Hour} }},
	{Name: "amqp.default_prefetch", Flags: []string{"default-consumer-prefetch"}, Argument: "N", Default: "0", Reload: true,
		Help:  "prefetch of channels whose client does not set one; 0 is unlimited",
		value: func(c *Config) value { return number{&c.AMQP.DefaultPrefetch, 0, 65535} }},
	{Name: "amqp.consumer_timeout", Default: "0s", Reload: true,
		Help:  "how long a delivery may stay unacknowledged before its channel is closed, where neither queue, policy nor consumer says; 0 is for ever",
		value: func(c *Config) value { return duration{p: &c.AMQP.ConsumerTimeout, max: 365 * day} }},
	{Name: "amqp.proxy_protocol", Default: "false",
		Help:  "take the PROXY protocol (version 1 or 2) from the addresses in proxy_trusted_sources",
		value: func(c *Config) value { return toggle{&c.AMQP.ProxyProtocol} }},
	{Name: "amqp.proxy_trusted_sources", Default: "none",
		Help:  "addresses and networks whose PROXY protocol headers are believed",
		value: func(c *Config) value { return prefixes{p: &c.AMQP.ProxyTrustedSources} }},
}

var httpKeys = []Key{
	{Name: "http.bind", Flags: []string{"http-bind"}, Argument: "ADDR", Default: "127.0.0.1",
		Help:  "address to listen on",
		value: func(c *Config) value { return address{p: &c.HTTP.Bind} }},
	{Name: "http.port", Flags: []string{"http-port"}, Argument: "PORT", Default: "15672",
		Help:  "port without TLS; 0 picks a free one, -1 turns it off",
		value: port(func(c *Config) *int { return &c.HTTP.Port })},
	{Name: "http.tls_port", Flags: []string{"https-port"}, Argument: "PORT", Default: "15671",
		Help:  "port with TLS, open when tls.cert is given; 0 picks a free one, -1 turns it off",
		value: port(func(c *Config) *int { return &c.HTTP.TLSPort })},
	{Name: "http.proxy_protocol", Default: "false",
		Help:  "take the PROXY protocol (version 1 or 2) from the addresses in amqp.proxy_trusted_sources",
		value: func(c *Config) value { return toggle{&c.HTTP.ProxyProtocol} }},
	{Name: "metrics.bind", Flags: []string{"metrics-http-bind"}, Argument: "ADDR", Default: "127.0.0.1",
		Help:  "address to listen on",
		value: func(c *Config) value { return address{p: &c.Metrics.Bind} }},
	{Name: "metrics.port", Flags: []string{"metrics-http-port"}, Argument: "PORT", Default: "15692",
		Help:  "port; 0 picks a free one, -1 turns it off",
		value: port(func(c *Config) *int { return &c.Metrics.Port })},
	{Name: "debug.port", Flags: []string{"debug-port"}, Argument: "PORT", Default: "0",
		Help:  "port on 127.0.0.1 for /debug/pprof; 0 is off",
		value: func(c *Config) value { return number{&c.Debug.Port, 0, 65535} }},
}

// Find returns the row of a name; nil if there is none.
func Find(name string) *Key { return find(name) }

// Takes says whether a text, as the environment has it, is an allowed value.
func (k *Key) Takes(text string) bool { return k.value(new(Config)).set(text) == nil }

// LiteralOf is a text that the key takes in TOML.
func (k *Key) LiteralOf(text string) string {
	v := k.value(new(Config))
	_ = v.set(text)
	return v.literal(v.text())
}

// Quote makes a string of TOML.
func Quote(text string) string { return quote(text) }
