package broker

import (
	"context"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestFacts: what is told of a queue follows what happens to it.
func TestFacts(t *testing.T) {
	t.Parallel()
	clock := int64(5000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-max-priority", 2, "x-single-active-consumer", true)}, nil)
	empty := q.Facts()
	if empty.State != StateRunning || empty.ReadyBytes != 0 || empty.ResidentBytes != 0 || empty.UsedAt != 0 || empty.SingleActiveTag != "" || empty.MemoryBytes == 0 {
		t.Errorf("%+v", empty)
	}
	e.put(q, 5000, "", "0123456789", "0123456789")
	e.put(q.level(1), 6000, "", "0123456789")
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "tag"}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	q.Pull(1)
	f := q.Facts()
	if f.ReadyBytes < 20 || f.ReadyBytes > 200 || f.UnackedBytes < 10 || f.Resident != 3 || f.ResidentBytes == 0 || f.MemoryBytes <= empty.MemoryBytes ||
		f.UsedAt != 6000 || f.SingleActiveTag != "tag" || f.ExclusiveTag != "" || f.Levels != 2 || f.NextOffset != 2 {
		t.Errorf("%+v", f)
	}
	other := e.queue(QueueDeclare{Name: "other"}, nil)
	if err := other.Attach(&Consumer{Queue: other, Owner: &fakeOwner{}, Tag: "only", Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	if f := other.Facts(); f.ExclusiveTag != "only" {
		t.Errorf("%+v", f)
	}
}

// TestHeadTimestamp is the property of the message that is next.
func TestHeadTimestamp(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	head := func() (uint64, bool) {
		t.Helper()
		seconds, ok, err := q.HeadTimestamp(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return seconds, ok
	}
	if _, ok := head(); ok {
		t.Error("an empty queue has a head")
	}
	for _, at := range []uint64{17, 0} {
		p := amqp.Properties{}
		if at > 0 {
			p = amqp.Properties{Flags: amqp.FlagTimestamp, Timestamp: at}
		}
		b := segstore.NewBatch(e.pool)
		b.Reset(0)
		b.Add(b.Template(nil, nil, p.Append(nil)), []byte("m"))
		if _, _, err := q.Publish(b, 0); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if seconds, ok := head(); seconds != 17 || !ok {
		t.Error(seconds, ok)
	}
	q.Pull(1)
	if _, ok := head(); ok {
		t.Error("the next one has no timestamp")
	}
}
