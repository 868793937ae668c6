package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// damaged overwrites the middle of each segment of a log that a start has not
// opened yet, and returns how long they are together.
func damaged(t *testing.T, dir string, id uint64) (total int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "logs", fmt.Sprintf("%016x", id), "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		total += len(data)
		if err == nil {
			for i := len(data) / 3; i < len(data)/2; i++ {
				data[i] ^= 0x5a
			}
			err = os.WriteFile(name, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return total
}

// TestDelayedExchange_DamagedMessages: what is left of a damaged log is released, and
// the exchange goes on.
func TestDelayedExchange_DamagedMessages(t *testing.T) {
	t.Parallel()
	const messages = 100
	var dir string
	for delay := 2000; ; delay *= 4 { // on a busy machine they are due before all are there
		dir = t.TempDir()
		e, stop := startOnce(t, dir)
		c := open(t, e)
		c.Declare("probe", amqptest.Durable)
		exchange(c, "d", "x-delayed-message", amqptest.Durable, table("x-delayed-type", "fanout"))
		c.Declare("q", amqptest.Durable)
		bindQueue(c, "q", "d", "")
		confirmSelect(c)
		for i := range messages {
			m := delayed(strings.Repeat(fmt.Sprint(i%10), 20_000), delay)
			m.Exchange = "d"
			c.Publish(1, m)
		}
		ackedTo(c, messages)
		probe, err := e.Broker().VHost("/").Queue([]byte("probe"), nil)
		if err != nil {
			t.Fatal(err)
		}
		id := probe.ID + 1 // of what the exchange keeps
		q := e.Broker().VHost("/").FindQueue("q")
		c.Abort()
		stop()
		if q.Counts().Ready > 0 {
			continue
		}
		if n := damaged(t, dir, id); n < 1<<20 {
			t.Fatalf("log %d has %d bytes: these are not the messages", id, n)
		}
		break
	}
	c := open(t, startIn(t, dir))
	m := delayed("goes on", 1)
	m.Exchange = "d"
	c.Publish(1, m)
	c.Sync(1)
	c.Subscribe(1, "q", "t", amqptest.NoAck)
	n := 0
	for seen := false; !seen || n < messages/3; n++ {
		_, body := delivery(c)
		seen = seen || body == "goes on"
	}
	if n > messages {
		t.Errorf("%d messages came, some were damaged", n)
	}
}

// TestAutoDelete_HeartbeatMissed: an auto-delete queue goes when its consumer's
// client is silent for too long, in the middle of its deliveries.
func TestAutoDelete_HeartbeatMissed(t *testing.T) {
	t.Parallel()
	e := start(t)
	publisher := open(t, e)
	for i := range 3 {
		silent, err := amqptest.Open(e.Addr(), amqptest.Options{Heartbeat: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Abort()
		c := amqptest.NewClientOf(t, silent)
		c.Declare(fmt.Sprint("q", i), amqptest.AutoDelete)
		c.Subscribe(1, fmt.Sprint("q", i), "t", 0)
		publisher.PublishAll(1, fmt.Sprint("q", i), slices.Repeat([]string{strings.Repeat("x", 100_000)}, 100*i)...)
	}
	publisher.Sync(1)
	eventually(t, "the queues go with their silent consumers", func() bool {
		return !exists(e, "q0") && !exists(e, "q1") && !exists(e, "q2")
	})
	publisher.WantQuiet(1)
}

// TestPriority_TransientLeavesNothing: the levels of a queue that is not durable are
// not durable either.
func TestPriority_TransientLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, stop := startOnce(t, dir)
	c := open(t, e)
	declareWith(c, "q", 0, "x-max-priority", 5)
	for p := range 6 {
		m := ranked("q", strings.Repeat("x", 100_000), p)
		for range 5 {
			c.Publish(1, m)
		}
	}
	c.Sync(1)
	if n := ready(c, "q"); n != 30 {
		t.Errorf("%d messages", n)
	}
	c.Abort()
	stop()
	if left, err := filepath.Glob(filepath.Join(dir, "logs", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	e = startIn(t, dir)
	if exists(e, "q") || e.Recovered().Messages > 0 {
		t.Errorf("%+v", e.Recovered())
	}
}
