package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestLarge_Gone: purge, deletion and the end of an exclusive queue remove
// their bodies; a body whose channel or connection ends in the middle is gone.
func TestLarge_Gone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	fill := func(queue string, flags amqptest.Flags) {
		c.Declare(queue, flags)
		for n := range 3 {
			c.Publish(1, large(queue, n, true))
		}
		c.Sync(1)
	}
	fill("q", amqptest.Durable)
	wantFiles(t, dir, 3, 0)
	c.Get(1, "q", 0)
	if ok := amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: []byte("q")}); ok.MessageCount != 2 {
		t.Fatalf("%+v", ok)
	}
	wantFiles(t, dir, 1, 0)
	fill("q", amqptest.Durable)
	wantFiles(t, dir, 4, 0)
	amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("q")})
	wantFiles(t, dir, 0, 0)
	fill("x", amqptest.Exclusive)
	wantFiles(t, dir, 0, 3)
	raw := amqptest.AppendPublish(nil, 1, large("x", 1, true))
	c.OpenChannel(2)
	c.Write(amqptest.AppendPublish(nil, 2, large("x", 1, true))[:300_000])
	eventually(t, "the spool is in use", func() bool { n, _, _ := bodyFiles(t, dir); return n == 1 })
	c.Abort()
	wantFiles(t, dir, 0, 0)

	c = open(t, e)
	c.Declare("x", 0)
	frames := splitFrames(raw)
	c.Write(bytes.Join(frames[:4], nil))
	c.Method(1, &amqp.ChannelClose{}) // 505 in the middle of a content
	c.Want("0 connection.close 505 *")
	c.FinishClose()
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}

// TestLarge_Restart: messages and bodies are there after a clean stop and after
// a crash; names without a record go, others' directories are put aside.
func TestLarge_Restart(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"clean", "crash"} {
		t.Run(r, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, err := engine.Start(engine.Config{DataDir: dir, Loops: 2, IO: os.Getenv(ioVariable)})
			if err != nil {
				t.Fatal(err)
			}
			c := open(t, e)
			c.Declare("q", amqptest.Durable)
			c.Declare("gone", 0)
			confirmSelect(c)
			for n := range 6 {
				c.Publish(1, large("q", n, true))
				amqptest.Expect[*amqp.BasicAck](c)
				c.Publish(1, large("gone", n, true))
				amqptest.Expect[*amqp.BasicAck](c)
			}
			c.Get(1, "q", 0)
			c.OpenChannel(2)
			c.Write(amqptest.AppendPublish(nil, 2, large("q", 9, true))[:300_000]) // never completed
			next := t.TempDir()
			if r == "crash" {
				eventually(t, "the spool is in use", func() bool { n, _, _ := bodyFiles(t, dir); return n == 1 })
				if err := amqptest.CopyDir(next, dir); err != nil {
					t.Fatal(err)
				}
			}
			c.Abort()
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			if r == "clean" {
				next = dir
			}
			_, durable, _ := bodyFiles(t, next)
			if durable != 6 {
				t.Fatalf("%d files", durable)
			}
			logs, err := os.ReadDir(filepath.Join(next, "bodies"))
			if err != nil || len(logs) != 1 {
				t.Fatal(logs, err)
			}
			orphan := filepath.Join(next, "bodies", logs[0].Name(), "00000000deadbeef")
			stranger := filepath.Join(next, "bodies", "0000000000777777")
			if err := os.WriteFile(orphan, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(stranger, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(stranger, "0000000000000001"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}

			e = startIn(t, next)
			if got := e.Recovered(); got.Messages != 6 {
				t.Fatalf("recovered %+v", got)
			}
			wantFiles(t, next, 6, 0) // without orphan and stranger
			if _, err := os.Stat(filepath.Join(next, "quarantine", "bodies-0000000000777777", "0000000000000001")); err != nil {
				t.Fatal(err)
			}
			c = open(t, e)
			c.Subscribe(1, "q", "t", 0)
			for n := range 6 {
				wantLarge(t, c, n, r == "crash" || n == 0)
			}
			c.Ack(1, 6, amqptest.Multiple)
			wantFiles(t, next, 0, 0)
		})
	}
}

// TestLarge_AckedBeforeTheScan: what is settled right after a start, by ack and
// by purge, takes its bodies along.
func TestLarge_AckedBeforeTheScan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	confirmSelect(c)
	for n := range 5 {
		c.Publish(1, large("q", n, true))
		amqptest.Expect[*amqp.BasicAck](c)
		padding := strings.Repeat("p", 200_000) // makes the scan slow
		for range 10 {
			c.Publish(1, amqptest.Message{Key: "q", Body: padding, FrameMax: 131072})
		}
	}
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = startIn(t, dir)
	c = open(t, e)
	if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != largeBody(0) {
		t.Fatalf("got %d bytes", len(got.Body))
	}
	amqptest.Ask[*amqp.QueuePurgeOk](c, 1, &amqp.QueuePurge{Queue: []byte("q")})
	wantFiles(t, dir, 0, 0)
}

// TestLarge_DeadConsumer: one that never reads holds up nobody; its messages
// come back when it goes.
func TestLarge_DeadConsumer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	dead, c := open(t, e), open(t, e)
	c.Declare("q", amqptest.Durable)
	body := string(randomBody(12 << 20)) // more than any socket buffer takes
	for range 2 {
		c.Publish(1, amqptest.Message{Key: "q", Body: body, FrameMax: 131072})
	}
	c.Sync(1)
	dead.Subscribe(1, "q", "t", 0)
	if _, err := dead.Raw(100_000); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		c.Publish(1, large("q", n, false))
		c.Publish(1, amqptest.Message{Key: "nowhere", Body: "x"})
	}
	c.Sync(1)
	dead.Abort()
	eventually(t, "what the dead one had is ready again", func() bool {
		return amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare("q", amqptest.Passive, nil)).MessageCount == 5
	})
	c.Subscribe(1, "q", "t", 0)
	for range 2 {
		if _, got := delivery(c); got != body {
			t.Fatalf("%d bytes", len(got))
		}
	}
	for n := range 3 {
		if _, got := delivery(c); got != largeBody(n) {
			t.Fatalf("message %d: %d bytes", n, len(got))
		}
	}
	c.Ack(1, 0, amqptest.Multiple)
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 2<<20)
}
