package engine_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestLifecycle_ExclusiveQueues go with their connection (1.7.2.1).
func TestLifecycle_ExclusiveQueues(t *testing.T) {
	t.Parallel()
	e := start(t)
	for _, end := range []struct {
		name string
		end  func(c *amqptest.Client)
	}{
		{"connection.close", func(c *amqptest.Client) { amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{}) }},
		{"connection lost", func(c *amqptest.Client) { c.Abort() }},
		{"connection error", func(c *amqptest.Client) {
			c.Method(0, &amqp.ConnectionOpen{})
			amqptest.Expect[*amqp.ConnectionClose](c)
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			owner, other := open(t, e), open(t, e)
			owner.Declare("x", amqptest.Exclusive)
			owner.PublishAll(1, "x", "m")
			owner.OpenChannel(2)
			amqptest.Ask[*amqp.ChannelCloseOk](owner, 1, &amqp.ChannelClose{}) // a channel's end does nothing
			if ok := amqptest.Ask[*amqp.QueueDeclareOk](owner, 2, owner.QueueDeclare("x", amqptest.Exclusive, nil)); ok.MessageCount != 1 {
				t.Fatalf("%+v", ok)
			}
			end.end(owner)
			eventually(t, "the name is free", func() bool {
				other.OpenChannel(9)
				other.Method(9, other.QueueDeclare("x", amqptest.Passive, nil))
				m := amqptest.Expect[*amqp.ChannelClose](other).Method.(*amqp.ChannelClose)
				other.Method(9, closeOk)
				if m.ReplyCode != amqp.CodeNotFound && m.ReplyCode != amqp.CodeResourceLocked {
					t.Fatalf("%d %s", m.ReplyCode, m.ReplyText)
				}
				return m.ReplyCode == amqp.CodeNotFound
			})
		})
	}
}

// TestLifecycle_CancelNotification: consumers on other connections hear of the
// deletion of their queue; their tag is free, their unacked messages are gone.
func TestLifecycle_CancelNotification(t *testing.T) {
	t.Parallel()
	e := start(t)
	deleter, consumer := open(t, e), open(t, e)
	silent := amqptest.OpenClient(t, e.Addr(), amqptest.Options{NoCapabilities: true})
	deleter.Declare("q", 0)
	deleter.PublishAll(1, "q", "m1", "m2")
	amqptest.Ask[*amqp.BasicQosOk](consumer, 1, &amqp.BasicQos{PrefetchCount: 1})
	consumer.Subscribe(1, "q", "t", 0)
	delivery(consumer)
	silent.Subscribe(1, "q", "t", 0)
	delivery(silent)
	if ok := amqptest.Ask[*amqp.QueueDeleteOk](deleter, 1, &amqp.QueueDelete{Queue: []byte("q")}); ok.MessageCount != 0 {
		t.Fatalf("%+v", ok)
	}
	consumer.Want("1 basic.cancel ConsumerTag=t NoWait=true")
	consumer.Method(1, &amqp.BasicCancelOk{ConsumerTag: []byte("t")})
	consumer.Ack(1, 1, 0) // late, and no error
	consumer.WantQuiet(1)
	silent.WantQuiet(1)
	deleter.Declare("q", 0)
	consumer.Subscribe(1, "q", "t", amqptest.NoAck)
	deleter.PublishAll(1, "q", "new")
	if _, body := delivery(consumer); body != "new" {
		t.Fatal(body)
	}
	silent.WantQuiet(1)
}

// TestLifecycle_Stop: clients are told (320) and the store is closed in good
// order: durable things are there after a restart.
func TestLifecycle_Stop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := netip.MustParseAddr("127.0.99.4") // where nobody else takes the port afterwards
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 2, Bind: own})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("durable", amqptest.Durable)
	c.Declare("transient", 0)
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("durable", "amq.topic", "a.#", nil))
	c.Publish(1, amqptest.Message{Exchange: "amq.topic", Key: "a.b", Body: "persistent", Persistent: true})
	confirmSelect(c)
	c.Publish(1, amqptest.Message{Key: "durable", Body: "confirmed", Persistent: true})
	amqptest.Expect[*amqp.BasicAck](c)
	c.Get(1, "durable", 0) // unacked
	handshaking, half := amqptest.NewClient(t, e.Addr()), amqptest.NewClient(t, e.Addr())
	half.Write(amqp.ProtocolHeader[:4])
	handshaking.Write(amqp.ProtocolHeader)
	handshaking.Want(startLine)

	stopped := make(chan error)
	go func() { stopped <- e.Stop() }()
	c.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - *")
	c.FinishClose()
	handshaking.WantClosed()
	half.WantClosed()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if _, err := amqptest.Dial(e.Addr()); err == nil {
		t.Fatal("still listening")
	}

	e = start(t, func(config *engine.Config) { config.DataDir = dir })
	if got := e.Recovered(); got.Queues != 1 || got.Messages != 2 || got.Bindings != 1 {
		t.Fatalf("recovered %+v", got)
	}
	c = open(t, e)
	for i, want := range []string{"persistent", "confirmed"} {
		got := c.Get(1, "durable", amqptest.NoAck)
		if string(got.Body) != want {
			t.Fatalf("message %d: %s", i, got)
		}
	}
}

// TestLifecycle_Stop_SilentClient: a client that does not answer
// connection.close does not keep the broker from stopping.
func TestLifecycle_Stop_SilentClient(t *testing.T) {
	t.Parallel()
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	c.Want("0 connection.close 320 *")
}

// TestLifecycle_Heartbeats: with heartbeat 1 the broker sends heartbeats and
// gives a silent client up; one that only sends heartbeats stays (4.2.7).
func TestLifecycle_Heartbeats(t *testing.T) {
	t.Parallel()
	e := start(t)
	without := open(t, e)
	var wait sync.WaitGroup
	wait.Go(func() {
		silent, err := amqptest.Open(e.Addr(), amqptest.Options{Heartbeat: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer silent.Abort()
		for beats := 0; ; beats++ {
			event, err := silent.Next()
			if errors.Is(err, io.EOF) && beats >= 1 {
				return
			}
			if err != nil || event.Method != nil {
				t.Errorf("silent client: after %d heartbeats: %v %v", beats, event, err)
				return
			}
		}
	})
	wait.Go(func() {
		alive, err := amqptest.Open(e.Addr(), amqptest.Options{Heartbeat: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer alive.Abort()
		for range 8 { // four seconds of the broker's clock
			event, err := alive.Next()
			if err != nil || event.Method != nil {
				t.Errorf("client with heartbeats: %v %v", event, err)
				return
			}
			if err := alive.Send(amqp.HeartbeatFrame); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wait.Wait()
	// With heartbeat 0 nothing has come all the while.
	without.Method(1, &amqp.BasicCancel{ConsumerTag: []byte("none")})
	if event, err := without.Next(); err != nil || event.Method == nil {
		t.Fatalf("heartbeat 0: %s %v", event, err)
	}
}

// TestLifecycle_HandshakeTimeout: at every stage before connection.open a
// silent client is cut.
func TestLifecycle_HandshakeTimeout(t *testing.T) {
	t.Parallel()
	var config engine.Config
	e := start(t, func(c *engine.Config) { config = *c })
	healthy := open(t, e)
	config.Tuning.HandshakeTimeout = 300 * time.Millisecond // too short for a good client on a busy machine
	if err := e.Reload(config); err != nil {
		t.Fatal(err)
	}
	handshake := amqptest.Handshake(amqptest.Options{})
	frames := splitFrames(handshake[len(amqp.ProtocolHeader):])
	for i, part := range []int{0, 3, 8, 20, 8 + len(frames[0]), 8 + len(frames[0]) + len(frames[1])} {
		c := amqptest.NewClient(t, e.Addr())
		c.Write(handshake[:part])
		for {
			if _, err := c.Next(); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatalf("stage %d: %v", i, err)
				}
				break
			}
		}
	}
	healthy.WantQuiet(1)
}

// TestLifecycle_ManyConnections: connections come and go, none is left behind.
func TestLifecycle_ManyConnections(t *testing.T) {
	t.Parallel()
	e := start(t)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 100 {
				c, err := amqptest.Open(e.Addr(), amqptest.Options{})
				if err == nil {
					queue := []byte(fmt.Sprintf("q%d-%d", worker, i))
					_, err = c.Call(1, &amqp.QueueDeclare{Queue: queue, Exclusive: true}, amqp.QueueDeclareOkID)
				}
				if err == nil && i%2 == 0 {
					_, err = c.Call(0, &amqp.ConnectionClose{}, amqp.ConnectionCloseOkID)
				}
				if err != nil {
					t.Error(err)
					return
				}
				c.Abort()
			}
		})
	}
	wait.Wait()
	eventually(t, "all exclusive queues are gone", func() bool { return len(e.Broker().VHost("/").Queues()) == 0 })
	memoryBelow(t, e, 1<<20)
}
