package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestRevocation_Publisher: a publisher whose route is cached, in the fast path
// even, is refused from its next publish on. (Another broker's kept publishing.)
func TestRevocation_Publisher(t *testing.T) {
	e := start(t)
	c := amqptest.OpenClient(t, e.Addr(), addUser(t, e, "joe", everything))
	c.Declare("q", 0)
	c.OpenChannel(2)
	publish := func(channel uint16) {
		var raw []byte
		for range 3 {
			raw = amqptest.AppendPublish(raw, channel, amqptest.Message{Key: "q", Body: "m"})
		}
		c.Write(raw)
	}
	publish(1)
	publish(1)
	c.Sync(1)
	for _, change := range []struct {
		name string
		do   func() (uint64, error)
		undo func() (uint64, error)
	}{
		{"write withdrawn",
			func() (uint64, error) {
				return e.Broker().SetPermissions("joe", "/", access.Permissions{Configure: ".*", Read: ".*"})
			},
			func() (uint64, error) { return e.Broker().SetPermissions("joe", "/", everything) }},
		{"everything withdrawn",
			func() (uint64, error) { return e.Broker().ClearPermissions("joe", "/") },
			func() (uint64, error) { return e.Broker().SetPermissions("joe", "/", everything) }},
	} {
		seq, err := change.do()
		must(t, seq, err)
		publish(1)
		c.Want("1 channel.close 403 (60,40) ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'joe'")
		c.Method(1, closeOk)
		publish(2) // its first
		c.Want("2 channel.close 403 (60,40) *")
		c.Method(2, closeOk)
		seq, err = change.undo()
		must(t, seq, err)
		c.OpenChannel(1)
		c.OpenChannel(2)
		publish(1)
		publish(1)
		publish(2)
		c.WantQuiet(1)
		c.WantQuiet(2)
	}
	if n := c.Declare("q", amqptest.Passive).MessageCount; n != 6+9+9 {
		t.Errorf("%d messages arrived", n)
	}
}

// TestRevocation_ByImport: permissions that an import brings count at once for
// connections that are open, as those of any other change.
func TestRevocation_ByImport(t *testing.T) {
	dir := t.TempDir()
	e := start(t, func(c *engine.Config) { c.DataDir = dir })
	c := amqptest.OpenClient(t, e.Addr(), addUser(t, e, "joe", everything))
	c.Declare("q", 0)
	c.PublishAll(1, "q", "m1", "m2") // the second on the path for equal publishes
	c.Sync(1)
	status, answer := ask(t, dir, "POST", "/api/definitions", `{"permissions":[{"user":"joe","vhost":"/","configure":".*","write":"","read":".*"}]}`)
	if status >= 300 {
		t.Fatal(status, answer)
	}
	c.PublishAll(1, "q", "m3")
	c.Want("1 channel.close 403 (60,40) ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'joe'")
	if n := ready(open(t, e), "q"); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// TestRevocation_InsidePublish: permissions change between the method and the
// body of a publish. That one was permitted; its route is looked up after the
// change, and what follows must not take that for permission.
func TestRevocation_InsidePublish(t *testing.T) {
	e := start(t)
	c := amqptest.OpenClient(t, e.Addr(), addUser(t, e, "joe", everything))
	c.OpenChannel(2)
	c.Declare("q", 0)
	frames := amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: "m"})
	method := len(wire.AppendMethodFrame(nil, 1, &wire.BasicPublish{RoutingKey: []byte("q")}))
	c.Write(frames[:method])
	c.Sync(2)
	seq, err := e.Broker().SetPermissions("joe", "/", access.Permissions{Configure: ".*", Read: ".*"})
	must(t, seq, err)
	c.Write(frames[method:])
	c.Sync(2)
	c.Write(frames)
	c.Want("1 channel.close 403 (60,40) *")
	if n := amqptest.Ask[*wire.QueueDeclareOk](c, 2, c.QueueDeclare("q", amqptest.Passive, nil)).MessageCount; n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestRevocation_Reader: the next operation is refused; a consumer goes on, as
// with RabbitMQ.
func TestRevocation_Reader(t *testing.T) {
	e := start(t)
	joe, guest := amqptest.OpenClient(t, e.Addr(), addUser(t, e, "joe", everything)), open(t, e)
	guest.Declare("q", 0)
	joe.OpenChannel(2)
	joe.Subscribe(2, "q", "t", amqptest.NoAck)
	seq, err := e.Broker().SetPermissions("joe", "/", access.Permissions{})
	must(t, seq, err)
	guest.PublishAll(1, "q", "m")
	delivery(joe)
	joe.Method(1, &wire.BasicGet{Queue: []byte("q")})
	joe.Want("1 channel.close 403 (60,70) ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'joe'")
	joe.Method(1, closeOk)
	joe.WantQuiet(2)
}

// TestRevocation_UserDeleted closes its connections and nobody else's.
func TestRevocation_UserDeleted(t *testing.T) {
	e := start(t)
	options := addUser(t, e, "joe", everything)
	guest := open(t, e)
	var joes []*amqptest.Client
	for range 3 {
		c := amqptest.OpenClient(t, e.Addr(), options)
		c.Declare("", amqptest.Exclusive)
		joes = append(joes, c)
	}
	tuning := amqptest.NewClient(t, e.Addr()) // logged in, but not there yet
	tuning.Write(append(append([]byte(nil), wire.ProtocolHeader...), wire.AppendMethodFrame(nil, 0, amqptest.StartOk(options))...))
	tuning.Want(startLine, tuneLine)
	seq, err := e.Broker().DeleteUser("joe")
	must(t, seq, err)
	for _, c := range joes {
		c.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - user 'joe' is deleted")
		c.FinishClose()
	}
	tuning.WantClosed()
	guest.WantQuiet(1)
	if n := len(e.Broker().VHost("/").Queues()); n != 0 {
		t.Errorf("%d exclusive queues are left", n)
	}
	c := amqptest.NewClient(t, e.Addr())
	c.Write(append(append([]byte(nil), wire.ProtocolHeader...), wire.AppendMethodFrame(nil, 0, amqptest.StartOk(options))...))
	c.Want(startLine, "0 connection.close 403 (0,0) *")
	c.FinishClose()
}

// TestRevocation_VHostDeleted closes the connections in it; what they held goes
// with it, and a new one of its name is empty.
func TestRevocation_VHostDeleted(t *testing.T) {
	e := start(t)
	b := e.Broker()
	make := func() {
		t.Helper()
		seq, err := b.AddVHost(broker.VHostSpec{Name: "v"})
		must(t, seq, err)
		seq, err = b.SetPermissions("guest", "v", everything)
		must(t, seq, err)
	}
	make()
	other := open(t, e)
	options := amqptest.Options{VHost: "v"}
	c, consumer := amqptest.OpenClient(t, e.Addr(), options), amqptest.OpenClient(t, e.Addr(), options)
	c.Declare("q", amqptest.Durable)
	c.Declare("mine", amqptest.Exclusive)
	c.PublishAll(1, "mine", "m")
	c.PublishAll(1, "q", "m")
	consumer.Subscribe(1, "q", "t", 0)
	delivery(consumer) // and not acknowledged
	c.PublishAll(1, "q", "m")
	c.Sync(1)
	seq, err := b.DeleteVHost("v")
	must(t, seq, err)
	const forced = "0 connection.close 320 (0,0) CONNECTION_FORCED - vhost 'v' is deleted"
	c.Want(forced)
	c.FinishClose()
	for {
		line := consumer.Read().String()
		if line == forced {
			break
		}
		if !amqptest.Matches(line, "1 basic.*") { // the second message, or the consumer's end
			t.Fatal(line)
		}
	}
	consumer.FinishClose()
	other.WantQuiet(1)
	again := amqptest.NewClient(t, e.Addr())
	again.Write(amqptest.Handshake(options))
	again.Want(startLine, tuneLine, "0 connection.close 530 (10,40) NOT_ALLOWED - vhost v not found")
	again.FinishClose()
	make()
	c = amqptest.OpenClient(t, e.Addr(), options)
	c.Method(1, c.QueueDeclare("q", amqptest.Passive, nil))
	c.Want("1 channel.close 404 (50,10) NOT_FOUND - no queue 'q' in vhost 'v'")
}

// TestEnterVHost: who may, and how many.
func TestEnterVHost(t *testing.T) {
	e := start(t)
	b := e.Broker()
	joe := addUser(t, e, "joe", access.Permissions{}) // may enter, and do nothing
	for _, name := range []string{"closed", "full"} {
		seq, err := b.AddVHost(broker.VHostSpec{Name: name})
		must(t, seq, err)
	}
	seq, err := b.SetTopicPermissions("joe", "closed", "t", access.TopicPermissions{}) // no way in
	must(t, seq, err)
	seq, err = b.SetPermissions("joe", "full", everything)
	must(t, seq, err)
	seq, err = b.SetVHostLimit("full", access.MaxConnections, 1)
	must(t, seq, err)
	refused := func(o amqptest.Options, text string) {
		t.Helper()
		c := amqptest.NewClient(t, e.Addr())
		c.Write(amqptest.Handshake(o))
		c.Want(startLine, tuneLine, "0 connection.close 530 (10,40) NOT_ALLOWED - "+text)
		c.FinishClose()
	}
	in := func(vhost string) amqptest.Options {
		o := joe
		o.VHost = vhost
		return o
	}
	refused(in("closed"), "access to vhost 'closed' refused for user 'joe'")
	refused(in("none"), "vhost none not found")

	one := amqptest.OpenClient(t, e.Addr(), in("full"))
	refused(in("full"), "access to vhost 'full' refused for user 'joe': connection limit (1) is reached")
	amqptest.Ask[*wire.ConnectionCloseOk](one, 0, &wire.ConnectionClose{ReplyCode: 200})
	two := amqptest.OpenClient(t, e.Addr(), in("full")) // the place is free when close-ok is there
	seq, err = b.SetVHostLimit("full", access.MaxConnections, 0)
	must(t, seq, err)
	two.WantQuiet(1) // who is in stays
	two.Abort()
	eventually(t, "nobody is in", func() bool { return b.VHost("full").Connections() == 0 })
	refused(in("full"), "access to vhost 'full' refused for user 'joe': connection limit (0) is reached")

	seq, err = b.SetUserLimit("joe", access.MaxConnections, 2)
	must(t, seq, err)
	first := amqptest.OpenClient(t, e.Addr(), joe)
	amqptest.OpenClient(t, e.Addr(), joe)
	refused(joe, "connection refused for user 'joe': user connection limit (2) is reached")
	open(t, e) // others may
	first.Abort()
	eventually(t, "a place is free", func() bool {
		c, err := amqptest.Open(e.Addr(), joe)
		if err == nil {
			t.Cleanup(c.Abort)
		}
		return err == nil
	})
}

// TestChannelLimit counts the channels of all of a user's connections.
func TestChannelLimit(t *testing.T) {
	e := start(t)
	joe := addUser(t, e, "joe", everything)
	seq, err := e.Broker().SetUserLimit("joe", access.MaxChannels, 3)
	must(t, seq, err)
	a, b := amqptest.OpenClient(t, e.Addr(), joe), amqptest.OpenClient(t, e.Addr(), joe)
	a.OpenChannel(2)
	const full = "0 connection.close 530 (0,0) NOT_ALLOWED - number of channels opened for user 'joe' has reached the maximum allowed user limit of (3)"
	b.Method(2, &wire.ChannelOpen{})
	b.Want(full)
	b.FinishClose() // and its channel is free
	a.OpenChannel(3)
	amqptest.Ask[*wire.ChannelCloseOk](a, 2, &wire.ChannelClose{})
	a.OpenChannel(2)
	a.Method(3, &wire.BasicGet{Queue: []byte("none")})
	a.Want("3 channel.close 404 (60,70) *")
	a.Method(3, closeOk) // from here on it does not count
	a.OpenChannel(4)
	a.Method(5, &wire.ChannelOpen{})
	a.Want(full)
	a.FinishClose()
}
