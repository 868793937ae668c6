package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestPause_SurvivesRestarts: a durable queue is as it was left, by a stop, a
// crash, and a snapshot; another one is not paused anew.
func TestPause_SurvivesRestarts(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	find := func(name string) *Queue { return e.queue(QueueDeclare{Name: name, Passive: true}, nil) }
	again := func(how string) {
		t.Helper()
		switch how {
		case "stop":
			e.close()
			d = d.Kill()
		case "crash":
			e.crash()
			d = d.Kill()
		case "snapshot":
			if err := e.broker.checkpoint(); err != nil {
				t.Fatal(err)
			}
			e.crash()
			d = d.Kill()
		}
		e = openSim(t, d)
	}
	e.queue(QueueDeclare{Name: "plain", Durable: true}, nil)
	e.queue(QueueDeclare{Name: "levels", Durable: true, Arguments: intArgument("x-max-priority", 3)}, nil)
	for _, how := range []string{"crash", "snapshot", "stop"} {
		for _, paused := range []bool{true, false} {
			for _, name := range []string{"plain", "levels"} {
				seq, err := e.vh.PauseQueue(find(name), paused)
				if err != nil || seq == 0 {
					t.Fatal(seq, err)
				}
				e.durable(seq)
			}
			again(how)
			for _, name := range []string{"plain", "levels"} {
				q := find(name)
				state := map[bool]string{true: StatePaused, false: StateRunning}[paused]
				if q.State() != state {
					t.Errorf("%s after a %s: %s, want %s", name, how, q.State(), state)
				}
				if seq, err := e.vh.PauseQueue(q, paused); err != nil || seq > e.broker.defs.Durable() {
					t.Errorf("nothing changes, and %d is to be waited for: %v", seq, err)
				}
			}
		}
	}
	e.close()
}

// TestPause_Gone: a queue that has been deleted meanwhile is not paused, nor is
// its successor of the same name.
func TestPause_Gone(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	if _, _, err := e.vh.DeleteQueue([]byte("q"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	next := e.queue(QueueDeclare{Name: "q"}, nil)
	_, err := e.vh.PauseQueue(q, true)
	wantError(t, err, 404, "NOT_FOUND - no queue 'q' in vhost '/'")
	if next.Paused() {
		t.Error("another queue is paused")
	}
}

// TestPause_LimitsHold: what is over the limit goes while nobody can take.
func TestPause_LimitsHold(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: intArgument("x-max-length", 2)}, nil)
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "c"}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	q.Enter(c)
	e.publish(q, "1", "2", "3", "4") // the consumer can take them
	if n := q.Counts().Ready; n != 4 {
		t.Fatal(n)
	}
	if _, err := e.vh.PauseQueue(q, true); err != nil {
		t.Fatal(err)
	}
	if n := q.Counts().Ready; n != 2 {
		t.Errorf("%d messages in a paused queue, want its limit of 2", n)
	}
	if run, _ := q.Get(); run.Count != 0 {
		t.Error("basic.get takes from a paused queue")
	}
	if run, _ := q.Pull(1); run.Count != 1 || e.body(q, run.First) != "3" {
		t.Errorf("an operator takes %+v", run)
	}
	if q.DeliverableNow() {
		t.Error("a paused queue delivers nothing at once")
	}
}

// TestPause_Stream: the consumers of a stream wait, and all of them go on.
func TestPause_Stream(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	var consumers []*Consumer
	for i := range 3 {
		c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: fmt.Sprint("c", i)}
		if err := q.AttachStream(c, stringArgument("x-stream-offset", "first")); err != nil {
			t.Fatal(err)
		}
		consumers = append(consumers, c)
	}
	q.TakeStream(consumers[0]) // waits
	if _, err := e.vh.PauseQueue(q, true); err != nil {
		t.Fatal(err)
	}
	e.publish(q, "a", "b")
	for _, c := range consumers {
		if run := q.TakeStream(c); run.Count > 0 {
			t.Errorf("%s takes %+v from a paused stream", c.Tag, run)
		}
		owner(c).setTold(false)
	}
	if _, err := e.vh.PauseQueue(q, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range consumers {
		if run := q.TakeStream(c); !owner(c).isTold() || run.Count != 2 {
			t.Errorf("%s was told: %v, and takes %+v", c.Tag, owner(c).isTold(), run)
		}
	}
}

// TestRestart_JournalFailed: a queue that a failed write of the journal has closed
// says so, takes nothing that is moved to it, and tells what to do.
func TestRestart_JournalFailed(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer func() { e.crash() }()
	from, closed := e.queue(QueueDeclare{Name: "from"}, nil), e.queue(QueueDeclare{Name: "closed", Durable: true}, nil)
	wantError(t, e.vh.RestartQueue(closed), 406, "PRECONDITION_FAILED - queue 'closed' in vhost '/' is not closed")
	e.publish(from, "a", "b")
	e.disk.setHinder(func(op *disk.Op) (<-chan struct{}, error) {
		if op.Kind == disk.Write {
			return nil, errors.New("broken")
		}
		return nil, nil
	})
	e.publish(closed, "lost")
	closed.log.WantDurable()
	e.await("the log is fenced", func() bool { return closed.log.Err() != nil })
	if closed.State() != StateClosed || from.State() != StateRunning {
		t.Errorf("%s, %s", closed.State(), from.State())
	}
	if err := e.vh.RestartQueue(closed); err == nil || !strings.Contains(err.Error(), "the journal failed") || !strings.Contains(err.Error(), "restart the broker") {
		t.Error(err)
	}
	moved, err := e.broker.Move(context.Background(), from, closed, MoveMax, 0)
	if moved.Messages != 0 || err == nil || !strings.Contains(err.Error(), "queue 'closed' in vhost '/' takes no messages") {
		t.Errorf("%+v, %v", moved, err)
	}
	if got := e.peeked(from); got != "a b" {
		t.Errorf("%q are left", got)
	}
	if err := e.broker.AwaitMessages(context.Background(), closed, closed.log.Next()); err == nil {
		t.Error("what is on no disk is durable")
	}
}
