package amqp

import (
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What a client may do. Who needs which permission:
//
//	exchange.declare         configure the exchange; with alternate-exchange, if
//	                         it is new, also read it and write the alternate
//	exchange.delete          configure the exchange
//	exchange.bind, unbind    write the destination, read the source
//	queue.declare            configure the queue; with x-dead-letter-exchange, if
//	                         it is new, also read it and write that exchange
//	queue.delete             configure the queue
//	queue.bind, unbind       write the queue, read the exchange
//	queue.purge              read the queue
//	basic.get, basic.consume read the queue
//	basic.publish            write the exchange ("amq.default" is the default one)
//
// Binding to a topic exchange and publishing to one need the routing key to be
// permitted, too, where topic permissions are set. Passive declarations need
// nothing. Consumers go on when the permission they began with is withdrawn, as
// in RabbitMQ. What is answered: 403.
//
// A publish is permitted when its exchange is looked up, and again whenever the
// vhost's version changes, which changes of permissions do, too: the fast path
// and the route cache pay nothing.

// defaultExchangeName is what permissions call the default exchange.
var defaultExchangeName = []byte("amq.default")

// permissions returns what the user may do now in the connection's vhost.
func (c *conn) permissions() *access.Grant {
	b := c.shard.srv.broker
	if v := b.AccessVersion(); c.grantVersion != v {
		c.grantVersion, c.grant = v, b.Grant(c.user, c.vhost)
	}
	return c.grant
}

// Permit implements broker.Permitter.
func (c *conn) Permit(p access.Permission, kind, name string) error {
	return c.permit(p, kind, []byte(name))
}

// permit says whether the user may do something with a resource. Codes: 403.
func (c *conn) permit(p access.Permission, kind string, name []byte) error {
	if kind == "exchange" && len(name) == 0 {
		name = defaultExchangeName
	}
	if c.permissions().Allows(p, name) {
		return nil
	}
	return amqp.Errorf(amqp.CodeAccessRefused, 0, "%s access to %s '%s' in vhost '%s' refused for user '%s'", p, kind, name, c.vhost.Name, c.user.Name)
}

// permitTopic says whether the user may use a routing key with a topic exchange.
// Codes: 403.
func (c *conn) permitTopic(p access.Permission, exchange, key []byte) error {
	if c.permissions().AllowsTopic(p, exchange, key, "") {
		return nil
	}
	return amqp.Errorf(amqp.CodeAccessRefused, 0, "%s access to topic '%s' in exchange topic '%s' in vhost '%s' refused for user '%s'", p, key, exchange, c.vhost.Name, c.user.Name)
}

// permitBinding is for binding and unbinding alike. Codes: 403.
func (c *conn) permitBinding(b *broker.Binding) error {
	kind, destination := "queue", b.Queue
	if b.ToExchange {
		kind, destination = "exchange", b.Exchange
	}
	if err := c.Permit(access.Write, kind, destination); err != nil {
		return err
	}
	if b.Source == "" || b.ToExchange && b.Exchange == "" {
		return nil // refused anyway: the default exchange has no bindings
	}
	if err := c.Permit(access.Read, "exchange", b.Source); err != nil {
		return err
	}
	if c.permissions().HasTopics() && c.vhost.IsTopic([]byte(b.Source)) {
		return c.permitTopic(access.Read, []byte(b.Source), []byte(b.RoutingKey))
	}
	return nil
}

// permitPublish is asked for the exchange of a publish when it is not the
// channel's last one, or something has changed. Codes: 403.
func (ch *channel) permitPublish(exchange []byte) error {
	c := ch.conn
	if err := c.permit(access.Write, "exchange", exchange); err != nil {
		return err
	}
	ch.pub.byTopic = c.permissions().HasTopics() && c.vhost.IsTopic(exchange)
	return nil
}

// enter admits the connection to a vhost. Codes: 530.
func (c *conn) enter(vh *broker.VHost) error {
	refuse := func(format string, args ...any) error {
		return amqp.Errorf(amqp.CodeNotAllowed, amqp.ConnectionOpenID, format, args...)
	}
	if limit, ok := vh.AddConnection(); !ok {
		return refuse("access to vhost '%s' refused for user '%s': connection limit (%d) is reached", vh.Name, c.user.Name, limit)
	}
	if limit, ok := c.user.AddConnection(); !ok {
		vh.RemoveConnection()
		return refuse("connection refused for user '%s': user connection limit (%d) is reached", c.user.Name, limit)
	}
	c.vhost, c.entered = vh, true
	if !c.permissions().Granted() || c.user.Deleted() {
		c.leave()
		c.vhost = nil
		return refuse("access to vhost '%s' refused for user '%s'", vh.Name, c.user.Name)
	}
	c.counts = vh.LoopCounts(c.shard.number)
	c.counts.OctetsIn.Add(c.octets.in) // of the handshake
	c.counts.OctetsOut.Add(c.octets.out)
	vh.Churn().Count(stats.ConnectionCreated)
	c.opened = true
	return nil
}

// leave ends what enter began; more than once is once.
func (c *conn) leave() {
	if c.entered {
		c.entered = false
		if c.opened {
			c.opened = false
			c.vhost.Churn().Count(stats.ConnectionClosed)
		}
		c.user.RemoveConnection()
		c.user.RemoveChannels(int(c.counted))
		c.counted = 0
		c.vhost.RemoveConnection()
	}
}

// revoked closes the connections whose user or vhost has been deleted. Any
// goroutine.
func (s *Server) revoked() {
	for _, sh := range s.shards {
		sh.loop.Post(loop.RunnerFunc(func() {
			for _, c := range sh.conns {
				c.heedRevocation()
			}
		}))
	}
}

// heedRevocation closes the connection if its user or vhost is not there any
// more. Codes: 320.
func (c *conn) heedRevocation() {
	reason := ""
	switch {
	case c.state >= stateClosing || c.user == nil:
	case c.user.Deleted():
		reason = "user '" + c.user.Name + "' is deleted"
	case c.vhost != nil && c.vhost.Deleted():
		reason = "vhost '" + c.vhost.Name + "' is deleted"
	}
	switch {
	case reason == "":
	case c.state != stateOpen:
		c.closeSocket()
	default:
		c.fail(amqp.Errorf(amqp.CodeConnectionForced, 0, "%s", reason))
		c.flush()
	}
}
