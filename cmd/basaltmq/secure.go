package main

import (
	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/secure/tlsconfig"
)

// secureConfig is what comes before and around plain AMQP.
func secureConfig(c *config.Config) engine.Secure {
	s := engine.Secure{AMQPSPort: c.AMQP.TLSPort, UnixPath: c.AMQP.UnixPath}
	if c.AMQP.ProxyProtocol {
		s.Proxies = c.AMQP.ProxyTrustedSources
	}
	if c.TLS.Cert != "" {
		settings := tlsSettings(&c.TLS)
		s.TLS = &settings
	}
	return s
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
