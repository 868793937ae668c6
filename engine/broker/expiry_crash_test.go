package broker

import (
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// publishExpiring publishes batches of messages with expirations as connections do,
// until the queue takes no more.
func publishExpiring(e *env, q *Queue, batches, records, size int) (err error) {
	p := amqp.Properties{Flags: amqp.FlagExpiration | amqp.FlagDeliveryMode, Expiration: []byte("10"), DeliveryMode: 2}
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	for i := 0; i < batches && err == nil; i++ {
		b.Reset(0)
		template := b.Template(nil, []byte(q.Name), p.Append(nil))
		for range records {
			b.Add(template, make([]byte, size))
		}
		var tx *segstore.Tx
		if q.ExpectExpirations() {
			tx = e.broker.store.Begin()
		}
		var end uint64
		end, _, err = q.Publish(b, 0)
		if tx != nil {
			if err == nil {
				tx.Appended(q.log, end-uint64(records), end)
			}
			tx.End()
		}
	}
	return err
}

// TestExpiry_PowerCutAtTheFirst: whenever the power goes while a queue gets its
// first messages with expirations, few or so many that they go to a segment by
// themselves, those that are there afterwards expire, though nobody consumes them.
func TestExpiry_PowerCutAtTheFirst(t *testing.T) {
	t.Parallel()
	for _, load := range []struct{ batches, records, size int }{{1, 1, 10}, {1, 60, 1000}, {12, 60, 1000}} {
		survived := 0
		for cut := int64(1); cut <= 40; cut++ {
			d := sim.New(sim.Options{Seed: uint64(cut)})
			e := openClocked(t, d, 5).env
			_, _, seq, err := e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			e.durable(seq)
			q := e.vh.FindQueue("q")
			d.CrashAfter(cut)
			if err := publishExpiring(e, q, load.batches, load.records, load.size); err != nil && !crashed(d) {
				t.Fatal(err)
			}
			end := q.log.Next()
			q.log.WantDurable()
			e.await("the cut, or the end", func() bool { return crashed(d) || q.log.Durable() >= end })
			finished := !crashed(d)
			e.crash()
			again := openClocked(t, d.PowerCut(), 5)
			q = again.vh.FindQueue("q")
			if n := q.Counts().Ready; n > 0 {
				survived++
			} else if finished {
				t.Fatalf("nothing is there of %d messages that were durable", end)
			}
			again.until(1000)
			again.await("everything has expired", func() bool {
				again.broker.keeper.step()
				return q.Counts().Ready == 0
			})
			again.crash()
			if finished {
				break
			}
		}
		if survived == 0 {
			t.Errorf("%+v: no cut came when something was there", load)
		}
	}
}
