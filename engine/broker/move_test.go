package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// peeked is what a queue has ready.
func (e *env) peeked(q *Queue) string {
	e.t.Helper()
	list, err := q.Peek(context.Background(), 0, PeekMax, 100)
	if err != nil {
		e.t.Fatal(err)
	}
	return strings.Join(texts(list), " ")
}

// TestMove_Kinds: from and to queues of all kinds.
func TestMove_Kinds(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	stream := stringArgument("x-queue-type", "stream")
	number := 0
	for _, c := range []struct {
		from, to amqp.Table
		count    uint64
		moved    uint64
		left     string
		there    string
		err      string // part of it
	}{
		{nil, nil, MoveMax, 5, "", "h a! b c d", ""},
		{nil, nil, 2, 2, "b c d", "h a!", ""},
		{nil, nil, 0, 0, "h a! b c d", "", ""},
		{intArgument("x-max-priority", 3), nil, MoveMax, 5, "", "h a! b c d", ""},
		{intArgument("x-max-priority", 3), nil, 1, 1, "a! b c d", "h", ""},
		{nil, intArgument("x-max-priority", 3), MoveMax, 5, "", "h a! b c d", ""},
		{nil, stream, MoveMax, 5, "", "h a! b c d", ""},
		{stream, nil, MoveMax, 5, "h a b c d", "h a b c d", ""},
		{stream, nil, 3, 3, "h a b c d", "h a b", ""},
		{stream, intArgument("x-max-priority", 3), MoveMax, 5, "h a b c d", "h a b c d", ""},
		{nil, values("x-max-length", 2, "x-overflow", "reject-publish"), MoveMax, 2, "b c d", "h a!", "is at its limit"},
		{nil, values("x-max-length", 0, "x-overflow", "reject-publish"), MoveMax, 0, "h a! b c d", "", "is at its limit"},
		{nil, values("x-max-length", 2), MoveMax, 5, "", "c d", ""},
		{nil, values("x-max-length", 2, "x-overflow", "reject-publish-dlx", "x-dead-letter-exchange", "amq.fanout"), MoveMax, 5, "", "h a!", ""},
	} {
		number++
		name := fmt.Sprint("q", number)
		from := e.queue(QueueDeclare{Name: name + ".from", Durable: true, Arguments: c.from}, nil)
		to := e.queue(QueueDeclare{Name: name + ".to", Durable: true, Arguments: c.to}, nil)
		high := from
		if from.Ranked() {
			high = from.level(2)
		}
		e.publishRanked(high, 2, "h")
		e.publishRanked(from, 0, "a", "b", "c", "d")
		if !from.IsStream() {
			run, _ := from.Pull(1)
			next, _ := from.Pull(1)
			run.Queue.Return(run)
			next.Queue.Requeue(Run{First: next.First, Count: 1}) // "a" comes back
		}
		done, err := e.broker.Move(context.Background(), from, to, c.count, 0)
		moved := done.Messages
		if moved != c.moved || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("case %d: %d, %v; want %d, %q", number, moved, err, c.moved, c.err)
		}
		// Flags of what came back, or goes on counting as delivered, aside.
		plain := func(s string) string { return strings.ReplaceAll(s, "!", "") }
		if left := e.peeked(from); plain(left) != plain(c.left) {
			t.Errorf("case %d: %q are left, want %q", number, left, c.left)
		}
		if there := e.peeked(to); there != plain(c.there) {
			t.Errorf("case %d: %q are there, want %q", number, there, c.there)
		}
		if counts := from.Counts(); counts.Unacked != 0 {
			t.Errorf("case %d: %+v", number, counts)
		}
	}
}

// publishRanked publishes with a priority property.
func (e *env) publishRanked(q *Queue, priority uint8, bodies ...string) {
	e.t.Helper()
	p := amqp.Properties{Flags: amqp.FlagPriority | amqp.FlagDeliveryMode, Priority: priority, DeliveryMode: 2}
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	for _, body := range bodies {
		b.Add(b.Template([]byte("x"), []byte("key"), p.Append(nil)), []byte(body))
	}
	if _, _, err := q.Publish(b, 0); err != nil {
		e.t.Fatal(err)
	}
}

// TestMove_ManyTemplates: messages that are all different, and more than a batch.
func TestMove_ManyTemplates(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	from, to := e.queue(QueueDeclare{Name: "from", Durable: true}, nil), e.queue(QueueDeclare{Name: "to"}, nil)
	const n = 3000
	var want []string
	for i := range n {
		p := amqp.Properties{Flags: amqp.FlagMessageID, MessageID: fmt.Append(nil, "id", i)}
		b := segstore.NewBatch(e.pool)
		b.Reset(0)
		want = append(want, fmt.Sprint(i, strings.Repeat("x", i%200)))
		b.Add(b.Template([]byte("e"), fmt.Append(nil, "key", i), p.Append(nil)), []byte(want[i]))
		if _, _, err := from.Publish(b, 0); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if moved, err := e.broker.Move(context.Background(), from, to, MoveMax, 0); moved.Messages != n || err != nil {
		t.Fatal(moved, err)
	}
	list, err := to.Peek(context.Background(), 0, n, 1000)
	if got := texts(list); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	if last := list[n-1]; last.RoutingKey != fmt.Sprint("key", n-1) || last.Exchange != "e" {
		t.Errorf("%+v", last)
	}
}

// TestMove_StreamInSteps: copied step by step each message comes once.
func TestMove_StreamInSteps(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	from := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	to := e.queue(QueueDeclare{Name: "to"}, nil)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint("m", i))
		e.publish(from, want[i])
	}
	for offset := uint64(0); ; {
		moved, err := e.broker.Move(context.Background(), from, to, 3, offset)
		if err != nil {
			t.Fatal(err)
		}
		if moved.Messages == 0 {
			break
		}
		offset = moved.Next
	}
	if got := e.peeked(to); got != strings.Join(want, " ") {
		t.Errorf("%q", got)
	}
}

// TestMove_Itself: that would be for ever.
func TestMove_Itself(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	_, err := e.broker.Move(context.Background(), q, q, 1, 0)
	wantError(t, err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' cannot be moved to itself")
}

// TestMove_Gone: a target that has been deleted loses nothing.
func TestMove_Gone(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	from, to := e.queue(QueueDeclare{Name: "from"}, nil), e.queue(QueueDeclare{Name: "to"}, nil)
	e.publish(from, "a", "b")
	if _, _, err := e.vh.DeleteQueue([]byte("to"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	var refusal *amqp.Error
	if n, err := e.broker.Move(context.Background(), from, to, MoveMax, 0); n.Messages != 0 || !errors.As(err, &refusal) || refusal.Code != 404 {
		t.Errorf("%+v, %v", n, err)
	}
	if got := e.peeked(from); got != "a b" {
		t.Errorf("%q are left", got)
	}
}

// TestMove_ExpiredAndBodies: what has expired becomes a dead letter instead; the
// file of a large body gets another name and loses the old one.
func TestMove_ExpiredAndBodies(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	d := sim.New(sim.Options{})
	e := openAt(t, d, &clock)
	withBodies(e)
	defer e.broker.bodies.Close()
	defer e.close()
	dead := e.queue(QueueDeclare{Name: "dead"}, nil)
	from := e.queue(QueueDeclare{Name: "from", Durable: true, Arguments: values("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")}, nil)
	to := e.queue(QueueDeclare{Name: "to", Durable: true}, nil)
	e.put(from, 1000, "50", "expired")
	e.put(from, 1000, "5000", "lives")
	e.publishExternal(from)
	clock = 2000
	if n, err := e.broker.Move(context.Background(), from, to, MoveMax, 0); n.Messages != 3 || err != nil {
		t.Fatal(n, err)
	}
	if got := e.peeked(to); got != "lives ordinary 0123456789" {
		t.Errorf("%q", got)
	}
	if from, to := e.names(from), e.names(to); len(from) != 0 || len(to) != 1 {
		t.Errorf("bodies: %q and %q", from, to)
	}
	e.steps("the dead letter", func() bool { return dead.Counts().Ready == 1 })
	clock = 2000 + 5000 + 10 // the time to live began anew, and somebody looks after it
	e.await("expiry", func() bool { e.broker.keeper.step(); return to.Counts().Ready == 2 })
}

// TestMove_PowerCut: whenever the power goes, each message is in one of the two
// queues, and only in one.
func TestMove_PowerCut(t *testing.T) {
	t.Parallel()
	var bodies []string
	for i := range 40 {
		bodies = append(bodies, fmt.Sprint("m", i, strings.Repeat(".", i)))
	}
	for cut := int64(1); cut <= 200; cut++ {
		d := sim.New(sim.Options{Seed: uint64(cut)})
		e := openSim(t, d)
		from := e.queue(QueueDeclare{Name: "from", Durable: true}, nil)
		_, _, seq, err := e.vh.DeclareQueue(QueueDeclare{Name: "to", Durable: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e.durable(seq)
		e.publishRanked(from, 0, bodies...)
		e.stored(from)
		d.CrashAfter(cut)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			for n := uint64(0); n < 40; n += 10 {
				if _, err := e.broker.Move(ctx, from, e.vh.FindQueue("to"), 10, 0); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		finished := false
		e.await("the cut, or the end", func() bool {
			select {
			case err := <-ended:
				finished = err == nil
				ended <- err
				return true
			default:
				return crashed(d)
			}
		})
		cancel()
		<-ended
		finished = finished && !crashed(d)
		e.crash()
		again := openSim(t, d.PowerCut())
		there := again.contents(again.queue(QueueDeclare{Name: "to", Passive: true}, nil))
		all := append(again.contents(again.queue(QueueDeclare{Name: "from", Passive: true}, nil)), there...)
		if finished && len(there) != 40 {
			t.Errorf("cut %d: the move had ended, and %d are there", cut, len(there))
		}
		slices.Sort(all)
		if want := slices.Sorted(slices.Values(bodies)); !slices.Equal(all, want) {
			t.Fatalf("cut at operation %d: %d messages, want %d each once", cut, len(all), len(want))
		}
		again.crash()
		if finished {
			break
		}
	}
}
