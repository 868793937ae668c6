package amqp

import (
	"maps"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/engine/broker"
	"pgregory.net/rapid"
)

// delivery is one message as the model of unackedList sees it.
type delivery struct {
	tag, offset uint64
	queue       *broker.Queue
	consumer    *consumer
}

// flatten spells runs out.
func flatten(runs []unackedRun) (all []delivery) {
	for _, r := range runs {
		for i := range r.count {
			all = append(all, delivery{r.tag + i, r.at(i), r.queue, r.consumer})
		}
	}
	return all
}

// TestUnackedList_Model runs random histories against a map by tag.
func TestUnackedList_Model(t *testing.T) {
	t.Parallel()
	queues := []*broker.Queue{{Name: "a"}, {Name: "b"}}
	consumers := []*consumer{nil, {}, {}}
	rapid.Check(t, func(t *rapid.T) {
		var l unackedList
		model := map[uint64]delivery{}
		offsets := map[*broker.Queue]uint64{}
		var staged []unackedRun // taken in a transaction
		lastTag := uint64(0)
		take := func(t *rapid.T, keep bool) {
			tag := uint64(0)
			if len(model) > 0 && rapid.IntRange(0, 4).Draw(t, "existing") > 0 {
				tag = rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(t, "tag")
			} else {
				tag = rapid.Uint64Range(0, lastTag+2).Draw(t, "any tag")
			}
			multiple := rapid.Bool().Draw(t, "multiple")
			_, there := model[tag]
			var want []delivery
			for _, other := range slices.Sorted(maps.Keys(model)) {
				switch {
				case multiple && tag == 0, there && (other == tag || multiple && other < tag):
					want = append(want, model[other])
					delete(model, other)
				}
			}
			var got []unackedRun
			found := l.take(tag, multiple, func(r unackedRun) { got = append(got, r) })
			if found != (there || multiple && tag == 0) {
				t.Fatalf("take(%d, %v) = %v", tag, multiple, found)
			}
			if !slices.Equal(flatten(got), want) {
				t.Fatalf("take(%d, %v) removed %v, want %v", tag, multiple, flatten(got), want)
			}
			if keep {
				staged = append(staged, got...)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				q := rapid.SampledFrom(queues).Draw(t, "queue")
				r := unackedRun{
					tag: lastTag + 1, queue: q, consumer: rapid.SampledFrom(consumers).Draw(t, "consumer"),
					spaced: spaced{
						offset: offsets[q] + rapid.Uint64Range(0, 2).Draw(t, "gap"),
						count:  rapid.Uint64Range(1, 6).Draw(t, "count"),
						stride: rapid.Uint64Range(1, 3).Draw(t, "stride"),
					},
				}
				lastTag += r.count
				offsets[q] = r.at(r.count)
				for _, d := range flatten([]unackedRun{r}) {
					model[d.tag] = d
				}
				l.add(r)
			},
			"take":  func(t *rapid.T) { take(t, false) },
			"stage": func(t *rapid.T) { take(t, true) },
			"roll back": func(t *rapid.T) {
				for _, r := range staged {
					l.putBack(r)
				}
				for _, d := range flatten(staged) {
					model[d.tag] = d
				}
				staged = nil
			},
			"": func(t *rapid.T) {
				var want []delivery
				for _, tag := range slices.Sorted(maps.Keys(model)) {
					want = append(want, model[tag])
				}
				if got := flatten(l.live()); !slices.Equal(got, want) {
					t.Fatalf("the list is %v, want %v", got, want)
				}
				if l.empty() != (len(model) == 0) {
					t.Fatalf("empty() = %v with %d", l.empty(), len(model))
				}
				for _, r := range l.runs[:l.head] {
					if r != (unackedRun{}) {
						t.Fatalf("a run before the head keeps its queue alive: %+v", r)
					}
				}
			},
		})
	})
}

// TestUnackedList_ReusesItsMemory: delivering and acking in order costs no
// allocation, and the list does not grow with what has passed through it.
func TestUnackedList_ReusesItsMemory(t *testing.T) {
	q, c := &broker.Queue{}, &consumer{}
	var l unackedList
	tag := uint64(0)
	for range 100 { // prefetch, with offsets apart
		tag++
		l.add(unackedRun{tag: tag, spaced: spaced{tag * tag, 1, 1}, queue: q, consumer: c})
	}
	ignore := func(unackedRun) {}
	turn := func() {
		tag++
		l.add(unackedRun{tag: tag, spaced: spaced{tag * tag, 1, 1}, queue: q, consumer: c})
		if !l.take(tag-100, false, ignore) {
			t.Fatal("not there")
		}
	}
	for range 500 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations for a delivery and its ack", n)
	}
	if cap(l.runs) > 1000 {
		t.Errorf("room for %d runs where 100 are outstanding", cap(l.runs))
	}
}
