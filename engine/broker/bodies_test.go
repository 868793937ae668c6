package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// withBodies gives an open broker a store of bodies, and looks for what was left.
func withBodies(e *env) {
	e.t.Helper()
	store, err := bodies.Open(bodies.Options{Disk: e.disk, Arena: e.pool, Logger: e.broker.logger})
	if err != nil {
		e.t.Fatal(err)
	}
	e.broker.bodies = store
	known := map[uint64]*Queue{}
	for _, q := range e.vh.Queues() {
		known[q.ID] = q
	}
	e.broker.openBodies(known, e.broker.bodies.Left())
}

// publishExternal appends a batch: an ordinary record, then an external one.
// It returns the offset and the body of the latter.
func (e *env) publishExternal(q *Queue) (offset, id uint64) {
	e.t.Helper()
	offset, id, err := e.tryExternal(q, []byte{0, 0})
	if err != nil {
		e.t.Fatal(err)
	}
	return offset, id
}

// tryExternal is publishExternal with properties, for a queue that may refuse.
func (e *env) tryExternal(q *Queue, properties []byte) (offset, id uint64, err error) {
	e.t.Helper()
	in := e.broker.bodies.Create(e.broker.bodies.NewFlow(func() {}))
	buf := e.pool.Get(10)
	in.Write(buf, copy(buf.Bytes(), "0123456789"))
	done := make(chan error, 1)
	in.Finish([]bodies.Dir{q.BodyDir()}, true, func(err error) { done <- err })
	if err := <-done; err != nil {
		e.t.Fatal(err)
	}
	ref := in.Ref()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	properties = slices.Clone(properties)
	b.Add(b.Template(nil, nil, properties), []byte("ordinary"))
	MarkExternal(properties)
	b.Add(b.Template(nil, nil, properties), ref.Append(nil))
	end, _, err := q.Publish(b, 0, BodyAt{Index: 1, Ref: ref})
	in.Keep()
	return end - 1, ref.ID, err
}

// names lists the bodies of a queue.
func (e *env) names(q *Queue) (names []string) {
	e.t.Helper()
	e.broker.bodies.Drain()
	entries, err := e.disk.ReadDir(fmt.Sprintf("bodies/%016x", q.ID))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func nameOf(id uint64) string { return fmt.Sprintf("%016x", id) }

func TestExternalMark(t *testing.T) {
	for _, flags := range []string{"\x00\x00", "\x80\x00plain", "\xff\xfcall"} {
		properties := []byte(flags)
		if IsExternal(properties) {
			t.Errorf("%q counts as marked", flags)
		}
		MarkExternal(properties)
		if !IsExternal(properties) || string(properties) == flags {
			t.Errorf("%q cannot be marked", flags)
		}
		if UnmarkExternal(properties); string(properties) != flags {
			t.Errorf("%q became %q", flags, properties)
		}
	}
	if IsExternal(nil) || IsExternal([]byte{2}) {
		t.Error("what is too short counts as marked")
	}
}

// TestQueue_BodiesModel: whatever is taken, settled, returned and purged, the
// names are those of the unsettled messages; also after a restart at any time.
func TestQueue_BodiesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := sim.New(sim.Options{Seed: rapid.Uint64().Draw(t, "seed")})
		e := openSim(t, d)
		withBodies(e)
		q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
		live := map[uint64]string{} // names by offset
		var taken []Run
		settle := func(first, count uint64) {
			for offset := first; offset < first+count; offset++ {
				delete(live, offset)
			}
		}
		check := func() {
			t.Helper()
			want := slices.Sorted(maps.Values(live))
			// Not at once: what is settled before the scan comes there goes at its end.
			e.await(fmt.Sprintf("the names are %v", want), func() bool { return slices.Equal(e.names(q), want) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "count") {
					offset, id := e.publishExternal(q)
					live[offset] = nameOf(id)
				}
			},
			"take": func(t *rapid.T) {
				if run, _ := q.Get(); run.Count > 0 {
					taken = append(taken, run)
				}
			},
			"settle": func(t *rapid.T) {
				if len(taken) > 0 {
					i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
					q.Settle(taken[i].First, 1)
					settle(taken[i].First, 1)
					taken = slices.Delete(taken, i, i+1)
				}
			},
			"requeue": func(t *rapid.T) {
				if len(taken) > 0 {
					i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
					q.Requeue(Run{First: taken[i].First, Count: 1})
					taken = slices.Delete(taken, i, i+1)
				}
			},
			"purge": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
					return
				}
				q.Purge()
				for offset := range live {
					if !slices.ContainsFunc(taken, func(r Run) bool { return r.First == offset }) {
						delete(live, offset)
					}
				}
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
					return
				}
				e.broker.bodies.Drain()
				e.close()
				d = d.Kill()
				e = openSim(t, d)
				withBodies(e)
				q, taken = e.vh.Queues()[0], nil
			},
			"": func(t *rapid.T) { check() },
		})
		e.close()
	})
}

// TestScan_RemovesWhatNobodyClaims, and only that: names whose messages are
// unsettled stay, also when a consumer settles them while the scan is under way.
func TestScan_RemovesWhatNobodyClaims(t *testing.T) {
	d := sim.New(sim.Options{})
	e := openSim(t, d)
	withBodies(e)
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	var ids []uint64
	for range 20 {
		_, id := e.publishExternal(q)
		ids = append(ids, id)
	}
	for offset := range uint64(10) { // five external ones: their bodies come back as orphans
		run, _ := q.Get()
		if run.First != offset {
			t.Fatal(run)
		}
	}
	q.mu.Lock()
	q.external = nil // forgets the bodies: they stay
	q.mu.Unlock()
	q.Settle(0, 10)
	if n := len(e.names(q)); n != 20 {
		t.Fatalf("%d names", n)
	}
	e.close()
	e = openSim(t, d.Kill())
	withBodies(e)
	q = e.vh.Queues()[0]
	e.await("the orphans are gone", func() bool { return len(e.names(q)) == 15 })
	var want []string
	slices.Sort(ids[5:])
	for _, id := range ids[5:] {
		want = append(want, nameOf(id))
	}
	if got := e.names(q); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if log := e.log.String(); !strings.Contains(log, "bodies=5") {
		t.Fatal(log)
	}
	q.mu.Lock()
	unseen := q.external.unseen
	q.mu.Unlock()
	if unseen != nil {
		t.Fatal("the scan has not ended")
	}
	e.close()
}
