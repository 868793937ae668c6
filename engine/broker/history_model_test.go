package broker

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"pgregory.net/rapid"
)

// TestHistory_Model: publishes in batches of any size, bindings, restarts and
// kills; each new queue gets exactly the last messages, in order.
func TestHistory_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := sim.New(sim.Options{Seed: rapid.Uint64().Draw(t, "seed")})
		e := openSim(t, d)
		keep := rapid.Int32Range(1, 7).Draw(t, "length")
		e.exchange(recent("h", true, keep))
		e.durable(e.broker.defs.Last())
		var sent []string
		queues := 0
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				from := len(sent)
				sent = append(sent, numbers(from, from+rapid.IntRange(1, 12).Draw(t, "messages"))...)
				e.send("h", noProperties, sent[from:]...)
			},
			"bind": func(t *rapid.T) {
				queues++
				q := e.queue(QueueDeclare{Name: fmt.Sprint("q", queues)}, nil)
				e.bind(Binding{Source: "h", Queue: q.Name})
				e.wantReady(q, sent[max(0, len(sent)-int(keep)):])
				if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, false, nil); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) {
				e.t = t
				e.close()
				d = d.Kill()
				e = openSim(t, d)
			},
			"kill": func(t *rapid.T) {
				e.t = t
				h := e.vh.exchanges["h"].history
				h.log.WantDurable()
				e.await("durable", func() bool { return h.log.Durable() == h.log.Next() })
				d = d.Kill()
				e.crash()
				e = openSim(t, d)
			},
		})
		e.t = t
		e.close()
	})
}

// Bindings while others publish: nothing comes twice, and what is published
// after a binding was made comes. Run with -race.
func TestHistory_BindUnderPublishes(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	e.exchange(recent("h", false, 50))
	const bindings, each = 15, 60
	var sent atomic.Int64
	turns, done := make(chan struct{}, each), make(chan struct{})
	go func() {
		defer close(done)
		for range turns {
			e.send("h", noProperties, fmt.Sprint("m", sent.Load()))
			sent.Add(1)
		}
	}()
	var queues []*Queue
	var after []int64 // the first message that each must have
	for i := range bindings {
		q := e.queue(QueueDeclare{Name: fmt.Sprint("q", i)}, nil)
		for range each {
			turns <- struct{}{} // the publisher runs on while the binding is made
		}
		e.bind(Binding{Source: "h", Queue: q.Name})
		queues = append(queues, q)
		after = append(after, sent.Load()+1) // one may have been on its way
	}
	close(turns)
	<-done
	for i, q := range queues {
		seen := map[string]bool{}
		for _, body := range e.ready(q) {
			if seen[body] {
				t.Fatalf("%s has %s twice", q.Name, body)
			}
			seen[body] = true
		}
		for n := after[i]; n < sent.Load(); n++ {
			if !seen[fmt.Sprint("m", n)] {
				t.Fatalf("%s was bound before m%d, but does not have it", q.Name, n)
			}
		}
	}
}
