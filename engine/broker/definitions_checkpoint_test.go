package broker

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// TestDefinitions_CheckpointUnderChurn binds and unbinds from several goroutines
// much more than the journal may hold.
func TestDefinitions_CheckpointUnderChurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *env {
		posix, err := disk.OpenPosix(dir)
		if err != nil {
			t.Fatal(err)
		}
		e, err := tryOpen(t, &testDisk{Disk: posix, lazy: true}, segstore.Options{JournalBytes: 32 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	e.exchange(ExchangeDeclare{Name: "stays", Type: "direct", Durable: true})
	stays := e.queue(QueueDeclare{Name: "stays", Durable: true}, nil)
	e.publish(stays, "message")
	stays.log.WantDurable()
	gone := e.queue(QueueDeclare{Name: "gone", Durable: true}, nil).ID
	if _, _, err := e.vh.DeleteQueue([]byte("gone"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	const workers, rounds = 3, 800
	for life := range 3 {
		before := e.store.Stats().Checkpoints
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := range rounds {
					b := Binding{Source: "stays", Queue: "stays", RoutingKey: fmt.Sprint(life, ".", w, ".", i)}
					if _, err := e.vh.Bind(b, nil); err != nil {
						t.Error(err)
						return
					}
					if i%100 == 0 {
						continue // some stay
					}
					if _, err := e.vh.Unbind(b, nil); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		e.durable(e.broker.defs.Last())
		e.await("a checkpoint", func() bool { return e.store.Stats().Checkpoints > before })
		want := dump(e.vh)
		if life == 1 {
			e.close()
		} else {
			e.crash()
		}
		e = open()
		if got := dump(e.vh); !slices.Equal(got, want) {
			t.Fatalf("life %d: %d lines after reopening, want %d", life, len(got), len(want))
		}
		checkBookkeeping(t, e.vh)
		if got := e.broker.Recovered().Messages; got != 1 {
			t.Fatalf("life %d: %d messages", life, got)
		}
		next := e.queue(QueueDeclare{Name: "next", Durable: true}, nil)
		if next.ID <= gone {
			t.Fatalf("log id %d was given out again (%d)", gone, next.ID)
		}
		gone = next.ID
		if _, _, err := e.vh.DeleteQueue([]byte("next"), false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	definitions := e.broker.defs
	e.close() // a checkpoint may be writing until then
	if definitions.saved == 0 {
		t.Error("no snapshot was read")
	}
}

// TestDefinitions_CheckpointWithoutChanges writes nothing.
func TestDefinitions_CheckpointWithoutChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	checkpoint := func(writes int) {
		t.Helper()
		before := e.disk.writesOf(definitionsTemp)
		if err := e.broker.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if n := e.disk.writesOf(definitionsTemp) - before; n != writes {
			t.Errorf("%d writes, want %d", n, writes)
		}
	}
	checkpoint(0)
	e.queue(QueueDeclare{Name: "transient"}, nil)
	checkpoint(0)
	declareSome(e)
	checkpoint(1)
	checkpoint(0)
	e.close()
	if n := e.disk.writesOf(definitionsTemp); n != 1 {
		t.Errorf("%d writes with the stop", n)
	}
	e = openDir(t, dir)
	checkpoint(0)
	e.close()
	if n := e.disk.writesOf(definitionsTemp); n != 0 {
		t.Errorf("%d writes in a life without changes", n)
	}
}
