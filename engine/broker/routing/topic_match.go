package routing

import (
	"bytes"
	"hash/maphash"
)

// topicWalk reads a routing key word by word and keeps the set of trie nodes
// that the words so far can lead to: the trie seen as a non-deterministic
// automaton.
//
//  1. A node other than "#" is entered from its one parent by one word, so it
//     enters the set at most once per word: no check is needed.
//  2. A "#" node is entered with its parent (no word) and, once entered, stays
//     to the end of the key. So it is kept in a list of its own (sticky), is
//     entered once per Route, and its bindings match at that moment.
//  3. Only a "#" node below another "#" can be reached again, because only then
//     can its parent be active at more than one word. Those carry a number to
//     be marked by.
//
// Hence a Route visits each pair of (word of the key, trie node) at most once,
// whatever the pattern: "#.#.#.#" costs four nodes, not a tree of choices. Nodes
// not reached by a prefix of the key cost nothing.
type topicWalk[D comparable] struct {
	index     *topicIndex[D]
	collector collector[D]
}

func (w *topicWalk[D]) run(routingKey []byte) {
	x, s := w.index, w.collector.scratch
	s.otherMarks.reserve(x.nestedHash.capacity())
	s.sticky = s.sticky[:0]
	s.current = append(s.current[:0], x.root)
	w.enterHash(x.nodes.at(x.root).hash)
	ended := len(routingKey) == 0
	for !ended {
		word := routingKey
		if dot := bytes.IndexByte(routingKey, '.'); dot >= 0 {
			word, routingKey = routingKey[:dot], routingKey[dot+1:]
		} else {
			ended = true
		}
		w.step(word)
		if len(s.current) == 0 && len(s.sticky) == 0 {
			return
		}
	}
	for _, id := range s.current {
		if groupID := x.nodes.at(id).group; groupID != 0 {
			w.collector.add(groupID)
		}
	}
}

// step replaces the active set by what one more word leads to.
func (w *topicWalk[D]) step(word []byte) {
	x, s := w.index, w.collector.scratch
	hash := maphash.Bytes(hashSeed, word)
	s.next = s.next[:0]
	for _, id := range s.current {
		w.follow(id, word, hash)
	}
	for _, id := range s.sticky {
		w.follow(id, word, hash)
	}
	s.current, s.next = s.next, s.current
	for _, id := range s.current { // enterHash makes sticky longer: from the next word on
		if below := x.nodes.at(id).hash; below != 0 {
			w.enterHash(below)
		}
	}
}

// follow adds the children of a node that a word leads to.
func (w *topicWalk[D]) follow(id uint32, word []byte, hash uint64) {
	x, s := w.index, w.collector.scratch
	n := x.nodes.at(id)
	if n.star != 0 {
		s.next = append(s.next, n.star)
	}
	if n.children == 0 {
		return
	}
	edge := edgeHash(id, hash)
	for child, position := x.edges.probe(edge, x.edges.home(edge)); child != 0; child, position = x.edges.probe(edge, position) {
		if c := x.nodes.at(child); c.parent == id && c.word == string(word) {
			s.next = append(s.next, child)
			return
		}
	}
}

// enterHash makes a "#" node active together with the "#" nodes right below it.
func (w *topicWalk[D]) enterHash(id uint32) {
	x, s := w.index, w.collector.scratch
	for id != 0 {
		n := x.nodes.at(id)
		if n.nestedNumber != 0 && !s.otherMarks.set(n.nestedNumber, s.generation) {
			return // and so are those below it
		}
		if n.group != 0 {
			w.collector.add(n.group)
		}
		if n.children != 0 || n.star != 0 {
			s.sticky = append(s.sticky, id)
		}
		id = n.hash
	}
}
