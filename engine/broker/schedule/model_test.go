package schedule

import (
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.steps", "80"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds waits for a condition; reaching it is a failure.
const patience = time.Minute

type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// bench is a schedule over logs 1 and 2 of a store of its own.
type bench struct {
	t        tb
	store    *segstore.Store
	messages *segstore.Log
	index    *segstore.Log
	s        *Schedule
	woken    chan struct{} // something may go on
	batch    *segstore.Batch
}

// open opens it; messages are eight bytes that say when they are due.
func open(t tb, d disk.Disk, fresh, block int) *bench {
	t.Helper()
	b := &bench{t: t, woken: make(chan struct{}, 1)}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	pool := new(arena.Pool)
	var err error
	if b.store, err = segstore.Open(segstore.Options{Disk: d, Arena: pool, Logger: logger, OnCommit: b.wake}); err != nil {
		t.Fatal(err)
	}
	b.batch = b.store.NewBatch()
	if b.messages, err = b.store.OpenLog(1, segstore.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	if b.index, err = b.store.OpenLog(2, segstore.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	if b.s, err = Open(Options{
		Store: b.store, Messages: b.messages, Index: b.index, Wake: b.wake, Logger: logger, fresh: fresh, block: block,
		Due: func(rec *segstore.Record, _ segstore.Template) int64 {
			return int64(binary.LittleEndian.Uint64(rec.Body))
		},
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

func (b *bench) close() {
	b.s.Close()
	b.batch.Release()
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// kill ends it without writing anything.
func (b *bench) kill() {
	b.s.Release()
	b.batch.Release()
	b.store.Crash()
}

// publish appends messages and adds them.
func (b *bench) publish(dues ...int64) (base uint64) {
	b.batch.Reset(0)
	template := b.batch.Template(nil, nil, nil)
	for _, due := range dues {
		b.batch.Add(template, binary.LittleEndian.AppendUint64(nil, uint64(due)))
	}
	base, err := b.messages.Append(b.batch)
	if err != nil {
		b.t.Fatal(err)
	}
	for i, due := range dues {
		b.s.Add(Entry{due, base + uint64(i)}, 10)
	}
	return base
}

func (b *bench) await(what string, done func() bool) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !done() {
		select {
		case <-b.woken:
		case <-time.After(10 * time.Millisecond):
		case <-deadline.C:
			b.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// take takes all that is due at most, and hands it to got in parts.
func (b *bench) take(now int64, part func(taken []Entry) int) {
	b.t.Helper()
	b.await("everything due is taken", func() bool {
		for {
			state := b.s.Take(now)
			if taken := b.s.Taken(); len(taken) > 0 {
				b.done(part(taken))
			} else if state != Busy {
				return state == Idle
			}
		}
	})
}

// done settles the first n that are taken.
func (b *bench) done(n int) {
	tx := b.store.Begin()
	defer tx.End()
	for _, e := range b.s.Taken()[:n] {
		b.messages.Settle(e.Offset, 1)
		tx.Settled(b.messages, e.Offset, 1)
	}
	b.s.Done(tx, n)
}

// maintain does what is to be done.
func (b *bench) maintain() {
	b.t.Helper()
	b.await("maintenance", func() bool {
		state := Busy
		for state == Busy {
			state = b.s.Maintain()
		}
		return state == Idle
	})
}

// Whatever comes when, in whatever amounts, through stops and kills: each message
// is given out once, when it is due, in order.
func TestSchedule_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := sim.New(sim.Options{Seed: rapid.Uint64().Draw(t, "seed")})
		fresh, block := rapid.IntRange(4, 20).Draw(t, "fresh"), rapid.IntRange(1, 5).Draw(t, "block")
		b := open(t, d, fresh, block)
		now := int64(1000)
		defer func() { b.kill() }()
		var waiting []Entry
		again := func() {
			b = open(t, d, fresh, block)
			// What was not durable may be lost, and only that.
			first := b.messages.Next()
			waiting = slices.DeleteFunc(waiting, func(e Entry) bool { return e.Offset >= first })
			if n := b.messages.Unsettled(); n != uint64(len(waiting)) {
				t.Fatalf("%d messages are there, want %d", n, len(waiting))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				var dues []int64
				for range rapid.IntRange(1, 30).Draw(t, "messages") {
					dues = append(dues, now+rapid.Int64Range(0, 60).Draw(t, "delay"))
				}
				b.t = t
				base := b.publish(dues...)
				for i, due := range dues {
					waiting = append(waiting, Entry{due, base + uint64(i)})
				}
			},
			"time": func(t *rapid.T) {
				b.t = t
				now += rapid.Int64Range(1, 20).Draw(t, "ms")
				slices.SortFunc(waiting, compare)
				b.take(now, func(taken []Entry) int {
					n := rapid.IntRange(1, len(taken)).Draw(t, "done")
					if !slices.Equal(taken[:n], waiting[:min(n, len(waiting))]) || taken[n-1].Due > now {
						t.Fatalf("at %d took %v, want %v", now, taken[:n], waiting)
					}
					waiting = waiting[n:]
					return n
				})
				if len(waiting) > 0 && waiting[0].Due <= now {
					t.Fatalf("at %d %v was not taken", now, waiting[0])
				}
			},
			"held up": func(t *rapid.T) { // taken, and still not done while it is maintained
				b.t = t
				now += rapid.Int64Range(0, 10).Draw(t, "ms")
				b.s.Take(now)
				b.maintain()
			},
			"maintain": func(t *rapid.T) {
				b.t = t
				b.maintain()
				if first := b.s.First(); len(waiting) > 0 && first > slices.MinFunc(waiting, compare).Due {
					t.Fatalf("the next is due at %d, it says %d", slices.MinFunc(waiting, compare).Due, first)
				}
			},
			"damage": func(t *rapid.T) {
				if len(b.s.Taken()) == 0 {
					b.s.damaged = true
				}
			},
			"stop": func(t *rapid.T) {
				b.t = t
				b.close()
				d = d.Kill()
				again()
			},
			"kill": func(t *rapid.T) {
				b.t = t
				if rapid.Bool().Draw(t, "durable") {
					b.messages.WantDurable()
					b.await("durable", func() bool { return b.messages.Durable() == b.messages.Next() })
				}
				durable := b.messages.Durable()
				last := b.messages.Next()
				dead := d.Kill()
				b.kill()
				d = dead
				settledBefore := waiting
				b = open(t, d, fresh, block)
				if b.messages.Next() < durable {
					t.Fatalf("offsets up to %d were durable, now there are %d of %d", durable, b.messages.Next(), last)
				}
				// What had been done may be undone: it comes again.
				waiting = nil
				for at := uint64(0); at < b.messages.Next(); {
					first, n := b.messages.NextUnsettled(at, 1)
					if n == 0 {
						break
					}
					waiting = append(waiting, Entry{b.due(first), first})
					at = first + 1
				}
				for _, e := range settledBefore {
					if e.Offset < durable && !slices.Contains(waiting, e) {
						t.Fatalf("%v was durable and is lost", e)
					}
				}
			},
		})
	})
}

// due reads when a message is due.
func (b *bench) due(offset uint64) int64 {
	b.t.Helper()
	r := b.messages.NewReader()
	defer r.Close()
	var rec segstore.Record
	b.await("a record", func() bool {
		err := r.Seek(offset, b.wake)
		if err != nil && !errors.Is(err, segstore.ErrNotResident) {
			b.t.Fatal(err)
		}
		return err == nil && r.Next(&rec)
	})
	return int64(binary.LittleEndian.Uint64(rec.Body))
}
