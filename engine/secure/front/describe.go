package front

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
)

// Describe words a TLS connection in the terms of RabbitMQ's tools. identify
// names the user of a verified client certificate; nil: nobody.
func Describe(s tls.ConnectionState, identify func(*x509.Certificate) string) *amqp.TLS {
	t := &amqp.TLS{Protocol: strings.ReplaceAll(tls.VersionName(s.Version), " ", "v")}
	t.KeyExchange, t.Cipher, t.Hash = suite(tls.CipherSuiteName(s.CipherSuite))
	if s.Version >= tls.VersionTLS13 || s.CurveID != 0 {
		if t.KeyExchange != "" {
			t.KeyExchange += " "
		}
		t.KeyExchange += s.CurveID.String()
	}
	if len(s.VerifiedChains) > 0 {
		c := s.VerifiedChains[0][0]
		t.PeerSubject, t.PeerIssuer = c.Subject.String(), c.Issuer.String()
		t.PeerValidity = c.NotBefore.UTC().Format(time.RFC3339) + " - " + c.NotAfter.UTC().Format(time.RFC3339)
		if identify != nil {
			t.Identity = identify(c)
		}
	}
	return t
}

// suite takes the registry's name of a cipher suite apart:
// TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
func suite(name string) (keyExchange, cipher, hash string) {
	name = strings.ToLower(strings.TrimPrefix(name, "TLS_"))
	if exchange, rest, ok := strings.Cut(name, "_with_"); ok {
		keyExchange, name = exchange, rest
	}
	if i := strings.LastIndexByte(name, '_'); i >= 0 {
		return keyExchange, name[:i], name[i+1:]
	}
	return keyExchange, name, ""
}
