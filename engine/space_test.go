package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestSpace_PublishersAreBlocked: below the floor publishers are told and not
// read from, consumers go on, and publishing goes on by itself when there is
// more space again: nothing is lost.
func TestSpace_PublishersAreBlocked(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 40)
	e := start(t, func(c *engine.Config) {
		c.Loops, c.DiskFreeMin, c.SpaceInterval = 1, 100<<20, time.Millisecond
		c.FreeSpace = func() (int64, error) { return free.Load(), nil }
	})
	publisher, idle, consumer := open(t, e), open(t, e), open(t, e)
	mute := amqptest.OpenClient(t, e.Addr(), amqptest.Options{NoCapabilities: true})
	publisher.Declare("q", 0)
	mute.Declare("muted", 0)
	publisher.PublishAll(1, "q", "before")
	mute.PublishAll(1, "muted", "before")
	publisher.Sync(1)
	mute.Sync(1)

	free.Store(50 << 20)
	blocked := amqptest.Expect[*amqp.ConnectionBlocked](publisher).Method.(*amqp.ConnectionBlocked)
	if want := "low on disk: 50 MiB free, 100 MiB needed"; string(blocked.Reason) != want {
		t.Errorf("reason %q, want %q", blocked.Reason, want)
	}
	publisher.PublishAll(1, "q", "during", "during too")
	mute.PublishAll(1, "muted", "during")
	// Who has not published is served as ever, and may even declare and get.
	if got := consumer.Get(1, "q", amqptest.NoAck); string(got.Body) != "before" {
		t.Errorf("got %v", got)
	}
	idle.Declare("other", 0)
	// The first publish of a connection is still taken; then it is blocked too.
	idle.PublishAll(1, "other", "late")
	amqptest.Expect[*amqp.ConnectionBlocked](idle)
	if got := consumer.Get(1, "other", amqptest.NoAck); string(got.Body) != "late" {
		t.Errorf("got %v", got)
	}
	for _, queue := range []string{"q", "muted"} {
		if want := map[string]int{"q": 0, "muted": 1}[queue]; int(amqptest.Ask[*amqp.QueueDeclareOk](consumer, 1, consumer.QueueDeclare(queue, amqptest.Passive, nil)).MessageCount) != want {
			t.Errorf("queue %s has taken messages from a blocked publisher", queue)
		}
	}
	free.Store(110 << 20) // above the floor, but not by a quarter
	consumer.Sync(1)

	free.Store(200 << 20)
	amqptest.Expect[*amqp.ConnectionUnblocked](publisher)
	amqptest.Expect[*amqp.ConnectionUnblocked](idle)
	publisher.Sync(1)
	mute.Sync(1)
	for _, want := range []string{"during", "during too"} {
		if got := consumer.Get(1, "q", amqptest.NoAck); string(got.Body) != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

// TestSpace_StopWhileBlocked: a blocked publisher hears of the stop, and its
// close-ok is heard.
func TestSpace_StopWhileBlocked(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 40)
	e, err := engine.Start(engine.Config{
		DataDir: t.TempDir(), DiskFreeMin: 1 << 20, SpaceInterval: time.Millisecond,
		FreeSpace: func() (int64, error) { return free.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	publisher := open(t, e)
	publisher.Declare("q", 0)
	publisher.PublishAll(1, "q", "m")
	publisher.Sync(1)
	free.Store(0)
	amqptest.Expect[*amqp.ConnectionBlocked](publisher)
	publisher.PublishAll(1, "q", "not read")

	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop() }()
	m := amqptest.Expect[*amqp.ConnectionClose](publisher).Method.(*amqp.ConnectionClose)
	if m.ReplyCode != amqp.CodeConnectionForced || !strings.Contains(string(m.ReplyText), "shutdown") {
		t.Errorf("%d %s", m.ReplyCode, m.ReplyText)
	}
	publisher.FinishClose()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
