package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestQueueArguments_Conservation: publishers on several connections, a queue
// that is nearly always full, consumers that acknowledge, reject and requeue: in
// the end each message has been acknowledged or is a dead letter, once.
func TestQueueArguments_Conservation(t *testing.T) {
	t.Parallel()
	const publishers, each = 3, 600
	e := start(t)
	c := open(t, e)
	c.Declare("dead", amqptest.Durable)
	declareWith(c, "q", amqptest.Durable, "x-max-length", 20, "x-overflow", "reject-publish-dlx", "x-delivery-limit", 2,
		"x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead", "x-dead-letter-strategy", "at-least-once")

	var group sync.WaitGroup
	for p := range publishers {
		c := open(t, e)
		group.Go(func() {
			if _, err := c.Call(1, &amqp.ConfirmSelect{}, amqp.ConfirmSelectOkID); err != nil {
				t.Error(err)
				return
			}
			for from := 0; from < each; from += 50 {
				var raw []byte
				for i := range 50 {
					raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: "q", Body: fmt.Sprint(p, " ", from+i), Persistent: true})
				}
				if err := c.Send(raw); err != nil {
					t.Error(err)
					return
				}
				for confirmed := uint64(from); confirmed < uint64(from+50); {
					event, err := c.Next()
					if err != nil {
						t.Error(err)
						return
					}
					switch m := event.Method.(type) {
					case *amqp.BasicAck:
						confirmed = m.DeliveryTag
					case *amqp.BasicNack:
						confirmed = m.DeliveryTag
					}
				}
			}
		})
	}
	var mu sync.Mutex
	outcome := map[string]string{}
	settle := func(body, how string) {
		mu.Lock()
		defer mu.Unlock()
		if before := outcome[body]; before != "" {
			t.Errorf("message %s was %s and is %s", body, before, how)
		}
		outcome[body] = how
	}
	var consumers []*amqptest.Client
	for range 2 {
		c := open(t, e)
		amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 7})
		c.Subscribe(1, "q", "t", 0)
		consumers = append(consumers, c)
		group.Go(func() {
			for n := 0; ; n++ {
				event, err := c.Next()
				if err != nil {
					return // aborted at the end
				}
				d, ok := event.Method.(*amqp.BasicDeliver)
				if !ok {
					continue
				}
				var answer amqp.Method = &amqp.BasicAck{DeliveryTag: d.DeliveryTag}
				switch n % 5 {
				case 0:
					answer = &amqp.BasicNack{DeliveryTag: d.DeliveryTag}
				case 1, 2:
					answer = &amqp.BasicNack{DeliveryTag: d.DeliveryTag, Requeue: true}
				default:
					settle(string(event.Body), "acknowledged")
				}
				if err := c.SendMethod(1, answer); err != nil {
					return
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(outcome)
	}
	eventually(t, "an end for each message", func() bool {
		for _, body := range drain(c, "dead") {
			settle(body, "dead")
		}
		return count() == publishers*each
	})
	q := e.Broker().VHost("/").FindQueue("q")
	eventually(t, "no message is left", func() bool { n := q.Counts(); return n.Ready == 0 && n.Unacked == 0 })
	for _, c := range consumers {
		c.Abort()
	}
	group.Wait()
	if got := drain(c, "dead"); len(got) > 0 {
		t.Errorf("%d letters too many: %q", len(got), got)
	}
}
