package config

import (
	"net/netip"
	"time"
)

// Config is the whole configuration. The meaning of each field is in the table of
// keys (keys.go).
type Config struct {
	DataDir             string
	Durability          string // fsync, os
	FlushInterval       time.Duration
	SyncInterval        time.Duration
	IO                  string // auto, uring, posix
	Loops               int    // 0: one per core
	Definitions         string
	DefaultUser         string
	DefaultPassword     string
	DefaultPasswordHash string
	LoopbackUsers       []string
	DiskFreeMin         int64 // bytes; 0: no floor
	MessageBytesMax     int64
	SetTimestamp        bool
	PIDFile             string
	DrainTimeout        time.Duration

	Log     Log
	AMQP    AMQP
	HTTP    HTTP
	Metrics Metrics
	Debug   Debug
	TLS     TLS
	Auth    Auth
	OAuth2  OAuth2
}

// Log is the section [log].
type Log struct {
	Level    string // debug, info, warn, error
	Format   string // text, json, journald
	File     string // empty: stderr
	Exchange bool
}

// AMQP is the section [amqp]. A port of -1 is off, 0 is a free one.
type AMQP struct {
	Bind                netip.Addr
	Port, TLSPort       int
	UnixPath            string
	Heartbeat           time.Duration // 0: none is proposed
	FrameMax            int64         // bytes
	ChannelMax          int
	HandshakeTimeout    time.Duration
	DefaultPrefetch     int           // 0: unlimited
	ConsumerTimeout     time.Duration // 0: never
	ProxyProtocol       bool
	ProxyTrustedSources []netip.Prefix
}

// HTTP is the section [http]. A port of -1 is off, 0 is a free one.
type HTTP struct {
	Bind          netip.Addr
	Port, TLSPort int
	ProxyProtocol bool // from amqp.proxy_trusted_sources
}

// Metrics is the section [metrics]. A port of -1 is off, 0 is a free one.
type Metrics struct {
	Bind netip.Addr
	Port int
}

// Debug is the section [debug]. Port 0 is off.
type Debug struct{ Port int }

// TLS is the section [tls].
type TLS struct {
	Cert, Key  string
	MinVersion string // 1.2, 1.3
	Ciphers    []string
	CA         string
	VerifyPeer string // none, optional, required
	UserFrom   string // cn, san_dns, san_email, san_uri
	SNI        []SNI
}

// SNI is one [[tls.sni]]: the certificate for a host name.
type SNI struct {
	Host, Cert, Key, CA string
	VerifyPeer          string // empty: as [tls]
}

// Auth is the section [auth].
type Auth struct {
	Backends        []string // local, oauth2
	Mechanisms      []string
	LockoutFailures int // 0: off
	LockoutTime     time.Duration
}

// OAuth2 is the section [oauth2].
type OAuth2 struct {
	Issuer                  string
	JWKSURI                 string
	ResourceServerID        string
	VerifyAud               bool
	Audience                string
	PreferredUsernameClaims []string
	AdditionalScopesKeys    []string
	ScopePrefix             string
	JWKSCacheTTL            time.Duration

	// Single sign-on.
	ClientID, ClientSecret string
	MgmtBaseURL            string
	MgmtScopes             []string
}
