package engine_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// largeBody is a reproducible body that is kept in a file of its own.
func largeBody(n int) string { return string(randomBody(1<<20 + 100_000 + n)) }

// large is a publish of it.
func large(key string, n int, persistent bool) amqptest.Message {
	return amqptest.Message{Key: key, Body: largeBody(n), Persistent: persistent, FrameMax: 131072}
}

// startIn runs a broker on a directory of the test's own choice.
func startIn(t *testing.T, dir string) *engine.Engine {
	return start(t, func(c *engine.Config) { c.DataDir = dir })
}

// bodyFiles counts the files of large bodies: those arriving, and the names in
// the directories of durable and of other queues.
func bodyFiles(t testing.TB, dir string) (spool, durable, transient int) {
	t.Helper()
	count := func(name string) (n int) {
		_ = filepath.WalkDir(filepath.Join(dir, name), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil // what vanishes meanwhile does not count
		})
		return n
	}
	return count("spool"), count("bodies"), count("transient-bodies")
}

// wantFiles waits until there are so many.
func wantFiles(t testing.TB, dir string, durable, transient int) {
	t.Helper()
	var got [3]int
	eventually(t, fmt.Sprintf("%d and %d body files, nothing in the spool", durable, transient), func() bool {
		got[0], got[1], got[2] = bodyFiles(t, dir)
		return got == [3]int{0, durable, transient}
	})
}

// wantLarge reads a delivery of large body n.
func wantLarge(t *testing.T, c *amqptest.Client, n int, redelivered bool) uint64 {
	t.Helper()
	d, body := delivery(c)
	if body != largeBody(n) || d.Redelivered != redelivered {
		t.Fatalf("large message %d came as %d bytes, redelivered %v", n, len(body), d.Redelivered)
	}
	return d.DeliveryTag
}

// TestLarge_Fanout: one file, a name per queue; each goes with its queue's ack.
func TestLarge_Fanout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	queues := []string{"d1", "d2", "transient"}
	for i, q := range queues {
		flags := amqptest.Durable
		if i == 2 {
			flags = 0
		}
		c.Declare(q, flags)
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	confirmSelect(c)
	for n := range 2 {
		m := large("", n, n == 0)
		m.Exchange = "amq.fanout"
		c.Publish(1, m)
		amqptest.Expect[*amqp.BasicAck](c)
	}
	wantFiles(t, dir, 4, 2)
	c.OpenChannel(2)
	for i, q := range queues {
		c.Subscribe(2, q, q, 0)
		wantLarge(t, c, 0, false)
		tag := wantLarge(t, c, 1, false)
		c.Ack(2, tag, 0)
		wantFiles(t, dir, []int{3, 1, 0}[i], []int{2, 2, 1}[i])
		c.Ack(2, tag-1, 0)
		wantFiles(t, dir, []int{2, 0, 0}[i], []int{2, 2, 0}[i])
	}
	memoryBelow(t, e, 1<<20)
}

// TestLarge_Requeue: every way back to the queue brings the whole body again.
func TestLarge_Requeue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	c.Publish(1, large("q", 1, false))
	c.Publish(1, amqptest.Message{Key: "q", Body: "small"})
	c.Subscribe(1, "q", "t", 0)
	wantLarge(t, c, 1, false)
	delivery(c)
	c.Nack(1, 1, amqptest.Requeue)
	tag := wantLarge(t, c, 1, true)
	amqptest.Ask[*amqp.BasicCancelOk](c, 1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
	amqptest.Ask[*amqp.BasicRecoverOk](c, 1, &amqp.BasicRecover{Requeue: true})
	_ = tag
	if got := c.Get(1, "q", 0); string(got.Body) != largeBody(1) {
		t.Fatalf("got %d bytes", len(got.Body))
	}
	c.Abort()
	c = open(t, e)
	eventually(t, "what was got is ready again", func() bool { return ready(c, "q") == 2 })
	c.Subscribe(1, "q", "t", 0)
	tag = wantLarge(t, c, 1, true)
	c.Method(1, &amqp.BasicReject{DeliveryTag: tag})
	if _, body := delivery(c); body != "small" {
		t.Fatal(body)
	}
	wantFiles(t, dir, 0, 0)
}

// TestLarge_Get: with and without acks, one after the other, behind a delivery
// that is under way.
func TestLarge_Get(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	c.Declare("q", 0)
	c.Declare("other", 0)
	var bodies []string
	for n := range 6 {
		c.Publish(1, large("q", n, false))
		bodies = append(bodies, largeBody(n))
	}
	c.Publish(1, large("other", 9, false))
	c.OpenChannel(2)
	var raw []byte
	raw = amqp.AppendMethodFrame(raw, 2, c.Consume("other", "t", amqptest.NoAck|amqptest.NoWait))
	for n := range 6 {
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicGet{Queue: []byte("q"), NoAck: n%2 == 0})
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicQos{})
	}
	c.Write(raw)
	got, others := 0, 0
	for got+others < 13 {
		event := c.Read()
		switch m := event.Method.(type) {
		case *amqp.BasicGetOk:
			if string(event.Body) != bodies[got/2] || got%2 != 0 || int(m.MessageCount) != 5-got/2 {
				t.Fatalf("answer %d: %d bytes, %+v", got, len(event.Body), *m)
			}
			got++
		case *amqp.BasicQosOk:
			got++
		case *amqp.BasicDeliver:
			if string(event.Body) != largeBody(9) {
				t.Fatalf("delivery of %d bytes", len(event.Body))
			}
			others++
		default:
			t.Fatalf("got %s", event)
		}
	}
	wantFiles(t, dir, 0, 3)
	c.Ack(1, 0, amqptest.Multiple)
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}

// TestLarge_Return: an unroutable message comes back whole, before its confirm;
// one that nobody wants back leaves no trace.
func TestLarge_Return(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	c.Declare("idle", 0)
	confirmSelect(c)
	for n := range 3 {
		lost := large("nowhere", n, true)
		c.Publish(1, lost)
		amqptest.Expect[*amqp.BasicAck](c)
		lost.Mandatory = true
		c.Publish(1, lost)
		back := amqptest.Expect[*amqp.BasicReturn](c)
		if string(back.Body) != lost.Body || back.Method.(*amqp.BasicReturn).ReplyCode != amqp.CodeNoRoute {
			t.Fatalf("%d bytes came back", len(back.Body))
		}
		p, err := amqp.DecodeProperties(back.Properties)
		if err != nil || p.DeliveryMode != 2 {
			t.Fatalf("with %+v, %v", p, err)
		}
		amqptest.Expect[*amqp.BasicAck](c)
		for _, key := range [...]string{"idle", "nowhere"} {
			now := large(key, n, false)
			now.Immediate = true
			c.Publish(1, now)
			back = amqptest.Expect[*amqp.BasicReturn](c)
			if string(back.Body) != now.Body || back.Method.(*amqp.BasicReturn).ReplyCode != amqp.CodeNoConsumers {
				t.Fatalf("%d bytes came back from %q", len(back.Body), key)
			}
			amqptest.Expect[*amqp.BasicAck](c)
		}
	}
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}

// TestLarge_Confirms: order and numbers are those of the publishes.
func TestLarge_Confirms(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	confirmSelect(c)
	var raw []byte
	for n := range 12 {
		m := amqptest.Message{Key: "q", Body: fmt.Sprint(n), Persistent: n%2 == 0}
		if n%3 == 0 {
			m = large("q", n, n%2 == 0)
		}
		raw = amqptest.AppendPublish(raw, 1, m)
	}
	c.Write(raw)
	for acked := uint64(0); acked < 12; {
		m := amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck)
		if m.DeliveryTag <= acked || !m.Multiple && m.DeliveryTag != acked+1 {
			t.Fatalf("%+v after %d", m, acked)
		}
		acked = m.DeliveryTag
	}
	c.Subscribe(1, "q", "t", amqptest.NoAck)
	for n := range 12 {
		want := fmt.Sprint(n)
		if n%3 == 0 {
			want = largeBody(n)
		}
		if _, body := delivery(c); body != want {
			t.Fatalf("message %d: %d bytes", n, len(body))
		}
	}
}

// TestLarge_Tx: committed with the rest, in order, or gone without a trace.
func TestLarge_Tx(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c, watcher := open(t, e), open(t, e)
	c.Declare("q", amqptest.Durable)
	c.Declare("t", 0)
	amqptest.Ask[*amqp.TxSelectOk](c, 1, &amqp.TxSelect{})
	stage := func() {
		c.Publish(1, large("q", 1, true))
		c.Publish(1, amqptest.Message{Key: "q", Body: "small", Persistent: true})
		c.Publish(1, large("t", 2, false))
		c.Publish(1, large("nowhere", 3, false))
		c.Publish(1, large("q", 4, true))
		c.Sync(1)
	}
	ready := func() uint32 {
		return amqptest.Ask[*amqp.QueueDeclareOk](watcher, 1, watcher.QueueDeclare("q", amqptest.Passive, nil)).MessageCount
	}
	stage()
	amqptest.Ask[*amqp.TxRollbackOk](c, 1, &amqp.TxRollback{})
	wantFiles(t, dir, 0, 0)
	stage()
	if n := ready(); n != 0 {
		t.Fatalf("%d messages before the commit", n)
	}
	amqptest.Ask[*amqp.TxCommitOk](c, 1, &amqp.TxCommit{})
	if n := ready(); n != 3 {
		t.Fatalf("%d messages after the commit", n)
	}
	wantFiles(t, dir, 2, 1)

	// Returns come before commit-ok; two large ones, one after the other.
	for n := range 2 {
		m := large("nowhere", n, false)
		m.Mandatory = true
		c.Publish(1, m)
	}
	c.Method(1, &amqp.TxCommit{})
	for n := range 2 {
		if back := amqptest.Expect[*amqp.BasicReturn](c); string(back.Body) != largeBody(n) {
			t.Fatalf("return %d: %d bytes", n, len(back.Body))
		}
	}
	c.Want("1 tx.commit-ok")
	wantFiles(t, dir, 2, 1)

	// Acknowledged in a transaction: the body goes with the commit.
	c.Subscribe(1, "t", "t", 0)
	tag := wantLarge(t, c, 2, false)
	c.Ack(1, tag, 0)
	amqptest.Ask[*amqp.TxRollbackOk](c, 1, &amqp.TxRollback{})
	c.Ack(1, tag, 0)
	c.Sync(1)
	wantFiles(t, dir, 2, 1)
	amqptest.Ask[*amqp.TxCommitOk](c, 1, &amqp.TxCommit{})
	wantFiles(t, dir, 2, 0)

	// A connection that dies takes what it staged along.
	stage()
	c.Abort()
	wantFiles(t, dir, 2, 0)
	watcher.Subscribe(1, "q", "c", amqptest.NoAck)
	wantLarge(t, watcher, 1, false)
	if _, body := delivery(watcher); body != "small" {
		t.Fatal(body)
	}
	wantLarge(t, watcher, 4, false)
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}

// TestLarge_Interleaved: large and small contents of many channels arrive frame
// by frame in turn; each is whole, and in order on its channel.
func TestLarge_Interleaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{FrameMax: 4096})
	const channels = 40
	var waiting [][][]byte
	for channel := range uint16(channels) {
		if channel > 0 {
			c.OpenChannel(channel + 1)
		}
		queue := fmt.Sprint("q", channel)
		c.Method(channel+1, c.QueueDeclare(queue, 0, nil))
		amqptest.Expect[*amqp.QueueDeclareOk](c)
		var frames [][]byte
		for _, body := range []string{"a", largeBody(int(channel)), "b", string(randomBody(100_000)), largeBody(1000 + int(channel))} {
			frames = append(frames, splitFrames(amqptest.AppendPublish(nil, channel+1, amqptest.Message{Key: queue, Body: body}))...)
		}
		waiting = append(waiting, frames)
	}
	for turn := 0; len(waiting) > 0; turn++ {
		var raw []byte
		for i := 0; i < len(waiting); i++ {
			n := min(1+(turn+i)%7, len(waiting[i]))
			raw = append(raw, bytes.Join(waiting[i][:n], nil)...)
			if waiting[i] = waiting[i][n:]; len(waiting[i]) == 0 {
				waiting = append(waiting[:i], waiting[i+1:]...)
				i--
			}
		}
		c.Write(raw)
	}
	for channel := range uint16(channels) {
		queue := fmt.Sprint("q", channel)
		for n, want := range []string{"a", largeBody(int(channel)), "b", string(randomBody(100_000)), largeBody(1000 + int(channel))} {
			if got := c.Get(channel+1, queue, amqptest.NoAck); string(got.Body) != want {
				t.Fatalf("channel %d message %d: %d bytes", channel, n, len(got.Body))
			}
		}
	}
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}
