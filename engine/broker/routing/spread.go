package routing

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// orderedIndex gives a message to one destination of a list in the order of
// their names: by the remainder of a hash, or by jump consistent hash with each
// destination as often in the list as the weight of its bindings says.
//
// The order depends on the set of destinations alone, so it is the same after a
// restart. The price: a destination that comes or goes in the middle of the list
// shifts those behind it. (The ring moves only what it must.)
//
// The list is made by the first Route after a change; that one allocates.
type orderedIndex[D comparable] struct {
	fanoutIndex[D]
	name     func(D) string
	weighted bool // jump, else remainder
	list     atomic.Pointer[orderedList[D]]
}

type orderedList[D comparable] struct {
	destinations []D
	ends         []int // sum of the weights up to and with each
}

// NewJump returns the index of a consistent hash exchange that uses jump
// consistent hash. name is a destination's name: distinct, and the same after a
// restart.
func NewJump[D comparable](name func(D) string) Index[D] {
	return &orderedIndex[D]{name: name, weighted: true}
}

// NewModulus returns the index of a modulus hash exchange. name as for NewJump.
func NewModulus[D comparable](name func(D) string) Index[D] { return &orderedIndex[D]{name: name} }

// Bind implements Index.
func (x *orderedIndex[D]) Bind(b Binding[D]) bool {
	x.list.Store(nil)
	return x.fanoutIndex.Bind(b)
}

// Unbind implements Index.
func (x *orderedIndex[D]) Unbind(b Binding[D]) bool {
	x.list.Store(nil)
	return x.fanoutIndex.Unbind(b)
}

// UnbindDestination implements Index.
func (x *orderedIndex[D]) UnbindDestination(value D) []Binding[D] {
	x.list.Store(nil)
	return x.fanoutIndex.UnbindDestination(value)
}

// ordered returns the list. Concurrent callers may each make it: they make the
// same.
func (x *orderedIndex[D]) ordered() *orderedList[D] {
	if l := x.list.Load(); l != nil {
		return l
	}
	type entry struct {
		name        string
		destination D
		weight      int
	}
	var entries []entry
	at := make(map[D]int, len(x.destinationIDs))
	for b := range x.All() {
		i, known := at[b.Destination]
		if !known {
			i = len(entries)
			at[b.Destination] = i
			entries = append(entries, entry{name: x.name(b.Destination), destination: b.Destination})
		}
		entries[i].weight += weightOf(b.RoutingKey)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	l := &orderedList[D]{make([]D, len(entries)), make([]int, len(entries))}
	sum := 0
	for i, e := range entries {
		sum += e.weight
		l.destinations[i], l.ends[i] = e.destination, sum
	}
	x.list.Store(l)
	return l
}

// Route implements Index: one destination. What the message is spread by comes
// in place of the routing key.
func (x *orderedIndex[D]) Route(value []byte, _ amqp.Table, dst []D) []D {
	if x.length == 0 {
		return dst
	}
	l, hash := x.ordered(), stableHash(value)
	if !x.weighted {
		return append(dst, l.destinations[reduce(hash, len(l.destinations))])
	}
	bucket := jump(hash, l.ends[len(l.ends)-1])
	i, _ := slices.BinarySearch(l.ends, bucket+1)
	return append(dst, l.destinations[i])
}

// randomIndex gives a message to any one of its destinations.
type randomIndex[D comparable] struct {
	fanoutIndex[D]
	below func(n uint32) uint32 // a random number
}

// NewRandom returns the index of a random exchange. Two Routes of equal messages
// may differ.
func NewRandom[D comparable]() Index[D] { return &randomIndex[D]{below: rand.Uint32N} }

// Route implements Index: one destination.
func (x *randomIndex[D]) Route(_ []byte, _ amqp.Table, dst []D) []D {
	if x.groupID == 0 {
		return dst
	}
	targets := x.groups.at(x.groupID).targets
	target := targets[x.below(uint32(len(targets)))]
	return append(dst, x.destinations.at(target).value)
}
