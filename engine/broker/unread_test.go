package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// unreadWorld is a disk with one of everything that has logs, as a crash or a clean
// stop left it.
type unreadWorld struct {
	t     *testing.T
	disk  *sim.Disk
	clock int64
	owner map[uint64]string // of each log
	large map[uint64]string // owners of directories of large bodies, one of which is an orphan
}

func (w *unreadWorld) open(d *sim.Disk) *env {
	w.t.Helper()
	td := &testDisk{Disk: d}
	e, err := tryOpen(w.t, td, segstore.Options{}, func(o *Options) {
		o.now, o.manual = func() int64 { return w.clock }, true
		store, err := bodies.Open(bodies.Options{Disk: td, Arena: new(arena.Pool), Logger: o.Logger})
		if err != nil {
			w.t.Fatal(err)
		}
		o.Bodies = store
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

var unreadQueues = []string{"plain", "other", "priority", "counted", "values", "stream"}

func newUnreadWorld(t *testing.T, clean bool) *unreadWorld {
	t.Helper()
	w := &unreadWorld{t: t, clock: 1000, owner: map[uint64]string{}, large: map[uint64]string{}, disk: sim.New(sim.Options{})}
	e := w.open(w.disk)
	declare := func(name string, arguments amqp.Table) *Queue {
		return e.queue(QueueDeclare{Name: name, Durable: true, Arguments: arguments}, nil)
	}
	plain, other := declare("plain", nil), declare("other", nil)
	priority := declare("priority", intArgument("x-max-priority", 3))
	counted := declare("counted", intArgument("x-delivery-limit", 9))
	seen := declare("values", values("x-message-deduplication", true, "x-cache-size", 100, "x-deduplication-header", "id"))
	stream := declare("stream", stringArgument("x-queue-type", "stream"))
	e.publish(plain, "a", large(), "c", "d")
	plain.Settle(plain.log.Low(), 1)
	e.publish(other, "a")
	e.publishRanked(priority, 0, "low")
	for _, l := range []uint8{1, 3} {
		e.publishRanked(priority.level(l), l, fmt.Sprint("p", l))
	}
	e.publish(counted, "a", "b")
	for range 3 {
		run, _ := counted.Pull(1)
		counted.Requeue(run)
		w.clock++
		e.broker.keeper.writeCounts(counted, w.clock)
	}
	e.putValues(seen, w.clock, "id", "one", "two")
	c := &Consumer{Queue: stream, Owner: &fakeOwner{}, Tag: "tag"}
	if err := stream.AttachStream(c, nil); err != nil {
		t.Fatal(err)
	}
	e.publish(stream, "a", "b", "c")
	stream.Acknowledged(c, 2)
	w.clock += trackDelay + 1
	e.broker.keeper.writeTracked(stream, w.clock)
	e.exchange(ExchangeDeclare{Name: "late", Type: typeDelayed, Durable: true, Arguments: stringArgument(argDelayedType, "fanout")})
	e.exchange(recent("recent", true, 5))
	e.exchange(ExchangeDeclare{Name: "once", Type: "fanout", Durable: true, Arguments: values(
		"x-message-deduplication", true, "x-cache-size", 100, "x-deduplication-header", "id")})
	late, kept, once := e.vh.FindExchange("late"), e.vh.FindExchange("recent"), e.vh.FindExchange("once")
	putLate(e, late, w.clock, "a", "b")
	e.send("recent", noProperties, "h1", "h2")
	see(e, once, w.clock, "one", "two")
	for _, q := range []*Queue{plain, priority, priority.level(2), counted, seen, stream, kept.history} {
		w.putLarge(e, q, []byte{0, 0})
	}
	w.putLarge(e, late.delayed, lateProperties())
	for _, q := range e.vh.Queues() {
		for _, log := range q.logs() {
			w.owner[log.ID()] = q.Name
			log.WantDurable()
			e.await("all is durable", func() bool { return log.Durable() >= log.Next() })
		}
	}
	for x, logs := range map[*Exchange][]*segstore.Log{late: late.delayed.logs(), kept: kept.history.logs(), once: {once.dedup.log}} {
		for _, log := range logs {
			w.owner[log.ID()] = x.Name
			log.WantDurable()
			e.await("all is durable", func() bool { return log.Durable() >= log.Next() })
		}
	}
	if clean {
		e.close()
	} else {
		e.crash()
	}
	return w
}

// putLarge gives q a message with a large body, and its directory an orphan.
func (w *unreadWorld) putLarge(e *env, q *Queue, properties []byte) {
	w.t.Helper()
	if _, _, err := e.tryExternal(q, properties); err != nil {
		w.t.Fatal(err)
	}
	w.large[q.ID] = q.Name
	if x := e.vh.FindExchange(q.Name[strings.LastIndexByte(q.Name, ' ')+1:]); q.Hidden() {
		w.large[q.ID] = x.Name
	}
	file, err := e.disk.Open(fmt.Sprintf("bodies/%016x/%s", q.ID, orphan), disk.CreateNew)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = file.Close() // nothing was written
}

const orphan = "0000000000000bad"

func valueProperties(value string) []byte {
	p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: values("id", value)}
	return p.Append(nil)
}

func see(e *env, x *Exchange, clock int64, list ...string) {
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(clock)
	for _, value := range list {
		b.Add(b.Template(nil, nil, valueProperties(value)), nil)
	}
	x.dedup.Judge(b, nil, clock)
	x.dedup.Done(nil, nil, false, nil)
}

func lateProperties() []byte {
	p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagDeliveryMode, DeliveryMode: 2, Headers: values(headerDelay, 50_000)}
	return p.Append(nil)
}

func putLate(e *env, x *Exchange, clock int64, bodies ...string) {
	e.t.Helper()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(clock)
	for _, body := range bodies {
		b.Add(b.Template([]byte(x.Name), nil, lateProperties()), []byte(body))
	}
	if _, _, err := x.delayed.Publish(b, clock); err != nil {
		e.t.Fatal(err)
	}
}

// describe says what of an owner's content can be seen.
func (w *unreadWorld) describe(e *env, owner string) string {
	e.t.Helper()
	if x := e.vh.FindExchange(owner); x != nil {
		switch {
		case x.delayed != nil:
			return fmt.Sprint(e.ready(x.delayed), x.delayed.hidden.delays.First())
		case x.history != nil:
			return fmt.Sprint(e.ready(x.history))
		default:
			return fmt.Sprint(x.dedup.Knows(valueProperties("one"), w.clock), x.dedup.Knows(valueProperties("new"), w.clock))
		}
	}
	q := e.queue(QueueDeclare{Name: owner, Passive: true}, nil)
	text := fmt.Sprintf("%s; %+v, %d to %d", e.shown(q), q.Counts(), q.log.Low(), q.log.Next())
	if q.stream != nil {
		offset, ok := q.TrackedOffset("tag")
		text += fmt.Sprint(offset, ok, q.stream.gate)
	}
	if q.upkeep != nil {
		text += fmt.Sprint(q.DeliveryCount(q.log.Low()), q.upkeep.dedup != nil && len(q.upkeep.dedup.until) == 2)
	}
	return text
}

// closed lists who is closed, and checks that each says so in all ways.
func (w *unreadWorld) closed(e *env) (names []string) {
	e.t.Helper()
	for _, name := range unreadQueues {
		q := e.queue(QueueDeclare{Name: name, Passive: true}, nil)
		if q.Unread() == nil {
			if q.State() != StateRunning {
				e.t.Errorf("queue %s is %s and was read", name, q.State())
			}
			continue
		}
		names = append(names, name)
		w.checkClosed(e, q)
	}
	for _, name := range []string{"late", "recent", "once"} {
		x := e.vh.FindExchange(name)
		unread := x.dedup != nil && x.dedup.Unread() != nil
		for _, q := range x.hidden() {
			unread = unread || q.Unread() != nil
			if q.Unread() != nil && e.try(q) == nil {
				e.t.Errorf("%s takes a message", name)
			}
		}
		if unread {
			names = append(names, name)
		}
	}
	return names
}

// try publishes a message that may be refused.
func (e *env) try(q *Queue) error {
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	b.Add(b.Template([]byte("x"), []byte("key"), noProperties), []byte("refused"))
	_, _, err := q.Publish(b, 0)
	return err
}

func (w *unreadWorld) checkClosed(e *env, q *Queue) {
	e.t.Helper()
	if q.State() != StateClosed || q.stream == nil && q.Counts() != (Counts{}) {
		e.t.Errorf("queue %s is %s with %+v", q.Name, q.State(), q.Counts())
	}
	targets := []*Queue{q}
	if q.Ranked() {
		targets = append(targets, q.level(1), q.level(2), q.level(3))
	}
	for _, l := range targets {
		if e.try(l) == nil {
			e.t.Errorf("queue %s takes a message", q.Name)
		}
	}
	text := fmt.Sprintf("INTERNAL_ERROR - queue '%s' in vhost '/' cannot be read: nothing of it is lost; mend the disk or the permissions, and restart it", q.Name)
	refuses := func(what string, err error) {
		e.t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			e.t.Errorf("%s: %v", what, err)
		}
	}
	if q.stream == nil {
		refuses("consume", q.Attach(&Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c"}))
		_, err := q.PurgeSome(1)
		refuses("purge", err)
		_, err = q.Collect(context.Background(), 1, 1, Ack)
		refuses("get", err)
	} else {
		refuses("consume", q.AttachStream(&Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c"}, nil))
		_, err := q.ReadStream(context.Background(), "first", 1, 1)
		refuses("read", err)
	}
	_, err := q.Peek(context.Background(), 0, 1, 1)
	refuses("peek", err)
	_, err = e.broker.Move(context.Background(), q, e.queue(QueueDeclare{Name: "target"}, nil), 1, 0)
	refuses("move", err)
	if run, _ := q.Get(); run.Count != 0 || q.Purge() != 0 {
		e.t.Errorf("queue %s has messages", q.Name)
	}
	if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, true, nil); err == nil || !strings.Contains(err.Error(), "may not be empty") {
		e.t.Errorf("queue %s is deleted if it is empty: %v", q.Name, err)
	}
	e.policy("later", "^"+q.Name+"$", `{"max-length": 1, "expires": 1}`)
	w.clock += 5000
	for range 5 {
		e.broker.keeper.step()
	}
	if e.vh.FindQueue(q.Name) != q {
		e.t.Errorf("queue %s has expired", q.Name)
	}
	e.must(e.broker.ClearPolicy("/", "later"))
	w.clock -= 5000
}

func (w *unreadWorld) restart(e *env, owner string) error {
	if x := e.vh.FindExchange(owner); x != nil {
		return e.vh.RestartExchange(x)
	}
	return e.vh.RestartQueue(e.vh.FindQueue(owner))
}

// TestUnread_EachLog: whichever log of whatever cannot be read at a start, all else
// is as it would be; who owns it is closed, loses nothing, and is after a restart of
// it what a start would have made of it.
func TestUnread_EachLog(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		w := newUnreadWorld(t, clean)
		owners := slices.Concat(unreadQueues, []string{"late", "recent", "once"})
		e := w.open(w.disk.Kill())
		want := map[string]string{}
		for _, owner := range owners {
			want[owner] = w.describe(e, owner)
		}
		e.crash()
		for id, owner := range w.owner {
			rules := []sim.Rule{{Path: fmt.Sprintf("logs/%016x", id), Calls: sim.CallReadDir}}
			for after := range 6 {
				rules = append(rules, sim.Rule{Path: fmt.Sprintf("logs/%016x/*", id), Calls: sim.CallRead, After: after})
			}
			for i, rule := range rules {
				w.checkOne(id, owner, rule, i == 0, want)
			}
		}
	}
}

func (w *unreadWorld) checkOne(id uint64, owner string, rule sim.Rule, must bool, want map[string]string) {
	t := w.t
	t.Helper()
	where := fmt.Sprintf("log %d of %s, %s after %d", id, owner, rule.Calls, rule.After)
	d := w.disk.Kill()
	fault := d.Inject(rule)
	e := w.open(d)
	closed := w.closed(e)
	switch {
	case len(closed) == 0 && !must: // it was read before the fault began
		fault.Remove()
		e.crash()
		return
	case !slices.Equal(closed, []string{owner}):
		t.Fatalf("%s: closed are %v", where, closed)
	case !strings.Contains(e.log.String(), "cannot be read"):
		t.Errorf("%s: nobody is told: %s", where, e.log.String())
	}
	for name, text := range want {
		if name != owner {
			if got := w.describe(e, name); got != text {
				t.Errorf("%s: %s is %s, want %s", where, name, got, text)
			}
		}
	}
	if err := w.restart(e, owner); err == nil || !strings.Contains(err.Error(), "stays closed") {
		t.Errorf("%s: restarted while it cannot be read: %v", where, err)
	}
	fault.Remove()
	if err := w.restart(e, owner); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if closed := w.closed(e); len(closed) > 0 || e.store.Stats().FencedLogs+e.store.Stats().UnreadLogs != 0 {
		t.Errorf("%s: %v are closed after a restart of it, %+v", where, closed, e.store.Stats())
	}
	if got := w.describe(e, owner); got != want[owner] {
		t.Errorf("%s: it is %s, want %s", where, got, want[owner])
	}
	if err := w.restart(e, owner); err == nil {
		t.Errorf("%s: restarted twice", where)
	}
	if q := e.vh.FindQueue(owner); q != nil {
		next := q.log.Next()
		e.publish(q, "more")
		e.stored(q)
		e.crash()
		e = w.open(d.PowerCut())
		q = e.vh.FindQueue(owner)
		if body := e.body(q, next); body != "more" {
			t.Errorf("%s: after a power cut %q", where, body)
		}
	}
	e.close()
}

// TestUnread_Deleted: what cannot be read can be given up.
func TestUnread_Deleted(t *testing.T) {
	t.Parallel()
	w := newUnreadWorld(t, false)
	for id, owner := range w.owner {
		d := w.disk.Kill()
		d.Inject(sim.Rule{Path: fmt.Sprintf("logs/%016x", id), Calls: sim.CallReadDir})
		e := w.open(d)
		var seq uint64
		var err error
		if e.vh.FindExchange(owner) != nil {
			seq, err = e.vh.DeleteExchange(owner, false)
		} else {
			_, seq, err = e.vh.DeleteQueue([]byte(owner), false, false, nil)
		}
		if err != nil {
			t.Fatalf("log %d of %s: %v", id, owner, err)
		}
		e.durable(seq)
		e.await("its files are gone", func() bool {
			return !slices.ContainsFunc(d.Files(), func(name string) bool { return strings.HasPrefix(name, fmt.Sprintf("logs/%016x/", id)) })
		})
		if st := e.store.Stats(); st.UnreadLogs != 0 || st.FencedLogs != 0 {
			t.Errorf("log %d of %s: %+v", id, owner, st)
		}
		e.crash()
		e = w.open(d.Kill())
		if e.vh.FindExchange(owner) != nil || e.vh.FindQueue(owner) != nil {
			t.Errorf("%s is back", owner)
		}
		e.close()
	}
}
