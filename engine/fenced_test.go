package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// onDisk runs a broker on a simulated disk until stop, or the test's end.
func onDisk(t *testing.T, d *sim.Disk) (c *filler, stop func()) {
	t.Helper()
	e, err := Start(Config{DataDir: t.TempDir(), Loops: 1, disk: d})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = e.Stop() // what the test did to the disk is an error here
		}
	}
	t.Cleanup(stop)
	c = &filler{Client: amqptest.OpenClient(t, e.Addr(), amqptest.Options{})}
	amqptest.Ask[*amqp.ConfirmSelectOk](c.Client, 1, &amqp.ConfirmSelect{})
	return c, stop
}

// filler publishes persistent messages of 8 KiB with confirms.
type filler struct {
	*amqptest.Client
	done uint64
}

// fill publishes n messages and returns how many were confirmed.
func (c *filler) fill(queue string, n int) (confirmed uint64) {
	for i := range n {
		c.Publish(1, amqptest.Message{Key: queue, Persistent: true, Body: fmt.Sprintf("%d %8192s", i, "")})
	}
	for end := c.done + uint64(n); c.done < end; {
		switch m := c.Read().Method.(type) {
		case *amqp.BasicAck:
			confirmed += m.DeliveryTag - c.done
			c.done = m.DeliveryTag
		case *amqp.BasicNack:
			c.done = m.DeliveryTag
		}
	}
	return confirmed
}

// TestConsumer_QueueCannotBeRead: a consumer whose queue cannot be read is told
// that it is over; its messages stay, for another that can.
func TestConsumer_QueueCannotBeRead(t *testing.T) {
	t.Parallel()
	const messages = 200
	d := sim.New(sim.Options{})
	c, stop := onDisk(t, d)
	c.Declare("q", amqptest.Durable)
	c.Declare("other", amqptest.Durable)
	if n := c.fill("q", messages); n != messages {
		t.Fatalf("%d confirmed", n)
	}
	stop()
	d = d.Kill()
	c, _ = onDisk(t, d)
	fault := d.Inject(sim.Rule{Path: "*.seg", Calls: sim.CallRead})
	c.Subscribe(1, "q", "t", 0)
	c.Want("1 basic.cancel ConsumerTag=t NoWait=true")
	if fault.Struck() == 0 {
		t.Error("nothing was read")
	}
	c.Subscribe(1, "other", "t", amqptest.NoAck) // the tag is free
	c.PublishAll(1, "other", "goes on")
	c.Want("1 basic.*", "1 basic.*") // the delivery and the confirm
	fault.Remove()
	c.Subscribe(1, "q", "again", amqptest.NoAck)
	for i := range messages {
		if got := amqptest.Expect[*amqp.BasicDeliver](c.Client); !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) {
			t.Fatalf("got %.10s, want %d", got.Body, i)
		}
	}
}

// TestConsumer_QueueCannotBeWritten: publishers to it hear of it, its consumer gets
// what there is and is not cancelled; a restart on a disk that works goes on with
// what was confirmed.
func TestConsumer_QueueCannotBeWritten(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	c, stop := onDisk(t, d)
	c.Declare("q", amqptest.Durable)
	if n := c.fill("q", 10); n != 10 {
		t.Fatalf("%d confirmed", n)
	}
	fault := d.Inject(sim.Rule{Path: "*.seg", Calls: sim.CallWrite})
	for c.fill("q", 100) == 100 { // while the journal holds it
	}
	if n := c.fill("q", 3); n != 0 {
		t.Fatalf("%d publishes to a fenced queue were confirmed", n)
	}
	c.Subscribe(1, "q", "t", 0)
	for i := range 10 {
		if got := amqptest.Expect[*amqp.BasicDeliver](c.Client); !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) {
			t.Fatalf("got %.10s, want %d", got.Body, i)
		}
	}
	stop()
	fault.Remove()
	d = d.Kill()
	c, _ = onDisk(t, d)
	for i := range 10 {
		if got := c.Get(1, "q", amqptest.NoAck); !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) {
			t.Fatalf("got %.10s, want %d", got.Body, i)
		}
	}
	if n := c.fill("q", 3); n != 3 {
		t.Errorf("%d confirmed", n)
	}
}
