package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// TestTuning_Frames: frames of any configured size carry bodies of any size, in
// and out; a client may not ask for more.
func TestTuning_Frames(t *testing.T) {
	t.Parallel()
	for _, frameMax := range []uint32{4 << 10, 64 << 10, 1 << 20} {
		t.Run(fmt.Sprint(frameMax), func(t *testing.T) {
			t.Parallel()
			e := start(t, func(c *engine.Config) { c.Tuning.FrameMax = frameMax })
			c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: frameMax})
			c.Declare("q", 0)
			for _, size := range []int{0, 1, int(frameMax) - wire.FrameOverhead, int(frameMax), 3<<20 + 17} {
				body := strings.Repeat("x", size)
				c.Publish(1, amqptest.Message{Key: "q", Body: body, FrameMax: frameMax})
				if got := getSoon(t, c, "q"); string(got.Body) != body {
					t.Fatalf("%d bytes came back of %d", len(got.Body), size)
				}
			}
			greedy := amqptest.NewClient(t, e.Addr())
			greedy.Write(amqptest.Handshake(amqptest.Options{FrameMax: frameMax + 1}))
			amqptest.Expect[*wire.ConnectionStart](greedy)
			if tune := amqptest.Expect[*wire.ConnectionTune](greedy).Method.(*wire.ConnectionTune); tune.FrameMax != frameMax {
				t.Errorf("proposes %d", tune.FrameMax)
			}
			greedy.Want(fmt.Sprintf("0 connection.close 530 (10,31) NOT_ALLOWED - negotiated frame_max = %d is higher than the maximum allowed value (%d)", frameMax+1, frameMax))
		})
	}
}

// TestTuning_Defaults: what consumers and queues do not ask for themselves they
// get from the configuration; what they do ask for counts.
func TestTuning_Defaults(t *testing.T) {
	t.Parallel()
	e := start(t, func(c *engine.Config) {
		c.Tuning = amqp.Tuning{Prefetch: 2, AckTimeout: 20 * time.Millisecond, ChannelMax: 3}
	})
	c := open(t, e)
	declareWith(c, "q", 0)
	c.PublishAll(1, "q", "1", "2", "3")
	subscribeWith(c, "q", "patient", 0, "x-consumer-timeout", 0)
	delivery(c)
	delivery(c)
	c.WantQuiet(1)
	c.Ack(1, 1, 0)
	delivery(c)
	qos(c, 0, false) // for consumers that begin later
	c.PublishAll(1, "q", "4", "5", "6")
	subscribeWith(c, "q", "other", 0, "x-consumer-timeout", 0)
	for range 3 {
		delivery(c)
	}
	c.OpenChannel(2)
	c.OpenChannel(3)
	c.Method(4, &wire.ChannelOpen{})
	c.Want("0 connection.close 530 (0,0) NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)")

	late := open(t, e)
	late.Declare("late", 0)
	late.PublishAll(1, "late", "m")
	subscribeWith(late, "late", "t", 0)
	delivery(late)
	late.Want("1 channel.close 406 (0,0) PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 20 ms. " +
		"This timeout value can be configured, see consumers doc guide to learn more")
}

// TestReload: new limits hold for what begins afterwards, the floor of free space
// at once.
func TestReload(t *testing.T) {
	t.Parallel()
	base := engine.Config{}
	e := start(t, func(c *engine.Config) {
		c.SpaceInterval, c.FreeSpace = time.Millisecond, func() (int64, error) { return 1 << 30, nil }
		base = *c
	})
	c := open(t, e)
	c.Declare("q", 0)
	next := base
	next.DiskFreeMin, next.Tuning.Prefetch = 2<<30, 1
	if err := e.Reload(next); err != nil {
		t.Fatal(err)
	}
	c.PublishAll(1, "q", "1", "2")
	amqptest.Expect[*wire.ConnectionBlocked](c)
	next.DiskFreeMin = -1
	if err := e.Reload(next); err != nil {
		t.Fatal(err)
	}
	amqptest.Expect[*wire.ConnectionUnblocked](c)
	d := open(t, e)
	subscribeWith(d, "q", "t", 0)
	delivery(d)
	d.WantQuiet(1)
}

// TestDefaultUser_Hash: the first start makes a user of a password's hash.
func TestDefaultUser_Hash(t *testing.T) {
	t.Parallel()
	e := start(t, func(c *engine.Config) {
		c.DefaultUser, c.DefaultPasswordHash = "ann", "AAAAAHxtKcrDR8dG+c3UMRgi1Knolj4MTuIU/5TGU4vJjWjN" // of s3cret, salt 0
	})
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "ann", Password: "s3cret"})
	if _, err := engine.Start(engine.Config{DataDir: t.TempDir(), DefaultUser: "ann", DefaultPasswordHash: "nonsense"}); err == nil || !strings.Contains(err.Error(), "default_password_hash") {
		t.Error(err)
	}
}
