package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// openAt opens a broker whose clock and keeper are the test's.
func openAt(t tb, d disk.Disk, clock *int64) *env {
	t.Helper()
	hindered, ok := d.(*testDisk)
	if !ok {
		hindered = &testDisk{Disk: d}
	}
	e, err := tryOpenAt(t, hindered, segstore.Options{}, func() int64 { return *clock })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// posixDisk is a directory whose syncs do nothing.
func posixDisk(t tb, dir string) disk.Disk {
	t.Helper()
	d, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &testDisk{Disk: d, lazy: true}
}

// put publishes persistent messages at a time.
func (e *env) put(q *Queue, now int64, expiration string, bodies ...string) (end uint64) {
	e.t.Helper()
	p := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	if expiration != "" {
		p.Flags |= amqp.FlagExpiration
		p.Expiration = []byte(expiration)
		q.ExpectExpirations()
	}
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(now)
	for _, body := range bodies {
		b.Add(b.Template(nil, []byte(q.Name), p.Append(nil)), []byte(body))
	}
	end, _, err := q.Publish(b, now)
	if err != nil {
		e.t.Fatal(err)
	}
	return end
}

// stored waits for everything in the queue to be durable.
func (e *env) stored(q *Queue) {
	e.t.Helper()
	q.log.WantDurable()
	e.await(q.Name+" is durable", func() bool { return q.log.Durable() >= q.log.Next() })
}

// steps lets the keeper work until a condition holds.
func (e *env) steps(what string, done func() bool) {
	e.t.Helper()
	e.await(what, func() bool {
		e.broker.keeper.step()
		return done()
	})
}

// contents are the bodies of a queue's unsettled messages.
func (e *env) contents(q *Queue) (bodies []string) {
	e.t.Helper()
	for at := uint64(0); ; {
		first, count := q.log.NextUnsettled(at, 1)
		if count == 0 {
			return bodies
		}
		bodies = append(bodies, e.body(q, first))
		at = first + 1
	}
}

// Times to live go on while the broker is down, those of messages without the
// help of an argument, too. Dead letters find their exchange after a start.
func TestExpiry_Restart(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), int64(1000)
	e := openAt(t, posixDisk(t, dir), &clock)
	e.queue(QueueDeclare{Name: "dead", Durable: true}, nil)
	ttl := e.queue(QueueDeclare{Name: "ttl", Durable: true, Arguments: values("x-message-ttl", 100, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")}, nil)
	plain := e.queue(QueueDeclare{Name: "plain", Durable: true}, nil)
	e.put(ttl, 1000, "", "t1", "t2")
	e.put(ttl, 1090, "", "t3")
	e.put(plain, 1000, "50", "p1")
	e.put(plain, 1000, "", "p2")
	e.put(plain, 1000, "200", "p3")
	clock = 1050
	e.broker.keeper.step()
	if c := plain.Counts(); c.Ready != 3 {
		t.Fatalf("something expired early: %+v", c)
	}
	e.close()
	clock = 1101
	e = openAt(t, posixDisk(t, dir), &clock)
	defer func() { e.close() }()
	find := func(name string) *Queue { return e.queue(QueueDeclare{Name: name, Passive: true}, nil) }
	e.steps("t1, t2 and p1 are over", func() bool {
		return find("ttl").Counts().Ready == 1 && find("plain").Counts().Ready == 2 && find("dead").Counts().Ready == 2
	})
	if run, _ := find("plain").Get(); e.body(find("plain"), run.First) != "p2" {
		t.Fatal(run)
	}
	clock = 1201
	e.steps("all but p2 are over", func() bool {
		return find("ttl").Counts().Ready == 0 && find("plain").Counts() == Counts{Unacked: 1} && find("dead").Counts().Ready == 3
	})
	if got := e.contents(find("dead")); !slices.Equal(got, []string{"t1", "t2", "t3"}) {
		t.Fatal(got)
	}
}

// The keeper is not on anybody's list for nothing: queues of which nothing
// expires are not looked at.
func TestKeeper_OnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	for i := range 100 {
		e.put(e.queue(QueueDeclare{Name: fmt.Sprint("plain", i)}, nil), 1000, "", "m")
	}
	ttl := e.queue(QueueDeclare{Name: "ttl", Arguments: values("x-message-ttl", 100)}, nil)
	e.put(ttl, 1000, "", "m")
	e.broker.keeper.step()
	k := &e.broker.keeper
	if q, wait := k.next(clock); q != nil || wait != 101 || len(k.due) != 1 {
		t.Fatalf("%v, wait %d, %d on the list", q, wait, len(k.due))
	}
	for _, q := range e.vh.Queues() {
		if q.Name != "ttl" && q.upkeep != nil {
			t.Fatalf("%s has an upkeep", q.Name)
		}
	}
}

func crashed(d *sim.Disk) bool {
	select {
	case <-d.Crashed():
		return true
	default:
		return false
	}
}

// With at-least-once a power cut at any moment loses no dead letter, and leaves
// none in both queues.
func TestDeadLetter_AtLeastOnce_PowerCut(t *testing.T) {
	t.Parallel()
	bodies := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("m", i, strings.Repeat(".", i)))
		}
		return list
	}(30)
	// The cut comes at each change of the disk in turn, until there are no more.
	for cut := int64(1); ; cut++ {
		d := sim.New(sim.Options{Seed: uint64(cut)})
		clock := int64(1000)
		e := openAt(t, d, &clock)
		_, _, seq, err := e.vh.DeclareQueue(QueueDeclare{Name: "target", Durable: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		source := e.queue(QueueDeclare{Name: "source", Durable: true, Arguments: values(
			"x-dead-letter-exchange", "", "x-dead-letter-routing-key", "target", "x-dead-letter-strategy", "at-least-once")}, nil)
		e.durable(seq + 1)
		e.put(source, 1000, "", bodies...)
		e.stored(source)
		for range 10 {
			if run, _ := source.Get(); run.Count != 1 {
				t.Fatal(run)
			}
		}
		d.CrashAfter(cut)
		for first := range uint64(10) {
			source.Reject(first, 1)
			e.broker.keeper.step()
		}
		e.await("the cut, or the end", func() bool {
			return crashed(d) || e.store.TxDurable() > 0 && source.log.Unsettled() == 20
		})
		finished := !crashed(d)
		e.crash()
		again := openAt(t, d.PowerCut(), &clock)
		find := func(name string) *Queue { return again.queue(QueueDeclare{Name: name, Passive: true}, nil) }
		all := append(again.contents(find("target")), again.contents(find("source"))...)
		slices.Sort(all)
		want := slices.Sorted(slices.Values(bodies))
		if !slices.Equal(all, want) {
			t.Fatalf("cut at operation %d: %d messages, want %d each once", cut, len(all), len(want))
		}
		again.crash()
		if finished || cut > 200 {
			break
		}
	}
}

// A letter without a way stays, with at-least-once, and goes when there is one.
func TestDeadLetter_AtLeastOnce_NoRoute(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer func() { e.close() }()
	source := e.queue(QueueDeclare{Name: "source", Durable: true, Arguments: values(
		"x-max-length", 0, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "target", "x-dead-letter-strategy", "at-least-once")}, nil)
	e.put(source, clock, "", "a", "b")
	e.broker.keeper.step()
	if n := source.log.Unsettled(); n != 2 {
		t.Fatal(n)
	}
	target := e.queue(QueueDeclare{Name: "target", Arguments: values("x-max-length", 1, "x-overflow", "reject-publish")}, nil)
	clock += retryInterval
	e.broker.keeper.step()
	if got := e.contents(source); !slices.Equal(got, []string{"b"}) {
		t.Fatal(got)
	}
	for range 3 {
		if run, _ := target.Get(); run.Count > 0 {
			target.Settle(run.First, 1)
		}
		clock += retryInterval
		e.broker.keeper.step()
	}
	if n := source.log.Unsettled(); n != 0 {
		t.Fatalf("%d letters are stuck: %q", n, e.contents(source))
	}
}

// Counts survive a crash as far as they were written, and their log does not
// grow with the number of deliveries.
func TestCounts_Log(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), int64(1000)
	e := openAt(t, posixDisk(t, dir), &clock)
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-delivery-limit", 1_000_000)}, nil)
	e.put(q, clock, "", "a", "b", "c")
	if q.sides().countsLog != nil {
		t.Fatal("a log of counts without any")
	}
	for range 5000 {
		run, _ := q.Get()
		q.Requeue(Run{First: run.First, Count: 1})
		e.broker.keeper.step()
	}
	if n := q.sides().countsLog.Unsettled(); n > 2*countsSlack {
		t.Errorf("%d records in the log of counts", n)
	}
	run, _ := q.Get()
	q.Settle(run.First, 1)
	run, _ = q.Get()
	q.Requeue(Run{First: run.First, Count: 1})
	e.broker.keeper.step()
	for _, log := range []*segstore.Log{q.log, q.sides().countsLog} {
		log.WantDurable()
		e.await("durable", func() bool { return log.Durable() >= log.Next() })
	}
	e.crash()

	e = openAt(t, posixDisk(t, dir), &clock)
	q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
	if n := q.DeliveryCount(0); n != 0 && q.log.Low() > 0 {
		t.Errorf("a settled message has count %d", n)
	}
	if n := q.DeliveryCount(1); n != 1 {
		t.Errorf("count %d, want 1", n)
	}
	id := q.sides().countsID
	if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	e.close()
	e = openAt(t, posixDisk(t, dir), &clock)
	defer e.close()
	if ids, err := e.store.ListLogs(); err != nil || slices.Contains(ids, id) {
		t.Errorf("logs %v, %v", ids, err)
	}
}
