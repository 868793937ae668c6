package broker

import (
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestArguments_VoidIsAbsent: clients that fill in every argument they know send
// void for those that nobody set.
func TestArguments_VoidIsAbsent(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	void := func(name string, more ...any) amqp.Table {
		return values(append([]any{name, amqp.VoidValue()}, more...)...)
	}
	for _, name := range queueArguments {
		q := e.queue(QueueDeclare{Name: "q " + name, Durable: true, Arguments: void(name)}, nil)
		if q.settings.Load() != nil || q.IsStream() || q.single {
			t.Errorf("%s = void does something", name)
		}
		e.queue(QueueDeclare{Name: "q " + name, Durable: true}, nil)
		e.queue(QueueDeclare{Name: "plain", Durable: true}, nil)
		e.queue(QueueDeclare{Name: "plain", Durable: true, Arguments: void(name)}, nil)
		if name != "x-queue-type" {
			e.queue(QueueDeclare{Name: "s " + name, Durable: true, Arguments: void(name, "x-queue-type", "stream")}, nil)
		}
	}
	_, _, _, err := e.vh.DeclareQueue(QueueDeclare{Name: "q x-max-length", Durable: true, Arguments: values("x-max-length", 1)}, nil)
	wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q x-max-length' in vhost '/': received the value '1' of type 'long' but current is none")
	limited := e.queue(QueueDeclare{Name: "limited", Arguments: values("x-max-length", 1, "x-consumer-timeout", 7)}, nil)
	_, _, _, err = e.vh.DeclareQueue(QueueDeclare{Name: "limited", Arguments: void("x-max-length", "x-consumer-timeout", 7)}, nil)
	wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'limited' in vhost '/': received none but current is the value '1' of type 'long'")

	quorum := e.queue(QueueDeclare{Name: "quorum", Durable: true, Arguments: void("x-delivery-limit", "x-queue-type", "quorum")}, nil)
	if s := quorum.settings.Load(); s == nil || s.deliveryLimit != deliveriesQuorum {
		t.Errorf("a quorum queue with a void limit has %+v", s)
	}
	if ms, err := limited.AckTimeout(void("x-consumer-timeout"), 0); err != nil || ms != 7 {
		t.Errorf("a consumer with a void time to acknowledge has %d ms of its queue's 7: %v", ms, err)
	}
	if n, err := limited.ConsumerPriority(void("x-priority")); err != nil || n != 0 {
		t.Errorf("a void priority is %d: %v", n, err)
	}
	e.must(e.broker.UpdateVHost("/", func(s *VHostSpec) { s.DefaultQueueType = "stream" }))
	if typed := e.queue(QueueDeclare{Name: "typed", Durable: true, Arguments: void("x-queue-type")}, nil); !typed.IsStream() {
		t.Error("a void type keeps the virtual host's default away")
	}
	e.queue(QueueDeclare{Name: "typed", Durable: true}, nil)
	e.queue(QueueDeclare{Name: "q x-queue-type", Durable: true, Arguments: void("x-queue-type")}, nil)
}
