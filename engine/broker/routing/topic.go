package routing

import (
	"bytes"
	"hash/maphash"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// topicIndex matches routing keys against patterns (AMQP 0-9-1, 3.1.3.3): words
// separated by dots, "*" for exactly one word, "#" for any number of words,
// none included; both may stand anywhere and more than once.
//
// Words, as RabbitMQ splits them (split_topic_key in rabbit_exchange_type_topic,
// later rabbit_db_topic_exchange): the empty key has no words at all, so "#"
// and "" match it and "*" does not; otherwise n dots make n+1 words, and a word
// may be empty ("a..b" has three, "." has two). A "*" or "#" is a wildcard only
// in a pattern and only as a whole word.
//
// Patterns form a trie. Edges of plain words are in one hash table for the whole
// trie, keyed by (parent, word); the two wildcard children are fields of the
// node. See topic_match.go for the walk.
type topicIndex[D comparable] struct {
	store[D]
	nodes      slab[topicNode]
	edges      hashTable
	root       uint32
	nestedHash slab[struct{}] // numbers for "#" nodes below another "#"
}

type topicNode struct {
	word         string // label of the edge from the parent; shares a binding's routing key
	parent       uint32
	children     uint32 // number of plain-word children
	star, hash   uint32 // wildcard children, 0: none
	group        uint32 // bindings whose pattern ends here, 0: none
	nestedNumber uint32 // of a "#" node with a "#" above it, 0: no such node
}

// NewTopic returns the index of a topic exchange.
func NewTopic[D comparable]() Index[D] { return &topicIndex[D]{} }

// edgeHash hashes an edge by its parent and the maphash of its word.
func edgeHash(parent uint32, wordHash uint64) uint32 {
	return mix(wordHash + uint64(parent)*0x9e3779b97f4a7c15)
}

// child follows the edge of a plain word, 0 when there is none.
func (x *topicIndex[D]) child(parent uint32, word string) uint32 {
	hash := edgeHash(parent, maphash.String(hashSeed, word))
	for id, position := x.edges.probe(hash, x.edges.home(hash)); id != 0; id, position = x.edges.probe(hash, position) {
		if n := x.nodes.at(id); n.parent == parent && n.word == word {
			return id
		}
	}
	return 0
}

// find returns the node where a pattern ends, 0 when it has none.
func (x *topicIndex[D]) find(pattern string) uint32 {
	node := x.root
	for word, rest, more := nextWord(pattern); more && node != 0; word, rest, more = rest.next() {
		switch word {
		case "*":
			node = x.nodes.at(node).star
		case "#":
			node = x.nodes.at(node).hash
		default:
			node = x.child(node, word)
		}
	}
	return node
}

// words is what is left of a pattern after a word; ended when nothing, not even
// an empty word, is left.
type words struct {
	text  string
	ended bool
}

func nextWord(pattern string) (word string, rest words, ok bool) {
	return words{pattern, pattern == ""}.next()
}

func (w words) next() (word string, rest words, ok bool) {
	if w.ended {
		return "", w, false
	}
	word, text, dot := strings.Cut(w.text, ".")
	return word, words{text, !dot}, true
}

// grow returns the node where a pattern ends, making what is missing.
func (x *topicIndex[D]) grow(pattern string) uint32 {
	if x.root == 0 {
		x.root = x.nodes.add(topicNode{})
	}
	node, belowHash := x.root, false
	for word, rest, more := nextWord(pattern); more; word, rest, more = rest.next() {
		parent := node
		switch word {
		case "*":
			if node = x.nodes.at(parent).star; node == 0 {
				node = x.nodes.add(topicNode{word: "*", parent: parent})
				x.nodes.at(parent).star = node
			}
		case "#":
			if node = x.nodes.at(parent).hash; node == 0 {
				made := topicNode{word: "#", parent: parent}
				if belowHash {
					made.nestedNumber = x.nestedHash.add(struct{}{})
				}
				node = x.nodes.add(made)
				x.nodes.at(parent).hash = node
			}
			belowHash = true
		default:
			if node = x.child(parent, word); node == 0 {
				node = x.nodes.add(topicNode{word: word, parent: parent})
				x.nodes.at(parent).children++
				x.edges.insert(edgeHash(parent, maphash.String(hashSeed, word)), node)
			}
		}
	}
	return node
}

// prune takes the group off a node and removes the node and those above it as
// far as nothing else needs them.
func (x *topicIndex[D]) prune(id uint32) {
	x.nodes.at(id).group = 0
	for id != 0 {
		n := *x.nodes.at(id)
		if n.group != 0 || n.children != 0 || n.star != 0 || n.hash != 0 {
			return
		}
		if n.parent == 0 {
			x.root = 0
		} else {
			parent := x.nodes.at(n.parent)
			switch id {
			case parent.star:
				parent.star = 0
			case parent.hash:
				parent.hash = 0
			default:
				parent.children--
				x.edges.remove(edgeHash(n.parent, maphash.String(hashSeed, n.word)), id)
			}
		}
		if n.nestedNumber != 0 {
			x.nestedHash.remove(n.nestedNumber)
		}
		x.nodes.remove(id)
		id = n.parent
	}
}

// Bind implements Index.
func (x *topicIndex[D]) Bind(b Binding[D]) bool {
	b.Arguments = bytes.Clone(b.Arguments)
	node := x.grow(b.RoutingKey)
	groupID := x.nodes.at(node).group
	if groupID == 0 {
		groupID = x.addGroup(node)
		x.nodes.at(node).group = groupID
	}
	return x.bind(groupID, b)
}

// Unbind implements Index.
func (x *topicIndex[D]) Unbind(b Binding[D]) bool {
	node := x.find(b.RoutingKey)
	if node == 0 || x.nodes.at(node).group == 0 {
		return false
	}
	removed, emptied := x.unbind(x.nodes.at(node).group, b)
	if emptied {
		x.prune(node)
	}
	return removed
}

// UnbindDestination implements Index.
func (x *topicIndex[D]) UnbindDestination(value D) []Binding[D] {
	return x.unbindDestination(value, func(node uint32, _ string) { x.prune(node) })
}

// Route implements Index.
func (x *topicIndex[D]) Route(routingKey []byte, _ amqp.Table, dst []D) []D {
	if x.root == 0 {
		return dst
	}
	walk := topicWalk[D]{index: x, collector: collector[D]{store: &x.store, scratch: acquireScratch(), dst: dst}}
	walk.run(routingKey)
	walk.collector.scratch.release()
	return walk.collector.dst
}
