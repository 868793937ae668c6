package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// filesIn lists what a directory of large bodies has.
func filesIn(d *sim.Disk, id uint64) (names []string) {
	for _, name := range d.Files() {
		if strings.HasPrefix(name, fmt.Sprintf("bodies/%016x", id)) {
			names = append(names, name)
		}
	}
	return names
}

// idOf is the id of a directory.
func (w *unreadWorld) idOf(owner string) (id uint64) {
	for at, name := range w.large {
		if name == owner {
			id = at
		}
	}
	return id
}

// part finds the queue, or level of one, with an id.
func (w *unreadWorld) part(e *env, id uint64) *Queue {
	e.t.Helper()
	x := e.vh.FindExchange(w.large[id])
	queues := e.vh.Queues()
	if x != nil {
		queues = x.hidden()
	}
	for _, q := range queues {
		for _, l := range q.family() {
			if l.ID == id {
				return l
			}
		}
	}
	w.t.Fatalf("nothing has the id %d", id)
	return nil
}

// TestUnread_LargeBodies: a directory of large bodies that cannot be listed at a start
// closes whose it is, and nobody else. Nothing in it is touched until it was listed; then
// all is what a start would have made of it, and what belongs to no message goes.
func TestUnread_LargeBodies(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		w := newUnreadWorld(t, clean)
		if len(w.large) != 8 {
			t.Fatalf("%d directories", len(w.large))
		}
		e := w.open(w.disk.Kill())
		want := map[string]string{}
		for _, owner := range w.large {
			want[owner] = w.describe(e, owner)
		}
		e.crash()
		for id, owner := range w.large {
			w.checkLarge(id, owner, want)
		}
	}
}

func (w *unreadWorld) checkLarge(id uint64, owner string, want map[string]string) {
	t := w.t
	t.Helper()
	d := w.disk.Kill()
	before := filesIn(d, id)
	fault := d.Inject(sim.Rule{Path: fmt.Sprintf("bodies/%016x", id), Calls: sim.CallReadDir})
	e := w.open(d)
	if closed := w.closed(e); !slices.Equal(closed, []string{owner}) {
		t.Fatalf("%d of %s: closed are %v", id, owner, closed)
	}
	for _, text := range []string{"cannot be listed", fmt.Sprintf("bodies/%016x", id)} {
		if !strings.Contains(e.log.String(), text) {
			t.Errorf("%s: nobody is told of %q: %s", owner, text, e.log.String())
		}
	}
	for name, text := range want {
		if name == owner {
			continue
		}
		if got := w.describe(e, name); got != text {
			t.Errorf("%s: %s is %s, want %s", owner, name, got, text)
		}
	}
	q := w.part(e, id)
	if _, _, err := e.tryExternal(q, []byte{0, 0}); err == nil {
		t.Errorf("%s takes a large message", owner)
	}
	if err := w.restart(e, owner); err == nil || !strings.Contains(err.Error(), "stays closed") || !strings.Contains(err.Error(), "cannot be listed") {
		t.Errorf("%s: restarted while it cannot be listed: %v", owner, err)
	}
	e.broker.bodies.Drain()
	if after := filesIn(d, id); len(before) != 2 || !slices.Equal(after, before) {
		t.Errorf("%s: its files were %v, are %v", owner, before, after)
	}
	fault.Remove()
	if err := w.restart(e, owner); err != nil {
		t.Fatalf("%s: %v", owner, err)
	}
	if closed := w.closed(e); len(closed) > 0 || e.store.Stats().FencedLogs != 0 {
		t.Errorf("%s: %v are closed after a restart of it", owner, closed)
	}
	if got := w.describe(e, owner); got != want[owner] {
		t.Errorf("%s: it is %s, want %s", owner, got, want[owner])
	}
	e.await("the orphan is gone, and nothing else", func() bool {
		after := filesIn(d, id)
		return len(after) == 1 && !strings.HasSuffix(after[0], orphan)
	})
	if err := w.restart(e, owner); err == nil {
		t.Errorf("%s: restarted twice", owner)
	}
	if _, _, err := e.tryExternal(q, []byte{0, 0}); err != nil {
		t.Errorf("%s: %v", owner, err)
	}
	if q.stream == nil && !q.Hidden() {
		e.broker.bodies.Drain()
		q.Purge()
		e.await("a purge removes its bodies", func() bool { return len(filesIn(d, id)) == 0 })
	}
	e.close()
}

// TestUnread_LargeBodiesDeleted: what cannot be listed can be given up; if the disk does
// not even let it go, it is put aside by a start that can.
func TestUnread_LargeBodiesDeleted(t *testing.T) {
	t.Parallel()
	w := newUnreadWorld(t, false)
	for id, owner := range w.large {
		for _, calls := range []sim.Call{sim.CallReadDir, sim.CallReadDir | sim.CallRemove} {
			d := w.disk.Kill()
			d.Inject(sim.Rule{Path: fmt.Sprintf("bodies/%016x", id), Calls: calls})
			e := w.open(d)
			var seq uint64
			var err error
			if e.vh.FindExchange(owner) != nil {
				seq, err = e.vh.DeleteExchange(owner, false)
			} else {
				_, seq, err = e.vh.DeleteQueue([]byte(owner), false, false, nil)
			}
			if err != nil {
				t.Fatalf("%s: %v", owner, err)
			}
			e.durable(seq)
			if x := e.vh.FindExchange(owner); x != nil || e.vh.FindQueue(owner) != nil {
				t.Fatalf("%s is still there", owner)
			}
			e.await("its large bodies are gone", func() bool { return len(filesIn(d, id)) == 0 })
			if st := e.store.Stats(); st.FencedLogs != 0 {
				t.Errorf("%s: %+v", owner, st)
			}
			e.crash()
			d = d.Kill()
			e = w.open(d)
			if _, err := d.ReadDir(fmt.Sprintf("bodies/%016x", id)); err == nil {
				t.Errorf("%s: its directory is still there", owner)
			}
			e.close()
		}
	}
}

// TestUnread_LargeBodiesPolicy: a policy that comes while the queue is closed acts when it
// is open again, on large messages too.
func TestUnread_LargeBodiesPolicy(t *testing.T) {
	t.Parallel()
	w := newUnreadWorld(t, false)
	d := w.disk.Kill()
	id := w.idOf("plain")
	fault := d.Inject(sim.Rule{Path: fmt.Sprintf("bodies/%016x", id), Calls: sim.CallReadDir})
	e := w.open(d)
	q := e.vh.FindQueue("plain")
	e.policy("short", "^plain$", `{"max-length": 1}`)
	for range 5 {
		e.broker.keeper.step()
	}
	if before := filesIn(w.disk.Kill(), id); !slices.Equal(filesIn(d, id), before) {
		t.Errorf("the policy acted: %v, before %v", filesIn(d, id), before)
	}
	fault.Remove()
	if err := w.restart(e, "plain"); err != nil {
		t.Fatal(err)
	}
	e.steps("the oldest went", func() bool { return q.Counts().Ready == 1 })
	e.await("its body is there", func() bool { return len(filesIn(d, id)) == 1 })
	e.policy("short", "^plain$", `{"max-length": 0}`)
	e.steps("all went", func() bool { return q.Counts().Ready == 0 })
	e.await("no body is there", func() bool { return len(filesIn(d, id)) == 0 })
	e.close()
}

// TestUnread_LargeMessageToManyQueues: the other queues of a large message get it while
// one's directory cannot be listed; what was named before the directory was listed again
// is refused after it too, because it has no name there.
func TestUnread_LargeMessageToManyQueues(t *testing.T) {
	t.Parallel()
	w := newUnreadWorld(t, false)
	d := w.disk.Kill()
	fault := d.Inject(sim.Rule{Path: fmt.Sprintf("bodies/%016x", w.idOf("plain")), Calls: sim.CallReadDir | sim.CallLink | sim.CallMkdir})
	e := w.open(d)
	closed, other := e.vh.FindQueue("plain"), e.vh.FindQueue("other")
	in := e.broker.bodies.Create(e.broker.bodies.NewFlow(func() {}))
	buf := e.pool.Get(10)
	in.Write(buf, copy(buf.Bytes(), "0123456789"))
	done := make(chan error, 1)
	in.Finish([]bodies.Dir{closed.BodyDir(), other.BodyDir()}, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b := e.store.NewBatch()
	b.Reset(0)
	properties := []byte{0, 0}
	MarkExternal(properties)
	b.Add(b.Template(nil, nil, properties), in.Ref().Append(nil))
	at := BodyAt{Ref: in.Ref()}
	if _, _, err := other.Publish(b, 0, at); err != nil {
		t.Error(err)
	}
	in.Keep()
	if names := e.names(other); len(names) != 1 {
		t.Errorf("the other has %v", names)
	}
	fault.Remove()
	if err := w.restart(e, "plain"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := closed.Publish(b, 0, at); err == nil || !strings.Contains(err.Error(), "has to be sent again") {
		t.Errorf("a message without its body was taken: %v", err)
	}
	b.Release()
	e.publishExternal(closed)
	e.await("there are the old body and the new one", func() bool { return len(e.names(closed)) == 2 })
	e.close()
}

// TestUnread_LargeBodiesOfNobody: a directory without a queue that cannot be listed is put
// aside like others, and if that fails it stays; nobody is kept from starting.
func TestUnread_LargeBodiesOfNobody(t *testing.T) {
	t.Parallel()
	w := newUnreadWorld(t, false)
	for _, calls := range []sim.Call{sim.CallReadDir, sim.CallReadDir | sim.CallRename} {
		d := w.disk.Kill()
		if err := d.MkdirAll("bodies/00000000000fffff"); err != nil {
			t.Fatal(err)
		}
		d.Inject(sim.Rule{Path: "bodies/00000000000fffff", Calls: calls})
		e := w.open(d)
		if closed := w.closed(e); len(closed) > 0 {
			t.Errorf("closed are %v", closed)
		}
		want := "is put aside"
		if calls&sim.CallRename != 0 {
			want = "cannot be put aside"
		}
		if !strings.Contains(e.log.String(), want) {
			t.Errorf("not told that it %s: %s", want, e.log.String())
		}
		if q := e.queue(QueueDeclare{Name: "new", Durable: true, Arguments: amqp.Table{}}, nil); q.ID <= 0xfffff {
			t.Errorf("its id is given out again: %x", q.ID)
		}
		e.close()
	}
}
