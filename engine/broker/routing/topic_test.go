package routing

import (
	"hash/maphash"
	"slices"
	"strings"
	"testing"
)

func topicMatches(pattern, key string) bool {
	index := NewTopic[int]()
	index.Bind(Binding[int]{RoutingKey: pattern, Destination: 1})
	return len(index.Route([]byte(key), nil, nil)) == 1
}

func TestTopic_Matching_3_1_3_3(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", 255)
	dots := strings.Repeat(".", 255)
	cases := []struct {
		pattern string
		yes, no []string
	}{
		{"", []string{""}, []string{"a", ".", "#"}},
		{"#", []string{"", "a", "a.b", ".", "..", "a.b.c.d.e", longest, dots}, nil},
		{"*", []string{"a", "*", "#", longest}, []string{"", "a.b", "."}},
		{"*.*", []string{"a.b", ".", "a.", ".b"}, []string{"", "a", "a.b.c", ".."}},
		{"a.*.b", []string{"a.x.b", "a..b"}, []string{"a.b", "a.x.y.b", "a.x.bb"}},
		{"a.#", []string{"a", "a.b", "a.b.c", "a."}, []string{"", "b", "aa", "aa.b"}},
		{"#.a", []string{"a", "b.a", "b.c.a", ".a"}, []string{"", "a.b", "ba"}},
		{"a.#.b", []string{"a.b", "a.x.b", "a.x.y.b", "a.b.b"}, []string{"a", "b", "a.x"}},
		{"a.*.c.#", []string{"a.b.c", "a.b.c.d", "a.b.c.d.e"}, []string{"a.c", "a.b.d"}},
		{"#.*", []string{"a", "a.b", "."}, []string{""}},
		{"*.#", []string{"a", "a.b", "."}, []string{""}},
		{"#.*.#", []string{"a", "a.b.c"}, []string{""}},
		{"*.#.*", []string{"a.b", "a.b.c"}, []string{"", "a"}},
		{"#.#", []string{"", "a", "a.b"}, nil},
		{"#.a.#", []string{"a", "x.a", "a.x", "x.a.y", "a.a"}, []string{"", "b", "x.y"}},
		{"#.a.#.a.#", []string{"a.a", "a.x.a", "x.a.y.a.z"}, []string{"a", "x.a.y"}},
		{"a#.*b", []string{"a#.*b"}, []string{"ax.xb", "a#.xb"}},
		{"a..b", []string{"a..b"}, []string{"a.b", "a...b"}},
		{".", []string{"."}, []string{"", "..", "a"}},
		{longest, []string{longest}, []string{longest[1:]}},
		{dots, []string{dots}, []string{dots[1:], ""}},
	}
	for _, c := range cases {
		for _, key := range c.yes {
			if !topicMatches(c.pattern, key) {
				t.Errorf("%q must match %q", c.pattern, key)
			}
		}
		for _, key := range c.no {
			if topicMatches(c.pattern, key) {
				t.Errorf("%q must not match %q", c.pattern, key)
			}
		}
	}
}

// A matcher that tries every choice for each "#" takes 10^30 steps here.
func TestTopic_ManyHashesTakeBoundedWork(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("a.", 126) + "b"
	for _, pattern := range []string{
		strings.Repeat("#.", 100) + "#",
		strings.Repeat("#.a.", 60) + "#",
		strings.Repeat("#.a.", 60) + "c",
		strings.Repeat("#.*.", 60) + "b",
		strings.Repeat("#.*.", 60) + "c",
	} {
		if got, want := topicMatches(pattern, key), referenceTopicMatch(pattern, key); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}

// The steps of the walk, counted by the nodes it holds active, must not depend
// on bindings that share no prefix with the key.
func TestTopic_OtherBindingsAreNotVisited(t *testing.T) {
	t.Parallel()
	index := NewTopic[int]().(*topicIndex[int])
	words := strings.Split("b c d e f g h i j k", " ")
	for i, first := range words {
		for j, second := range words {
			index.Bind(Binding[int]{RoutingKey: first + "." + second + ".#", Destination: i*10 + j})
		}
	}
	index.Bind(Binding[int]{RoutingKey: "a.*.x", Destination: 1000})
	s := &scratch{}
	s.begin()
	walk := topicWalk[int]{index: index, collector: collector[int]{store: &index.store, scratch: s}}
	walk.run([]byte("a.b.x"))
	if cap(s.current) > 8 || cap(s.next) > 8 || len(s.sticky) != 0 || !slices.Equal(walk.collector.dst, []int{1000}) {
		t.Errorf("visited %d+%d+%d nodes, got %v", cap(s.current), cap(s.next), len(s.sticky), walk.collector.dst)
	}
}

func TestTopic_MarksSurviveTheWrapOfGenerations(t *testing.T) {
	t.Parallel()
	s := &scratch{generation: ^uint32(0), destinationMarks: marks{0, 1, 1}, otherMarks: marks{1}}
	s.begin()
	if s.generation != 1 || !s.destinationMarks.set(1, s.generation) || !s.otherMarks.set(0, s.generation) {
		t.Errorf("stale marks after the wrap: %+v", s)
	}
}

// Edges with equal hashes are told apart by what they lead to.
func TestTopic_EdgeHashCollision(t *testing.T) {
	t.Parallel()
	index := NewTopic[int]().(*topicIndex[int])
	index.Bind(Binding[int]{RoutingKey: "a", Destination: 1})
	other := index.find("a")
	for _, word := range []string{"b", "c"} { // as if "b" and "c" hashed like "a"
		index.edges.insert(edgeHash(index.root, maphash.String(hashSeed, word)), other)
	}
	index.Bind(Binding[int]{RoutingKey: "b", Destination: 2})
	for key, want := range map[string][]int{"a": {1}, "b": {2}, "c": nil} {
		if got := index.Route([]byte(key), nil, nil); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
}

func FuzzTopicMatch(f *testing.F) {
	f.Add("a.*.#\n#\n*.b", "a.b.c")
	f.Add("#.#.#\n#.a.#\n#.a.#.a.#", "a.a.b.a")
	f.Add("\n.\n..\n*.*", ".")
	f.Add("*\n#.*\n*.#", "")
	f.Fuzz(func(t *testing.T, patterns, key string) {
		index := NewTopic[int]()
		var want []int
		list := strings.Split(patterns, "\n")
		list = list[:min(len(list), 64)]
		for i, pattern := range list {
			if len(pattern) > 255 {
				return
			}
			index.Bind(Binding[int]{RoutingKey: pattern, Destination: i})
			if referenceTopicMatch(pattern, key[:min(len(key), 255)]) {
				want = append(want, i)
			}
		}
		got := index.Route([]byte(key[:min(len(key), 255)]), nil, nil)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("patterns %q, key %q: got %v, want %v", list, key, got, want)
		}
		for i := range list {
			index.UnbindDestination(i)
		}
		requireEmpty(t, index)
	})
}
