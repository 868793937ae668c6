package amqp

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Peer is what is known of the other end of a connection before it logs in.
type Peer struct {
	Remote netip.Addr // invalid for unix sockets
	// Identity is whom a verified certificate names; empty without one.
	Identity string
}

// Mechanism is a SASL mechanism of one message: the client's first response says
// it all. Methods are called on the connection's loop and do not block.
type Mechanism interface {
	// Name is the mechanism's in connection.start and start-ok.
	Name() string
	// Offered says whether the peer is offered it, and may use it.
	Offered(p Peer) bool
	// Login reads the response. user is whom it names, for the log, also when the
	// login is refused. Errors wrap broker.ErrRefused.
	Login(response []byte, p Peer) (login broker.Login, user []byte, err error)
}

// Plain is the mechanism PLAIN (RFC 4616).
func Plain(a broker.Authenticator) Mechanism {
	return passwordMechanism{"PLAIN", plainCredentials, a}
}

// AMQPlain is the mechanism AMQPLAIN of AMQP 0-8: a table with LOGIN and PASSWORD.
func AMQPlain(a broker.Authenticator) Mechanism {
	return passwordMechanism{"AMQPLAIN", amqplainCredentials, a}
}

// passwordMechanism is one that differs in how name and password are encoded.
type passwordMechanism struct {
	name          string
	read          func(response []byte) (user, password []byte, ok bool)
	authenticator broker.Authenticator
}

func (m passwordMechanism) Name() string { return m.name }

func (m passwordMechanism) Offered(Peer) bool { return true }

func (m passwordMechanism) Login(response []byte, p Peer) (broker.Login, []byte, error) {
	user, password, ok := m.read(response)
	if !ok {
		return broker.Login{}, nil, fmt.Errorf("%w: the response cannot be read", broker.ErrRefused)
	}
	login, err := m.authenticator.Authenticate(user, password, p.Remote)
	return login, user, err
}

// plainCredentials splits a SASL PLAIN response (RFC 4616).
func plainCredentials(response []byte) (user, password []byte, ok bool) {
	parts := bytes.SplitN(response, []byte{0}, 3)
	if len(parts) != 3 {
		return nil, nil, false
	}
	return parts[1], parts[2], true
}

// amqplainCredentials reads the field table of the AMQPLAIN mechanism; its
// length prefix is part of no value (0-8 heritage).
func amqplainCredentials(response []byte) (user, password []byte, ok bool) {
	t := amqp.Table(response)
	if amqp.ValidateTable(t) != nil {
		return nil, nil, false
	}
	login, ok1 := t.Lookup("LOGIN")
	pass, ok2 := t.Lookup("PASSWORD")
	if !ok1 || !ok2 {
		return nil, nil, false
	}
	user, ok1 = login.Bytes()
	password, ok2 = pass.Bytes()
	return user, password, ok1 && ok2
}

// saslPeer is what the mechanisms know of c.
func (c *conn) saslPeer() Peer {
	p := Peer{Remote: c.sock.Remote().Addr()}
	if c.transport != nil && c.transport.Foreign && p.Remote.IsLoopback() {
		p.Remote = netip.IPv6Unspecified()
	}
	if c.transport != nil && c.transport.TLS != nil {
		p.Identity = c.transport.TLS.Identity
	}
	return p
}

// mechanismNames are those that the peer is offered, in order.
func (s *Server) mechanismNames(p Peer) []byte {
	var names [][]byte
	for _, m := range s.mechanisms {
		if m.Offered(p) {
			names = append(names, []byte(m.Name()))
		}
	}
	return bytes.Join(names, []byte(" "))
}

// Mechanisms are the names of all mechanisms, in order.
func (s *Server) Mechanisms() (names []string) {
	for _, m := range s.mechanisms {
		names = append(names, m.Name())
	}
	return names
}

// Dialogue is a mechanism of several messages. Its Login is not called.
type Dialogue interface {
	Mechanism
	Begin(p Peer) Exchange
}

// Exchange is one run of a Dialogue.
type Exchange interface {
	// Next takes what the client says. A challenge that is not nil goes to the
	// client, and its answer to the next call; without one the login is complete.
	// user is whom the client names, once it has. Errors wrap broker.ErrRefused.
	Next(response []byte) (challenge []byte, login broker.Login, user []byte, err error)
}

// loginAttempt is a login that takes more than one message.
type loginAttempt struct {
	exchange  Exchange
	mechanism string
}

// login logs the client in by the mechanism it chose. Codes: 403 refused, 503 no
// such mechanism.
func (c *conn) login(name, response []byte) error {
	s, peer := c.shard.srv, c.saslPeer()
	i := slices.IndexFunc(s.mechanisms, func(m Mechanism) bool { return m.Name() == string(name) && m.Offered(peer) })
	if i < 0 {
		return amqp.Errorf(amqp.CodeCommandInvalid, amqp.ConnectionStartOkID, "unsupported authentication mechanism '%s'; offered are %s", name, s.mechanismNames(peer))
	}
	mechanism := s.mechanisms[i]
	if d, ok := mechanism.(Dialogue); ok {
		if c.shard.attempts == nil {
			c.shard.attempts = map[*conn]*loginAttempt{}
		}
		c.shard.attempts[c] = &loginAttempt{d.Begin(peer), mechanism.Name()}
		return c.converse(response)
	}
	login, user, err := mechanism.Login(response, peer)
	return c.logIn(mechanism.Name(), string(user), login, err)
}

// secureOk goes on with a Dialogue.
func (c *conn) secureOk(args []byte) error {
	var m amqp.ConnectionSecureOk
	if err := m.Decode(args); err != nil {
		return err
	}
	if c.shard.attempts[c] == nil {
		return amqp.Errorf(amqp.CodeChannelError, amqp.ConnectionSecureOkID, "unexpected method connection.secure-ok: nothing was asked")
	}
	return c.converse(m.Response)
}

func (c *conn) converse(response []byte) error {
	attempt := c.shard.attempts[c]
	challenge, login, user, err := attempt.exchange.Next(response)
	if err == nil && challenge != nil {
		c.emitMethod(0, &amqp.ConnectionSecure{Challenge: challenge})
		return nil
	}
	delete(c.shard.attempts, c)
	return c.logIn(attempt.mechanism, string(user), login, err)
}

// logIn completes a login, elsewhere if it takes long; nothing is read from the
// client meanwhile.
func (c *conn) logIn(mechanism, user string, login broker.Login, err error) error {
	count, remote := c.shard.srv.attempts, c.sock.Remote().Addr()
	if err != nil || login.Later == nil {
		count.Count(stats.AMQP091, remote, nameOf(user, login), err == nil)
		return c.loggedIn(mechanism, user, login, err)
	}
	later := login.Later
	// Counted there: also if the client does not wait for the answer.
	c.later(func() (broker.Login, error) {
		login, err := later()
		count.Count(stats.AMQP091, remote, nameOf(user, login), err == nil)
		return login, err
	}, stateStart, func(login broker.Login, err error) error {
		return c.loggedIn(mechanism, user, login, err)
	})
	return nil
}

// nameOf is the user's name: a token may know better than its client.
func nameOf(user string, login broker.Login) string {
	if login.User != nil {
		return login.User.Name
	}
	return user
}

// later runs what may block on a goroutine, and then, if the connection is still
// in that state, the rest on its loop.
func (c *conn) later(do func() (broker.Login, error), state connState, then func(login broker.Login, err error) error) {
	c.stall |= stallLogin
	go func() {
		login, err := do()
		c.shard.loop.Post(loop.RunnerFunc(func() {
			if c.dead || c.state != state {
				return
			}
			if err := then(login, err); err != nil {
				c.fail(err)
			}
			c.resume(stallLogin)
			c.flush()
		}))
	}()
}

// loggedIn ends the login: on to tuning, or refusal.
func (c *conn) loggedIn(mechanism, user string, login broker.Login, err error) error {
	if err != nil {
		c.shard.srv.logger.Warn("login refused", "peer", c.peer(), "user", user, "mechanism", mechanism, "reason", err)
		if !c.closeOnErr {
			c.closeSocket()
			return nil
		}
		return amqp.Errorf(amqp.CodeAccessRefused, 0, "Login was refused using authentication mechanism %s. For details see the broker logfile.", mechanism)
	}
	c.user = login.User
	c.limitLogin(login)
	c.state = stateTune
	c.tune()
	return nil
}
