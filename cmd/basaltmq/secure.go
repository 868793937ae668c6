package main

import (
	"net/netip"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/secure/identity"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/secure/sso"
	"github.com/basaltmq/basaltmq/engine/secure/tlsconfig"
)

// secureConfig is what comes before and around plain AMQP.
func secureConfig(c *config.Config) engine.Secure {
	s := engine.Secure{AMQPSPort: c.AMQP.TLSPort, UnixPath: c.AMQP.UnixPath}
	if c.AMQP.ProxyProtocol {
		s.Proxies = c.AMQP.ProxyTrustedSources
	}
	if c.HTTP.ProxyProtocol {
		s.HTTPProxies = c.AMQP.ProxyTrustedSources
	}
	if c.TLS.Cert != "" {
		settings := tlsSettings(&c.TLS)
		s.TLS = &settings
		if c.HTTP.TLSPort >= 0 {
			s.HTTPS = netip.AddrPortFrom(c.HTTP.Bind, uint16(c.HTTP.TLSPort))
		}
		s.Identify, _ = identity.UserFrom(c.TLS.UserFrom) // checked already
	}
	return s
}

// authConfig is how clients log in.
func authConfig(c *config.Config) engine.Auth {
	return engine.Auth{
		Mechanisms: c.Auth.Mechanisms, Backends: c.Auth.Backends,
		SSO:             sso.Options{ClientID: c.OAuth2.ClientID, ClientSecret: c.OAuth2.ClientSecret, BaseURL: c.OAuth2.MgmtBaseURL, Scopes: c.OAuth2.MgmtScopes},
		LockoutFailures: c.Auth.LockoutFailures, LockoutTime: c.Auth.LockoutTime,
		OAuth2: oauth2.Options{
			Issuer: c.OAuth2.Issuer, JWKSURI: c.OAuth2.JWKSURI, ResourceServerID: c.OAuth2.ResourceServerID,
			VerifyAudience: c.OAuth2.VerifyAud, Audience: c.OAuth2.Audience, PreferredUsernameClaims: c.OAuth2.PreferredUsernameClaims,
			AdditionalScopesKeys: c.OAuth2.AdditionalScopesKeys, ScopePrefix: c.OAuth2.ScopePrefix, CacheTTL: c.OAuth2.JWKSCacheTTL,
		},
	}
}

// tlsSettings are the files of [tls] and [[tls.sni]]; what a name does not set is
// that of [tls].
func tlsSettings(t *config.TLS) tlsconfig.Settings {
	s := tlsconfig.Settings{
		Host:       tlsconfig.Host{Cert: t.Cert, Key: t.Key, CA: t.CA, VerifyPeer: t.VerifyPeer},
		MinVersion: t.MinVersion, Ciphers: t.Ciphers,
	}
	for _, sni := range t.SNI {
		h := tlsconfig.Host{Name: sni.Host, Cert: sni.Cert, Key: sni.Key, CA: sni.CA, VerifyPeer: sni.VerifyPeer}
		if h.CA == "" {
			h.CA = t.CA
		}
		if h.VerifyPeer == "" {
			h.VerifyPeer = t.VerifyPeer
		}
		s.SNI = append(s.SNI, h)
	}
	return s
}

// where is an address in the log.
func where(a netip.AddrPort) string {
	if !a.IsValid() {
		return "off"
	}
	return a.String()
}
