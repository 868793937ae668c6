package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/secure/identity"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/secure/sso"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Auth says how clients log in. The zero value is PLAIN and AMQPLAIN for the
// broker's own users.
type Auth struct {
	// Mechanisms are offered in this order; nil means PLAIN and AMQPLAIN.
	Mechanisms []string
	// Backends are asked in this order: local, oauth2; nil means local.
	Backends []string
	OAuth2   oauth2.Options
	// SSO is single sign-on for browsers at the management API; without a ClientID
	// there is none. What else it needs to know is found here.
	SSO sso.Options
	// So many failed logins from an address within LockoutTime lock it for as
	// long; 0: never.
	LockoutFailures int
	LockoutTime     time.Duration
}

// login is how clients log in.
type login struct {
	authenticator broker.Authenticator
	mechanisms    []amqp.Mechanism
	lockout       *identity.Lockout
	oauth2        *oauth2.Backend // nil: not asked
	attempts      stats.Attempts
	sso           *sso.SSO // nil: there is none
	local         bool     // the broker's own users are asked
}

// openLogin makes what the configuration asks for.
func (e *Engine) openLogin() error {
	c, l := &e.config.Auth, &e.login
	l.lockout = identity.NewLockout(c.LockoutFailures, c.LockoutTime, e.logger)
	backends := c.Backends
	if backends == nil {
		backends = []string{"local"}
	}
	var chain identity.Chain
	for _, name := range backends {
		switch name {
		case "local":
			chain = append(chain, e.broker)
		case "oauth2":
			o := c.OAuth2
			o.Logger = e.logger
			var err error
			if l.oauth2, err = oauth2.New(o); err != nil {
				return err
			}
			chain = append(chain, l.oauth2)
		default:
			return fmt.Errorf("there is no backend '%s' to ask for users: local and oauth2 are", name)
		}
	}
	l.local = slices.Contains(backends, "local")
	if o := c.SSO; o.ClientID != "" {
		o.Backend, o.Lockout, o.Attempts, o.Logger = l.oauth2, l.lockout, &l.attempts, e.logger
		var err error
		if l.sso, err = sso.New(o); err != nil {
			return err
		}
	}
	l.authenticator = identity.Guard{Authenticator: chain, Lockout: l.lockout}
	if e.config.Mechanisms != nil {
		l.mechanisms = e.config.Mechanisms(e.broker)
		return nil
	}
	return l.offer(c.Mechanisms, e.broker, l.local)
}

// offer makes the mechanisms. EXTERNAL and SCRAM are for users of the broker's own.
func (l *login) offer(names []string, b *broker.Broker, local bool) error {
	if names == nil {
		names = []string{"PLAIN", "AMQPLAIN"}
	}
	l.mechanisms = []amqp.Mechanism{}
	for _, name := range names {
		var m amqp.Mechanism
		switch strings.ToUpper(name) {
		case "PLAIN":
			m = amqp.Plain(l.authenticator)
		case "AMQPLAIN":
			m = amqp.AMQPlain(l.authenticator)
		case "SCRAM-SHA-256":
			m = identity.NewScram(b.Identify, l.lockout)
		case "EXTERNAL":
			m = identity.External{Broker: b}
		default:
			return fmt.Errorf("there is no mechanism '%s' to log in with: PLAIN, AMQPLAIN, SCRAM-SHA-256 and EXTERNAL are", name)
		}
		if ownUsers := m.Name() == "EXTERNAL" || m.Name() == "SCRAM-SHA-256"; local || !ownUsers {
			l.mechanisms = append(l.mechanisms, m)
		}
	}
	return nil
}

func (l *login) close() {
	if l.oauth2 != nil {
		l.oauth2.Close()
	}
}
