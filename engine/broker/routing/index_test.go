package routing

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// kind is one exchange type as the property test sees it.
type kind struct {
	name      string
	make      func() Index[int]
	key       *rapid.Generator[string]
	arguments *rapid.Generator[amqp.Table]
	headers   *rapid.Generator[amqp.Table]
	matches   func(b Binding[int], key string, headers amqp.Table) bool
	// one says that a message goes to one of the destinations that match: to
	// that which pick names, if there is a pick.
	one  bool
	pick func(m model, key string) int
}

func kinds() []kind {
	plainKey := rapid.SampledFrom([]string{"", "a", "b", "a.b", "c"})
	topicKey := rapid.Custom(func(t *rapid.T) string {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "*", "#", "#"}), 0, 6).Draw(t, "words")
		key := ""
		for i, word := range words {
			if i > 0 {
				key += "."
			}
			key += word
		}
		return key
	})
	someArguments := rapid.SampledFrom([]amqp.Table{nil, {}, table("a", 1), table("a", amqp.Int8Value(1)), table("a", 2)})
	noHeaders := rapid.Just(amqp.Table(nil))
	value := rapid.SampledFrom([]amqp.Value{
		amqp.Int64Value(1), amqp.Uint8Value(1), amqp.Float64Value(1), amqp.Int32Value(-1), amqp.Float32Value(0.5),
		amqp.String("1"), amqp.BytesValue([]byte("1")), amqp.String(""), amqp.BoolValue(true), amqp.BoolValue(false),
		amqp.VoidValue(), amqp.TimestampValue(1), amqp.DecimalValue(1, 10), amqp.DecimalValue(0, 1),
		amqp.TableValue(table("a", 1)), amqp.ArrayValue(amqp.ArrayOf(amqp.Int64Value(1))),
	})
	names := []string{"a", "b", "c", "x-a", "x-b", ""}
	fields := func(t *rapid.T, b *amqp.TableBuilder) {
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "names") {
			b.SetValue(name, value.Draw(t, "value"))
		}
	}
	headers := rapid.Custom(func(t *rapid.T) amqp.Table {
		var b amqp.TableBuilder
		fields(t, &b)
		result := b.Table()
		for i := range rapid.SampledFrom([]int{0, 0, 0, 40}).Draw(t, "more fields") { // enough for an index of names
			result = append(result, table(fmt.Sprint("more", i%35), i)...) // and for repeated names
		}
		if rapid.Bool().Draw(t, "repeat") {
			fields(t, &b)
			result = append(result, b.Table()...)
		}
		return result
	})
	matchArguments := rapid.Custom(func(t *rapid.T) amqp.Table {
		var b amqp.TableBuilder
		fields(t, &b)
		if mode := rapid.SampledFrom([]string{"", "all", "any", "all-with-x", "any-with-x"}).Draw(t, "mode"); mode != "" {
			b.SetString("x-match", mode)
		}
		return b.Table()
	})
	return []kind{
		{"direct", NewDirect[int], plainKey, someArguments, noHeaders,
			func(b Binding[int], key string, _ amqp.Table) bool { return b.RoutingKey == key }, false, nil},
		{"fanout", NewFanout[int], plainKey, someArguments, noHeaders,
			func(Binding[int], string, amqp.Table) bool { return true }, false, nil},
		{"topic", NewTopic[int], topicKey, someArguments, noHeaders,
			func(b Binding[int], key string, _ amqp.Table) bool { return referenceTopicMatch(b.RoutingKey, key) }, false, nil},
		{"headers", NewHeaders[int], plainKey, matchArguments, headers,
			func(b Binding[int], _ string, headers amqp.Table) bool {
				return referenceHeadersMatch(b.Arguments, headers)
			}, false, nil},
	}
}

// model is the plain list of bindings that an index must agree with.
type model []Binding[int]

func (m model) find(b Binding[int]) int {
	return slices.IndexFunc(m, func(other Binding[int]) bool {
		return other.RoutingKey == b.RoutingKey && other.Destination == b.Destination && amqp.TableEqual(other.Arguments, b.Arguments)
	})
}

func describe(bindings []Binding[int]) []string {
	var lines []string
	for _, b := range bindings {
		lines = append(lines, fmt.Sprintf("%q %x %d", b.RoutingKey, []byte(b.Arguments), b.Destination))
	}
	slices.Sort(lines)
	return lines
}

func requireSame(t *rapid.T, what string, got, want []Binding[int]) {
	if g, w := describe(got), describe(want); !slices.Equal(g, w) {
		t.Fatalf("%s: got %q, want %q", what, g, w)
	}
}

func TestIndex_AgreesWithModel(t *testing.T) {
	t.Parallel()
	for _, k := range append(kinds(), spreadKinds()...) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { checkAgainstModel(t, k) })
		})
	}
}

func checkAgainstModel(t *rapid.T, k kind) {
	index, m := k.make(), model{}
	destinations := rapid.IntRange(0, 5)
	drawBinding := func() Binding[int] {
		if len(m) > 0 && rapid.Bool().Draw(t, "known") {
			return m[rapid.IntRange(0, len(m)-1).Draw(t, "which")]
		}
		return Binding[int]{k.key.Draw(t, "key"), k.arguments.Draw(t, "arguments"), destinations.Draw(t, "destination")}
	}
	route := func() {
		key, headers := k.key.Draw(t, "routing key"), k.headers.Draw(t, "headers")
		var want []int
		for _, b := range m {
			if k.matches(b, key, headers) && !slices.Contains(want, b.Destination) {
				want = append(want, b.Destination)
			}
		}
		got := index.Route([]byte(key), headers, []int{-1, 3}) // what is in dst already plays no part
		if got[0] != -1 || got[1] != 3 {
			t.Fatalf("Route changed what dst held: %v", got)
		}
		got = got[2:]
		if k.one && len(want) > 0 {
			if len(got) != 1 || !slices.Contains(want, got[0]) || k.pick != nil && got[0] != k.pick(m, key) {
				t.Fatalf("Route(%q) = %v, want one of %v; bindings %q", key, got, want, describe(m))
			}
			return
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("Route(%q, %x) = %v, want %v; bindings %q", key, []byte(headers), got, want, describe(m))
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"bind": func(t *rapid.T) {
			b := drawBinding()
			given := b
			given.Arguments = slices.Clone(b.Arguments)
			wantAdded := m.find(b) < 0
			if added := index.Bind(given); added != wantAdded {
				t.Fatalf("Bind(%v) = %v, want %v", b, added, wantAdded)
			}
			for i := range given.Arguments {
				given.Arguments[i] = 0xff // Bind copied them
			}
			if wantAdded {
				m = append(m, b)
			}
		},
		"bind more": func(t *rapid.T) {
			for range 5 {
				if b := drawBinding(); index.Bind(b) {
					m = append(m, b)
				}
			}
		},
		"unbind": func(t *rapid.T) {
			b := drawBinding()
			at := m.find(b)
			if removed := index.Unbind(b); removed != (at >= 0) {
				t.Fatalf("Unbind(%v) = %v, want %v", b, removed, at >= 0)
			}
			if at >= 0 {
				m = slices.Delete(slices.Clone(m), at, at+1)
			}
		},
		"unbind destination": func(t *rapid.T) {
			d := destinations.Draw(t, "destination")
			var want, left []Binding[int]
			for _, b := range m {
				if b.Destination == d {
					want = append(want, b)
				} else {
					left = append(left, b)
				}
			}
			requireSame(t, "ForDestination", index.ForDestination(d), want)
			requireSame(t, "UnbindDestination", index.UnbindDestination(d), want)
			m = left
		},
		"route": func(*rapid.T) { route() },
		"": func(t *rapid.T) {
			if index.Len() != len(m) {
				t.Fatalf("Len = %d, want %d", index.Len(), len(m))
			}
			requireSame(t, "All", slices.Collect(index.All()), m)
			route()
		},
	})
	for _, b := range m {
		if !index.Unbind(b) {
			t.Fatalf("Unbind(%v) at the end = false", b)
		}
	}
	requireEmpty(t, index)
}

// requireEmpty proves invariant 3: nothing is left behind when all is unbound.
func requireEmpty(t interface{ Fatalf(string, ...any) }, index Index[int]) {
	var s *store[int]
	rest := 0
	switch x := index.(type) {
	case *directIndex[int]:
		s, rest = &x.store, len(x.groupIDs)
	case *fanoutIndex[int]:
		s, rest = &x.store, int(x.groupID)
	case *topicIndex[int]:
		s = &x.store
		rest = x.nodes.capacity() + x.edges.count + len(x.edges.slots) + int(x.root) + x.nestedHash.capacity()
	case *ringIndex[int]:
		s, rest = &x.store, int(x.groupID)+x.members.capacity()+len(x.memberIDs)+len(x.arcs)+x.points
	case *orderedIndex[int]:
		s, rest = &x.store, int(x.groupID)
		if x.list.Load() != nil {
			rest++
		}
	case *randomIndex[int]:
		s, rest = &x.store, int(x.groupID)
	case *headersIndex[int]:
		s = &x.store
		rest = x.patterns.capacity() + x.patternIndex.count + x.buckets.capacity() + x.bucketIndex.count + len(x.always)
	}
	rest += len(s.destinationIDs) + s.destinations.capacity() + s.groups.capacity() + s.links.capacity() +
		s.records.capacity() + s.tables.capacity() + s.linkIndex.count + s.extraIndex.count + s.length
	if rest != 0 {
		t.Fatalf("an index without bindings is not empty: %+v", index)
	}
}

func TestIndex_OrderIsThatOfFirstBinding(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		index := k.make()
		var want []int
		for _, d := range []int{7, 3, 9, 3, 1, 7} {
			index.Bind(Binding[int]{RoutingKey: "a", Destination: d})
			if !slices.Contains(want, d) {
				want = append(want, d)
			}
		}
		if got := index.Route([]byte("a"), nil, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", k.name, got, want)
		}
	}
}

// A peer kept an entry per unknown routing key ever published.
func TestIndex_RouteOfUnknownKeysLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		index := k.make()
		for i := range 100 {
			index.Route(fmt.Appendf(nil, "unknown.%d", i), table(fmt.Sprint("h", i), i), nil)
		}
		requireEmpty(t, index)
	}
}

func TestIndex_UnbindOfUnknownBindingsLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		index := k.make()
		for i := range 100 {
			if index.Unbind(Binding[int]{RoutingKey: fmt.Sprint(1 + i), Arguments: table(fmt.Sprint("h", i), i), Destination: i}) {
				t.Fatalf("%s: something was unbound", k.name)
			}
		}
		requireEmpty(t, index)
	}
}

// Bindings that differ in what the exchange type ignores are one route, and the
// route lasts as long as one of them does.
func TestIndex_ManyBindingsOfOneRoute(t *testing.T) {
	t.Parallel()
	index := NewFanout[int]()
	key := func(i int) string { return fmt.Sprint("key", i) }
	const count = 2000
	for i := range count {
		if !index.Bind(Binding[int]{RoutingKey: key(i), Destination: 1}) || index.Bind(Binding[int]{RoutingKey: key(i), Destination: 1}) {
			t.Fatal("a binding is new once")
		}
	}
	for i := range count {
		if got := index.Route(nil, nil, nil); len(got) != 1 {
			t.Fatalf("%d bindings left: %v", index.Len(), got)
		}
		if !index.Unbind(Binding[int]{RoutingKey: key(i), Destination: 1}) {
			t.Fatalf("binding %d is gone", i)
		}
	}
	requireEmpty(t, index)
}

// Wide groups shrink, and removal keeps the rest reachable.
func TestIndex_ManyDestinationsOfOneRoute(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		index := k.make()
		const count = 1000
		for d := range count {
			index.Bind(Binding[int]{RoutingKey: "a", Destination: d})
		}
		yielded := 0
		for range index.All() {
			if yielded++; yielded == 3 {
				break
			}
		}
		if yielded != 3 {
			t.Errorf("%s: All yielded %d after a break at 3", k.name, yielded)
		}
		for i := range count {
			d := i * 7 % count // every destination once, as 7 and 1000 share no factor
			if removed := index.UnbindDestination(d); len(removed) != 1 || removed[0].Destination != d {
				t.Fatalf("%s: UnbindDestination(%d) = %v", k.name, d, removed)
			}
			if left := index.Route([]byte("a"), nil, nil); len(left) != count-i-1 || slices.Contains(left, d) {
				t.Fatalf("%s: %d left after %d", k.name, len(left), i+1)
			}
		}
		requireEmpty(t, index)
	}
}

// Readers share the index under a read lock; run with -race.
func TestIndex_RouteRunsConcurrently(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		index := k.make()
		for i, key := range []string{"#", "a.#", "#.b.#", "*.b", "a.b"} {
			index.Bind(Binding[int]{key, table("x-match", "any", "h", 1, "g", i), i})
		}
		want := index.Route([]byte("a.b"), table("h", 1, "g", 2), nil)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 200 {
					if got := index.Route([]byte("a.b"), table("h", 1, "g", 2), nil); !slices.Equal(got, want) {
						t.Errorf("%s: %v, want %v", k.name, got, want)
					}
				}
			})
		}
		group.Wait()
	}
}
