package amqp

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// manyQueues is a connection whose channels publish to queues in turn, without a
// socket or a loop: input goes in by receive, confirms pile up in the output.
type manyQueues struct {
	c         *conn
	input     []byte
	committed chan struct{}
}

// newManyQueues makes one of so many channels and queues; a round of input has so
// many persistent messages of 16 bytes on each channel.
func newManyQueues(tb testing.TB, channels, queues, messages int) *manyQueues {
	posix, err := disk.OpenPosix(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	m := &manyQueues{committed: make(chan struct{}, 1)}
	pool := new(arena.Pool)
	store, err := segstore.Open(segstore.Options{Disk: posix, Arena: pool, OnCommit: func() {
		select {
		case m.committed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		tb.Fatal(err)
	}
	b, err := broker.Open(broker.Options{
		Store: store, Disk: posix, Logger: slog.New(slog.DiscardHandler), CleanStop: true,
		DefaultUser: &broker.DefaultUser{Name: "joe", Password: "x"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close(); _ = store.Close(); _ = posix.Close() })
	login, err := b.Identify([]byte("joe"), netip.Addr{})
	if err != nil {
		tb.Fatal(err)
	}
	srv := &Server{broker: b}
	srv.Tune(Tuning{})
	sh := &shard{srv: srv, loop: &loop.Loop{}, pool: pool}
	sh.batch.builder = segstore.NewBatch(pool)
	// The output stays where it is: something seems to be on its way already.
	m.c = &conn{shard: sh, user: login.User, state: stateOpen, frameMax: 128 << 10, sending: pool.Get(1)}
	if err := m.c.enter(b.VHost("/")); err != nil {
		tb.Fatal(err)
	}
	properties := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	encoded := properties.Append(nil)
	for i := range queues {
		if _, _, _, err := m.c.vhost.DeclareQueue(broker.QueueDeclare{Name: fmt.Sprintf("many-queues-%d", i), Durable: true}, nil); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range channels {
		ch := &channel{conn: m.c, id: uint16(i + 1), confirm: true}
		m.c.channels.add(ch)
		publish := amqp.BasicPublish{RoutingKey: fmt.Appendf(nil, "many-queues-%d", i%queues)}
		for range messages {
			m.input = amqp.AppendMethodFrame(m.input, ch.id, &publish)
			m.input = amqp.AppendHeaderFrame(m.input, ch.id, 16, encoded)
			m.input = amqp.AppendBodyFrames(m.input, ch.id, []byte("sixteen bytes!!!"), m.c.frameMax)
		}
	}
	return m
}

// publish has the connection receive a round of messages.
func (m *manyQueues) publish() {
	const piece = 64 << 10
	for rest := m.input; len(rest) > 0; {
		n := min(piece, len(rest))
		m.c.receive(rest[:n])
		m.c.endOfInput()
		rest = rest[n:]
	}
}

// confirm takes note of a commit; it reports whether all is confirmed.
func (m *manyQueues) confirm() bool {
	m.c.waiting = false
	m.c.shard.waiting = m.c.shard.waiting[:0]
	m.c.committed()
	return len(m.c.confirming) == 0
}

// TestManyQueues_AllAreConfirmed: the load that BenchmarkManyQueues measures is real.
func TestManyQueues_AllAreConfirmed(t *testing.T) {
	m := newManyQueues(t, 8, 8, 10)
	round := func() {
		m.publish()
		for <-m.committed; !m.confirm(); <-m.committed {
		}
		m.c.outLen = 0
	}
	for range 64 {
		round()
	}
	for _, ch := range m.c.channels {
		if ch.acked != ch.seq || ch.seq != 640 {
			t.Fatalf("channel %d: %d of %d confirmed", ch.id, ch.acked, ch.seq)
		}
	}
}

// BenchmarkManyQueues is the loop's time for a batch of ten messages on each of a
// thousand channels of a connection, to as many queues, or to one.
func BenchmarkManyQueues(b *testing.B) {
	for _, queues := range []int{1000, 1} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			m := newManyQueues(b, 1000, queues, 10)
			var publishing, confirming time.Duration
			for b.Loop() {
				start := time.Now()
				m.publish()
				publishing += time.Since(start)
				for done := false; !done; {
					<-m.committed
					start := time.Now()
					done = m.confirm()
					confirming += time.Since(start)
				}
				m.c.outLen = 0
			}
			b.ReportMetric(float64(publishing.Nanoseconds())/float64(b.N*1000), "publish-ns/batch")
			b.ReportMetric(float64(confirming.Nanoseconds())/float64(b.N*1000), "confirm-ns/batch")
		})
	}
}
