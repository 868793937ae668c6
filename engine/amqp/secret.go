package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Logins that end: those by a token, which expires unless the client brings a new
// one in time (connection.update-secret).

// limited is a login that ends, or can be renewed.
type limited struct {
	conn  *conn
	timer loop.Timer
	until time.Time // zero: does not end
	renew func(secret []byte) (broker.Login, error)
}

// limitLogin heeds a login's end.
func (c *conn) limitLogin(login broker.Login) {
	c.unlimitLogin()
	if login.Expires.IsZero() && login.Renew == nil {
		return
	}
	sh := c.shard
	l := &limited{conn: c, until: login.Expires, renew: login.Renew}
	if sh.limited == nil {
		sh.limited = map[*conn]*limited{}
	}
	sh.limited[c] = l
	if !l.until.IsZero() {
		l.timer.Fire = l
		sh.loop.Arm(&l.timer, max(0, l.until.Sub(sh.loop.Now())))
	}
}

// unlimitLogin forgets it.
func (c *conn) unlimitLogin() {
	if l := c.shard.limited[c]; l != nil {
		c.shard.loop.Disarm(&l.timer)
		delete(c.shard.limited, c)
	}
	delete(c.shard.attempts, c)
}

// Run ends the connection when its login has ended. Codes: 320.
func (l *limited) Run() {
	c := l.conn
	if left := time.Until(l.until); left > 0 { // the loop's clock runs ahead of it, or was set
		c.shard.loop.Arm(&l.timer, left)
		return
	}
	if c.state < stateClosing {
		c.forceClose("the token of user '" + c.user.Name + "' has expired")
	}
}

// updateSecret takes a new secret. A password is looked at when a client logs in
// and not again: then there is nothing to update, as in RabbitMQ. Codes: 403.
func (c *conn) updateSecret(args []byte) error {
	var m amqp.ConnectionUpdateSecret
	if err := m.Decode(args); err != nil {
		return err
	}
	l := c.shard.limited[c]
	if l == nil || l.renew == nil {
		return c.secretUpdated(string(m.Reason))
	}
	reason := string(m.Reason)
	login, err := l.renew(m.NewSecret)
	if err == nil && login.Later != nil {
		c.later(login.Later, stateOpen, func(login broker.Login, err error) error { return c.renewed(login, err, reason) })
		return nil
	}
	return c.renewed(login, err, reason)
}

func (c *conn) secretUpdated(reason string) error {
	c.shard.srv.logger.Debug("secret updated", "peer", c.peer(), "user", c.user.Name, "reason", reason)
	c.emitMethod(0, &amqp.ConnectionUpdateSecretOk{})
	return nil
}

// renewed puts a new login in the place of the old one.
func (c *conn) renewed(login broker.Login, err error, reason string) error {
	refused := func(why string) error {
		c.shard.srv.logger.Warn("a new secret is refused", "peer", c.peer(), "user", c.user.Name, "reason", why)
		return amqp.Errorf(amqp.CodeAccessRefused, amqp.ConnectionUpdateSecretID, "the new secret was refused. For details see the broker logfile.")
	}
	switch {
	case err != nil:
		return refused(err.Error())
	case login.User.Name != c.user.Name:
		return refused("it is of another user, '" + login.User.Name + "'")
	}
	c.become(login)
	return c.secretUpdated(reason)
}

// become lets the connection go on as another user of the same name: with other
// permissions.
func (c *conn) become(login broker.Login) {
	old := c.user
	c.user, c.grantVersion = login.User, 0
	if c.entered && c.user != old {
		// Limits are for logins to come.
		_, _ = c.user.AddConnection()
		old.RemoveConnection()
		for range c.counted {
			_, _ = c.user.AddChannel()
		}
		old.RemoveChannels(int(c.counted))
	}
	c.limitLogin(login)
	c.fast = nil
	c.shard.srv.broker.Permitted(c.vhost)
}
