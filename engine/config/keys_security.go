package config

import "time"

var tlsKeys = []Key{
	{Name: "tls.cert", Flags: []string{"cert"}, Argument: "FILE", Reload: true,
		Help:  "certificate chain in PEM; empty is no TLS",
		value: text(func(c *Config) *string { return &c.TLS.Cert })},
	{Name: "tls.key", Flags: []string{"key"}, Argument: "FILE", Reload: true,
		Help:  "private key in PEM; empty if the certificate's file holds it",
		value: text(func(c *Config) *string { return &c.TLS.Key })},
	{Name: "tls.min_version", Flags: []string{"tls-min-version"}, Argument: "VERSION", Default: "1.2", Reload: true,
		Help:  "oldest version that is spoken",
		value: oneOf(func(c *Config) *string { return &c.TLS.MinVersion }, "1.2", "1.3")},
	{Name: "tls.ciphers", Flags: []string{"ciphers"}, Argument: "LIST", Default: "none", Reload: true,
		Help:  "cipher suites of TLS 1.2 by their IANA names; empty is the usual choice",
		value: func(c *Config) value { return words{p: &c.TLS.Ciphers} }},
	{Name: "tls.ca", Flags: []string{"tls-ca"}, Argument: "FILE", Reload: true,
		Help:  "certificates in PEM that clients' certificates are checked with",
		value: text(func(c *Config) *string { return &c.TLS.CA })},
	{Name: "tls.verify_peer", Flags: []string{"tls-verify-peer"}, Argument: "MODE", Default: "none", Reload: true,
		Help:  "clients' certificates: none is asked for, optional, or required",
		value: oneOf(func(c *Config) *string { return &c.TLS.VerifyPeer }, "none", "optional", "required")},
	{Name: "tls.user_from", Default: "cn", Reload: true,
		Help:  "where the mechanism EXTERNAL finds the user in a client's certificate",
		value: oneOf(func(c *Config) *string { return &c.TLS.UserFrom }, "cn", "san_dns", "san_email", "san_uri")},
}

// sniKeys are the keys of a [[tls.sni]]; they exist in the file only.
var sniKeys = []struct {
	name, help string
	value      func(s *SNI) value
}{
	{"host", "the name that clients ask for, or *.domain", func(s *SNI) value { return word{p: &s.Host, filled: true} }},
	{"cert", "certificate chain in PEM", func(s *SNI) value { return word{p: &s.Cert, filled: true} }},
	{"key", "private key in PEM; empty if the certificate's file holds it", func(s *SNI) value { return word{p: &s.Key} }},
	{"ca", "certificates that clients' certificates are checked with; empty is tls.ca", func(s *SNI) value { return word{p: &s.CA} }},
	{"verify_peer", "none, optional or required; absent is tls.verify_peer", func(s *SNI) value {
		return choice{p: &s.VerifyPeer, from: []string{"none", "optional", "required"}}
	}},
}

var authKeys = []Key{
	{Name: "auth.backends", Default: "local",
		Help: "who is asked for a user, in this order: local (the broker's users), oauth2",
		value: func(c *Config) value {
			return words{p: &c.Auth.Backends, from: []string{"local", "oauth2"}, filled: true}
		}},
	{Name: "auth.mechanisms", Default: "PLAIN,AMQPLAIN,SCRAM-SHA-256,EXTERNAL",
		Help: "how AMQP clients may log in, in the order that they are told; EXTERNAL is offered to those with a verified certificate",
		value: func(c *Config) value {
			return words{p: &c.Auth.Mechanisms, from: []string{"PLAIN", "AMQPLAIN", "EXTERNAL", "SCRAM-SHA-256"}, filled: true}
		}},
	{Name: "auth.lockout_failures", Default: "10", Reload: true,
		Help:  "so many failed logins from an address lock it for lockout_time; 0 turns it off",
		value: func(c *Config) value { return number{&c.Auth.LockoutFailures, 0, 1000} }},
	{Name: "auth.lockout_time", Default: "60s", Reload: true,
		Help:  "how long an address is locked, and how long failures count",
		value: func(c *Config) value { return duration{p: &c.Auth.LockoutTime, min: time.Second, max: day} }},

	{Name: "oauth2.issuer",
		Help:  "URL of the tokens' issuer; its keys are found by OpenID Connect discovery",
		value: text(func(c *Config) *string { return &c.OAuth2.Issuer })},
	{Name: "oauth2.jwks_uri",
		Help:  "URL of the keys, where discovery is not wanted",
		value: text(func(c *Config) *string { return &c.OAuth2.JWKSURI })},
	{Name: "oauth2.resource_server_id",
		Help:  "this broker's name in tokens: the audience, and the prefix of scopes",
		value: text(func(c *Config) *string { return &c.OAuth2.ResourceServerID })},
	{Name: "oauth2.verify_aud", Default: "true",
		Help:  "refuse tokens that are not for the audience",
		value: func(c *Config) value { return toggle{&c.OAuth2.VerifyAud} }},
	{Name: "oauth2.audience",
		Help:  "the audience that tokens must name; empty is resource_server_id",
		value: text(func(c *Config) *string { return &c.OAuth2.Audience })},
	{Name: "oauth2.preferred_username_claims", Default: "sub,client_id",
		Help:  "claims that the user's name is taken from, the first that is there",
		value: func(c *Config) value { return words{p: &c.OAuth2.PreferredUsernameClaims, filled: true} }},
	{Name: "oauth2.additional_scopes_keys", Default: "none",
		Help:  "claims that hold scopes besides scope",
		value: func(c *Config) value { return words{p: &c.OAuth2.AdditionalScopesKeys} }},
	{Name: "oauth2.scope_prefix",
		Help:  "what scopes begin with; empty is resource_server_id and a dot",
		value: text(func(c *Config) *string { return &c.OAuth2.ScopePrefix })},
	{Name: "oauth2.jwks_cache_ttl", Default: "1h",
		Help:  "how long keys are kept where the issuer does not say",
		value: func(c *Config) value { return duration{p: &c.OAuth2.JWKSCacheTTL, min: time.Second, max: 30 * day} }},
	{Name: "oauth2.client_id",
		Help:  "this broker's name with the issuer, for single sign-on at the HTTP API; empty is none",
		value: text(func(c *Config) *string { return &c.OAuth2.ClientID })},
	{Name: "oauth2.client_secret", Secret: true,
		Help:  "what proves to the issuer that it is this broker; empty for a public client",
		value: text(func(c *Config) *string { return &c.OAuth2.ClientSecret })},
	{Name: "oauth2.mgmt_base_url",
		Help:  "where browsers find the HTTP API; the issuer has to know this and /oauth/callback as the redirect URI",
		value: text(func(c *Config) *string { return &c.OAuth2.MgmtBaseURL })},
	{Name: "oauth2.mgmt_scopes", Default: "openid,profile",
		Help:  "scopes that single sign-on asks for",
		value: func(c *Config) value { return words{p: &c.OAuth2.MgmtScopes} }},
}
