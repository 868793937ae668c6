package convert

import (
	"strings"

	"github.com/basaltmq/basaltmq/engine/config"
)

// lavinSection holds the rules of a section by key.
type lavinSection map[string]rule

var lavinSections = map[string]lavinSection{
	"main": {
		"data_dir":  lost("the data directories have different formats: set data_dir to a new one, and bring definitions over with an export and messages with a shovel"),
		"log_level": logLevel,
		"log_file":  filled("log.file"), "pidfile": filled("pidfile"),
		"tls_cert": filled("tls.cert"), "tls_key": filled("tls.key"), "tls_ciphers": cipherList, "tls_min_version": tlsVersion,
		"tls_keylog_file": lost("keys of TLS connections are not written to files"),
		"tls_ktls":        needless("a matter of speed"),
		"set_timestamp":   truth("set_timestamp"),
		"sync":            truthAs("durability", "fsync", "os"),
		"free_disk_min":   as("disk_free_min"), "free_disk_warn": lost("there is no warning before disk_free_min; watch the metric of free disk space"),
		"load_definitions":           filled("definitions"),
		"consumer_timeout":           milliseconds("amqp.consumer_timeout"),
		"log_exchange":               truth("log.exchange"),
		"auth_backends":              lavinBackends,
		"default_consumer_prefetch":  lavinPrefetch,
		"default_user":               as("default_user"),
		"default_password_hash":      filled("default_password_hash"),
		"default_password":           filled("default_password_hash"),
		"default_user_only_loopback": lavinLoopback, "guest_only_loopback": lavinLoopback,
		"metrics_http_bind": as("metrics.bind"), "metrics_http_port": as("metrics.port"),
		"control_unix_path":              lost("the control socket is in the data directory"),
		"data_dir_lock":                  needless("the data directory is always locked"),
		"stats_interval":                 needless("rates are sampled every 5 seconds"),
		"stats_log_size":                 needless("rates are kept for as long as somebody looks"),
		"socket_buffer_size":             needless("buffers grow and shrink by themselves"),
		"tcp_nodelay":                    needless("it is always on"),
		"tcp_keepalive":                  needless("heartbeats find dead connections"),
		"tcp_recv_buffer_size":           needless("the kernel chooses"),
		"tcp_send_buffer_size":           needless("the kernel chooses"),
		"segment_size":                   needless("segments are 64 MiB, and their space is given back in parts"),
		"max_deleted_definitions":        needless("definitions are compacted by themselves"),
		"consumer_timeout_loop_interval": needless("timeouts are timers here"),
		"default_consistent_hash_algorithm": func(r *Result, e entry) {
			if e.value == "ring" {
				r.spare(e, "it is the default")
			} else {
				r.lose(e, "set x-algorithm of the exchanges, or a policy")
			}
		},
		"raise_gc_warn": needless("the collector is another"),
	},
	"amqp": {
		"bind": as("amqp.bind"), "port": as("amqp.port"), "tls_port": as("amqp.tls_port"), "unix_path": filled("amqp.unix_path"),
		"heartbeat": as("amqp.heartbeat"), "frame_max": as("amqp.frame_max"), "channel_max": channelMax,
		"max_message_size": as("max_message_size"),
		"max_consumers_per_channel": func(r *Result, e entry) {
			if e.value == "0" {
				r.spare(e, "it is the default")
			} else {
				r.lose(e, "consumers are limited per channel by 65,536 only")
			}
		},
		"tcp_proxy_protocol": func(r *Result, e entry) {
			switch e.value {
			case "1", "2":
				r.put(e, "amqp.proxy_protocol", "true") // both versions are understood
			default:
				truth("amqp.proxy_protocol")(r, e)
			}
		},
		"proxy_protocol_trusted_sources": filled("amqp.proxy_trusted_sources"),
		"systemd_socket_name":            needless("sockets are recognised by FileDescriptorName="),
		"amqp_systemd_socket_name":       needless("sockets are recognised by FileDescriptorName="),
	},
	"mgmt": {
		"bind": as("http.bind"), "port": as("http.port"), "tls_port": as("http.tls_port"),
		"unix_path":                lost("the API is on the control socket in the data directory, for the broker's user"),
		"systemd_socket_name":      needless("sockets are recognised by FileDescriptorName="),
		"http_systemd_socket_name": needless("sockets are recognised by FileDescriptorName="),
	},
	"oauth": {
		"issuer": filled("oauth2.issuer"), "resource_server_id": filled("oauth2.resource_server_id"),
		"preferred_username_claims": as("oauth2.preferred_username_claims"), "additional_scopes_keys": filled("oauth2.additional_scopes_keys"),
		"scope_prefix": filled("oauth2.scope_prefix"), "verify_aud": truth("oauth2.verify_aud"), "audience": filled("oauth2.audience"),
		"jwks_cache_ttl": as("oauth2.jwks_cache_ttl"),
		"client_id":      filled("oauth2.client_id"),
		"mgmt_base_url":  filled("oauth2.mgmt_base_url"),
		"mgmt_scopes": func(r *Result, e entry) {
			r.put(e, "oauth2.mgmt_scopes", strings.Join(strings.FieldsFunc(e.value, func(c rune) bool { return c == ' ' || c == ',' }), ","))
		},
	},
}

func lavinRules(e entry) rule {
	name := strings.ToLower(e.section)
	switch {
	case name == "http":
		name = "mgmt"
	case strings.HasPrefix(name, "sni:"):
		return lavinSNI
	case name == "mqtt":
		return lost("MQTT is not spoken")
	case name == "clustering" || name == "replication":
		return lost("there is no clustering")
	case name == "experimental":
		return needless("an internal of the other broker")
	}
	return lavinSections[name][strings.ToLower(e.key)]
}

func lavinBackends(r *Result, e entry) {
	if e.value != "" {
		r.put(e, "auth.backends", strings.NewReplacer("oauth2", "oauth2", "oauth", "oauth2", "internal", "local", "[", "", "]", "", `"`, "").Replace(e.value))
	}
}

// lavinPrefetch: that broker's default, 65535, is as good as none.
func lavinPrefetch(r *Result, e entry) {
	if e.value == "65535" {
		e.value = "0"
	}
	r.put(e, "amqp.default_prefetch", e.value)
}

func lavinLoopback(r *Result, e entry) {
	user := r.values["default_user"]
	if user == "" {
		user = "guest"
	}
	truthAs("loopback_users", user, "none")(r, e)
}

// channelMax: 0 is no limit, which cannot be more than the protocol's.
func channelMax(r *Result, e entry) {
	if e.value == "0" {
		e.value = "65535"
	}
	r.put(e, "amqp.channel_max", e.value)
}

// lavinSNI collects the keys of a section [sni:host].
func lavinSNI(r *Result, e entry) {
	host := strings.TrimSpace(e.section[len("sni:"):])
	i := len(r.sni) - 1
	if i < 0 || r.sni[i].Host != host {
		r.sni = append(r.sni, config.SNI{Host: host})
		i++
	}
	s := &r.sni[i]
	switch strings.ToLower(e.key) {
	case "tls_cert":
		s.Cert = e.value
	case "tls_key":
		s.Key = e.value
	case "tls_ca_cert":
		s.CA = e.value
	case "tls_verify_peer":
		switch strings.ToLower(e.value) {
		case "true", "yes", "on", "1":
			s.VerifyPeer = "required"
		default:
			s.VerifyPeer = "none"
		}
	default:
		r.lose(e, "certificates by name have cert, key, ca and verify_peer")
	}
}
