package engine_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestDelivery_FairShares: what two consumers of a backlog see. With a prefetch
// each holds as many as that says and gets one for each that it acknowledges, one
// that acknowledges nothing keeps nobody from the rest; without one, both are served
// to the end.
func TestDelivery_FairShares(t *testing.T) {
	t.Parallel()
	const backlog = 600
	filled := func(t *testing.T) (publisher, a, b *amqptest.Client) {
		e := start(t)
		publisher, a, b = open(t, e), open(t, e), open(t, e)
		publisher.Declare("q", 0)
		publisher.PublishAll(1, "q", numbered("", 0, backlog)...)
		publisher.Sync(1)
		return publisher, a, b
	}
	for _, prefetch := range []int{1, 10} {
		t.Run("prefetch "+strconv.Itoa(prefetch), func(t *testing.T) {
			t.Parallel()
			_, a, b := filled(t)
			next := 0
			for _, c := range []*amqptest.Client{a, b} {
				amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: uint16(prefetch)})
				c.Subscribe(1, "q", "t", 0)
				for range prefetch {
					if _, body := delivery(c); body != strconv.Itoa(next) {
						t.Fatalf("got %s, want %d", body, next)
					}
					next++
				}
				c.WantQuiet(1)
			}
			// In turn, as they acknowledge; later b alone, while a holds what it has.
			for tag := uint64(1); next < backlog; tag++ {
				for _, c := range []*amqptest.Client{a, b} {
					if c == a && tag > 100 || next == backlog {
						continue
					}
					c.Ack(1, tag, 0)
					if d, body := delivery(c); body != strconv.Itoa(next) || d.DeliveryTag != tag+uint64(prefetch) {
						t.Fatalf("got %s with tag %d, want %d", body, d.DeliveryTag, next)
					}
					next++
				}
			}
			a.WantQuiet(1)
		})
	}
}

// TestDelivery_RoundRobin_Backlog: of 10,000 messages consumer i of k gets message i and
// every k-th one after it, in order, whatever loop it is on and whether it
// acknowledges; the next message goes to the one whose turn it is then.
func TestDelivery_RoundRobin_Backlog(t *testing.T) {
	t.Parallel()
	const backlog = 10_000
	for _, k := range []int{2, 3, 7} {
		for _, noAck := range []bool{false, true} {
			t.Run(fmt.Sprint(k, " consumers, no_ack ", noAck), func(t *testing.T) {
				t.Parallel()
				e := start(t)
				publisher := open(t, e)
				publisher.Declare("q", 0)
				flags := amqptest.Flags(0)
				if noAck {
					flags = amqptest.NoAck
				}
				var consumers []*amqptest.Client
				for range k {
					c := open(t, e)
					c.Subscribe(1, "q", "t", flags)
					c.WantQuiet(1)
					consumers = append(consumers, c)
				}
				// All at once, so that everybody is there for all of it.
				amqptest.Ask[*amqp.TxSelectOk](publisher, 1, &amqp.TxSelect{})
				publisher.PublishAll(1, "q", numbered("", 0, backlog+1)...)
				amqptest.Ask[*amqp.TxCommitOk](publisher, 1, &amqp.TxCommit{})
				failures := make(chan string, k)
				for i, c := range consumers {
					go func() {
						tag := uint64(0)
						for want := i; want <= backlog; want += k {
							event, err := c.Next()
							if err != nil || string(event.Body) != strconv.Itoa(want) {
								failures <- fmt.Sprintf("consumer %d of %d got %s, want %d (%v)", i, k, event.Body, want, err)
								return
							}
							if tag++; !noAck && tag%50 == 0 {
								c.Ack(1, tag, amqptest.Multiple)
							}
						}
						if !noAck {
							c.Ack(1, 0, amqptest.Multiple)
						}
						failures <- ""
					}()
				}
				for range consumers {
					if failure := <-failures; failure != "" {
						t.Error(failure)
					}
				}
				if t.Failed() {
					return
				}
				q := e.Broker().VHost("/").FindQueue("q")
				eventually(t, "all is settled", func() bool { return q.Counts().Unacked == 0 && q.Log().Unsettled() == 0 })
			})
		}
	}
}
