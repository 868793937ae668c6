package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// bodyNames lists the large bodies of the queue that was declared first, oldest first.
func bodyNames(d *sim.Disk) (names []string) {
	for _, name := range d.Files() {
		if strings.HasPrefix(name, "bodies/") && (names == nil || name[:len("bodies/0000000000000000")] == names[0][:len("bodies/0000000000000000")]) {
			names = append(names, name)
		}
	}
	return names
}

// wantNumber checks which message a body is of.
func wantNumber(t *testing.T, body []byte, i int) {
	t.Helper()
	if !strings.HasPrefix(string(body), fmt.Sprint(i, " ")) {
		t.Fatalf("got %.20s, want %d", body, i)
	}
}

// next takes the next message, by get or by a consumer of its own.
func (c *filler) next(how string) amqptest.Event {
	if how == "get" {
		return c.Get(1, "q", amqptest.NoAck)
	}
	return amqptest.Expect[*amqp.BasicDeliver](c.Client)
}

// TestLarge_BodyCannotBeOpened: a message whose body gives an error, for want of
// permission or descriptors or for a bad disk, is not lost and not in the way of others:
// it waits for a restart of its queue, or of the broker.
func TestLarge_BodyCannotBeOpened(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"get", "consume"} {
		for _, remedy := range []string{"restart_queue", "restart", "stop"} {
			t.Run(how+", "+remedy, func(t *testing.T) {
				t.Parallel()
				d := sim.New(sim.Options{})
				dir := t.TempDir()
				c, stop := onDiskIn(t, d, dir)
				c.Declare("q", amqptest.Durable)
				if n := c.fillLarge("q", 0, 3) + c.fillLarge("q", 3, 4); n != 4 {
					t.Fatalf("%d confirmed", n)
				}
				names := bodyNames(d)
				fault := d.Inject(sim.Rule{Path: names[1], Calls: sim.CallOpen, Err: syscall.EMFILE})
				if how == "consume" {
					c.Subscribe(1, "q", "t", amqptest.NoAck)
				}
				for _, i := range []int{0, 2, 3} {
					wantNumber(t, c.next(how).Body, i)
				}
				if how == "get" {
					if got := c.Get(1, "q", amqptest.NoAck).String(); got != "1 basic.get-empty" {
						t.Fatal(got)
					}
				}
				if status, answer := request(t, dir, "GET", "/api/queues/%2F/q?msg_rates_age=0"); status != 200 ||
					!strings.Contains(answer, `"messages_unacknowledged":1,`) || !strings.Contains(answer, `"state":"running"`) {
					t.Errorf("%d %s", status, answer)
				}
				if _, err := d.Open(names[1], 0); fault.Struck() == 0 || err == nil {
					t.Errorf("the fault struck %d times, %v", fault.Struck(), err)
				}
				fault.Remove()
				switch remedy {
				case "restart_queue":
					if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
						t.Fatalf("%d %s", status, answer)
					}
				case "restart", "stop":
					c.Abort()
					if remedy == "stop" {
						stop()
						d = d.Kill()
					} else {
						d = d.PowerCut()
						stop()
					}
					c, _ = onDiskIn(t, d, dir)
					if how == "consume" {
						c.Subscribe(1, "q", "t", amqptest.NoAck)
					}
				}
				for { // but for settlements that were lost
					got := c.next(how)
					if len(got.Body) == 0 {
						t.Fatal(got.String())
					}
					if strings.HasPrefix(string(got.Body), "1 ") {
						break
					}
					if remedy != "restart" {
						t.Fatalf("%.20s", got.Body)
					}
				}
				if remedy == "restart_queue" {
					if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 400 {
						t.Errorf("nothing waits any more: %d %s", status, answer)
					}
				}
				c.Abort()
			})
		}
	}
}

// TestLarge_BodyFailsInTheMiddle: it costs one connection, not one after the other: then
// its message waits, and others are delivered.
func TestLarge_BodyFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	dir := t.TempDir()
	c, stop := onDiskIn(t, d, dir)
	c.Declare("q", amqptest.Durable)
	if n := c.fillLarge("q", 0, 3); n != 3 {
		t.Fatalf("%d confirmed", n)
	}
	names := bodyNames(d)
	fault := d.Inject(sim.Rule{Path: names[0], Calls: sim.CallRead, After: 2})
	c.Subscribe(1, "q", "t", 0)
	c.AllowCut()
	c.Want("0 connection.close 541 *")
	c.FinishClose()
	again := amqptest.OpenClient(t, c.addr, amqptest.Options{})
	again.Subscribe(1, "q", "t", 0)
	for i := 1; i < 3; i++ {
		wantNumber(t, amqptest.Expect[*amqp.BasicDeliver](again).Body, i)
	}
	again.WantQuiet(1)
	if len(bodyNames(d)) != 3 {
		t.Errorf("there are %v", bodyNames(d))
	}
	fault.Remove()
	if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	got := amqptest.Expect[*amqp.BasicDeliver](again)
	wantNumber(t, got.Body, 0)
	if !got.Method.(*amqp.BasicDeliver).Redelivered {
		t.Error("it is not flagged")
	}
	again.Ack(1, 3, amqptest.Multiple)
	again.Abort()
	stop()
}

// TestLarge_DeadLetterWithoutBody: a letter that has no body any more is passed over; it
// does not keep others waiting, although none must be lost.
func TestLarge_DeadLetterWithoutBody(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	c, stop := onDisk(t, d)
	b := amqp.NewTableBuilder(nil)
	for name, value := range map[string]string{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "to", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	} {
		b.SetString(name, value)
	}
	amqptest.Ask[*amqp.QueueDeclareOk](c.Client, 1, c.QueueDeclare("q", amqptest.Durable, b.Table()))
	c.Declare("to", amqptest.Durable)
	if n := c.fillLarge("q", 0, 3); n != 3 {
		t.Fatalf("%d confirmed", n)
	}
	names := bodyNames(d)
	c.Subscribe(1, "q", "t", 0)
	for i := range 3 {
		wantNumber(t, amqptest.Expect[*amqp.BasicDeliver](c.Client).Body, i)
	}
	if err := d.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	c.Nack(1, 3, amqptest.Multiple)
	c.OpenChannel(2)
	c.Subscribe(2, "to", "u", amqptest.NoAck)
	for i := 1; i < 3; i++ {
		wantNumber(t, amqptest.Expect[*amqp.BasicDeliver](c.Client).Body, i)
	}
	c.Abort()
	stop()
}
