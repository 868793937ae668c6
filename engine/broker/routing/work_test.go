package routing

import (
	"fmt"
	"testing"
)

// work counts the steps that removals have taken so far, over everything they
// may have to search.
func (s *store[D]) work() uint64 { return s.removals + s.linkIndex.steps + s.extraIndex.steps }

// workOf is what removals from an index have cost so far, in steps.
func workOf(index Index[int]) uint64 {
	switch x := index.(type) {
	case *directIndex[int]:
		return x.work()
	case *fanoutIndex[int]:
		return x.work()
	case *topicIndex[int]:
		return x.work() + x.edges.steps
	case *headersIndex[int]:
		return x.work() + x.patternIndex.steps + x.bucketIndex.steps
	case *ringIndex[int]:
		return x.work()
	case *orderedIndex[int]:
		return x.work()
	case *randomIndex[int]:
		return x.work()
	}
	panic("no such index")
}

// Removing a destination takes steps for its own bindings, whether the index
// has a thousand others or a hundred thousand.
func TestUnbindDestination_CostsItsOwnBindings(t *testing.T) {
	t.Parallel()
	const own = 5
	for _, k := range append(kinds(), spreadKinds()...) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, others := range []int{1000, 100_000} {
				if k.name == "ring" {
					others /= 20 // a binding has 128 points or more
				}
				index := k.make()
				for i := range others {
					key := topicPattern(i)
					if k.one {
						key = fmt.Sprint(1 + i%3)
					}
					index.Bind(Binding[int]{RoutingKey: key, Arguments: table("n", i), Destination: i / 10})
					if i%(others/own) == 0 {
						index.Bind(Binding[int]{RoutingKey: key, Arguments: table("n", i), Destination: -1})
					}
				}
				before := workOf(index)
				if removed := index.UnbindDestination(-1); len(removed) != own {
					t.Fatalf("removed %d", len(removed))
				}
				// A record, a link, and a handful of slots in up to four tables each.
				if work := workOf(index) - before; work < own || work > 60*own {
					t.Errorf("%d steps to remove %d of %d bindings", work, own, others)
				}
			}
		})
	}
}

// BenchmarkUnbindDestination binds a destination ten times and removes it, among
// others: the cost does not grow with them.
func BenchmarkUnbindDestination(b *testing.B) {
	for _, k := range kinds() {
		for _, others := range []int{1000, 100_000} {
			b.Run(fmt.Sprint(k.name, "/", others), func(b *testing.B) {
				index := k.make()
				for i := range others {
					index.Bind(Binding[int]{RoutingKey: topicPattern(i), Arguments: table("n", i), Destination: i / 10})
				}
				own := make([]Binding[int], 10)
				for i := range own {
					own[i] = Binding[int]{RoutingKey: fmt.Sprintf("region%d.own%d.*", i, i), Arguments: table("own", i), Destination: -1}
				}
				b.ReportAllocs()
				for b.Loop() {
					for _, binding := range own {
						index.Bind(binding)
					}
					if len(index.UnbindDestination(-1)) != len(own) {
						b.Fatal("not all removed")
					}
				}
			})
		}
	}
}
