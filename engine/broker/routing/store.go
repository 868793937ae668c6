package routing

import (
	"hash/maphash"
	"iter"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// store keeps groups, links and records (see the package comment) for one
// index. The index decides which group a binding belongs to.
type store[D comparable] struct {
	destinationIDs map[D]uint32
	destinations   slab[destination[D]]
	groups         slab[group]
	links          slab[link]
	records        slab[record]
	tables         slab[amqp.Table]
	linkIndex      hashTable // (group, destination) -> link
	extraIndex     hashTable // identity of a record that is not its link's first -> record
	length         int       // number of records
	removals       uint64    // records and links removed; see work
}

type destination[D comparable] struct {
	value     D
	firstLink uint32
}

type group struct {
	targets []uint32 // destination numbers, distinct
	owner   uint32   // the index's own number for what leads here
}

type link struct {
	group, destination uint32 // group 0: free cell
	position           uint32 // in the group's targets
	previous, next     uint32 // links of the same destination
	firstRecord        uint32
}

type record struct {
	routingKey     string
	table          uint32 // 0: no arguments
	link           uint32
	previous, next uint32 // records of the same link
}

// addGroup creates a group. The caller binds something to it at once
// (invariant 3).
func (s *store[D]) addGroup(owner uint32) uint32 { return s.groups.add(group{owner: owner}) }

func linkHash(group, destination uint32) uint32 {
	return mix(uint64(group)<<32 | uint64(destination))
}

func identityHash(link uint32, routingKey string, arguments amqp.Table) uint32 {
	return mix(combine(maphash.String(hashSeed, routingKey), tableHash(arguments)) + uint64(link))
}

func (s *store[D]) findLink(group, destination uint32) uint32 {
	hash := linkHash(group, destination)
	for id, position := s.linkIndex.probe(hash, s.linkIndex.home(hash)); id != 0; id, position = s.linkIndex.probe(hash, position) {
		if l := s.links.at(id); l.group == group && l.destination == destination {
			return id
		}
	}
	return 0
}

func (s *store[D]) arguments(r *record) amqp.Table {
	if r.table == 0 {
		return nil
	}
	return *s.tables.at(r.table)
}

func (s *store[D]) sameBinding(r *record, b *Binding[D]) bool {
	return r.routingKey == b.RoutingKey && amqp.TableEqual(s.arguments(r), b.Arguments)
}

// findRecord returns the record of a link that equals b, or 0.
func (s *store[D]) findRecord(linkID uint32, b *Binding[D]) uint32 {
	first := s.links.at(linkID).firstRecord
	r := s.records.at(first)
	if s.sameBinding(r, b) {
		return first
	}
	if r.next == 0 {
		return 0
	}
	hash := identityHash(linkID, b.RoutingKey, b.Arguments)
	for id, position := s.extraIndex.probe(hash, s.extraIndex.home(hash)); id != 0; id, position = s.extraIndex.probe(hash, position) {
		if r := s.records.at(id); r.link == linkID && s.sameBinding(r, b) {
			return id
		}
	}
	return 0
}

// bind adds b to a group; false when it is there already. The arguments are
// kept: the caller cloned them.
func (s *store[D]) bind(groupID uint32, b Binding[D]) bool {
	destinationID := s.destinationIDs[b.Destination]
	linkID := uint32(0)
	if destinationID != 0 {
		linkID = s.findLink(groupID, destinationID)
	}
	if linkID != 0 && s.findRecord(linkID, &b) != 0 {
		return false
	}
	newRecord := record{routingKey: b.RoutingKey}
	if len(b.Arguments) > 0 {
		newRecord.table = s.tables.add(b.Arguments)
	}
	s.length++
	if linkID != 0 { // a further record of a known link goes in second place
		first := s.links.at(linkID).firstRecord
		newRecord.link, newRecord.previous, newRecord.next = linkID, first, s.records.at(first).next
		id := s.records.add(newRecord)
		s.records.at(first).next = id
		if newRecord.next != 0 {
			s.records.at(newRecord.next).previous = id
		}
		s.extraIndex.insert(identityHash(linkID, b.RoutingKey, b.Arguments), id)
		return true
	}
	if destinationID == 0 {
		if s.destinationIDs == nil {
			s.destinationIDs = make(map[D]uint32)
		}
		destinationID = s.destinations.add(destination[D]{value: b.Destination})
		s.destinationIDs[b.Destination] = destinationID
	}
	g, d := s.groups.at(groupID), s.destinations.at(destinationID)
	linkID = s.links.add(link{group: groupID, destination: destinationID, position: uint32(len(g.targets)), next: d.firstLink})
	if d.firstLink != 0 {
		s.links.at(d.firstLink).previous = linkID
	}
	d.firstLink = linkID
	g.targets = append(g.targets, destinationID)
	s.linkIndex.insert(linkHash(groupID, destinationID), linkID)
	newRecord.link = linkID
	s.links.at(linkID).firstRecord = s.records.add(newRecord)
	return true
}

// unbind removes b from a group. emptied tells that the group is gone with it.
func (s *store[D]) unbind(groupID uint32, b Binding[D]) (removed, emptied bool) {
	destinationID := s.destinationIDs[b.Destination]
	if destinationID == 0 {
		return false, false
	}
	linkID := s.findLink(groupID, destinationID)
	if linkID == 0 {
		return false, false
	}
	recordID := s.findRecord(linkID, &b)
	if recordID == 0 {
		return false, false
	}
	if s.removeRecord(recordID) {
		emptied = s.removeLink(linkID)
	}
	return true, emptied
}

// removeRecord tells whether it was the last of its link.
func (s *store[D]) removeRecord(id uint32) (last bool) {
	s.removals++
	r := *s.records.at(id)
	first := r.previous == 0
	if !first {
		s.extraIndex.remove(identityHash(r.link, r.routingKey, s.arguments(&r)), id)
		s.records.at(r.previous).next = r.next
	}
	if r.next != 0 {
		next := s.records.at(r.next)
		next.previous = r.previous
		if first { // its successor becomes the link's own
			s.links.at(r.link).firstRecord = r.next
			s.extraIndex.remove(identityHash(r.link, next.routingKey, s.arguments(next)), r.next)
		}
	}
	if r.table != 0 {
		s.tables.remove(r.table)
	}
	s.records.remove(id)
	s.length--
	return first && r.next == 0
}

// removeLink takes a link without records out and tells whether its group went
// with it.
func (s *store[D]) removeLink(id uint32) (emptied bool) {
	s.removals++
	l := *s.links.at(id)
	s.linkIndex.remove(linkHash(l.group, l.destination), id)
	if l.previous != 0 {
		s.links.at(l.previous).next = l.next
	} else {
		s.destinations.at(l.destination).firstLink = l.next
	}
	if l.next != 0 {
		s.links.at(l.next).previous = l.previous
	}
	if l.previous == 0 && l.next == 0 {
		delete(s.destinationIDs, s.destinations.at(l.destination).value)
		s.destinations.remove(l.destination)
		if len(s.destinationIDs) == 0 {
			s.destinationIDs = nil
		}
	}
	emptied = s.removeTarget(l.group, l.position)
	s.links.remove(id)
	return emptied
}

// removeTarget moves the last target into the place of the removed one.
func (s *store[D]) removeTarget(groupID, position uint32) (emptied bool) {
	g := s.groups.at(groupID)
	last := len(g.targets) - 1
	if last == 0 {
		s.groups.remove(groupID)
		return true
	}
	if int(position) != last {
		moved := g.targets[last]
		g.targets[position] = moved
		s.links.at(s.findLink(groupID, moved)).position = position
	}
	g.targets = g.targets[:last]
	if cap(g.targets) > 64 && last*4 < cap(g.targets) {
		g.targets = append(make([]uint32, 0, last*2), g.targets...)
	}
	return false
}

// unbindDestination removes all bindings of a destination. released is called
// with the owner of each group that became empty and thereby went away, and
// with the routing key of its last binding.
func (s *store[D]) unbindDestination(value D, released func(owner uint32, routingKey string)) []Binding[D] {
	bindings := s.forDestination(value)
	if bindings == nil {
		return nil
	}
	linkID := s.destinations.at(s.destinationIDs[value]).firstLink
	for linkID != 0 {
		l := *s.links.at(linkID)
		owner := s.groups.at(l.group).owner
		routingKey := s.records.at(l.firstRecord).routingKey
		for {
			recordID := s.links.at(linkID).firstRecord
			if next := s.records.at(recordID).next; next != 0 {
				recordID = next // any but the first needs no successor
			}
			if s.removeRecord(recordID) {
				break
			}
		}
		if s.removeLink(linkID) {
			released(owner, routingKey)
		}
		linkID = l.next
	}
	return bindings
}

func (s *store[D]) forDestination(value D) []Binding[D] {
	destinationID := s.destinationIDs[value]
	if destinationID == 0 {
		return nil
	}
	var bindings []Binding[D]
	for linkID := s.destinations.at(destinationID).firstLink; linkID != 0; linkID = s.links.at(linkID).next {
		for recordID := s.links.at(linkID).firstRecord; recordID != 0; recordID = s.records.at(recordID).next {
			r := s.records.at(recordID)
			bindings = append(bindings, Binding[D]{r.routingKey, s.arguments(r), value})
		}
	}
	return bindings
}

// Len implements Index.
func (s *store[D]) Len() int { return s.length }

// All implements Index.
func (s *store[D]) All() iter.Seq[Binding[D]] {
	return func(yield func(Binding[D]) bool) {
		for id := range s.links.cells {
			l := &s.links.cells[id]
			if l.group == 0 {
				continue
			}
			value := s.destinations.at(l.destination).value
			for recordID := l.firstRecord; recordID != 0; recordID = s.records.at(recordID).next {
				r := s.records.at(recordID)
				if !yield(Binding[D]{r.routingKey, s.arguments(r), value}) {
					return
				}
			}
		}
	}
}

// ForDestination implements Index.
func (s *store[D]) ForDestination(value D) []Binding[D] { return s.forDestination(value) }

// appendTargets appends the destinations of one group.
func (s *store[D]) appendTargets(groupID uint32, dst []D) []D {
	for _, target := range s.groups.at(groupID).targets {
		dst = append(dst, s.destinations.at(target).value)
	}
	return dst
}
