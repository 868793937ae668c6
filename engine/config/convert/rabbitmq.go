package convert

import (
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// rabbitKeys are rules by whole keys.
var rabbitKeys = map[string]rule{
	"listeners.tcp":                    rabbitNone("amqp.port"),
	"listeners.ssl":                    rabbitNone("amqp.tls_port"),
	"listeners.tcp.default":            as("amqp.port"),
	"listeners.ssl.default":            as("amqp.tls_port"),
	"ssl_options.cacertfile":           filled("tls.ca"),
	"ssl_options.certfile":             filled("tls.cert"),
	"ssl_options.keyfile":              filled("tls.key"),
	"ssl_options.password":             lost("keys with a passphrase are not read: decrypt the key, and protect the file"),
	"ssl_options.verify":               rabbitVerify,
	"ssl_options.depth":                needless("chains of any length are checked"),
	"ssl_options.crl_check":            lost("lists of revoked certificates are not read"),
	"ssl_cert_login_from":              rabbitLoginFrom,
	"ssl_cert_login_san_type":          rabbitLoginSAN,
	"ssl_handshake_timeout":            milliseconds("amqp.handshake_timeout"),
	"ssl_options.honor_ecc_order":      needless("the order is chosen by what the processor is good at"),
	"ssl_options.honor_cipher_order":   needless("the order is chosen by what the processor is good at"),
	"ssl_options.client_renegotiation": needless("there is no renegotiation"),
	"ssl_options.secure_renegotiate":   needless("there is no renegotiation"),
	"ssl_options.fail_if_no_peer_cert": rabbitDemandCert,

	"default_user":                  as("default_user"),
	"default_pass":                  filled("default_password"),
	"default_vhost":                 rabbitOnly("/", "the default user is made for the virtual host /: use a definitions file for others"),
	"loopback_users":                rabbitNone("loopback_users"),
	"heartbeat":                     as("amqp.heartbeat"),
	"frame_max":                     rabbitFrameMax,
	"channel_max":                   channelMax,
	"max_message_size":              as("max_message_size"),
	"handshake_timeout":             milliseconds("amqp.handshake_timeout"),
	"consumer_timeout":              rabbitConsumerTimeout,
	"proxy_protocol":                truth("amqp.proxy_protocol"),
	"load_definitions":              filled("definitions"),
	"definitions.local.path":        filled("definitions"),
	"definitions.import_backend":    rabbitOnly("local_filesystem", "definitions come from a file only"),
	"definitions.skip_if_unchanged": needless("an import changes only what differs"),
	"management.load_definitions":   filled("definitions"),

	"disk_free_limit.absolute": rabbitDisk,
	"disk_free_limit.relative": lost("the floor is absolute: set disk_free_min"),

	"log.level": logLevel, "log.default.level": logLevel, "log.console.level": logLevel, "log.file.level": logLevel,
	"log.file":              rabbitLogFile,
	"log.dir":               rabbitLogDir,
	"log.console":           needless("lines go to standard error unless log.file is set"),
	"log.exchange":          truth("log.exchange"),
	"log.exchange.level":    needless("the exchange gets the lines of log.level"),
	"log.console.formatter": rabbitFormatter, "log.file.formatter": rabbitFormatter,
	"log.file.rotation.date":  lost("files are not rotated: let logrotate do it, with SIGHUP"),
	"log.file.rotation.size":  lost("files are not rotated: let logrotate do it, with SIGHUP"),
	"log.file.rotation.count": lost("files are not rotated: let logrotate do it, with SIGHUP"),

	"management.tcp.port": as("http.port"), "management.tcp.ip": as("http.bind"), "management.listener.port": as("http.port"), "management.listener.ip": as("http.bind"),
	"management.ssl.port": as("http.tls_port"), "management.ssl.ip": as("http.bind"),
	"management.ssl.cacertfile": rabbitSame("tls.ca"), "management.ssl.certfile": rabbitSame("tls.cert"), "management.ssl.keyfile": rabbitSame("tls.key"),
	"prometheus.tcp.port": as("metrics.port"), "prometheus.tcp.ip": as("metrics.bind"),

	"auth_oauth2.resource_server_id": filled("oauth2.resource_server_id"), "auth_oauth2.issuer": filled("oauth2.issuer"),
	"auth_oauth2.jwks_url": filled("oauth2.jwks_uri"), "auth_oauth2.jwks_uri": filled("oauth2.jwks_uri"),
	"auth_oauth2.scope_prefix": filled("oauth2.scope_prefix"), "auth_oauth2.additional_scopes_key": filled("oauth2.additional_scopes_keys"),
	"auth_oauth2.verify_aud": truth("oauth2.verify_aud"),
}

// rabbitPrefixes are rules for all keys that begin so; the first counts.
var rabbitPrefixes = []struct {
	prefix string
	rule   rule
}{
	{"listeners.tcp.", rabbitListener("amqp.port")},
	{"listeners.ssl.", rabbitListener("amqp.tls_port")},
	{"loopback_users.", rabbitLoopback},
	{"ssl_options.versions.", tlsVersion},
	{"ssl_options.ciphers.", cipherList},
	{"ssl_options.", lost("this option of TLS is not there")},
	{"auth_mechanisms.", rabbitMechanism},
	{"auth_backends.", rabbitBackend},
	{"auth_oauth2.preferred_username_claims.", func(r *Result, e entry) { r.add(e, "oauth2.preferred_username_claims", e.value) }},
	{"auth_oauth2.", lost("this option of OAuth2 is not there")},
	{"auth_ldap.", lost("LDAP is not asked")},
	{"auth_http.", lost("no HTTP service is asked who may do what")},
	{"default_permissions.", rabbitOnly(".*", "the default user has all permissions: use a definitions file for others")},
	{"default_user_tags.", rabbitTags},
	{"vm_memory_high_watermark", needless("memory is bounded whatever the backlog")},
	{"vm_memory", needless("memory is bounded whatever the backlog")},
	{"total_memory", needless("memory is bounded whatever the backlog")},
	{"disk_monitor", needless("free space is looked at every second")},
	{"tcp_listen_options.", needless("sockets are set up by the broker")},
	{"num_acceptors.", needless("one loop accepts")},
	{"collect_statistics", needless("counters are always there, and cost nothing that can be measured")},
	{"queue_index_", needless("messages are stored in another way")},
	{"msg_store_", needless("messages are stored in another way")},
	{"lazy_queue_", needless("all backlogs are on disk")},
	{"background_gc_", needless("memory goes back by itself")},
	{"mirroring_", needless("there are no mirrors")},
	{"reverse_dns_lookups", lost("addresses are not looked up")},
	{"cluster_", lost("there is no clustering")},
	{"quorum_", lost("there is no clustering")},
	{"raft.", lost("there is no clustering")},
	{"net_ticktime", lost("there is no clustering")},
	{"mqtt.", lost("MQTT is not spoken")},
	{"stomp.", lost("STOMP is not spoken")},
	{"web_", lost("MQTT and STOMP are not spoken; AMQP over WebSockets is on the HTTP port")},
	{"stream.", lost("the stream protocol is not spoken; streams are used over AMQP")},
	{"amqp1_0.", lost("AMQP 1.0 is not spoken")},
	{"log.", lost("there is one log: level, format, file and exchange")},
	{"management.oauth_", lost("single sign-on is turned on by oauth2.client_id and oauth2.mgmt_base_url; the issuer has to know another redirect URI")},
	{"management.", lost("this option of the API is not there")},
	{"prometheus.", lost("this option of the metrics is not there")},
}

func rabbitRules(e entry) rule {
	if rule := rabbitKeys[e.key]; rule != nil {
		return rule
	}
	for _, p := range rabbitPrefixes {
		if strings.HasPrefix(e.key, p.prefix) {
			return p.rule
		}
	}
	return nil
}

// rabbitNone is for keys that may be "none".
func rabbitNone(key string) rule {
	return func(r *Result, e entry) {
		switch {
		case e.value != "none":
			r.lose(e, "only none is understood here")
		case key == "loopback_users":
			r.put(e, key, "none")
		default:
			r.put(e, key, "-1")
		}
	}
}

// rabbitOnly is for what has one value here.
func rabbitOnly(value, reason string) rule {
	return func(r *Result, e entry) {
		if e.value == value {
			r.spare(e, "it is so")
		} else {
			r.lose(e, reason)
		}
	}
}

// rabbitSame is for certificates that are the same for all listeners.
func rabbitSame(key string) rule {
	return func(r *Result, e entry) {
		switch r.values[key] {
		case "":
			r.put(e, key, e.value)
		case e.value:
			r.spare(e, "all listeners have the certificates of [tls]")
		default:
			r.lose(e, "all listeners have the certificates of [tls]; another may be in [[tls.sni]]")
		}
	}
}

// rabbitListener reads "port" or "address:port". There is one listener of a kind.
func rabbitListener(key string) rule {
	return func(r *Result, e entry) {
		if _, ok := r.values[key]; ok {
			r.lose(e, "there is one listener of a kind; 0.0.0.0 and :: are all addresses")
			return
		}
		if _, err := strconv.Atoi(e.value); err == nil {
			r.put(e, key, e.value)
			return
		}
		addr, err := netip.ParseAddrPort(e.value)
		if err != nil {
			r.lose(e, fmt.Sprintf("%q is neither a port nor an IP address with a port", e.value))
			return
		}
		r.put(e, key, strconv.Itoa(int(addr.Port())))
		if old := r.values["amqp.bind"]; old != "" && old != addr.Addr().String() {
			r.lose(e, "amqp.bind is one address, and "+old+" already")
			return
		}
		r.put(e, "amqp.bind", addr.Addr().String())
	}
}

func rabbitVerify(r *Result, e entry) {
	switch {
	case e.value == "verify_none":
		r.put(e, "tls.verify_peer", "none")
	case e.value != "verify_peer":
		r.lose(e, fmt.Sprintf("%q is neither verify_peer nor verify_none", e.value))
	case r.values["tls.verify_peer"] != "required":
		r.put(e, "tls.verify_peer", "optional")
	}
}

// rabbitDemandCert makes a certificate that is checked one that has to be there.
func rabbitDemandCert(r *Result, e entry) {
	if e.value == "true" {
		r.put(e, "tls.verify_peer", "required")
	}
}

func rabbitLoginFrom(r *Result, e entry) {
	switch e.value {
	case "common_name":
		r.put(e, "tls.user_from", "cn")
	case "subject_alternative_name", "subject_alt_name":
		if r.values["tls.user_from"] == "" {
			r.put(e, "tls.user_from", "san_dns")
		}
	default:
		r.lose(e, "users are found in the common name or an alternative name")
	}
}

func rabbitLoginSAN(r *Result, e entry) {
	kind, ok := map[string]string{"dns": "san_dns", "email": "san_email", "uri": "san_uri"}[e.value]
	if !ok {
		r.lose(e, "the alternative name is of type dns, email or uri")
		return
	}
	r.put(e, "tls.user_from", kind)
}

func rabbitLoopback(r *Result, e entry) {
	user := strings.TrimPrefix(e.key, "loopback_users.")
	switch {
	case e.value == "true":
		if r.values["loopback_users"] == "none" {
			r.values["loopback_users"] = ""
		}
		r.add(e, "loopback_users", user)
	case r.values["loopback_users"] == "":
		r.put(e, "loopback_users", "none")
	}
}

func rabbitFrameMax(r *Result, e entry) {
	if e.value == "0" {
		r.lose(e, "frames are bounded: the default is 128KiB, the most 1MiB")
		return
	}
	r.put(e, "amqp.frame_max", e.value)
}

func rabbitConsumerTimeout(r *Result, e entry) {
	if e.value == "undefined" || e.value == "false" {
		r.put(e, "amqp.consumer_timeout", "0s")
		return
	}
	milliseconds("amqp.consumer_timeout")(r, e)
}

func rabbitMechanism(r *Result, e entry) {
	if e.value == "RABBIT-CR-DEMO" {
		r.lose(e, "that mechanism was for demonstrations")
		return
	}
	r.add(e, "auth.mechanisms", e.value)
}

func rabbitBackend(r *Result, e entry) {
	switch e.value {
	case "internal", "rabbit_auth_backend_internal":
		r.add(e, "auth.backends", "local")
	case "oauth", "oauth2", "rabbit_auth_backend_oauth2":
		r.add(e, "auth.backends", "oauth2")
	default:
		r.lose(e, "users are asked for from local and oauth2 only")
	}
}

func rabbitTags(r *Result, e entry) {
	switch {
	case e.key == "default_user_tags.administrator" && e.value == "true", e.value == "false" && e.key != "default_user_tags.administrator":
		r.spare(e, "the default user is an administrator")
	default:
		r.lose(e, "the default user is an administrator: use a definitions file for others")
	}
}

// rabbitDisk knows that broker's units.
func rabbitDisk(r *Result, e entry) {
	digits := strings.TrimRight(e.value, "kKmMgGtTiIbB ")
	n, err := strconv.ParseUint(digits, 10, 43)
	unit, ok := map[string]uint64{
		"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "kb": 1000, "m": 1 << 20, "mib": 1 << 20, "mb": 1000_000,
		"g": 1 << 30, "gib": 1 << 30, "gb": 1000_000_000, "t": 1 << 40, "tib": 1 << 40, "tb": 1000_000_000_000,
	}[strings.ToLower(strings.TrimSpace(e.value[len(digits):]))]
	if err != nil || !ok || n > 1<<44/unit {
		r.lose(e, fmt.Sprintf("%q is no size", e.value))
		return
	}
	r.put(e, "disk_free_min", strconv.FormatUint(n*unit, 10))
}

func rabbitLogFile(r *Result, e entry) {
	if e.value == "false" {
		r.spare(e, "lines go to standard error")
		return
	}
	file := e.value
	if dir := r.values["log.file"]; strings.HasSuffix(dir, "/rabbit.log") && !path.IsAbs(file) {
		file = path.Join(path.Dir(dir), file)
	}
	if !path.IsAbs(file) {
		file = path.Join("/var/log/basaltmq", file)
	}
	r.put(e, "log.file", file)
}

func rabbitLogDir(r *Result, e entry) {
	name := "rabbit.log"
	if file := r.values["log.file"]; file != "" {
		name = path.Base(file)
	}
	r.put(e, "log.file", path.Join(e.value, name))
}

func rabbitFormatter(r *Result, e entry) {
	switch e.value {
	case "json":
		r.put(e, "log.format", "json")
	case "plaintext":
		if r.values["log.format"] == "" {
			r.put(e, "log.format", "text")
		}
	default:
		r.lose(e, "formats are text, json and journald")
	}
}
