package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// randomBody makes a reproducible body.
func randomBody(size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	body := make([]byte, size)
	_, _ = random.Read(body)
	return body
}

// TestBodies carries bodies of all sizes through the broker with the smallest
// and the largest frame_max, by consuming, getting, and returning.
func TestBodies(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 2, 16, 4087, 4088, 4089, 8175, 8176, 8177, 65535, 65536, 131063, 131064, 131065, 262143, 262144, 262145, 1 << 20}
	e := start(t)
	for _, frameMax := range []uint32{4096, 131072} {
		for _, how := range []string{"consume", "consume acked", "get", "return"} {
			t.Run(fmt.Sprintf("frame_max %d %s", frameMax, how), func(t *testing.T) {
				t.Parallel()
				c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: frameMax})
				c.Prefix = t.Name()
				c.Declare("$q", amqptest.Durable)
				m := amqptest.Message{Key: "$q", FrameMax: frameMax}
				switch how {
				case "consume":
					c.Subscribe(1, "$q", "t", amqptest.NoAck)
				case "consume acked":
					amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1})
					c.Subscribe(1, "$q", "t", 0)
				case "return":
					m.Key, m.Mandatory = "$nowhere", true
				}
				for i, size := range sizes {
					body := randomBody(size)
					m.Body, m.Persistent = string(body), i%2 == 0
					c.Publish(1, m)
					if how == "get" {
						c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name("$q")), NoAck: true})
					}
					event := c.Read()
					if !event.Content || !bytes.Equal(event.Body, body) {
						t.Fatalf("size %d came back as %.60s, %d bytes", size, event, len(event.Body))
					}
					if how == "consume acked" {
						c.Ack(1, uint64(i+1), 0)
					}
				}
				c.WantQuiet(1)
			})
		}
	}
}

// TestBodies_Mixed: a small message behind a large one, on other channels and
// the same one, while the large one is on its way out.
func TestBodies_Mixed(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher := open(t, e)
	publisher.Declare("large", 0)
	publisher.Declare("small", 0)
	for i := range 8 {
		publisher.Publish(1, amqptest.Message{Key: "large", Body: string(randomBody(700_000 + i)), FrameMax: 131072})
		publisher.PublishAll(1, "small", numbered("", 10*i, 10*i+10)...)
	}
	publisher.Sync(1)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: 4096})
	c.OpenChannel(2)
	c.OpenChannel(3)
	c.Write(bytes.Join([][]byte{
		amqp.AppendMethodFrame(nil, 1, c.Consume("large", "large", amqptest.NoWait)),
		amqp.AppendMethodFrame(nil, 1, c.Consume("small", "small", amqptest.NoWait)),
		amqp.AppendMethodFrame(nil, 2, c.Consume("small", "small", amqptest.NoWait)),
		amqp.AppendMethodFrame(nil, 3, &amqp.BasicQos{}),
	}, nil))
	large, small, qosOk := 0, map[string]int{}, 0
	for large+len(small)+qosOk < 8+80+1 {
		event := c.Read()
		switch m := event.Method.(type) {
		case *amqp.BasicDeliver:
			if string(m.ConsumerTag) == "small" {
				small[string(event.Body)]++
				continue
			}
			if !bytes.Equal(event.Body, randomBody(700_000+large)) {
				t.Fatalf("large message %d is damaged", large)
			}
			large++
		case *amqp.BasicQosOk:
			qosOk++
		default:
			t.Fatalf("got %s", event)
		}
	}
	c.WantQuiet(3)
}

// TestBodies_20MiB: a large body goes through, to a reader that is slow to
// start, and the memory is given back.
func TestBodies_20MiB(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: 4096})
	c.Declare("q", amqptest.Durable)
	confirmSelect(c)
	body := randomBody(20 << 20)
	for _, persistent := range []bool{false, true} {
		c.Publish(1, amqptest.Message{Key: "q", Body: string(body), Persistent: persistent})
		amqptest.Expect[*amqp.BasicAck](c)
	}
	c.Subscribe(1, "q", "t", 0)
	for i := range 2 {
		if d, got := delivery(c); d.DeliveryTag != uint64(i+1) || got != string(body) {
			t.Fatalf("delivery %d: %d bytes", i, len(got))
		}
	}
	c.Ack(1, 2, amqptest.Multiple)
	c.WantQuiet(1)
	amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("q")})
	memoryBelow(t, e, 2<<20)
}

// memoryBelow waits until the pool has less than limit bytes in use.
func memoryBelow(t testing.TB, e *engine.Engine, limit int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("less than %d bytes of the pool are in use", limit), func() bool {
		return e.Pool().Stats().InUse < limit
	})
}

// TestBodies_InterleavedChannels: contents of many channels arrive frame by
// frame in turn.
func TestBodies_InterleavedChannels(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: 4096})
	c.Declare("q", 0)
	const channels = 50
	random := rand.New(rand.NewPCG(1, 2))
	var waiting [][][]byte // frames left, per channel
	want := map[string]int{}
	for channel := range uint16(channels) {
		if channel > 0 {
			c.OpenChannel(channel + 1)
		}
		var frames [][]byte
		for range 4 {
			body := string(randomBody(random.IntN(20_000)))
			want[body]++
			frames = append(frames, splitFrames(amqptest.AppendPublish(nil, channel+1, amqptest.Message{Key: "q", Body: body}))...)
		}
		waiting = append(waiting, frames)
	}
	var raw []byte
	for len(waiting) > 0 {
		i := random.IntN(len(waiting))
		raw = append(raw, waiting[i][0]...)
		if waiting[i] = waiting[i][1:]; len(waiting[i]) == 0 {
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
	}
	c.Write(raw)
	c.Subscribe(1, "q", "t", amqptest.NoAck)
	for range 4 * channels {
		_, body := delivery(c)
		if want[body]--; want[body] < 0 {
			t.Fatalf("unknown or doubled body of %d bytes", len(body))
		}
	}
}

// TestBodies_PublisherDies: a content that is not complete leaves no trace, and
// its memory goes back.
func TestBodies_PublisherDies(t *testing.T) {
	t.Parallel()
	e := start(t)
	watcher := open(t, e)
	watcher.Declare("q", 0)
	publish := amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: string(randomBody(3_000_000)), FrameMax: 131072})
	for _, end := range []func(c *amqptest.Client){
		func(c *amqptest.Client) { c.Abort() },
		func(c *amqptest.Client) { _ = c.Socket.CloseWrite() },
		func(c *amqptest.Client) {
			_ = c.Send(amqp.AppendMethodFrame(nil, 1, &amqp.ChannelClose{}))
			c.Abort()
		},
	} {
		for _, part := range []int{20, 60, 1000, 1_000_000, len(publish) - 1} {
			c := open(t, e)
			c.Write(publish[:part])
			end(c)
		}
	}
	memoryBelow(t, e, 1<<20)
	if n := amqptest.Ask[*amqp.QueueDeclareOk](watcher, 1, watcher.QueueDeclare("q", amqptest.Passive, nil)).MessageCount; n != 0 {
		t.Fatalf("%d messages came out of incomplete contents", n)
	}
}
