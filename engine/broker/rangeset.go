package broker

import (
	"slices"
	"sort"
)

// span is the half-open range of offsets [first, end).
type span struct{ first, end uint64 }

// rangeSet is an ordered set of offsets kept as disjoint, non-adjacent spans.
// It holds what was returned to a queue: few spans, taken from the front.
type rangeSet struct {
	spans []span
	count uint64
}

// Len is the number of offsets.
func (s *rangeSet) Len() uint64 { return s.count }

// Add inserts [first, first+count). Offsets that are already there stay once.
func (s *rangeSet) Add(first, count uint64) {
	if count == 0 {
		return
	}
	end := first + count
	// i: the first span that ends at or after first, so touches or follows.
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].end >= first })
	j := i
	for j < len(s.spans) && s.spans[j].first <= end {
		first = min(first, s.spans[j].first)
		end = max(end, s.spans[j].end)
		s.count -= s.spans[j].end - s.spans[j].first
		j++
	}
	s.count += end - first
	if i == j {
		s.spans = slices.Insert(s.spans, i, span{first, end})
		return
	}
	s.spans[i] = span{first, end}
	s.spans = slices.Delete(s.spans, i+1, j)
}

// Remove takes one offset out.
func (s *rangeSet) Remove(offset uint64) {
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].end > offset })
	if i == len(s.spans) || s.spans[i].first > offset {
		return
	}
	s.count--
	before, after := span{s.spans[i].first, offset}, span{offset + 1, s.spans[i].end}
	s.spans = slices.Delete(s.spans, i, i+1)
	for _, part := range [...]span{after, before} {
		if part.first < part.end {
			s.spans = slices.Insert(s.spans, i, part)
		}
	}
	if len(s.spans) == 0 {
		s.spans = nil
	}
}

// PopFront removes and returns up to limit consecutive offsets from the front.
func (s *rangeSet) PopFront(limit uint64) (first, count uint64) {
	if s.count == 0 || limit == 0 {
		return 0, 0
	}
	head := &s.spans[0]
	first, count = head.first, min(limit, head.end-head.first)
	head.first += count
	s.count -= count
	if head.first == head.end {
		s.spans = slices.Delete(s.spans, 0, 1)
		if len(s.spans) == 0 {
			s.spans = nil
		}
	}
	return first, count
}

// Contains says whether the offset is in the set.
func (s *rangeSet) Contains(offset uint64) bool {
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].end > offset })
	return i < len(s.spans) && s.spans[i].first <= offset
}
