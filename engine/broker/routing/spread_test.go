package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// nameOf is a destination's name in these tests.
func nameOf(destination int) string { return fmt.Sprint("q", destination) }

func newTestRing() Index[int]    { return NewRing(nameOf) }
func newTestJump() Index[int]    { return NewJump(nameOf) }
func newTestModulus() Index[int] { return NewModulus(nameOf) }

// spreadKinds are the exchange types that give a message to one destination.
func spreadKinds() []kind {
	weight := rapid.SampledFrom([]string{"1", "2", "3", "10", "no number"})
	someArguments := rapid.SampledFrom([]amqp.Table{nil, table("a", 1), table("a", amqp.Int8Value(1)), table("a", 2)})
	noHeaders := rapid.Just(amqp.Table(nil))
	any := func(Binding[int], string, amqp.Table) bool { return true }
	return []kind{
		{"ring", newTestRing, weight, someArguments, noHeaders, any, true, referenceRing},
		{"jump", newTestJump, weight, someArguments, noHeaders, any, true, referenceJump},
		{"modulus", newTestModulus, weight, someArguments, noHeaders, any, true, referenceModulus},
		{"random", NewRandom[int], weight, someArguments, noHeaders, any, true, nil},
	}
}

// weights of destinations as a model's bindings say, in order of names.
func (m model) weights() (destinations []int, weights map[int]int) {
	weights = map[int]int{}
	for _, b := range m {
		if weights[b.Destination] == 0 {
			destinations = append(destinations, b.Destination)
		}
		weights[b.Destination] += weightOf(b.RoutingKey)
	}
	slices.SortFunc(destinations, func(a, b int) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return destinations, weights
}

// referenceRing looks at every point there is.
func referenceRing(m model, key string) int {
	destinations, weights := m.weights()
	position := uint32(stableHash(key) >> 32)
	best, bestDistance := -1, uint32(0)
	for _, d := range destinations {
		member := ringMember[int]{seed: stableHash(nameOf(d))}
		for i := range weights[d] * pointsPerWeight {
			if distance := member.position(i) - position; best < 0 || distance < bestDistance {
				best, bestDistance = d, distance
			}
		}
	}
	return best
}

func referenceJump(m model, key string) int {
	destinations, weights := m.weights()
	var buckets []int
	for _, d := range destinations {
		for range weights[d] {
			buckets = append(buckets, d)
		}
	}
	return buckets[jump(stableHash(key), len(buckets))]
}

func referenceModulus(m model, key string) int {
	destinations, _ := m.weights()
	return destinations[reduce(stableHash(key), len(destinations))]
}

// The hash decides which queue the messages of a running system go to: a new
// version must not change it.
func TestStableHash_Vectors(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]uint64{
		"": 0xefd01f60ba992926, "a": 0x82a2a958a9bece5b, "order.42": 0x175c680013870884,
	} {
		if got := stableHash(value); got != want || stableHash([]byte(value)) != want {
			t.Errorf("%q: %#x, want %#x", value, got, want)
		}
	}
	ring, jumping, modulus := newTestRing(), newTestJump(), newTestModulus()
	for d := range 5 {
		for _, index := range []Index[int]{ring, jumping, modulus} {
			index.Bind(Binding[int]{RoutingKey: strconv.Itoa(1 + d%2), Destination: d})
		}
	}
	got := ""
	for i := range 12 {
		key := fmt.Append(nil, "key", i)
		for _, index := range []Index[int]{ring, jumping, modulus} {
			got += fmt.Sprint(index.Route(key, nil, nil)[0])
		}
		got += " "
	}
	const want = "020 204 344 103 421 123 132 314 312 034 222 303 "
	if got != want {
		t.Errorf("keys go to\n%s\nwant\n%s", got, want)
	}
}

// bound returns an index with destinations of the weights given (0: none).
func bound(index Index[int], weights []int) Index[int] {
	for d, weight := range weights {
		if weight > 0 {
			index.Bind(Binding[int]{RoutingKey: strconv.Itoa(weight), Destination: d})
		}
	}
	return index
}

func routes(index Index[int], keys int) []int {
	to := make([]int, keys)
	for i := range to {
		to[i] = index.Route(fmt.Append(nil, "key.", i), nil, nil)[0]
	}
	return to
}

// When a destination goes, only what went to it moves; when it comes back, each
// message returns.
func TestRing_MovesOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 20).Draw(t, "weights")
		gone := rapid.IntRange(0, len(weights)-1).Draw(t, "gone")
		index := bound(newTestRing(), weights)
		before := routes(index, 500)
		index.UnbindDestination(gone)
		for i, to := range routes(index, 500) {
			if to == gone || before[i] != gone && to != before[i] {
				t.Fatalf("key %d moved from %d to %d when %d went", i, before[i], to, gone)
			}
		}
		index.Bind(Binding[int]{RoutingKey: strconv.Itoa(weights[gone]), Destination: gone})
		if !slices.Equal(routes(index, 500), before) {
			t.Fatal("not all messages returned")
		}
	})
}

// More weight takes messages from others, and gives none away.
func TestRing_MoreWeightOnlyTakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 20).Draw(t, "weights")
		heavier := rapid.IntRange(0, len(weights)-1).Draw(t, "heavier")
		index := bound(newTestRing(), weights)
		before := routes(index, 500)
		more := Binding[int]{RoutingKey: "5", Arguments: table("more", 1), Destination: heavier}
		index.Bind(more)
		for i, to := range routes(index, 500) {
			if to != before[i] && to != heavier {
				t.Fatalf("key %d moved from %d to %d when %d gained", i, before[i], to, heavier)
			}
		}
		index.Unbind(more)
		if !slices.Equal(routes(index, 500), before) {
			t.Fatal("not as before")
		}
	})
}

// Jump moves as little when the last of its list goes.
func TestJump_MovesOnlyWhatItMustAtTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 9).Draw(t, "weights") // names of one digit
		gone := len(weights) - 1
		index := bound(newTestJump(), weights)
		before := routes(index, 500)
		index.UnbindDestination(gone)
		for i, to := range routes(index, 500) {
			if to == gone || before[i] != gone && to != before[i] {
				t.Fatalf("key %d moved from %d to %d when %d went", i, before[i], to, gone)
			}
		}
	})
}

// The history of an index plays no part: what is bound decides.
func TestSpread_HistoryPlaysNoPart(t *testing.T) {
	t.Parallel()
	for _, k := range spreadKinds() {
		if k.pick == nil {
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			weights := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 12).Draw(t, "weights")
			weights[0] = 1
			want := routes(bound(k.make(), weights), 100)
			index := k.make()
			for _, d := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, "order") {
				index.Bind(Binding[int]{RoutingKey: "7", Destination: d})
				routes(index, 1)
			}
			for _, d := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, "order again") {
				index.UnbindDestination(d)
				if d < len(weights) && weights[d] > 0 {
					index.Bind(Binding[int]{RoutingKey: strconv.Itoa(weights[d]), Destination: d})
				}
			}
			if got := routes(index, 100); !slices.Equal(got, want) {
				t.Fatalf("%s: %v, want %v", k.name, got, want)
			}
		})
	}
}

// Each destination gets about its share: within 4 standard deviations of what
// the algorithm promises. Hashes are fixed, so the figures are too.
func TestSpread_Shares(t *testing.T) {
	t.Parallel()
	const keys = 40_000
	weights := []int{1, 1, 2, 4, 8, 1, 3}
	for _, k := range spreadKinds() {
		total := 0
		for _, w := range weights {
			total += w
		}
		counts := make([]int, len(weights))
		for _, to := range routes(bound(k.make(), weights), keys) {
			counts[to]++
		}
		for d, w := range weights {
			want, tolerance := float64(keys*w)/float64(total), 0.1
			switch k.name {
			case "ring":
				tolerance = 0.4
			case "modulus", "random":
				want = float64(keys) / float64(len(weights))
			}
			if share := float64(counts[d]) / want; share < 1-tolerance || share > 1+tolerance {
				t.Errorf("%s: destination %d of weight %d has %d messages, want about %.0f", k.name, d, w, counts[d], want)
			}
		}
	}
}

// Many destinations, so that the ring's arcs grow and shrink.
func TestRing_ManyDestinations(t *testing.T) {
	t.Parallel()
	index := newTestRing()
	const count = 300
	for d := range count {
		index.Bind(Binding[int]{RoutingKey: "1", Destination: d})
	}
	ring := index.(*ringIndex[int])
	if ring.points != count*pointsPerWeight || len(ring.arcs) < ring.points/(2*pointsPerArc) {
		t.Fatalf("%d points in %d arcs", ring.points, len(ring.arcs))
	}
	for d := range count {
		left := model{}
		for other := d; other < count; other++ {
			left = append(left, Binding[int]{RoutingKey: "1", Destination: other})
		}
		if d%50 == 49 {
			for i := range 50 {
				key := fmt.Sprint("some key ", i)
				if got, want := index.Route([]byte(key), nil, nil)[0], referenceRing(left, key); got != want {
					t.Fatalf("%d left: %d, want %d", count-d, got, want)
				}
			}
		}
		index.UnbindDestination(d)
	}
	requireEmpty(t, index)
}

func TestValidateWeight(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"1": "", "1000": "", "+7": "", "007": "",
		"":     `The binding key must be an integer: <<>>`,
		"a.b":  `The binding key must be an integer: <<"a.b">>`,
		"1.5":  `The binding key must be an integer: <<"1.5">>`,
		"0":    "The binding key must be greater than 0",
		"-3":   "The binding key must be greater than 0",
		"1001": "The binding key must not be greater than 1000: it is a weight relative to those of other bindings; divide them all",
	} {
		err := ValidateWeight(key)
		if (err == nil) != (want == "") {
			t.Errorf("%q: %v", key, err)
			continue
		}
		if err == nil {
			continue
		}
		if e := err.(*amqp.Error); e.Code != amqp.CodePreconditionFailed || e.Text != "PRECONDITION_FAILED - "+want {
			t.Errorf("%q: %d %s", key, e.Code, e.Text)
		}
	}
}

// FuzzValidateWeight: a key is refused, or its weight is within the limits.
func FuzzValidateWeight(f *testing.F) {
	for _, key := range []string{"1", "", "1000", "-0", "99999999999999999999", "0x10", "1_000", " 1"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if w := weightOf(key); w < 1 || w > WeightMax {
			t.Fatalf("%q weighs %d", key, w)
		}
		if n, err := strconv.Atoi(key); (ValidateWeight(key) == nil) != (err == nil && n == weightOf(key)) {
			t.Fatalf("%q: %v", key, ValidateWeight(key))
		}
	})
}

func BenchmarkSpread(b *testing.B) {
	for _, k := range spreadKinds() {
		for _, count := range []int{3, 10_000} {
			b.Run(fmt.Sprint(k.name, "/", count), func(b *testing.B) {
				index := k.make()
				for d := range count {
					index.Bind(Binding[int]{RoutingKey: "1", Destination: d})
				}
				keys := make([][]byte, 1024)
				for i := range keys {
					keys[i] = fmt.Append(nil, "customer.", i*7919)
				}
				dst := make([]int, 0, 1)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					index.Route(keys[i&1023], nil, dst)
					i++
				}
			})
		}
	}
}

func BenchmarkRingBindUnbind(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			index := newTestRing()
			for d := range count {
				index.Bind(Binding[int]{RoutingKey: "1", Destination: d})
			}
			b.ReportAllocs()
			for b.Loop() {
				index.Bind(Binding[int]{RoutingKey: "1", Destination: -1})
				index.UnbindDestination(-1)
			}
		})
	}
}
