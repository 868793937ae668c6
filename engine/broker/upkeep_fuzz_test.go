package broker

import (
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// FuzzCounts: whatever the log of counts holds, reading it ends.
func FuzzCounts(f *testing.F) {
	f.Add([]byte{1, 1, 2, 1})
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := counts{of: map[uint64]uint32{}}
		c.read(data)
		if len(c.of) > c.written {
			t.Fatalf("%d counts of %d entries", len(c.of), c.written)
		}
	})
}

// FuzzDeadProperties: whatever a client put into its headers, what comes out can
// be decoded, and tells of the death first.
func FuzzDeadProperties(f *testing.F) {
	for _, headers := range []amqp.Table{
		nil, values("x-death", "no array"), values("x-death", amqp.ArrayValue(amqp.ArrayOf(amqp.String("no table")))),
		values("x-death", amqp.ArrayValue(amqp.ArrayOf(amqp.TableValue(values("queue", "q", "reason", "expired", "count", "x")))), "CC", 1),
	} {
		p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagExpiration, Headers: headers, Expiration: []byte("1")}
		f.Add(p.Append(nil))
	}
	f.Fuzz(func(t *testing.T, properties []byte) {
		d := death{queue: "q", exchange: "e", key: []byte("k"), why: expired, seconds: 1}
		dead, headers, _, err := d.deadProperties(properties, len(properties)%2 == 0)
		if err != nil {
			return
		}
		p, err := amqp.DecodeProperties(clearMarks(dead))
		if err != nil || p.Flags&amqp.FlagExpiration != 0 {
			t.Fatalf("%x: %v", dead, err)
		}
		if !isCycle(headers, "q") {
			t.Fatalf("%x does not tell of the death", headers)
		}
		Expiration(dead)
		withCount(withCount(dead, 3), 0)
	})
}

// TestQueue_PlainAllocatesNothing: the path of a queue without arguments.
func TestQueue_PlainAllocatesNothing(t *testing.T) {
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c", NoAck: true}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	q.Enter(c)
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	turn := func() {
		b.Reset(1)
		template := b.Template(nil, []byte("q"), []byte{0, 0})
		for range 100 {
			b.Add(template, []byte("0123456789abcdef"))
		}
		if _, _, err := q.Publish(b, 1); err != nil {
			t.Fatal(err)
		}
		for {
			run, _ := q.Take(c, 1<<62, 1)
			if run.Count == 0 {
				return
			}
			q.Settle(run.First, run.Count)
		}
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(500, turn); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	if q.upkeep != nil {
		t.Error("a plain queue got an upkeep")
	}
}
