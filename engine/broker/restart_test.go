package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fenceLog has a failing disk fence the log, to which put appends. It returns the
// fault.
func (e *env) fenceLog(d *sim.Disk, log *segstore.Log, put func()) *sim.Injection {
	e.t.Helper()
	fault := d.Inject(sim.Rule{Path: fmt.Sprintf("logs/%016x/*", log.ID()), Calls: sim.CallWrite | sim.CallSync | sim.CallCreate})
	put()
	log.WantDurable()
	e.await("what was put is durable, or cannot be", func() bool { return log.Durable() == log.Next() || log.Err() != nil })
	log.Roll() // what the journal has of it goes to a segment, however little it is
	e.await("the log is fenced", func() bool { return log.Err() != nil })
	return fault
}

// large is a body that makes its batch by-pass the journal.
func large() string { return strings.Repeat("x", 300<<10) }

// shown is what a queue has ready, with large bodies as "large".
func (e *env) shown(q *Queue) string {
	e.t.Helper()
	return strings.ReplaceAll(e.peeked(q), large()[:100], "large")
}

// empties appends a record to a log beside a queue's that means nothing.
func (e *env) empties(log *segstore.Log) {
	e.t.Helper()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	t := b.Template(nil, nil, nil)
	b.Add(t, nil)
	if _, err := log.Append(b); err != nil {
		e.t.Fatal(err)
	}
}

// TestRestart_Queue: a queue that a failed write has closed is opened again while
// a consumer holds messages of it. Nothing changes for the consumer; what was
// there is there, durable, and once.
func TestRestart_Queue(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	wantError(t, e.vh.RestartQueue(q), 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' is not closed")
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c"}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	q.Enter(c)
	e.publish(q, "a", "b", "c", "d")
	run, _ := q.Take(c, 3, 0)
	if run.Count != 3 {
		t.Fatalf("took %+v", run)
	}
	fault := e.fenceLog(d, q.log, func() { e.publish(q, large()) })
	if q.State() != StateClosed || q.Failure() == nil {
		t.Errorf("state %s", q.State())
	}
	q.Settle(run.First, 1) // a, while it is closed
	err := e.vh.RestartQueue(q)
	if err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") || !strings.Contains(err.Error(), "mend the disk, and try again") || q.State() != StateClosed {
		t.Fatalf("restarted on a broken disk: %v; %s", err, q.State())
	}
	fault.Remove()
	if err := e.vh.RestartQueue(q); err != nil {
		t.Fatal(err)
	}
	if n := q.Counts(); q.State() != StateRunning || n.Ready != 2 || n.Unacked != 2 || n.Consumers != 1 || e.store.Stats().FencedLogs != 0 {
		t.Fatalf("%s, %+v, %d fenced logs", q.State(), n, e.store.Stats().FencedLogs)
	}
	q.Settle(run.First+1, 1)                                 // b, taken before and acknowledged after
	q.Requeue(Run{Queue: q, First: run.First + 2, Count: 1}) // c comes back
	if again, _ := q.Take(c, 1, 0); again.First != run.First+2 || !again.Redelivered {
		t.Errorf("took %+v", again)
	} else {
		q.Requeue(again)
	}
	e.publish(q, "e")
	e.stored(q)
	if got := e.shown(q); got != "c! d large e" {
		t.Errorf("%q", got)
	}
	wantError(t, e.vh.RestartQueue(q), 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' is not closed")
	e.crash()
	e = openSim(t, d.PowerCut())
	defer e.close()
	q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
	if got := e.shown(q); !strings.HasSuffix(got, "c! d! large! e!") {
		t.Errorf("after a power cut %q", got)
	}
}

// TestRestart_Gone: a queue that was deleted meanwhile is not there, and an
// exchange that keeps nothing is not closed.
func TestRestart_Gone(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, e.vh.RestartQueue(q), 404, "NOT_FOUND - no queue 'q' in vhost '/'")
	wantError(t, e.vh.RestartExchange(e.vh.FindExchange("amq.topic")), 406, "PRECONDITION_FAILED - exchange 'amq.topic' in vhost '/' keeps nothing that is closed")
}

// TestRestart_DeletedWhileFenced: the gauge of fenced logs goes back.
func TestRestart_DeletedWhileFenced(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.fenceLog(d, q.log, func() { e.publish(q, large()) })
	if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	if n := e.store.Stats().FencedLogs; n != 0 {
		t.Errorf("%d fenced logs", n)
	}
}

// TestRestart_Levels: a priority queue is closed when one of its levels is.
func TestRestart_Levels(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: intArgument("x-max-priority", 3)}, nil)
	level := q.level(2)
	e.publish(level, "two")
	e.publish(q, "zero")
	fault := e.fenceLog(d, level.log, func() { e.publish(level, large()) })
	if q.State() != StateClosed || q.log.Err() != nil {
		t.Errorf("%s, %v", q.State(), q.log.Err())
	}
	fault.Remove()
	if err := e.vh.RestartQueue(q); err != nil || q.State() != StateRunning {
		t.Fatalf("%v, %s", err, q.State())
	}
	e.publish(level, "again")
	if got := e.shown(q); got != "two large again zero" {
		t.Errorf("%q", got)
	}
}

// TestRestart_Stream: offsets go on, and so do those that are tracked.
func TestRestart_Stream(t *testing.T) {
	t.Parallel()
	d, clock := sim.New(sim.Options{}), int64(1000)
	open := func() *env {
		e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return clock })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	q := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "tag"}
	if err := q.AttachStream(c, nil); err != nil {
		t.Fatal(err)
	}
	track := func(offset uint64) {
		q.Acknowledged(c, offset)
		clock += trackDelay + 1
		e.broker.keeper.writeTracked(q, clock)
	}
	e.publish(q, "a", "b", "c")
	track(1)
	tracked := q.sides().countsLog
	faults := []*sim.Injection{
		e.fenceLog(d, q.log, func() { e.publish(q, large()) }),
		e.fenceLog(d, tracked, func() { e.empties(tracked) }),
	}
	track(2) // has nowhere to go
	for _, fault := range faults {
		fault.Remove()
	}
	if err := e.vh.RestartQueue(q); err != nil || e.store.Stats().FencedLogs != 0 {
		t.Fatal(err, e.store.Stats().FencedLogs)
	}
	e.broker.keeper.writeTracked(q, clock)
	e.publish(q, "e")
	if next := q.log.Next(); next != 5 {
		t.Errorf("next %d", next)
	}
	e.stored(q)
	e.close()
	d = d.Kill()
	e = open()
	defer e.close()
	q = e.queue(QueueDeclare{Name: "s", Passive: true}, nil)
	if offset, ok := q.TrackedOffset("tag"); !ok || offset != 2 || e.body(q, 4) != "e" {
		t.Errorf("the consumer goes on at %d, %v", offset, ok)
	}
}

// TestRestart_Counts: counts that could not be written are, and survive a stop.
func TestRestart_Counts(t *testing.T) {
	t.Parallel()
	d, clock := sim.New(sim.Options{}), int64(1000)
	open := func() *env {
		e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return clock })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: intArgument("x-delivery-limit", 9)}, nil)
	e.publish(q, "a")
	comeBack := func() {
		run, _ := q.Pull(1)
		q.Requeue(run)
		clock++
		e.broker.keeper.writeCounts(q, clock)
	}
	comeBack()
	log := q.sides().countsLog
	fault := e.fenceLog(d, log, func() { e.empties(log) })
	comeBack()
	comeBack()
	if q.State() != StateRunning {
		t.Error("a queue takes messages when its counts cannot be written")
	}
	fault.Remove()
	if err := e.vh.RestartQueue(q); err != nil {
		t.Fatal(err)
	}
	e.broker.keeper.writeCounts(q, clock)
	e.stored(q)
	e.close()
	d = d.Kill()
	e = open()
	defer e.close()
	q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
	if n := q.DeliveryCount(q.log.Low()); n != 3 {
		t.Errorf("it came back %d times, want 3", n)
	}
}

// TestRestart_Dedup: a queue remembers what it took while its log of values could
// not be written, and after a restart of the broker still.
func TestRestart_Dedup(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			d, clock := sim.New(sim.Options{}), int64(1000)
			open := func() *env {
				e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return clock })
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := open()
			q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values(
				"x-message-deduplication", true, "x-cache-size", size, "x-deduplication-header", "id")}, nil)
			e.putValues(q, clock, "id", "before")
			log := q.sides().dedupLog
			fault := e.fenceLog(d, log, func() { e.putValues(q, clock, "id", "x0", "x1", "x2", "x3") })
			e.putValues(q, clock, "id", "one", "two")
			e.putValues(q, clock, "id", "three")
			ready := q.Counts().Ready
			fault.Remove()
			if err := e.vh.RestartQueue(q); err != nil || q.upkeep.dedup.log != log {
				t.Fatalf("%v; the log is in use: %v", err, q.upkeep.dedup.log == log)
			}
			e.putValues(q, clock, "id", "one", "two", "three", "four")
			if n := q.Counts().Ready; n != ready+1 {
				t.Errorf("%d messages, want %d", n, ready+1)
			}
			e.stored(q)
			e.close()
			d = d.Kill()
			e = open()
			defer e.close()
			q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
			for _, value := range []string{"two", "three", "four"} {
				e.putValues(q, clock, "id", value)
			}
			if size > 3 {
				e.putValues(q, clock, "id", "before", "x0", "x3", "one")
			}
			if n := q.Counts().Ready; n != ready+1 {
				t.Errorf("after a restart of the broker %d messages, want %d", n, ready+1)
			}
		})
	}
}

// TestRestart_DelayedExchange: messages that an exchange delays, and the schedule,
// are opened again by the exchange's name; what is due then goes out.
func TestRestart_DelayedExchange(t *testing.T) {
	t.Parallel()
	d, clock := sim.New(sim.Options{}), int64(1000)
	e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return clock })
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	e.exchange(ExchangeDeclare{Name: "late", Type: typeDelayed, Durable: true, Arguments: stringArgument(argDelayedType, "fanout")})
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.bind(Binding{Source: "late", Queue: "q"})
	x := e.vh.FindExchange("late")
	put := func(body string) error {
		b := segstore.NewBatch(e.pool)
		defer b.Release()
		b.Reset(clock)
		p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagDeliveryMode, DeliveryMode: 2, Headers: values(headerDelay, 50)}
		b.Add(b.Template([]byte("late"), nil, p.Append(nil)), []byte(body))
		_, _, err := x.delayed.Publish(b, clock)
		return err
	}
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	fault := e.fenceLog(d, x.delayed.log, func() {
		if err := put(large()); err != nil {
			t.Fatal(err)
		}
	})
	if put("refused") == nil {
		t.Error("published to what cannot be written")
	}
	if err := e.vh.RestartExchange(x); err == nil || !strings.Contains(err.Error(), "exchange 'late'") {
		t.Errorf("restarted on a broken disk: %v", err)
	}
	fault.Remove()
	if err := e.vh.RestartExchange(x); err != nil {
		t.Fatal(err)
	}
	if err := put("b"); err != nil {
		t.Fatal(err)
	}
	clock += 100
	e.steps("all is released", func() bool { return q.Counts().Ready == 3 })
	if got := e.shown(q); got != "a large b" {
		t.Errorf("%q", got)
	}
}

// TestRestart_DedupExchange: what an exchange has seen while its log could not be
// written has a place in it, but no value: the broker forgets it when it stops.
func TestRestart_DedupExchange(t *testing.T) {
	t.Parallel()
	d, clock := sim.New(sim.Options{}), int64(1000)
	open := func() *env {
		e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return clock })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	e.exchange(ExchangeDeclare{Name: "x", Type: "fanout", Durable: true, Arguments: values(
		"x-message-deduplication", true, "x-cache-size", 100, "x-deduplication-header", "id")})
	x := e.vh.FindExchange("x")
	properties := func(value string) []byte {
		p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: values("id", value)}
		return p.Append(nil)
	}
	see := func(list ...string) {
		b := segstore.NewBatch(e.pool)
		defer b.Release()
		b.Reset(clock)
		for _, value := range list {
			b.Add(b.Template(nil, nil, properties(value)), nil)
		}
		x.dedup.Judge(b, nil, clock)
		x.dedup.Done(nil, nil, false, nil)
	}
	knows := func(list ...string) (known []string) {
		for _, value := range list {
			if x.dedup.Knows(properties(value), clock) {
				known = append(known, value)
			}
		}
		return known
	}
	see("before")
	fault := e.fenceLog(d, x.dedup.log, func() { see("x0", "x1", "x2", "x3") })
	see("one", "two")
	fault.Remove()
	if err := e.vh.RestartExchange(x); err != nil {
		t.Fatal(err)
	}
	see("after")
	all := []string{"before", "x0", "x3", "one", "two", "after"}
	if got := knows(all...); !slices.Equal(got, all) {
		t.Errorf("knows %q", got)
	}
	e.close()
	d = d.Kill()
	e = open()
	defer e.close()
	x = e.vh.FindExchange("x")
	want := []string{"before", "x0", "x3", "after"}
	if got := knows(all...); !slices.Equal(got, want) {
		t.Errorf("after a restart of the broker it knows %q, want %q", got, want)
	}
	see("later")
	if got := knows("later"); len(got) != 1 {
		t.Error("nothing is remembered any more")
	}
}
