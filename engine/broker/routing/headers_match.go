package routing

import "github.com/basaltmq/basaltmq/wire/amqp"

// Route implements Index. The routing key plays no part.
func (x *headersIndex[D]) Route(_ []byte, headers amqp.Table, dst []D) []D {
	if x.length == 0 {
		return dst
	}
	s := acquireScratch()
	c := collector[D]{store: &x.store, scratch: s, dst: dst}
	for _, id := range x.always {
		c.add(x.patterns.at(id).group)
	}
	if x.bucketIndex.count > 0 {
		s.otherMarks.reserve(x.groups.capacity())
		s.fields.parse(headers)
		for i := range s.fields.fields {
			f := &s.fields.fields[i]
			x.collect(&c, f, nameKey(f.nameHash))
			if hash, selective := valueHash(f.value); selective {
				x.collect(&c, f, valueKey(f.nameHash, hash))
			}
		}
	}
	s.release()
	return c.dst
}

// collect adds those patterns of a bucket that the message matches. An "any"
// pattern can come up once per header; it is verified and added once.
func (x *headersIndex[D]) collect(c *collector[D], f *field, key uint64) {
	id := x.findBucket(key)
	if id == 0 {
		return
	}
	s := c.scratch
	for _, entry := range x.buckets.at(id).entries {
		p := x.patterns.at(entry.pattern)
		var matched bool
		if p.any {
			hit := &p.conditions[entry.condition]
			matched = string(hit.name) == string(f.name) && hit.meets(f.value) &&
				s.otherMarks.set(p.group, s.generation)
		} else {
			matched = p.allMet(&s.fields)
		}
		if matched {
			c.add(p.group)
		}
	}
}

// allMet tells whether a message meets every condition.
func (p *pattern) allMet(fields *fieldSet) bool {
	for i := range p.conditions {
		c := &p.conditions[i]
		if f := fields.find(c.nameHash, c.name); f == nil || !c.meets(f.value) {
			return false
		}
	}
	return true
}
