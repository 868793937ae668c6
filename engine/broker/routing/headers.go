package routing

import (
	"bytes"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// headersIndex matches the headers of messages against the arguments of
// bindings (AMQP 0-9-1, 3.1.3.4). Semantics are RabbitMQ's, read from
// headers_match in its rabbit_exchange_type_headers:
//
//   - "x-match" chooses the mode: "all" (also when missing), "any",
//     "all-with-x", "any-with-x". It is never compared itself.
//   - all and any skip arguments whose name starts with "x-"; the -with-x
//     modes compare them. The message's own headers are not filtered.
//   - A void argument asks for presence of the header, whatever its value;
//     any other argument for an equal value. RabbitMQ drops the types and
//     compares with ==, so 1, 1 of another width and 1.0 are equal, and so are a
//     string and a byte array; amqp.Equal does the same, but keeps timestamps
//     apart from integers.
//   - Without anything to compare, all matches every message (it starts from
//     true) and any matches none (it starts from false).
//
// Bindings with equal arguments are one pattern. A pattern is looked up by
// (header name, value) in a hash table: "any" under each of its conditions,
// "all" under one, the one that fewest patterns are under at the time of
// binding, and then verified. A message costs two lookups per header plus the
// verification of those candidates. (Only comparing nested tables of more than
// 16 fields allocates: amqp.TableEqual sorts those.)
type headersIndex[D comparable] struct {
	store[D]
	patterns     slab[pattern]
	patternIndex hashTable // hash of the arguments -> pattern
	buckets      slab[bucket]
	bucketIndex  hashTable // bucket key -> bucket
	always       []uint32  // patterns that match every message
}

// pattern is a compiled argument table.
type pattern struct {
	arguments      amqp.Table
	conditions     []condition
	hash           uint32 // of the arguments
	group          uint32
	alwaysPosition uint32 // in always, when there are no conditions to meet
	any            bool   // one condition suffices
}

// condition is one argument to be met. name and value are views of the
// pattern's arguments.
type condition struct {
	name     []byte
	nameHash uint64
	value    amqp.Value
	bucket   uint32 // where it is indexed, 0: nowhere
	position uint32 // in the bucket
}

// bucket lists the conditions that a header of one name, or one name and value,
// may meet.
type bucket struct {
	key     uint64
	entries []bucketEntry
}

type bucketEntry struct{ pattern, condition uint32 }

// NewHeaders returns the index of a headers exchange. Bindings whose x-match
// ValidateHeadersArguments refuses are taken for "all".
func NewHeaders[D comparable]() Index[D] { return &headersIndex[D]{} }

// ValidateHeadersArguments checks the x-match argument of a binding to a headers
// exchange. Error 406 (RabbitMQ: binding_invalid becomes precondition_failed).
func ValidateHeadersArguments(arguments amqp.Table) error {
	match, ok := arguments.Lookup("x-match")
	if !ok {
		return nil
	}
	if match.Kind() != amqp.KindString {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0,
			"Invalid x-match field type %s; expected longstr", amqp.KindName(match.Kind()))
	}
	mode, _ := match.Bytes()
	switch string(mode) {
	case "all", "any", "all-with-x", "any-with-x":
		return nil
	}
	return amqp.Errorf(amqp.CodePreconditionFailed, 0,
		"Invalid x-match field value <<%q>>; expected all, any, all-with-x, or any-with-x", mode)
}

// compile takes arguments apart. It keeps views of them.
func compile(arguments amqp.Table) pattern {
	p := pattern{arguments: arguments}
	withX := false
	if match, ok := arguments.Lookup("x-match"); ok && match.Kind() == amqp.KindString {
		mode, _ := match.Bytes()
		switch string(mode) {
		case "any":
			p.any = true
		case "all-with-x":
			withX = true
		case "any-with-x":
			p.any, withX = true, true
		}
	}
	s := acquireScratch()
	s.fields.parse(arguments)
	for _, f := range s.fields.fields {
		if string(f.name) == "x-match" || !withX && bytes.HasPrefix(f.name, []byte("x-")) {
			continue
		}
		p.conditions = append(p.conditions, condition{name: f.name, nameHash: f.nameHash, value: f.value})
	}
	s.release()
	return p
}

// nameKey is the key of the bucket for conditions on a name alone: presence, and
// values of kinds that don't hash.
func nameKey(nameHash uint64) uint64 { return combine(nameHash, 0x510e527fade682d1) }

func valueKey(nameHash, valueHash uint64) uint64 { return combine(nameHash, valueHash) }

func (c *condition) key() (key uint64, byValue bool) {
	if hash, selective := valueHash(c.value); selective {
		return valueKey(c.nameHash, hash), true
	}
	return nameKey(c.nameHash), false
}

// meets tells whether a header of the condition's name has a value that does.
func (c *condition) meets(value amqp.Value) bool {
	return c.value.Kind() == amqp.KindVoid || amqp.Equal(c.value, value)
}

func (x *headersIndex[D]) findBucket(key uint64) uint32 {
	hash := uint32(key)
	for id, position := x.bucketIndex.probe(hash, x.bucketIndex.home(hash)); id != 0; id, position = x.bucketIndex.probe(hash, position) {
		if x.buckets.at(id).key == key {
			return id
		}
	}
	return 0
}

func (x *headersIndex[D]) findPattern(hash uint32, arguments amqp.Table) uint32 {
	for id, position := x.patternIndex.probe(hash, x.patternIndex.home(hash)); id != 0; id, position = x.patternIndex.probe(hash, position) {
		if amqp.TableEqual(x.patterns.at(id).arguments, arguments) {
			return id
		}
	}
	return 0
}

// addPattern compiles and indexes arguments, which it keeps.
func (x *headersIndex[D]) addPattern(hash uint32, arguments amqp.Table) uint32 {
	id := x.patterns.add(compile(arguments))
	p := x.patterns.at(id)
	p.hash = hash
	p.group = x.addGroup(id)
	x.patternIndex.insert(hash, id)
	switch {
	case p.any:
		for i := range p.conditions {
			x.addToBucket(id, uint32(i))
		}
	case len(p.conditions) > 0:
		x.addToBucket(id, x.mostSelective(p))
	default:
		p.alwaysPosition = uint32(len(x.always))
		x.always = append(x.always, id)
	}
	return id
}

// mostSelective returns the condition that fewest others are indexed with; among
// equals, the first on a value.
func (x *headersIndex[D]) mostSelective(p *pattern) uint32 {
	best, bestEntries, bestByValue := 0, -1, false
	for i := range p.conditions {
		key, byValue := p.conditions[i].key()
		entries := 0
		if id := x.findBucket(key); id != 0 {
			entries = len(x.buckets.at(id).entries)
		}
		if bestEntries < 0 || entries < bestEntries || entries == bestEntries && byValue && !bestByValue {
			best, bestEntries, bestByValue = i, entries, byValue
		}
	}
	return uint32(best)
}

func (x *headersIndex[D]) addToBucket(patternID, conditionNumber uint32) {
	c := &x.patterns.at(patternID).conditions[conditionNumber]
	key, _ := c.key()
	id := x.findBucket(key)
	if id == 0 {
		id = x.buckets.add(bucket{key: key})
		x.bucketIndex.insert(uint32(key), id)
	}
	b := x.buckets.at(id)
	c.bucket, c.position = id, uint32(len(b.entries))
	b.entries = append(b.entries, bucketEntry{patternID, conditionNumber})
}

// removePattern takes a pattern whose group is gone out of all indexes.
func (x *headersIndex[D]) removePattern(id uint32) {
	p := x.patterns.at(id)
	x.patternIndex.remove(p.hash, id)
	for i := range p.conditions {
		if c := &p.conditions[i]; c.bucket != 0 {
			x.removeFromBucket(c.bucket, c.position)
		}
	}
	if !p.any && len(p.conditions) == 0 {
		last := x.always[len(x.always)-1]
		x.always[p.alwaysPosition] = last
		x.patterns.at(last).alwaysPosition = p.alwaysPosition
		x.always = x.always[:len(x.always)-1]
	}
	x.patterns.remove(id)
}

func (x *headersIndex[D]) removeFromBucket(id, position uint32) {
	b := x.buckets.at(id)
	last := len(b.entries) - 1
	if last == 0 {
		x.bucketIndex.remove(uint32(b.key), id)
		x.buckets.remove(id)
		return
	}
	moved := b.entries[last]
	b.entries[position] = moved
	x.patterns.at(moved.pattern).conditions[moved.condition].position = position
	b.entries = b.entries[:last]
}

// Bind implements Index.
func (x *headersIndex[D]) Bind(b Binding[D]) bool {
	hash := mix(tableHash(b.Arguments))
	id := x.findPattern(hash, b.Arguments)
	if id == 0 {
		id = x.addPattern(hash, bytes.Clone(b.Arguments))
	}
	if p := x.patterns.at(id); bytes.Equal(p.arguments, b.Arguments) {
		b.Arguments = p.arguments // the usual case: one copy for all
	} else {
		b.Arguments = bytes.Clone(b.Arguments)
	}
	return x.bind(x.patterns.at(id).group, b)
}

// Unbind implements Index.
func (x *headersIndex[D]) Unbind(b Binding[D]) bool {
	id := x.findPattern(mix(tableHash(b.Arguments)), b.Arguments)
	if id == 0 {
		return false
	}
	removed, emptied := x.unbind(x.patterns.at(id).group, b)
	if emptied {
		x.removePattern(id)
	}
	return removed
}

// UnbindDestination implements Index.
func (x *headersIndex[D]) UnbindDestination(value D) []Binding[D] {
	return x.unbindDestination(value, func(patternID uint32, _ string) { x.removePattern(patternID) })
}
