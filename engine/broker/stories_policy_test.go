package broker

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestPolicy_OnHashAndDelayedExchanges: a policy that comes and goes leaves the
// bindings of a hash exchange on their ring, and delayed messages delayed.
func TestPolicy_OnHashAndDelayedExchanges(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	last := c.queue(QueueDeclare{Name: "unrouted"}, nil)
	c.exchange(ExchangeDeclare{Name: "ae", Type: "fanout"})
	c.bind(Binding{Source: "ae", Queue: "unrouted"})
	for _, algorithm := range []string{"ring", "jump"} {
		c.exchange(ExchangeDeclare{Name: algorithm, Type: "x-consistent-hash", Arguments: stringArgument("x-algorithm", algorithm)})
		for i := range 3 {
			name := fmt.Sprint(algorithm, i)
			c.queue(QueueDeclare{Name: name}, nil)
			c.bind(Binding{Source: algorithm, Queue: name, RoutingKey: "1"})
		}
	}
	c.exchange(delayedExchange("d", "fanout", true))
	due := c.queue(QueueDeclare{Name: "due"}, nil)
	c.bind(Binding{Source: "d", Queue: "due"})
	c.post("d", "k", delayedBy(100), "before")
	routes := func() (all []string) {
		for _, algorithm := range []string{"ring", "jump"} {
			for i := range 50 {
				to, err := c.vh.Route([]byte(algorithm), Envelope{RoutingKey: fmt.Append(nil, i)}, nil)
				if err != nil || len(to) != 1 {
					t.Fatalf("%s: key %d has %d routes, %v", algorithm, i, len(to), err)
				}
				all = append(all, to[0].Name)
			}
		}
		return all
	}
	before := routes()
	c.policy("p", "", `{"alternate-exchange":"ae"}`)
	c.policy("q", "", `{"max-length":100}`, priority(2))
	if got := routes(); !slices.Equal(got, before) {
		t.Errorf("with a policy %v, before %v", got, before)
	}
	c.post("d", "k", delayedBy(50), "under it")
	c.must(c.broker.ClearPolicy("/", "p"))
	c.must(c.broker.ClearPolicy("/", "q"))
	if got := routes(); !slices.Equal(got, before) {
		t.Errorf("without it %v, before %v", got, before)
	}
	c.until(1099)
	c.wantReady(due, []string{"under it"})
	c.until(1100)
	c.wantReady(due, []string{"under it", "before"})
	if n := last.Counts().Ready; n != 0 {
		t.Errorf("%d messages were not routed", n)
	}
}

// TestPolicy_ConcurrentlyInUse changes policies from several sides while queues of
// all kinds are published to and consumed from; in the end the last ones count.
func TestPolicy_ConcurrentlyInUse(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	streamArguments := stringArgument("x-queue-type", "stream")
	queues := []*Queue{
		e.queue(QueueDeclare{Name: "stream", Durable: true, Arguments: streamArguments}, nil),
		e.queue(QueueDeclare{Name: "ranked", Durable: true, Arguments: values("x-max-priority", 3)}, nil),
		e.queue(QueueDeclare{Name: "plain", Durable: true}, nil),
	}
	e.queue(QueueDeclare{Name: "dead", Durable: true}, nil)
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := range 60 {
				name := fmt.Sprint("p", w)
				p := Policy{VHost: "/", Name: name, Pattern: "^(stream|ranked|plain)$", Priority: int64(w + 10*(i%2)), Definition: definition(t, fmt.Sprintf(
					`{"max-length":%d,"max-age":"%ds","max-length-bytes":%d,"delivery-limit":%d,"dead-letter-exchange":"","dead-letter-routing-key":"dead"}`, 5+i%7, 1+i, 1000*(1+i%3), i%4))}
				if _, err := e.broker.SetPolicy(p); err != nil {
					t.Error(err)
				}
				if i%5 == 4 {
					if _, err := e.broker.ClearPolicy("/", name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for _, q := range queues {
		all.Go(func() {
			for i := range 200 {
				e.publish(q, fmt.Sprint(i))
				if q.IsStream() {
					continue
				}
				if run, _ := q.Get(); run.Count > 0 && i%2 == 0 {
					run.Queue.Requeue(run)
				} else if run.Count > 0 {
					run.Queue.Settle(run.First, run.Count)
				}
			}
		})
	}
	all.Wait()
	for w := range 3 {
		_, _ = e.broker.ClearPolicy("/", fmt.Sprint("p", w)) // those that are left
	}
	for _, q := range queues[1:] {
		for i := range 4 { // a limit of deliveries may have left fewer
			e.publish(q, fmt.Sprint("late ", i))
		}
	}
	e.policy("last", "", `{"max-length":3}`)
	for _, q := range queues[1:] {
		e.await("the last limit holds", func() bool { return q.Counts().Ready == 3 })
	}
	if n := queues[0].Counts().Ready; n == 0 {
		t.Error("the stream, whose length has no limit, is empty")
	}
}

// TestStream_TrackedOffsetsAreBounded: consumers with ever new tags do not fill the
// stream's memory of offsets: the one that is not used for longest is forgotten.
func TestStream_TrackedOffsetsAreBounded(t *testing.T) {
	t.Parallel()
	var tracked trackedOffsets
	tracked.init()
	for i := range trackedMax {
		tracked.set(fmt.Sprint("tag ", i), 1)
	}
	tracked.set("tag 0", 2) // in use
	for i := range 10 {
		tracked.set(fmt.Sprint("new ", i), 3)
	}
	if len(tracked.of) != trackedMax {
		t.Errorf("%d tags are kept", len(tracked.of))
	}
	for tag, want := range map[string]bool{"tag 0": true, "tag 1": false, "tag 10": false, "tag 11": true, "new 0": true, "new 9": true} {
		if _, known := tracked.of[tag]; known != want {
			t.Errorf("%q is known: %v", tag, known)
		}
	}
}

// TestStream_LengthIsNoLimit: as in RabbitMQ x-max-length is no argument of streams,
// and a policy with max-length leaves them alone; x-max-length-bytes counts.
func TestStream_LengthIsNoLimit(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	b := amqp.NewTableBuilder(stringArgument("x-queue-type", "stream"))
	b.SetInt64("x-max-length", 2)
	_, _, _, err := e.vh.DeclareQueue(QueueDeclare{Name: "s", Durable: true, Arguments: b.Table()}, nil)
	wantError(t, err, amqp.CodePreconditionFailed, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 's' in vhost '/' of queue type rabbit_stream_queue")
	q := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	e.policy("p", "", `{"max-length":2}`)
	e.publish(q, "1", "2", "3")
	if n := q.Counts().Ready; n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
}
