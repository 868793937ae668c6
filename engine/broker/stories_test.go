package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore"
)

// Tests of bugs that other brokers had; docs/stories.md says which.

// A purge takes what is ready, whatever segments it is in, and leaves what
// consumers hold; the counts are right throughout, and after a restart.
func TestPurge_AcrossSegments(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), int64(1000)
	open := func() *env {
		e, err := tryOpenAt(t, posixDisk(t, dir).(*testDisk), segstore.Options{SegmentBytes: 16 << 10}, func() int64 { return clock })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	body := strings.Repeat("x", 1000)
	check := func(when string, ready, unacked uint64) {
		t.Helper()
		if c := q.Counts(); c.Ready != ready || c.Unacked != unacked {
			t.Fatalf("%s: %+v, want %d ready and %d unacked", when, c, ready, unacked)
		}
	}
	for round := range 3 {
		for range 20 {
			e.publish(q, body, body, body, body, body)
			e.stored(q)
		}
		check("filled", 100, 0)
		var held []Run
		for range 60 {
			run, _ := q.Get()
			held = append(held, run)
		}
		for i := 0; i < 60; i += 3 {
			q.Settle(held[i].First, 1)
			q.Requeue(held[i+1])
		}
		check("some settled, some back", 60, 20)
		if n := q.Purge(); n != 60 {
			t.Fatalf("purged %d", n)
		}
		check("purged", 0, 20)
		if n := q.Purge(); n != 0 {
			t.Fatalf("purged %d more", n)
		}
		for i := 2; i < 60; i += 3 {
			if i%2 == 0 {
				q.Settle(held[i].First, 1)
			} else {
				q.Requeue(held[i])
			}
		}
		check("the rest is back", 10, 0)
		e.stored(q)
		if round == 1 {
			e.close()
			e = open()
			q = e.queue(QueueDeclare{Name: "q", Passive: true}, nil)
			check("after a restart", 10, 0)
		}
		for range 10 {
			run, _ := q.Get()
			if got := e.body(q, run.First); got != body {
				t.Fatalf("record %d has %d bytes", run.First, len(got))
			}
			q.Settle(run.First, 1)
		}
		check("emptied", 0, 0)
	}
	e.close()
}

// Any number of administrators at the same time lose none of each other's
// changes.
func TestAdmin_Concurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	const each = 20
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d-%d", worker, i)
				_, err := e.broker.AddVHost(VHostSpec{Name: name})
				if err == nil {
					_, err = e.broker.AddUser(access.Spec{Name: name, Tags: []string{"t"}})
				}
				if err == nil {
					_, err = e.broker.SetPermissions(name, name, access.Permissions{Configure: name, Write: name, Read: name})
				}
				if err == nil && i%4 == 3 {
					_, err = e.broker.DeleteVHost(name)
				}
				if err == nil && i%4 == 2 {
					_, err = e.broker.DeleteUser(name)
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for range 5 { // snapshots meanwhile
		if err := e.broker.checkpoint(); err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
	e.durable(e.broker.defs.Last())
	e.crash()
	e = openDir(t, dir)
	defer e.close()
	vhosts := map[string]bool{}
	for _, v := range e.broker.VHosts() {
		vhosts[v.Name] = true
	}
	for worker := range 4 {
		for i := range each {
			name := fmt.Sprintf("%d-%d", worker, i)
			if vhosts[name] != (i%4 != 3) {
				t.Errorf("vhost %s is there: %v", name, vhosts[name])
			}
			if user := e.broker.users.User([]byte(name)) != nil; user != (i%4 != 2) {
				t.Errorf("user %s is there: %v", name, user)
			}
		}
	}
}
