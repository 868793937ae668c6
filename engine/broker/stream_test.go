package broker

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func openStream(t tb, dir string, now func() int64, arguments ...any) (*env, *Queue) {
	t.Helper()
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tryOpenAt(t, &testDisk{Disk: posix, lazy: true}, segstore.Options{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return e, e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: values(append([]any{"x-queue-type", "stream"}, arguments...)...)}, nil)
}

func publishAt(t tb, e *env, q *Queue, ms int64, body string) {
	t.Helper()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(ms)
	b.Add(b.Template(nil, []byte("s"), []byte{0, 0}), []byte(body))
	if _, _, err := q.Publish(b, ms); err != nil {
		t.Fatal(err)
	}
}

// Retention by age goes by when segments began, also after a restart: a peer did
// not keep that, and dropped every segment.
func TestStream_AgeSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	clock := int64(1_700_000_000_000)
	now := func() int64 { return clock }
	arguments := []any{"x-max-age", "1h", "x-stream-max-segment-size-bytes", 4096}
	e, q := openStream(t, dir, now, arguments...)
	for i := range 10 {
		publishAt(t, e, q, clock+int64(i)*60_000, strings.Repeat("x", 5000))
		q.log.WantDurable()
		e.await("durable", func() bool { return q.log.Durable() == q.log.Next() })
	}
	clock += 10 * 60_000
	e.close()
	e, q = openStream(t, dir, now, arguments...)
	defer e.close()
	e.broker.keeper.step()
	if n := q.Counts().Ready; n != 10 {
		t.Fatalf("%d messages right after the restart", n)
	}
	clock += 55 * 60_000 // the first five are older than an hour now
	e.broker.keeper.step()
	if n := q.Counts().Ready; n < 4 || n > 7 {
		t.Errorf("%d messages, want about 5", n)
	}
	clock += 24 * 3600_000
	e.broker.keeper.step()
	if n := q.Counts().Ready; n < 1 || n > 3 {
		t.Errorf("%d messages: the last segment stays", n)
	}
	if got := e.broker.keeper.turn(clock); got != unlimited {
		t.Errorf("a stream with one segment is looked at again in %d ms", got)
	}
}

// Nobody sees a record under an offset that an earlier record had, even one that
// a crash took away.
func TestStream_OffsetsAfterCrash(t *testing.T) {
	dir := t.TempDir()
	e, q := openStream(t, dir, nil)
	e.durable(e.broker.pendingSeq())
	publishAt(t, e, q, 1, "seen and lost")
	c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "t"}
	if err := q.AttachStream(c, values("x-stream-offset", "first")); err != nil {
		t.Fatal(err)
	}
	if run := q.TakeStream(c); run.Count != 1 {
		t.Fatal(run)
	}
	e.crash()
	for range 2 {
		e, q = openStream(t, dir, nil)
		first := q.log.Next()
		if first < streamSkip {
			t.Fatalf("the next offset is %d", first)
		}
		publishAt(t, e, q, 1, "new")
		c = &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "t"}
		if err := q.AttachStream(c, values("x-stream-offset", 1)); err != nil {
			t.Fatal(err)
		}
		var run Run
		e.await("the new record may be seen", func() bool { run = q.TakeStream(c); return run.Count > 0 && run.First >= first })
		if q.log.Durable() <= first {
			t.Fatalf("it is seen before it is durable: %d", q.log.Durable())
		}
		e.crash()
	}
}

// The format of Bloom filters in batches: golden, because it is on disk.
func TestStream_BloomFormat(t *testing.T) {
	bloom := make([]byte, 16)
	for _, v := range []string{"", "a", "invoices"} {
		bloomAdd(bloom, filterHash([]byte(v)))
		if !bloomHas(bloom, filterHash([]byte(v))) {
			t.Errorf("%q is not in", v)
		}
	}
	if got := fmt.Sprintf("%x", bloom); got != "00120002200000000000080100000000" {
		t.Errorf("the filter is %s", got)
	}
	missed := 0
	for i := range 1000 {
		if !bloomHas(bloom, filterHash(fmt.Append(nil, "value ", i))) {
			missed++
		}
	}
	if missed < 950 {
		t.Errorf("only %d of 1000 other values are told apart", missed)
	}
}

// FuzzOffsetSpec: any arguments are understood or refused, and a consumer never
// begins outside of the stream.
func FuzzOffsetSpec(f *testing.F) {
	for _, v := range []any{"first", "last", "next", "5D", "x", 7, -3} {
		f.Add([]byte(values("x-stream-offset", v)))
	}
	f.Add([]byte(values("x-stream-filter", "a,b", "x-filter-match-type", "any")))
	e, q := openStream(f, f.TempDir(), nil)
	f.Cleanup(e.close)
	for range 3 {
		publishAt(f, e, q, 1000, "body")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table := amqp.Table(data)
		if amqp.ValidateTable(table) != nil {
			return
		}
		c := &Consumer{Queue: q, Owner: &fakeOwner{}, Tag: "t"}
		if err := q.AttachStream(c, table); err != nil {
			if e, ok := err.(*amqp.Error); !ok || e.Code != amqp.CodePreconditionFailed {
				t.Fatal(err)
			}
			return
		}
		defer q.Detach(c)
		if c.Stream.cursor > q.log.Next() {
			t.Fatalf("it begins at %d", c.Stream.cursor)
		}
		c.Stream.Wants(nil)
	})
}

// FuzzStreamFilter: what passes a filter passes the Bloom filter of its batch,
// whatever the headers are.
func FuzzStreamFilter(f *testing.F) {
	f.Add([]byte(values("x-stream-filter-value", "a")), []byte(values("x-stream-filter", "a")))
	f.Add([]byte(values("x-stream-filter-value", "a,b,,c")), []byte(values("x-stream-filter", "c,d", "x-stream-match-unfiltered", true)))
	f.Add([]byte(values("n", 5)), []byte(values("x-stream-filter", amqp.TableValue(values("n", "5")), "x-filter-match-type", "any")))
	e, q := openStream(f, f.TempDir(), nil)
	f.Cleanup(e.close)
	f.Fuzz(func(t *testing.T, headers, arguments []byte) {
		if amqp.ValidateTable(amqp.Table(headers)) != nil || amqp.ValidateTable(amqp.Table(arguments)) != nil {
			return
		}
		filter, _, problem := parseStreamFilter(amqp.Table(arguments))
		if problem != "" || filter == nil {
			return
		}
		properties := (&amqp.Properties{Flags: amqp.FlagHeaders, Headers: headers}).Append(nil)
		b := segstore.NewBatch(e.pool)
		defer b.Release()
		b.Reset(0)
		b.Add(b.Template(nil, nil, properties), []byte("x"))
		b.Add(b.Template(nil, nil, nil), []byte("x"))
		q.stream.setFilter(b)
		may := filter.query.Wanted == nil || filter.query.Wanted(b.Filter())
		if filter.matches(properties) && !may {
			t.Fatalf("headers %x match %x, but not the filter %x", headers, arguments, b.Filter())
		}
		if filter.matches(nil) && !may {
			t.Fatalf("a message without headers matches %x, but not the filter %x", arguments, b.Filter())
		}
	})
}

// FuzzTracked: whatever the log of tracked offsets holds, reading it ends.
func FuzzTracked(f *testing.F) {
	f.Add([]byte{5, 't', 'a', 'g'})
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xFF}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tr trackedOffsets
		tr.init()
		tr.read(7, data)
		tr.read(9, data)
		if len(tr.of) > 1 || len(tr.of) == 1 && len(tr.over) != 1 {
			t.Fatalf("%d offsets, %d superseded", len(tr.of), len(tr.over))
		}
	})
}
