package routing

import (
	"slices"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// ringIndex is a consistent hash ring. Each destination has points on a circle
// of 2^32 positions, pointsPerWeight for each unit of the weight that its
// bindings' routing keys say (several bindings add up); a message goes to the
// destination of the first point at or after the hash of what it is spread by.
//
// A point's position depends on its destination's name and its number alone, so
// the ring is the same whatever bindings came and went before, and after a
// restart. When a destination goes, exactly the messages that went to it are
// spread over the others; when one comes, it takes its share from each and
// nothing else moves. (TestRing_Moves… prove both.)
//
// Positions are hashes, thus evenly spread: the circle is cut into arcs by the
// positions' leading bits, about pointsPerArc in each. Adding, removing and
// looking up a point each touch one arc or two, however many points there are.
type ringIndex[D comparable] struct {
	fanoutIndex[D]
	name      func(D) string
	members   slab[ringMember[D]]
	memberIDs map[D]uint32
	arcs      [][]point // length is zero or a power of two
	shift     uint      // position >> shift is the number of its arc
	points    int
}

type ringMember[D comparable] struct {
	destination D
	name        string
	seed        uint64 // hash of the name
	weight      int
}

type point struct{ position, member uint32 }

const (
	// pointsPerWeight makes the shares of destinations of weight 1 vary by about
	// 1/sqrt(128), 9 %.
	pointsPerWeight = 128
	pointsPerArc    = 8
)

// NewRing returns the index of a consistent hash exchange that uses a ring. name
// is a destination's name: distinct, and the same after a restart.
func NewRing[D comparable](name func(D) string) Index[D] { return &ringIndex[D]{name: name} }

// position of a member's point number i (a step of SplitMix64 from the seed).
func (m *ringMember[D]) position(i int) uint32 {
	return uint32(finish(m.seed+uint64(i+1)*0x9e3779b97f4a7c15) >> 32)
}

// before orders points; two at one position by their names, so that it does
// not matter which came first.
func (x *ringIndex[D]) before(a, b point) int {
	switch {
	case a.position != b.position:
		if a.position < b.position {
			return -1
		}
		return 1
	case a.member == b.member:
		return 0
	case x.members.at(a.member).name < x.members.at(b.member).name:
		return -1
	}
	return 1
}

func (x *ringIndex[D]) place(p point) {
	arc := &x.arcs[p.position>>x.shift]
	at, _ := slices.BinarySearchFunc(*arc, p, x.before)
	*arc = slices.Insert(*arc, at, p)
}

func (x *ringIndex[D]) add(p point) {
	if x.points >= 2*pointsPerArc*len(x.arcs) {
		x.resize(max(1, 2*len(x.arcs)))
	}
	x.place(p)
	x.points++
}

func (x *ringIndex[D]) remove(p point) {
	arc := &x.arcs[p.position>>x.shift]
	at, _ := slices.BinarySearchFunc(*arc, p, x.before)
	*arc = slices.Delete(*arc, at, at+1)
	x.points--
	switch {
	case x.points == 0:
		x.arcs = nil
	case x.points < len(x.arcs)*pointsPerArc/4 && len(x.arcs) > 1:
		x.resize(len(x.arcs) / 2)
	}
}

// resize cuts the circle into another number of arcs; a power of two.
func (x *ringIndex[D]) resize(count int) {
	old := x.arcs
	x.arcs = make([][]point, count)
	x.shift = 32
	for n := count; n > 1; n /= 2 {
		x.shift--
	}
	for _, arc := range old {
		for _, p := range arc {
			x.arcs[p.position>>x.shift] = append(x.arcs[p.position>>x.shift], p) // in order already
		}
	}
}

// weigh changes the weight of a destination, which comes with its first and
// goes with its last.
func (x *ringIndex[D]) weigh(destination D, change int) {
	id := x.memberIDs[destination]
	if id == 0 {
		if x.memberIDs == nil {
			x.memberIDs = map[D]uint32{}
		}
		name := x.name(destination)
		id = x.members.add(ringMember[D]{destination: destination, name: name, seed: stableHash(name)})
		x.memberIDs[destination] = id
	}
	m := x.members.at(id)
	was, is := m.weight*pointsPerWeight, (m.weight+change)*pointsPerWeight
	for i := was; i < is; i++ {
		x.add(point{m.position(i), id})
	}
	for i := is; i < was; i++ {
		x.remove(point{m.position(i), id})
	}
	if m.weight += change; m.weight == 0 {
		delete(x.memberIDs, destination)
		x.members.remove(id)
		if len(x.memberIDs) == 0 {
			x.memberIDs = nil
		}
	}
}

// Bind implements Index.
func (x *ringIndex[D]) Bind(b Binding[D]) bool {
	added := x.fanoutIndex.Bind(b)
	if added {
		x.weigh(b.Destination, weightOf(b.RoutingKey))
	}
	return added
}

// Unbind implements Index.
func (x *ringIndex[D]) Unbind(b Binding[D]) bool {
	removed := x.fanoutIndex.Unbind(b)
	if removed {
		x.weigh(b.Destination, -weightOf(b.RoutingKey))
	}
	return removed
}

// UnbindDestination implements Index.
func (x *ringIndex[D]) UnbindDestination(value D) []Binding[D] {
	removed := x.fanoutIndex.UnbindDestination(value)
	weight := 0
	for i := range removed {
		weight += weightOf(removed[i].RoutingKey)
	}
	if weight > 0 {
		x.weigh(value, -weight)
	}
	return removed
}

// Route implements Index: one destination. What the message is spread by comes
// in place of the routing key.
func (x *ringIndex[D]) Route(value []byte, _ amqp.Table, dst []D) []D {
	if x.points == 0 {
		return dst
	}
	position := uint32(stableHash(value) >> 32)
	first := int(position >> x.shift)
	for _, p := range x.arcs[first] {
		if p.position >= position {
			return append(dst, x.members.at(p.member).destination)
		}
	}
	for i := 1; ; i++ { // the next arc that has a point; perhaps the same, from its start
		if arc := x.arcs[(first+i)&(len(x.arcs)-1)]; len(arc) > 0 {
			return append(dst, x.members.at(arc[0].member).destination)
		}
	}
}
