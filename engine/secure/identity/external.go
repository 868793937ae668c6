package identity

import (
	"crypto/x509"
	"fmt"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// External is the mechanism EXTERNAL (RFC 4422, appendix A): the user is whom a
// verified client certificate names. It is offered to those who have one.
type External struct{ Broker *broker.Broker }

// Name implements amqp.Mechanism.
func (External) Name() string { return "EXTERNAL" }

// Offered implements amqp.Mechanism.
func (External) Offered(p amqp.Peer) bool { return p.Identity != "" }

// Login implements amqp.Mechanism. The response may name the user, too.
func (m External) Login(response []byte, p amqp.Peer) (broker.Login, []byte, error) {
	user := []byte(p.Identity)
	if len(response) > 0 && string(response) != p.Identity {
		return broker.Login{}, user, fmt.Errorf("%w: the client wants to be '%s', and its certificate is of '%s'", broker.ErrRefused, response, p.Identity)
	}
	login, err := m.Broker.Identify(user, p.Remote)
	return login, user, err
}

// UserFrom returns how a certificate names its user: cn is the common name of its
// subject; san_dns, san_email and san_uri the first such alternative name.
func UserFrom(where string) (func(c *x509.Certificate) string, error) {
	first := func(names []string) string {
		if len(names) == 0 {
			return ""
		}
		return names[0]
	}
	switch where {
	case "", "cn":
		return func(c *x509.Certificate) string { return c.Subject.CommonName }, nil
	case "san_dns":
		return func(c *x509.Certificate) string { return first(c.DNSNames) }, nil
	case "san_email":
		return func(c *x509.Certificate) string { return first(c.EmailAddresses) }, nil
	case "san_uri":
		return func(c *x509.Certificate) string {
			if len(c.URIs) == 0 {
				return ""
			}
			return c.URIs[0].String()
		}, nil
	}
	return nil, fmt.Errorf("identity: '%s' is none of cn, san_dns, san_email, san_uri", where)
}
