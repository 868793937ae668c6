package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestStop_ClosesClients(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := startBroker(t, t.TempDir(), "--bind", "127.0.99.2") // where nobody else takes a port
			clients := []*client{connect(t, p.addr), connect(t, p.addr)}
			p.signal(s)
			for _, c := range clients {
				var bye amqp.ConnectionClose
				c.expect(0, &bye)
				if bye.ReplyCode != amqp.CodeConnectionForced || !strings.HasPrefix(string(bye.ReplyText), "CONNECTION_FORCED - ") {
					t.Errorf("closed with %d %q", bye.ReplyCode, bye.ReplyText)
				}
			}
			for _, c := range clients {
				c.send(0, &amqp.ConnectionCloseOk{})
				if f, err := c.frame(); err == nil {
					t.Errorf("got %+v after close-ok", f)
				}
				c.conn.Close()
			}
			if r := p.wait(); r.code != 0 || !strings.Contains(r.stderr, "msg=stopped") {
				t.Errorf("exit status %d, said %q", r.code, r.stderr)
			}
			if !gone(p.addr) {
				t.Error("something still listens")
			}
		})
	}
}

func TestStop_SecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	p := startBroker(t, t.TempDir())
	c := connect(t, p.addr)
	p.signal(syscall.SIGTERM)
	c.expect(0, &amqp.ConnectionClose{}) // and no answer to it
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != 1 || !strings.Contains(r.stderr, "second signal") || strings.Contains(r.stderr, "msg=stopped") {
		t.Errorf("exit status %d, said %q", r.code, r.stderr)
	}
}

// eachBackend runs a test with both I/O backends.
func eachBackend(t *testing.T, test func(t *testing.T, io string)) {
	for _, io := range []string{"posix", "uring"} {
		t.Run(io, func(t *testing.T) {
			t.Parallel()
			test(t, io)
		})
	}
}

// TestRestart: durable topology and confirmed persistent messages are back, in
// order, after a stop in good order and after kill -9.
func TestRestart(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, io string) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				restart(t, io, s)
			})
		}
	})
}

func restart(t *testing.T, io string, s syscall.Signal) {
	const published, acked, held = 200, 20, 30
	dir := t.TempDir()
	p := startBroker(t, dir, "--io", io)
	if p.start["files"] != io {
		t.Fatalf("files go through %s", p.start["files"])
	}
	c := connect(t, p.addr)
	c.call(&amqp.ExchangeDeclare{Exchange: []byte("orders"), Type: []byte("topic"), Durable: true}, &amqp.ExchangeDeclareOk{})
	c.call(&amqp.QueueDeclare{Queue: []byte("billing"), Durable: true}, &amqp.QueueDeclareOk{})
	c.call(&amqp.QueueDeclare{Queue: []byte("transient")}, &amqp.QueueDeclareOk{})
	for _, queue := range []string{"billing", "transient"} {
		c.call(&amqp.QueueBind{Queue: []byte(queue), Exchange: []byte("orders"), RoutingKey: []byte("order.#")}, &amqp.QueueBindOk{})
	}
	c.call(&amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{})
	var frames []byte
	for i := range published {
		frames = publishFrames(frames, "orders", "order.new", fmt.Sprint("order ", i))
	}
	c.write(frames)
	c.confirmed(published)
	for range acked {
		if m, ok := c.get("billing", false); ok {
			c.send(channelNumber, &amqp.BasicAck{DeliveryTag: m.tag})
		}
	}
	for range held {
		c.get("billing", false) // delivered, never acked
	}
	p.signal(s)
	if s == syscall.SIGTERM {
		c.goodBye()
	}
	p.wait()

	p = startBroker(t, dir, "--io", io)
	if p.start["queues"] != "1" {
		t.Errorf("recovered queues=%s", p.start["queues"])
	}
	c = connect(t, p.addr)
	c.call(&amqp.ExchangeDeclare{Exchange: []byte("orders"), Passive: true}, &amqp.ExchangeDeclareOk{})
	var declared amqp.QueueDeclareOk
	c.call(&amqp.QueueDeclare{Queue: []byte("billing"), Passive: true}, &declared)
	if strconv.Itoa(int(declared.MessageCount)) != p.start["messages"] {
		t.Errorf("the queue has %d messages, the line at start says %s", declared.MessageCount, p.start["messages"])
	}
	c.call(&amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{})
	c.write(publishFrames(nil, "orders", "order.new", "order "+strconv.Itoa(published))) // the binding is back
	c.confirmed(1)
	messages := c.all("billing")
	lost := published + 1 - len(messages)
	if s == syscall.SIGTERM && lost != acked || lost < 0 || lost > acked {
		t.Fatalf("%d messages are back of %d with %d acked", len(messages), published+1, acked)
	}
	for i, m := range messages {
		number := lost + i // acks may be lost in a crash, from the last one on
		if want := fmt.Sprint("order ", number); m.body != want {
			t.Fatalf("message %d is %q, want %q", i, m.body, want)
		}
		if s == syscall.SIGTERM && m.redelivered != (number < acked+held) {
			t.Errorf("%q is flagged redelivered: %v", m.body, m.redelivered)
		}
	}
	var closed amqp.ChannelClose
	c.call(&amqp.QueueDeclare{Queue: []byte("transient"), Passive: true}, &closed)
	if closed.ReplyCode != amqp.CodeNotFound {
		t.Errorf("the transient queue: %d %s", closed.ReplyCode, closed.ReplyText)
	}

	p.signal(syscall.SIGTERM)
	c.goodBye()
	if r := p.wait(); r.code != 0 {
		t.Errorf("exit status %d", r.code)
	}
	p = startBroker(t, dir, "--io", io)
	if p.start["queues"] != "1" || p.start["messages"] != "0" {
		t.Errorf("emptied, then recovered queues=%s messages=%s", p.start["queues"], p.start["messages"])
	}
}

// TestKill_WhilePublishing: whatever was confirmed when the broker was killed
// is there, in order, and what follows it has no holes. Killing a process loses
// nothing of the page cache, so that --durability os must keep this too.
func TestKill_WhilePublishing(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, io string) {
		for _, durability := range []string{"fsync", "os"} {
			t.Run(durability, func(t *testing.T) {
				t.Parallel()
				killWhilePublishing(t, "--io", io, "--durability", durability)
			})
		}
	})
}

func killWhilePublishing(t *testing.T, args ...string) {
	dir := t.TempDir()
	p := startBroker(t, dir, args...)
	c := connect(t, p.addr)
	queues := []string{"a", "b"}
	for _, queue := range queues {
		c.call(&amqp.QueueDeclare{Queue: []byte(queue), Durable: true}, &amqp.QueueDeclareOk{})
		c.call(&amqp.QueueBind{Queue: []byte(queue), Exchange: []byte("amq.fanout")}, &amqp.QueueBindOk{})
	}
	c.call(&amqp.ConfirmSelect{}, &amqp.ConfirmSelectOk{})
	const window = 50 // tens of messages that may be unconfirmed
	tens, killed, ended := make(chan struct{}, window), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i += 10 {
			select {
			case tens <- struct{}{}:
			case <-killed:
				return
			}
			var frames []byte
			for j := range 10 {
				frames = publishFrames(frames, "amq.fanout", "", fmt.Sprint("message ", i+j, strings.Repeat(" padding", 30)))
			}
			if _, err := c.conn.Write(frames); err != nil {
				return
			}
		}
	}()
	confirmed := uint64(0)
	for signalled := false; ; {
		f, err := c.frame()
		if err != nil && signalled {
			break
		}
		var ack amqp.BasicAck
		if id, args, err := amqp.SplitMethod(f.Payload); err != nil || id != ack.ID() || ack.Decode(args) != nil {
			t.Fatalf("got %+v", f)
		}
		for range ack.DeliveryTag/10 - confirmed/10 {
			<-tens
		}
		confirmed = ack.DeliveryTag
		if confirmed >= 1000 && !signalled {
			p.signal(syscall.SIGKILL)
			signalled = true
		}
	}
	close(killed)
	<-ended
	p.wait()

	p = startBroker(t, dir, args...)
	c = connect(t, p.addr)
	for _, queue := range queues {
		messages := c.all(queue)
		if uint64(len(messages)) < confirmed {
			t.Errorf("queue %s has %d messages, %d were confirmed", queue, len(messages), confirmed)
		}
		for i, m := range messages {
			if want := fmt.Sprint("message ", i); !strings.HasPrefix(m.body, want+" ") {
				t.Fatalf("queue %s: message %d is %q", queue, i, m.body)
			}
		}
	}
}
