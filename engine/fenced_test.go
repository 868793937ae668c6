package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// onDisk runs a broker on a simulated disk until stop, or the test's end.
func onDisk(t *testing.T, d *sim.Disk) (c *filler, stop func()) {
	t.Helper()
	return onDiskIn(t, d, t.TempDir())
}

// onDiskIn is onDisk with the directory of the control socket.
func onDiskIn(t *testing.T, d *sim.Disk, dir string) (c *filler, stop func()) {
	t.Helper()
	e, err := Start(Config{DataDir: dir, Loops: 1, disk: d})
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
	c = &filler{addr: e.Addr(), Client: amqptest.OpenClient(t, e.Addr(), amqptest.Options{})}
	amqptest.Ask[*amqp.ConfirmSelectOk](c.Client, 1, &amqp.ConfirmSelect{})
	return c, stop
}

// filler publishes persistent messages of 8 KiB with confirms.
type filler struct {
	*amqptest.Client
	addr netip.AddrPort
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

// request asks the broker over its control socket.
func request(t *testing.T, dir, method, path string) (status int, answer string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "control.sock"))
	}}
	defer transport.CloseIdleConnections()
	ask, err := http.NewRequest(method, "http://broker"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestQueue_RestartedWhileInUse: a queue that a failing disk has closed is opened
// again by a request, under a publisher and a consumer: both stay connected, the
// consumer goes on and may acknowledge what it got before, nothing that was
// confirmed is lost then, nor by a power cut after it.
func TestQueue_RestartedWhileInUse(t *testing.T) {
	t.Parallel()
	d, dir := sim.New(sim.Options{}), t.TempDir()
	c, stop := onDiskIn(t, d, dir)
	c.Declare("q", amqptest.Durable)
	consumer := amqptest.OpenClient(t, c.addr, amqptest.Options{})
	amqptest.Ask[*amqp.BasicQosOk](consumer, 1, &amqp.BasicQos{PrefetchCount: 3})
	if n := c.fill("q", 10); n != 10 {
		t.Fatalf("%d confirmed", n)
	}
	consumer.Subscribe(1, "q", "t", 0)
	want := func(i int, tag uint64) {
		t.Helper()
		got := amqptest.Expect[*amqp.BasicDeliver](consumer)
		if m := got.Method.(*amqp.BasicDeliver); !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) || m.DeliveryTag != tag || m.Redelivered {
			t.Fatalf("got %.10s, %+v; want %d, tag %d", got.Body, m, i, tag)
		}
	}
	for i := range 3 {
		want(i, uint64(i)+1)
	}
	fault := d.Inject(sim.Rule{Path: "*.seg*", Calls: sim.CallWrite | sim.CallSync})
	for c.fill("q", 100) == 100 { // while the journal holds it
	}
	const restart = "/api/queues/%2F/q/restart"
	if status, answer := request(t, dir, "GET", "/api/queues/%2F/q"); status != 200 || !strings.Contains(answer, `"state":"closed"`) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := request(t, dir, "PUT", restart); status != 500 || !strings.Contains(answer, "mend the disk, and try again") {
		t.Errorf("on a broken disk: %d %s", status, answer)
	}
	if status, answer := request(t, dir, "GET", "/metrics"); status != 200 || !strings.Contains(answer, "basaltmq_store_fenced_logs 1\n") {
		t.Errorf("%d %.200s", status, answer)
	}
	fault.Remove()
	if status, answer := request(t, dir, "PUT", restart); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	if status, answer := request(t, dir, "PUT", restart); status != 400 || !strings.Contains(answer, "is not closed") {
		t.Errorf("again: %d %s", status, answer)
	}
	if status, answer := request(t, dir, "GET", "/metrics"); status != 200 || !strings.Contains(answer, "basaltmq_store_fenced_logs 0\n") {
		t.Errorf("%d %.200s", status, answer)
	}
	consumer.Method(1, &amqp.BasicAck{DeliveryTag: 3, Multiple: true}) // got before it was closed
	for i := 3; i < 6; i++ {
		want(i, uint64(i)+1)
	}
	if n := c.fill("q", 3); n != 3 {
		t.Fatalf("%d confirmed", n)
	}
	stop()
	c, _ = onDisk(t, d.PowerCut())
	next := 0
	for i := 3; i < 10; {
		got := c.Get(1, "q", amqptest.NoAck)
		if strings.HasPrefix(string(got.Body), fmt.Sprint(next, " ")) && next < 3 {
			next++ // an acknowledgement that was lost
			continue
		}
		if !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) {
			t.Fatalf("got %.10s, want %d", got.Body, i)
		}
		i++
	}
}
