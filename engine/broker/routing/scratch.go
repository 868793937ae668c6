package routing

import "sync"

// scratch is the working memory of one Route call. It is shared by all indexes
// of the process through a pool, because concurrent Route calls must not write
// to the index: what would be a "visited" flag in a node or a destination is a
// generation number in an array here, so that nothing has to be cleared.
type scratch struct {
	generation       uint32 // of the call under way
	destinationMarks marks  // by destination number
	otherMarks       marks  // topic: by nested "#" number; headers: by group

	// Topic: trie nodes that the words read so far lead to, those of the next
	// word, and the "#" nodes reached, which stay active to the end.
	current, next, sticky []uint32

	fields fieldSet // headers: those of the message
}

// scratchPool lets idle memory go: the collector empties it after two cycles.
var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// acquireScratch returns a scratch whose marks are all unset.
func acquireScratch() *scratch {
	s := scratchPool.Get().(*scratch)
	s.begin()
	return s
}

func (s *scratch) begin() {
	s.generation++
	if s.generation == 0 { // wrapped: marks of 2^32 calls ago would come alive
		clear(s.destinationMarks)
		clear(s.otherMarks)
		s.generation = 1
	}
}

// release gives a scratch back, without views of anybody's bytes in it.
func (s *scratch) release() {
	s.fields.reset()
	scratchPool.Put(s)
}

// marks holds the generation in which each number was last seen.
type marks []uint32

// reserve makes room for numbers below count. It grows by at least half, so
// that a growing index makes it allocate rarely.
func (m *marks) reserve(count int) {
	if len(*m) < count {
		grown := make(marks, count+count/2)
		copy(grown, *m)
		*m = grown
	}
}

// set marks a number and tells whether it was unmarked.
func (m marks) set(id, generation uint32) bool {
	if m[id] == generation {
		return false
	}
	m[id] = generation
	return true
}

// collector gathers the destinations of the groups that a message matches. Most
// messages match one group, whose targets are distinct already (invariant 2),
// so marking begins with the second.
type collector[D comparable] struct {
	store      *store[D]
	scratch    *scratch
	dst        []D
	firstGroup uint32
	marking    bool
}

func (c *collector[D]) add(groupID uint32) {
	if c.firstGroup == 0 {
		c.firstGroup = groupID
		c.dst = c.store.appendTargets(groupID, c.dst)
		return
	}
	s := c.scratch
	if !c.marking {
		c.marking = true
		s.destinationMarks.reserve(c.store.destinations.capacity())
		for _, target := range c.store.groups.at(c.firstGroup).targets {
			s.destinationMarks.set(target, s.generation)
		}
	}
	for _, target := range c.store.groups.at(groupID).targets {
		if s.destinationMarks.set(target, s.generation) {
			c.dst = append(c.dst, c.store.destinations.at(target).value)
		}
	}
}
