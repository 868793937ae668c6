package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/broker"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestPasswordChange: open connections stay, the old password is void.
func TestPasswordChange(t *testing.T) {
	e := start(t)
	options := addUser(t, e, "joe", everything)
	c := amqptest.OpenClient(t, e.Addr(), options)
	seq, err := e.Broker().SetPassword("joe", "other")
	must(t, seq, err)
	c.Declare("q", 0)
	c.WantQuiet(1)
	refusedLogin(t, e, options)
	options.Password = "other"
	amqptest.OpenClient(t, e.Addr(), options).WantQuiet(1)
	seq, err = e.Broker().ClearPassword("joe")
	must(t, seq, err)
	refusedLogin(t, e, options)
	options.Password = ""
	refusedLogin(t, e, options)
}

// refusedLogin wants the broker's 403 for a name and password.
func refusedLogin(t *testing.T, e *engine.Engine, o amqptest.Options) {
	t.Helper()
	c := amqptest.NewClient(t, e.Addr())
	c.Write(amqptest.Handshake(o))
	c.Want(startLine, "0 connection.close 403 (0,0) ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.")
	c.FinishClose()
}

// TestSlowHashes: logging in with bcrypt and argon2id, everything sent at once
// and byte by byte, beside connections that don't wait.
func TestSlowHashes(t *testing.T) {
	e := start(t)
	for _, algorithm := range []access.Algorithm{access.Bcrypt, access.Argon2id} {
		h, err := access.HashPasswordWith(algorithm, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		name := string(algorithm)
		seq, err := e.Broker().AddUser(access.Spec{Name: name, Password: h})
		must(t, seq, err)
		seq, err = e.Broker().SetPermissions(name, "/", everything)
		must(t, seq, err)
		o := amqptest.Options{User: name, Password: "secret"}
		c := amqptest.OpenClient(t, e.Addr(), o)
		c.Declare("q", 0)
		c.WantQuiet(1)
		slow := amqptest.NewClient(t, e.Addr())
		for _, b := range amqptest.Handshake(o) {
			slow.Write([]byte{b})
		}
		slow.Want(startLine, tuneLine, openOkLine)
		o.Password = "wrong"
		refusedLogin(t, e, o)
		o.NoCapabilities = true
		silent := amqptest.NewClient(t, e.Addr())
		silent.Write(amqptest.Handshake(o))
		silent.Want(startLine)
		silent.WantClosed()
		leaving := amqptest.NewClient(t, e.Addr())
		leaving.Write(amqptest.Handshake(o))
		leaving.Abort() // while the password is being checked, perhaps
	}
}

// ipMechanism stands for EXTERNAL: who connects from this machine is joe.
type ipMechanism struct{ b *broker.Broker }

func (m ipMechanism) Name() string { return "EXTERNAL" }

func (m ipMechanism) Offered(p amqp.Peer) bool { return p.Remote.IsLoopback() }

func (m ipMechanism) Login(response []byte, p amqp.Peer) (broker.Login, []byte, error) {
	login, err := m.b.Identify([]byte("joe"), p.Remote)
	return login, []byte("joe"), err
}

// TestMechanisms: another one beside PLAIN, for a user without a password.
func TestMechanisms(t *testing.T) {
	e := start(t, func(c *engine.Config) {
		c.Mechanisms = func(b *broker.Broker) []amqp.Mechanism {
			return []amqp.Mechanism{ipMechanism{b}, amqp.Plain(b)}
		}
	})
	c := amqptest.NewClient(t, e.Addr())
	c.Write(wire.ProtocolHeader)
	if m := amqptest.Expect[*wire.ConnectionStart](c).Method.(*wire.ConnectionStart); string(m.Mechanisms) != "EXTERNAL PLAIN" {
		t.Fatalf("offers %q", m.Mechanisms)
	}
	external := amqptest.StartOk(amqptest.Options{})
	external.Mechanism, external.Response = []byte("EXTERNAL"), nil
	c.Method(0, external)
	c.Want("0 connection.close 403 (0,0) ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile.")
	c.FinishClose()

	seq, err := e.Broker().AddUser(access.Spec{Name: "joe"})
	must(t, seq, err)
	seq, err = e.Broker().SetPermissions("joe", "/", everything)
	must(t, seq, err)
	c = amqptest.NewClient(t, e.Addr())
	c.Write(wire.ProtocolHeader)
	c.Method(0, external)
	c.Method(0, &wire.ConnectionTuneOk{})
	c.Method(0, &wire.ConnectionOpen{VirtualHost: []byte("/")})
	c.Want(startLine, tuneLine, openOkLine)

	amqplain := amqptest.StartOk(amqptest.Options{})
	amqplain.Mechanism = []byte("AMQPLAIN")
	c = amqptest.NewClient(t, e.Addr())
	c.Write(wire.ProtocolHeader)
	c.Method(0, amqplain)
	c.Want(startLine, "0 connection.close 503 (10,11) COMMAND_INVALID - unsupported authentication mechanism 'AMQPLAIN'; offered are EXTERNAL PLAIN")
}

// TestUsers_Restart: users, permissions and virtual hosts are there again, with
// their messages; what was deleted is not.
func TestUsers_Restart(t *testing.T) {
	dir := t.TempDir()
	run := func(do func(e *engine.Engine)) {
		t.Helper()
		e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1})
		if err != nil {
			t.Fatal(err)
		}
		do(e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	joe := amqptest.Options{User: "joe", Password: "secret", VHost: "v"}
	run(func(e *engine.Engine) {
		for _, name := range []string{"v", "w"} {
			seq, err := e.Broker().AddVHost(broker.VHostSpec{Name: name})
			must(t, seq, err)
		}
		addUser(t, e, "joe", access.Permissions{})
		seq, err := e.Broker().SetPermissions("joe", "v", letters)
		must(t, seq, err)
		c := amqptest.OpenClient(t, e.Addr(), joe)
		c.Declare("q:cr", amqptest.Durable)
		c.Abort()
		seq, err = e.Broker().DeleteVHost("w")
		must(t, seq, err)
		seq, err = e.Broker().DeleteUser("guest")
		must(t, seq, err)
	})
	for range 2 {
		run(func(e *engine.Engine) {
			c := amqptest.OpenClient(t, e.Addr(), joe)
			c.Declare("q:cr", amqptest.Passive)
			c.Method(1, c.QueueDeclare("x", 0, nil))
			c.Want("1 channel.close 403 (50,10) ACCESS_REFUSED - configure access to queue 'x' in vhost 'v' refused for user 'joe'")
			c.Abort()
			refusedLogin(t, e, amqptest.Options{})
			if e.Broker().VHost("w") != nil {
				t.Error("a deleted virtual host is back")
			}
		})
	}
}
