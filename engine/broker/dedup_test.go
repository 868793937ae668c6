package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// putValues publishes one batch of persistent messages whose bodies are their
// header values; "" is a message without the header. It returns the refused.
func (e *env) putValues(q *Queue, now int64, header string, list ...string) (refused []int) {
	e.t.Helper()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(now)
	for _, value := range list {
		p := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
		if value != "" {
			p.Flags |= amqp.FlagHeaders
			p.Headers = values(header, value)
		}
		b.Add(b.Template(nil, []byte(q.Name), p.Append(nil)), []byte(value))
	}
	_, _, err := q.Publish(b, now)
	var full *Overflow
	if errors.As(err, &full) {
		return full.Refused
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return nil
}

func TestDedup(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), int64(1000)
	e := openAt(t, posixDisk(t, dir), &clock)
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values(
		"x-message-deduplication", true, "x-cache-size", 3, "x-cache-ttl", 100, "x-deduplication-header", "id")}, nil)
	want := func(bodies ...string) {
		t.Helper()
		if got := e.contents(q); !slices.Equal(got, bodies) {
			t.Fatalf("%q, want %q", got, bodies)
		}
	}
	e.putValues(q, clock, "id", "a", "b", "a", "", "", "b")
	want("a", "b", "", "")
	e.putValues(q, clock, "other", "a") // has not the header
	e.putValues(q, clock, "id", "a")
	want("a", "b", "", "", "a")
	e.stored(q)
	e.close()

	e = openAt(t, posixDisk(t, dir), &clock)
	q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
	e.putValues(q, clock, "id", "a", "b", "c", "d", "b") // four: a is forgotten
	e.putValues(q, clock, "id", "b", "c", "a")
	want("a", "b", "", "", "a", "c", "d", "a")
	clock += 101
	e.putValues(q, clock, "id", "a", "c", "d")
	want("a", "b", "", "", "a", "c", "d", "a", "a", "c", "d")
	id := q.sides().dedupID
	if id == 0 {
		t.Fatal("nothing is kept")
	}
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

// A value of a message that was refused is not remembered; numbers of refused
// records are those of the batch that was given.
func TestDedup_Refused(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: values(
		"x-message-deduplication", true, "x-max-length", 2, "x-overflow", "reject-publish")}, nil)
	if got := e.putValues(q, clock, dedupHeaderDefault, "a", "a", "b", "b", "c", "a", "d"); !slices.Equal(got, []int{4, 6}) {
		t.Fatal(got)
	}
	for range 2 {
		run, _ := q.Get()
		q.Settle(run.First, 1)
	}
	if got := e.putValues(q, clock, dedupHeaderDefault, "c", "a", "d"); len(got) > 0 {
		t.Fatal(got)
	}
	if got := e.contents(q); !slices.Equal(got, []string{"c", "d"}) {
		t.Fatal(got)
	}
}

// TestDedup_Model: what is remembered, through restarts.
func TestDedup_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, clock := t.TempDir(), int64(1000)
		size := rapid.IntRange(0, 6).Draw(rt, "size")
		ttl := rapid.Int64Range(0, 30).Draw(rt, "ttl")
		open := func() (*env, *Queue) {
			e := openAt(rt, posixDisk(rt, dir), &clock)
			return e, e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values(
				"x-message-deduplication", true, "x-cache-size", size, "x-cache-ttl", int(ttl))}, nil)
		}
		e, q := open()
		defer func() { e.crash() }()
		type entry struct {
			value string
			until int64
		}
		var remembered []entry
		var want, got []string // bodies in the queue
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				e.t = t
				var batch []string
				for range rapid.IntRange(1, 5).Draw(t, "count") {
					batch = append(batch, fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))
				}
				var fresh []entry
				for i, value := range batch {
					known := slices.Contains(batch[:i], value)
					for _, r := range remembered {
						known = known || r.value == value && r.until > clock
					}
					if !known {
						want = append(want, value)
						fresh = append(fresh, entry{value, clock + ttl + 1})
					}
				}
				for _, f := range fresh {
					remembered = append(remembered, f)
					if len(remembered) > size {
						remembered = remembered[1:]
					}
				}
				e.putValues(q, clock, dedupHeaderDefault, batch...)
			},
			"wait": func(t *rapid.T) { clock += rapid.Int64Range(1, 20).Draw(t, "ms") },
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really") == 0 {
					e.t = t
					e.close()
					e, q = open()
				}
			},
			"": func(t *rapid.T) {
				e.t = t
				for offset := uint64(len(got)); offset < q.log.Next(); offset++ {
					got = append(got, e.body(q, offset))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
			},
		})
	})
}

// Values cost memory while they are remembered, but nothing for each message.
func TestDedupAllocatesNothingForAMessage(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const messages = 256
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-message-deduplication", true, "x-cache-size", 2*messages)}, nil)
	d := q.upkeep.dedup
	var batches []*segstore.Batch
	for i := range 8 { // more values than are remembered: all are new each time
		b := e.store.NewBatch()
		b.Reset(clock)
		for j := range messages {
			p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: values("x-deduplication-header", fmt.Sprint(i, j))}
			b.Add(b.Template(nil, []byte("q"), p.Append(nil)), nil)
		}
		batches = append(batches, b)
		defer b.Release()
	}
	next := 0
	allocs := testing.AllocsPerRun(200, func() {
		duplicates, _, fresh := d.judge(batches[next], clock)
		next = (next + 1) % len(batches)
		if len(duplicates) != 0 || len(fresh) != messages {
			t.Fatalf("%d duplicates, %d new values", len(duplicates), len(fresh))
		}
		if err := d.remember(e.store, fresh, d.mark(q), clock); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > messages/16 { // the log's own, by the batch
		t.Errorf("%.0f allocations for a batch of %d messages", allocs, messages)
	}
}

// A value must not outlive its message: after a crash that lost the message but
// kept the value, the publisher's second attempt would be taken for a duplicate.
func TestDedup_ValueOfALostMessage(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), int64(1000)
	e := openAt(t, posixDisk(t, dir), &clock)
	arguments := values("x-message-deduplication", true)
	q := e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: arguments}, nil)
	e.exchange(ExchangeDeclare{Name: "x", Type: typeFanout, Durable: true, Arguments: arguments})
	x := e.vh.Deduplicator([]byte("x"))
	e.putValues(q, clock, dedupHeaderDefault, "kept")
	entry := func(value string) []dedupEntry {
		p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: values(dedupHeaderDefault, value)}
		hash, _, _ := x.dedup.valueOf(p.Append(nil))
		return []dedupEntry{{value: hash, until: 1 << 60}}
	}
	there, beyond := slices.Clone(q.upkeep.dedup.mark(q)), []dedupMark{{q.ID, q.end + 1}}
	gone := []dedupMark{{1 << 40, 7}} // a queue that was deleted since had it
	for _, d := range []*dedup{q.upkeep.dedup, x.dedup} {
		for value, marks := range map[string][]dedupMark{"lost": beyond, "kept as well": there, "gone": gone} {
			if err := d.remember(e.store, entry(value), marks, clock); err != nil {
				t.Fatal(err)
			}
		}
	}
	e.stored(q)
	e.close()

	e = openAt(t, posixDisk(t, dir), &clock)
	defer e.close()
	q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
	x = e.vh.Deduplicator([]byte("x"))
	for value, known := range map[string]bool{"lost": false, "kept as well": true, "gone": true} {
		p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: values(dedupHeaderDefault, value)}
		if got := x.Knows(p.Append(nil), clock); got != known {
			t.Errorf("exchange: %s is known: %v", value, got)
		}
		if got := q.upkeep.dedup.until[entry(value)[0].value] > clock; got != known {
			t.Errorf("queue: %s is known: %v", value, got)
		}
	}
}

// A repeat of a refused record in the same batch is refused with it.
func TestDedup_RepeatOfARefusedOne(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: values(
		"x-message-deduplication", true, "x-max-length", 1, "x-overflow", "reject-publish")}, nil)
	if got := e.putValues(q, clock, dedupHeaderDefault, "a", "b", "a", "b", "c", "b"); !slices.Equal(got, []int{1, 3, 4, 5}) {
		t.Fatal(got)
	}
}
