package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// texts are the bodies of messages, with ! behind those that came back.
func texts(list []Message) (out []string) {
	for _, m := range list {
		text := string(m.Body)
		if m.Redelivered {
			text += "!"
		}
		out = append(out, text)
	}
	return out
}

// TestCollect_Verdicts: what becomes of messages that were looked at.
func TestCollect_Verdicts(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	ctx := context.Background()
	for _, c := range []struct {
		verdict Verdict
		left    string // in the queue afterwards
		dead    string
	}{
		{PutBack, "a! b! c", ""},
		{Requeue, "a! b! c", ""},
		{Ack, "c", ""},
		{Reject, "c", "a b"},
	} {
		t.Run(fmt.Sprint(c.verdict), func(t *testing.T) {
			name := fmt.Sprint("q", c.verdict)
			dead := e.queue(QueueDeclare{Name: name + ".dead"}, nil)
			q := e.queue(QueueDeclare{Name: name, Durable: true, Arguments: values(
				"x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead.Name, "x-delivery-limit", 1)}, nil)
			e.publish(q, "a", "b", "c")
			list, err := q.Collect(ctx, 2, 1<<20, c.verdict)
			if err != nil || strings.Join(texts(list), " ") != "a b" || list[0].Remaining != 2 || list[1].Remaining != 1 || list[0].RoutingKey != name {
				t.Fatalf("%+v, %v", list, err)
			}
			if counts := q.Counts(); counts.Unacked != 0 || counts.Ready != uint64(len(strings.Fields(c.left))) {
				t.Errorf("%+v afterwards", counts)
			}
			left, err := q.Peek(ctx, 0, 10, 1<<20)
			if err != nil || strings.Join(texts(left), " ") != c.left {
				t.Errorf("left: %q, %v, want %s", texts(left), err, c.left)
			}
			if n := q.DeliveryCount(left[0].Offset); (n == 1) != (c.verdict == Requeue) {
				t.Errorf("%d deliveries are counted", n)
			}
			e.await("dead letters", func() bool { return dead.Counts().Ready == uint64(len(strings.Fields(c.dead))) })
		})
	}
}

// TestCollect_OneByOne: however often one looks, order stays, and a paused queue
// gives messages to operators.
func TestCollect_OneByOne(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	ctx := context.Background()
	q := e.queue(QueueDeclare{Name: "q", Arguments: intArgument("x-max-priority", 2)}, nil)
	if _, err := e.vh.PauseQueue(q, true); err != nil {
		t.Fatal(err)
	}
	e.publish(q, "a", "b", "c")
	e.publish(q.level(2), "high")
	for range 3 {
		list, err := q.Collect(ctx, 3, 2, PutBack)
		if err != nil || len(list) != 3 || string(list[0].Body) != "hi" || list[0].Size != 4 || string(list[2].Body) != "b" {
			t.Fatalf("%q, %v", texts(list), err)
		}
	}
	list, err := q.Collect(ctx, 100, 100, Ack)
	if got := texts(list); err != nil || !slices.Equal(got, []string{"high!", "a!", "b!", "c"}) {
		t.Errorf("%q, %v", got, err)
	}
	if list, err := q.Collect(ctx, 1, 1, Ack); err != nil || len(list) != 0 {
		t.Errorf("%q from an empty queue, %v", texts(list), err)
	}
}

// TestCollect_LargeBody: a body in a file is read as far as it is wanted, and
// goes with its message.
func TestCollect_LargeBody(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}))
	withBodies(e)
	defer e.broker.bodies.Close()
	defer e.close()
	ctx := context.Background()
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	_, id := e.publishExternal(q)
	for _, c := range []struct {
		most uint64
		want string
	}{{100, "0123456789"}, {4, "0123"}, {0, ""}} {
		list, err := q.Collect(ctx, 2, c.most, PutBack)
		if err != nil || len(list) != 2 || string(list[1].Body) != c.want || list[1].Size != 10 || IsExternal(list[1].Properties) {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	if got := e.names(q); !slices.Equal(got, []string{nameOf(id)}) {
		t.Fatal(got)
	}
	if _, err := q.Collect(ctx, 2, 100, Ack); err != nil {
		t.Fatal(err)
	}
	if got := e.names(q); len(got) > 0 {
		t.Errorf("%q are left", got)
	}
}

// TestCollect_Expired: an expired message is nobody's any more.
func TestCollect_Expired(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: intArgument("x-message-ttl", 100)}, nil)
	e.put(q, 1000, "", "old")
	e.put(q, 1200, "", "new")
	clock = 1250
	list, err := q.Collect(context.Background(), 5, 10, Ack)
	if got := texts(list); err != nil || !slices.Equal(got, []string{"new"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestCollect_Refusals: streams are read otherwise; who gives up leaves
// everything in its place.
func TestCollect_Refusals(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	s := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	_, err := s.Collect(context.Background(), 1, 1, Ack)
	wantError(t, err, 540, "NOT_IMPLEMENTED - basic.get not supported by stream queues queue 's' in vhost '/'")
	_, err = s.PurgeSome(1)
	wantError(t, err, 540, "NOT_IMPLEMENTED - queue.purge not supported by stream queues queue 's' in vhost '/'")
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	_, err = q.ReadStream(context.Background(), "first", 1, 1)
	wantError(t, err, 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' is not a stream")
	_, err = s.ReadStream(context.Background(), "nonsense", 1, 1)
	wantError(t, err, 406, "PRECONDITION_FAILED - invalid arg 'offset' for queue 's' in vhost '/': invalid_offset_arg")
}

// TestPurgeSome: only so many go, from the head, whatever their priority.
func TestPurgeSome(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: intArgument("x-max-priority", 2)}, nil)
	e.publish(q, "a", "b", "c")
	e.publish(q.level(1), "x", "y")
	if n, err := q.PurgeSome(3); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	list, err := q.Peek(context.Background(), 0, 10, 10)
	if got := texts(list); err != nil || !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%q, %v", got, err)
	}
	if n, err := q.PurgeSome(1 << 60); n != 2 || err != nil || q.Counts().Unacked != 0 {
		t.Error(n, err)
	}
}

// TestReadStream: from everywhere, and nothing is taken.
func TestReadStream(t *testing.T) {
	t.Parallel()
	clock := int64(1_000_000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: stringArgument("x-queue-type", "stream")}, nil)
	for i := range 5 {
		e.publish(q, fmt.Sprint("m", i))
	}
	for _, c := range []struct {
		offset string
		count  uint64
		want   string
	}{
		{"first", 2, "m0 m1"}, {"first", 100, "m0 m1 m2 m3 m4"}, {"last", 5, "m4"}, {"next", 5, ""},
		{"3", 5, "m3 m4"}, {"-2", 5, "m3 m4"}, {"99", 5, ""}, {"0", 0, ""},
	} {
		list, err := q.ReadStream(context.Background(), c.offset, c.count, 10)
		if got := strings.Join(texts(list), " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.offset, got, err)
		}
		if n := len(list); n > 0 && list[n-1].Remaining != 4-list[n-1].Offset {
			t.Errorf("%s: %d remain", c.offset, list[n-1].Remaining)
		}
	}
	clock += 3_600_000
	e.put(q, clock-60_000, "", "late")
	later, err := q.ReadStream(context.Background(), "2m", 5, 10)
	if got := texts(later); err != nil || !slices.Equal(got, []string{"late"}) {
		t.Errorf("of the last two minutes: %q, %v", got, err)
	}
	list, err := q.Peek(context.Background(), 1, 2, 10)
	if got := texts(list); err != nil || !slices.Equal(got, []string{"m1", "m2"}) || q.Counts().Ready != 6 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPurgeSome_ShowsOneThatExpires: what is first after a purge of some expires
// in its time, although nobody looked at it before.
func TestPurgeSome_ShowsOneThatExpires(t *testing.T) {
	t.Parallel()
	e := openClocked(t, sim.New(sim.Options{}), 1000)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	e.put(q, e.now, "", "for ever", "for ever too")
	e.put(q, e.now, "10", "short")
	e.until(2000)
	if n := q.Counts().Ready; n != 3 {
		t.Fatalf("%d messages: one behind others does not expire", n)
	}
	if n, err := q.PurgeSome(2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	e.until(2001)
	if n := q.Counts().Ready; n != 0 {
		t.Errorf("%d messages: the one that the purge brought to the front is still there", n)
	}
}
