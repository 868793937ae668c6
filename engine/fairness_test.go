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
	t.Run("no prefetch", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		publisher := open(t, e)
		publisher.Declare("q", 0)
		counts := make(chan int, 2)
		for range 2 {
			c := open(t, e)
			c.Subscribe(1, "q", "t", amqptest.NoAck)
			c.WantQuiet(1)
			go func() {
				n := 0
				for ; ; n++ {
					event, err := c.Next()
					if err != nil || string(event.Body) == "end" {
						break
					}
				}
				counts <- n
			}()
		}
		publisher.PublishAll(1, "q", numbered("", 0, backlog)...)
		publisher.Sync(1)
		eventually(t, "all is delivered", func() bool { return ready(publisher, "q") == 0 })
		publisher.PublishAll(1, "q", "end", "end") // one for each
		for range 2 {
			if n := <-counts; n < backlog/4 {
				t.Errorf("one of two consumers got %d of %d", n, backlog)
			}
		}
	})
}

// TestDelivery_StrictTurns: of k consumers the i-th gets the messages i, i+k, i+2k
// and so on, of a backlog, in memory and read from the disk, and of what comes
// afterwards; whether they acknowledge or not.
func TestDelivery_StrictTurns(t *testing.T) {
	t.Parallel()
	const each = 300 // so that a client that is not read yet has room in its socket's buffers
	for _, k := range []int{2, 3, 7} {
		for _, flags := range []amqptest.Flags{0, amqptest.NoAck} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d consumers, flags %d, restarted %v", k, flags, restarted), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					e, stop := startOnce(t, dir)
					pause := func(paused bool) {
						vh := e.Broker().VHost("/")
						if _, err := vh.PauseQueue(vh.FindQueue("q"), paused); err != nil {
							t.Fatal(err)
						}
					}
					publisher := open(t, e)
					publisher.Declare("q", amqptest.Durable)
					pause(true)
					publisher.PublishAll(1, "q", numbered("", 0, each*k)...)
					publisher.Sync(1)
					if restarted {
						publisher.Abort()
						stop()
						e, stop = startOnce(t, dir)
						publisher = open(t, e)
					}
					defer stop()
					var consumers []*amqptest.Client
					for range k {
						c := open(t, e)
						c.Subscribe(1, "q", "t", flags)
						consumers = append(consumers, c)
					}
					want := func(from int) {
						t.Helper()
						for i, c := range consumers {
							for n := from + i; n < from+each*k; n += k {
								d, body := delivery(c)
								if body != strconv.Itoa(n) || d.Redelivered {
									t.Fatalf("consumer %d of %d got %s (redelivered: %v), want %d", i, k, body, d.Redelivered, n)
								}
							}
							if flags == 0 {
								c.Ack(1, 0, amqptest.Multiple)
								c.Sync(1)
							}
						}
					}
					pause(false)
					want(0)
					publisher.PublishAll(1, "q", numbered("", each*k, 2*each*k)...)
					want(each * k)
					q := e.Broker().VHost("/").FindQueue("q")
					eventually(t, "all is settled", func() bool {
						c := q.Counts()
						return c.Ready+c.Unacked == 0 && q.Log().Unsettled() == 0
					})
					for _, c := range append(consumers, publisher) {
						c.Abort()
					}
				})
			}
		}
	}
}
