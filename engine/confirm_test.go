package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestConfirm_MonotoneAndCumulative: whatever is published, each publish is
// confirmed once, in order, and a return comes before the confirm of its
// message.
func TestConfirm_MonotoneAndCumulative(t *testing.T) {
	t.Parallel()
	e := start(t)
	setup := open(t, e)
	setup.Declare("durable", amqptest.Durable)
	setup.Declare("transient", 0)
	for _, q := range []string{"durable", "transient"} {
		amqptest.Ask[*amqp.QueueBindOk](setup, 1, setup.QueueBind(q, "amq.fanout", "", nil))
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			c := open(t, e)
			confirmSelect(c)
			const total = 500
			returns := map[uint64]bool{} // publishes that must be returned
			acked, published := uint64(0), uint64(0)
			read := func() {
				event := c.Read()
				switch m := event.Method.(type) {
				case *amqp.BasicReturn:
					var n uint64
					if _, err := fmt.Sscan(string(event.Body), &n); err != nil || !returns[n] || n <= acked {
						t.Fatalf("return %s; acked up to %d", event, acked)
					}
					delete(returns, n)
				case *amqp.BasicAck:
					if m.DeliveryTag <= acked || m.DeliveryTag > published || !m.Multiple && m.DeliveryTag != acked+1 {
						t.Fatalf("ack %d multiple %v after %d, published %d", m.DeliveryTag, m.Multiple, acked, published)
					}
					acked = m.DeliveryTag
					for n := range returns {
						if n <= acked {
							t.Fatalf("%d was acked before it was returned", n)
						}
					}
				default:
					t.Fatalf("got %s", event)
				}
			}
			for published < total {
				var raw []byte
				for range 1 + random.IntN(40) {
					if published == total {
						break
					}
					published++
					m := amqptest.Message{Body: fmt.Sprint(published), Persistent: random.IntN(2) == 0, Mandatory: random.IntN(3) == 0}
					switch random.IntN(5) {
					case 0:
						m.Key = "durable"
					case 1:
						m.Key = "transient"
					case 2:
						m.Exchange = "amq.fanout"
					case 3:
						m.Key = "nowhere"
						if m.Mandatory {
							returns[published] = true
						}
					case 4: // runs of equal publishes take the fast path
						m = amqptest.Message{Body: m.Body, Key: "durable", Persistent: true}
					}
					raw = amqptest.AppendPublish(raw, 1, m)
				}
				c.Write(raw)
				if random.IntN(3) == 0 {
					read()
				}
			}
			for acked < total {
				read()
			}
			c.WantQuiet(1)
		})
	}
}

// TestConfirm_BeforeChannelClose: what was published before an error is
// confirmed, or known not to be: the acks come before channel.close.
func TestConfirm_BeforeChannelClose(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	c.Declare("q", 0)
	confirmSelect(c)
	c.Write(append(
		amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: "b"}),
		amqptest.AppendPublish(nil, 1, amqptest.Message{Exchange: "none", Body: "b"})...))
	c.Want("1 basic.ack DeliveryTag=1 Multiple=false", "1 channel.close 404 *")
}

// TestTx_Atomic: nothing of a transaction is seen before its commit, all of it
// after, nothing after rollback or the loss of its channel (1.9).
func TestTx_Atomic(t *testing.T) {
	t.Parallel()
	e := start(t)
	counts := func(c *amqptest.Client, queue string) uint32 {
		return amqptest.Ask[*amqp.QueueDeclareOk](c, 1, c.QueueDeclare(queue, amqptest.Passive, nil)).MessageCount
	}
	for _, r := range []struct {
		name   string
		end    func(c *amqptest.Client)
		commit bool
		gone   bool // the channel is gone: its unacked messages are ready again
	}{
		{"commit", func(c *amqptest.Client) { amqptest.Ask[*amqp.TxCommitOk](c, 1, &amqp.TxCommit{}) }, true, false},
		{"rollback", func(c *amqptest.Client) { amqptest.Ask[*amqp.TxRollbackOk](c, 1, &amqp.TxRollback{}) }, false, false},
		{"channel.close", func(c *amqptest.Client) { amqptest.Ask[*amqp.ChannelCloseOk](c, 1, &amqp.ChannelClose{}) }, false, true},
		{"connection lost", func(c *amqptest.Client) { c.Abort() }, false, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			c, other := open(t, e), open(t, e)
			c.Prefix, other.Prefix = r.name+"-", r.name+"-"
			for _, q := range []string{"$in", "$a", "$b"} {
				c.Declare(q, amqptest.Durable)
			}
			c.PublishAll(1, "$in", numbered("i", 0, 5)...)
			for range 3 {
				c.Get(1, "$in", 0)
			}
			txSelect(c)
			for i := range 100 {
				c.Publish(1, amqptest.Message{Key: []string{"$a", "$b"}[i%2], Body: fmt.Sprint(i), Persistent: i%3 == 0})
			}
			c.Ack(1, 2, amqptest.Multiple)
			c.Nack(1, 3, amqptest.Requeue)
			c.Sync(1)
			if in, a, b := counts(other, "$in"), counts(other, "$a"), counts(other, "$b"); in != 2 || a != 0 || b != 0 {
				t.Fatalf("before the end: in %d, a %d, b %d", in, a, b)
			}
			r.end(c)
			want := [3]uint32{2, 0, 0}
			if r.commit {
				want = [3]uint32{3, 50, 50}
			}
			if r.gone {
				want[0] = 5
			}
			eventually(t, "queues are as they should be", func() bool {
				return [3]uint32{counts(other, "$in"), counts(other, "$a"), counts(other, "$b")} == want
			})
			if r.commit {
				for i := range 50 {
					if got := other.Get(1, "$a", amqptest.NoAck); string(got.Body) != fmt.Sprint(2*i) {
						t.Fatalf("message %d: %s", i, got)
					}
				}
			}
		})
	}
}
